"""The Python interface of eflomal 2.0.0 (Östling and Tiedemann 2016), for programs that were written for it.

Where only the import can be changed: ``from alignkit.uses import eflomal``. For a program that cannot be
changed, a file ``eflomal.py`` with the line ``from alignkit.uses.eflomal import *`` in a folder of PYTHONPATH.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from alignkit.classical.cooccurrence import table_of_pairs
from alignkit.classical.hmm.settings import Quality
from alignkit.classical.lexicon import LinkedWords, linked_around
from alignkit.classical.priors import LexiconPrior, read_lexicon
from alignkit.errors import AlignkitError, InputError, check_list, check_type, writing
from alignkit.links.links import check_range, parse_links
from alignkit.pipeline.align import align_blocks
from alignkit.pipeline.aligned_text import AlignedText
from alignkit.support.arrays import offsets_of
from alignkit.support.files import check_writable
from alignkit.support.threads import blocks_of_size
from alignkit.text.pairs import read_text
from alignkit.text.vocabulary import Vocabulary

__all__ = ["Aligner", "calculate_priors", "write_priors"]

log = logging.getLogger(__name__)

QUALITIES: dict[int, Quality] = {1: "fast", 2: "fast", 3: "normal"}
#: Of a larger text so many pairs are fitted on; the rest is linked a block at a time.
FITTED = 1_000_000
#: eflomal's score of a pair is about this many times that of :func:`pair_scores` plus a number that
#: depends on the text: it counts each jump twice, and fertilities too (benchmarks/pipelines.py).
SCALE, SHIFT = 1.7, -4.5
#: What eflomal adds to the count of each pair of words, and to that of each jump.
PAIR, JUMP = 0.001, 0.5
BLOCK = 1 << 22  # pairs of a source and a target word that are scored at a time
#: Settings of a sampler, and their defaults.
_SAMPLING = {"score_model": 0, "n_iterations": None, "n_samplers": 3, "rel_iterations": 1.0, "null_prior": 0.2}


class Aligner:
    """Aligns texts as eflomal's class does, by :func:`alignkit.align`; two runs give the same.

    Args:
        model: 3 (eflomal's HMM with fertility) is quality ``normal``; 1 and 2 (IBM Model 1, HMM) are ``fast``,
            which also aligns both directions jointly, and better than such models do.
        score_model, n_iterations, n_samplers, rel_iterations, null_prior: without effect, as nothing is sampled; a
            value that is not the default is logged.
        source_prefix_len, source_suffix_len, target_prefix_len, target_suffix_len: look at the first or the last
            letters of words only.

    Raises:
        AlignkitError: there is no such model, or a length is not a number of letters.
    """

    def __init__(
        self,
        model: int = 3,
        score_model: int = 0,
        n_iterations: tuple[int, int, int] | None = None,
        n_samplers: int = 3,
        rel_iterations: float = 1.0,
        null_prior: float = 0.2,
        source_prefix_len: int = 0,
        source_suffix_len: int = 0,
        target_prefix_len: int = 0,
        target_suffix_len: int = 0,
    ) -> None:
        if model not in [*QUALITIES]:
            raise AlignkitError(f"eflomal's models are 1, 2 and 3, not {model!r}")
        given = locals()
        for name, default in _SAMPLING.items():
            if given[name] != default:
                log.warning("%s has no effect here: nothing is sampled", name)
        self.model = model
        self.source_letters = _letters(source_prefix_len, source_suffix_len)
        self.target_letters = _letters(target_prefix_len, target_suffix_len)

    def align(
        self,
        src_input: Iterable[str],
        trg_input: Iterable[str],
        links_filename_fwd: str | None = None,
        links_filename_rev: str | None = None,
        scores_filename_fwd: str | None = None,
        scores_filename_rev: str | None = None,
        priors_input: Iterable[str] | None = None,
        quiet: bool = True,
        use_gdb: bool = False,
    ) -> None:
        """Align a text, and write a line for each of its pairs to each file that is named.

        Both files of links have the same ones, of both directions together, source first: any heuristic that
        combines them gives them back. Words are what ``str.split`` makes of a line.

        Args:
            src_input, trg_input: open files, lists or generators of lines.
            links_filename_fwd, links_filename_rev: lines ``s-t s-t``.
            scores_filename_fwd, scores_filename_rev: a number for each pair, low for good ones, by other links of
                its words and by the priors: of the target words given the source, and of the source words given
                the target. -0 for a pair with a blank side.
            priors_input: lines of a file that :func:`write_priors` or eflomal wrote; those of links of words
                (``LEX``) count as if they had been found in the text.
            quiet, use_gdb: without effect; progress is logged.

        Raises:
            AlignkitError: the sides have different numbers of lines; a prior is none, with its line; or a file
                cannot be written.
        """
        files = {
            "links.fwd": links_filename_fwd,
            "links.rev": links_filename_rev,
            "scores.fwd": scores_filename_fwd,
            "scores.rev": scores_filename_rev,
        }
        wanted = {kind: path for kind, path in files.items() if path is not None}
        for path in wanted.values():
            check_writable(path)
        with TemporaryDirectory() as name:
            folder = Path(name)
            sides = {"src_input": src_input, "trg_input": trg_input}
            source, target, count = _write_text(folder, sides, (self.source_letters, self.target_letters))
            prior = None
            if priors_input is not None:
                prior = _read_priors(priors_input, folder / "priors", self.source_letters, self.target_letters)
            for kind in wanted:
                (folder / kind).touch()
            texts: Iterable[AlignedText] = ()
            if count:
                quality = QUALITIES[self.model]
                texts = align_blocks(
                    source, target, fit_on=FITTED, prior=prior, quality=quality, lowercase=True
                ).texts
            for text in texts:
                words = LinkedWords(text.bitext, text.links)
                for kind in wanted:
                    if kind.startswith("links"):
                        data = text.links.to_pharaoh()
                    elif kind == "scores.fwd":
                        data = _score_lines(pair_scores(words, prior))
                    else:
                        data = _score_lines(pair_scores(words.reversed, None if prior is None else prior.reversed))
                    with open(folder / kind, "ab") as file:
                        file.write(data)
            for kind, path in wanted.items():
                with writing(f"write {path}"):
                    # Callers keep these files open: their content is replaced, not the file.
                    shutil.copyfile(folder / kind, path)


def _letters(prefix: int, suffix: int) -> slice:
    """The letters of a word that count, as a slice."""
    for length in (prefix, suffix):
        if not isinstance(length, int | np.integer) or length < 0:
            raise AlignkitError(f"lengths of prefixes and suffixes are numbers of letters, not {length!r}")
    return slice(prefix or None) if prefix or not suffix else slice(-suffix, None)


def pair_scores(words: LinkedWords, prior: LexiconPrior | None = None) -> np.ndarray:
    """float64 (M,): how unexpected the best link of each target word is, low for good pairs: the mean over the
    target words of -log(p sqrt(q r)), NaN for a pair with a blank side.

    p is the target word's share in the links of a source word, q that of the jump to it from the linked source
    word before, and r that of the jump from it to the linked one behind; of the source word for which the product
    is largest. Eflomal has no root, and so counts each jump twice. A link does not count for
    itself, so a word that occurs once, in a mismatched pair, gains nothing from being linked there; and no word is
    taken for one without a translation. The probability that a model gives to a pair that it was fitted on is
    otherwise in both.

    Args:
        words: M pairs and their links.
        prior: further links of words, as counts.
    """
    source, target = words.bitext.source, words.bitext.target
    # How often pairs of words are linked, and each source word is, in the text and in the prior.
    x, y = (side.tokens[place] for side, place in zip((source, target), words.places, strict=True))
    counts = np.ones(len(x))
    if prior is not None:
        pairs = prior.pairs.T
        x = np.append(x, source.vocabulary.translate(prior.source)[pairs[0]])
        y = np.append(y, target.vocabulary.translate(prior.target)[pairs[1]])
        counts = np.append(counts, prior.values[:, 0])
    shape = len(source.vocabulary), len(target.vocabulary)
    totals, both = np.bincount(x[x >= 0], counts[x >= 0], shape[0]), (x >= 0) & (y >= 0)
    table = table_of_pairs(x[both], y[both], counts[both], shape)

    longest = int(source.lengths.max(initial=0))
    jumps = np.full(2 * longest + 2, JUMP)
    for jump, count in words.jumps():
        jumps[longest + jump] += count
    jumps = np.sqrt(jumps / jumps.sum())
    # The last source word of the linked target word before each one, or -1; and the first one of the linked word
    # behind, or the number of source words.
    own_s, own_t = words.links.pairs[:, 0], words.places[1]
    first, last = np.zeros((2, len(target.tokens) + 1), np.int64)
    last[own_t], first[own_t[::-1]] = own_s, own_s[::-1]  # of several values the last stays; those of a pair rise
    before, behind = linked_around(np.bincount(own_t, minlength=len(target.tokens)) > 0, target)
    begin, end = (np.repeat(each, target.lengths) for each in (target.offsets[:-1], target.offsets[1:]))
    widths, source_begin = (np.repeat(each, target.lengths) for each in (source.lengths, source.offsets[:-1]))
    before = np.where(before < begin, -1, last[before])
    behind = np.where(behind < end, first[behind], widths)

    links = words.reversed  # in the order of the target words
    costs = np.zeros(len(widths))
    for low, high in blocks_of_size(offsets_of(widths), BLOCK):
        starts = np.cumsum(widths[low:high]) - widths[low:high]
        t = np.repeat(np.arange(low, high), widths[low:high])
        s = np.arange(len(t)) - starts[t - low]
        x = source.tokens[source_begin[t] + s]
        own, inside = np.zeros(len(t)), slice(*np.searchsorted(links.places[0], [low, high]))
        own[starts[links.places[0][inside] - low] + links.links.pairs[inside, 1]] = 1
        shares = table.lookup(x, target.tokens[t]) - own + PAIR
        shares /= totals[x] - own + PAIR * table.width
        shares *= jumps[longest + s - before[t]] * jumps[longest + behind[t] - s]
        filled = widths[low:high] > 0
        if filled.any():
            costs[low:high][filled] = -np.log(np.maximum.reduceat(shares, starts[filled]))
    sums = np.bincount(np.repeat(np.arange(len(target)), target.lengths), costs, len(target))
    with np.errstate(invalid="ignore"):
        return np.where(source.lengths > 0, sums / target.lengths, np.nan)


def _score_lines(scores: np.ndarray) -> bytes:
    scores = np.where(np.isnan(scores), -0.0, SHIFT + SCALE * scores)
    return "".join(f"{score:g}\n" for score in scores.tolist()).encode()


def _write_text(
    folder: Path, sides: Mapping[str, Iterable[str]], letters: tuple[slice, slice] = (slice(None), slice(None))
) -> tuple[Path, Path, int]:
    """Write the words of both sides, by their names, with spaces between them; return the files and the number of
    their lines."""
    paths, counts = (folder / "source", folder / "target"), []
    for (name, lines), path, own in zip(sides.items(), paths, letters, strict=True):
        check_list(lines, f"{name} must be an open file, a list or a generator of lines")
        count, whole = 0, own == slice(None)
        with open(path, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            for count, line in enumerate(lines, 1):  # noqa: B007
                check_type(line, str, f"a line of {name} must be text")
                words = line.split()
                file.write(" ".join(words if whole else [word[own] for word in words]) + "\n")
        counts.append(count)
    if counts[0] != counts[1]:
        first, second = sides
        raise AlignkitError(f"mismatched sizes: {first} has {counts[0]} lines, {second} {counts[1]}")
    return *paths, counts[0]


def _read_priors(lines: Iterable[str], path: Path, source_letters: slice, target_letters: slice) -> LexiconPrior:
    """The links of words in lines of eflomal's priors, as counts of words in lower case."""
    check_list(lines, "priors_input must be an open file, a list or a generator of lines")
    with open(path, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.writelines(line.rstrip("\n") + "\n" for line in lines)
    try:
        words, numbers = read_lexicon(path)
    except InputError as error:
        raise InputError("priors_input", error.problem, line=error.line, remedy=error.remedy) from error
    totals: dict[tuple[str, str], float] = {}
    for (x, y), number in zip(words, numbers, strict=True):
        if not isinstance(number, float | int):
            raise InputError("priors_input", "has probabilities", remedy="give lines that write_priors wrote")
        pair = x.lower()[source_letters], y.lower()[target_letters]
        totals[pair] = totals.get(pair, 0) + number
    source, target = (Vocabulary.from_tokens(dict.fromkeys(side)) for side in zip(*totals, strict=True))
    pairs = np.array([(source.id(x), target.id(y)) for x, y in totals], np.int32)
    counts = np.array(list(totals.values()), np.float32)
    return LexiconPrior(source, target, pairs, np.stack([counts, counts], axis=1), weight=1)


def calculate_priors(
    src_sentences: Iterable[str],
    trg_sentences: Iterable[str],
    fwd_alignments: Iterable[str],
    rev_alignments: Iterable[str],
) -> tuple[Counter[Any], Counter[Any], Counter[Any], Counter[Any], Counter[Any]]:
    """Count what links say of words, as priors for other texts.

    Args:
        src_sentences, trg_sentences: open files, lists or generators of lines.
        fwd_alignments, rev_alignments: likewise, lines ``s-t s-t``.

    Returns:
        for :func:`write_priors`: (source word, target word) -> number of forward links; the jumps of forward and
        of reverse links -> how often; (source word, number of its forward links) -> how often; (target word,
        number of its reverse links) -> how often.

    Raises:
        AlignkitError: the numbers of lines differ; or an item is not a link, or outside its pair, with its line.
    """
    with TemporaryDirectory() as name:
        sides = {"src_sentences": src_sentences, "trg_sentences": trg_sentences}
        *files, count = _write_text(Path(name), sides)
        bitext = read_text(*files) if count else read_text([], [])
    directions = []
    for lines, what in ((fwd_alignments, "fwd_alignments"), (rev_alignments, "rev_alignments")):
        links = parse_links(what, lines).possible
        check_range(what, links, bitext.shapes, whole=True)
        directions.append(LinkedWords(bitext, links))
    forward, reverse = directions[0], directions[1].reversed
    table, words = forward.table, (bitext.source.vocabulary, bitext.target.vocabulary)
    pairs = zip(table.rows.tolist(), table.columns.tolist(), table.values.tolist(), strict=True)
    return (
        Counter({(words[0][i], words[1][o]): int(n) for i, o, n in pairs}),
        Counter(dict(forward.jumps())),
        Counter(dict(reverse.jumps())),
        Counter({(word, k): n for word, k, n in forward.fertilities()}),
        Counter({(word, k): n for word, k, n in reverse.fertilities()}),
    )


def write_priors(
    priorsf: IO[str],
    priors_list: Mapping[Any, float],
    hmmf_priors: Mapping[Any, float],
    hmmr_priors: Mapping[Any, float],
    ferf_priors: Mapping[Any, float],
    ferr_priors: Mapping[Any, float],
) -> None:
    """Write what :func:`calculate_priors` returns to an open file, in eflomal's format."""
    all_counts = (priors_list, ferf_priors, ferr_priors, hmmf_priors, hmmr_priors)
    for kind, counts in zip(("LEX", "FERF", "FERR", "HMMF", "HMMR"), all_counts, strict=True):
        for key, count in sorted(counts.items()):
            fields = key if isinstance(key, tuple) else (key,)
            priorsf.write("\t".join([kind, *map(str, fields), f"{count:g}"]) + "\n")
