"""Prior knowledge: a lexicon and its files, as pseudo-counts, and the parameters of a model to start from."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from alignkit.aligner import LOADERS
from alignkit.classical.cooccurrence import PairTable
from alignkit.classical.settings import GREATEST_PRIOR_WEIGHT, PRIOR_WEIGHT
from alignkit.errors import AlignkitError, InputError, check_type, plainly_shown
from alignkit.kernels.hmm_m_step import column_sums
from alignkit.kernels.inverted_index import TableRows
from alignkit.support.arrays import brief_repr
from alignkit.support.files import read_header
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_lines
from alignkit.text.units import folded_words
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

log = logging.getLogger(__name__)

_PAIR = r"(?P<source>[^\t]+)\t(?P<target>[^\t]+)"
_OR_NULL = r"(<NULL>|(?P<source>[^\t]+))\t(<NULL>|(?P<target>[^\t]+))"
_BARS = r"(?P<source>((?!\|\|\|)[^\t])+)\|\|\|(?P<target>((?!\|\|\|)[^\t])+)"
_NUMBERS = r"(?P<p>[^\t]+)(\t(?P<q>[^\t]+)(\t\d+)?)?"
_MOSES = r"(NULL|(?P<target>[^ \t]+)) (NULL|(?P<source>[^ \t]+)) (?P<p>[^ \t]+)"

#: What a lexicon may be -> a pattern of its lines, of which the first that is no comment decides, with the groups
#: ``source`` and ``target``, empty for a line of other things; and ``p`` and perhaps ``q``, p(target | source) and
#: p(source | target), or ``count``. Without numbers, all pairs count the same.
FORMATS = {
    "eflomal's priors (LEX source target count, with tabs)": rf"LEX\t{_OR_NULL}\t(?P<count>[^\t]+)"
    r"|FER[FR]\t[^\t]+\t\d+\t[^\t]+|HMM[FR]\t-?\d+\t[^\t]+",
    "a dictionary (source ||| target)": _BARS,
    "a dictionary (source, tab, target)": _PAIR,
    "a lexicon (source, target and one or two probabilities, with tabs)": rf"{_PAIR}\t{_NUMBERS}",
    "a dictionary (source, space, target)": r"(?P<source>[^ \t]+) (?P<target>[^ \t]+)",
    "lexical weights of Moses (target source p)": _MOSES,
}


@dataclass(frozen=True, eq=False)
class LexiconPrior:
    """A lexicon from another text, as pseudo-counts: those of a text with ``weight`` occurrences of each word.

    Attributes:
        source, target: its words.
        pairs: int32 (K, 2), (source word, target word).
        values: float32 (K, 2), p(target word | source word) and p(source word | target word).
        weight: how many occurrences of each word the lexicon counts for.
    """

    source: Vocabulary
    target: Vocabulary
    pairs: np.ndarray
    values: np.ndarray
    weight: float = PRIOR_WEIGHT

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= GREATEST_PRIOR_WEIGHT:
            raise AlignkitError(
                f"the weight of a prior must lie in [0, {GREATEST_PRIOR_WEIGHT:g}], not {self.weight}"
            )
        if self.pairs.shape != self.values.shape or self.pairs.ndim != 2 or self.pairs.shape[1] != 2:
            raise ValueError("a prior needs two words and two values for each pair")
        if not (np.isfinite(self.values).all() and (self.values >= 0).all()):
            raise ValueError("a prior's values must be finite and not negative")

    @property
    def reversed(self) -> LexiconPrior:
        """The prior for texts with their sides exchanged."""
        return LexiconPrior(self.target, self.source, self.pairs[:, ::-1], self.values[:, ::-1], self.weight)

    @property
    def folded(self) -> LexiconPrior:
        """The prior for texts of folded words."""
        (source, source_ids), (target, target_ids) = folded_words(self.source), folded_words(self.target)
        pairs = np.stack([source_ids[self.pairs[:, 0]], target_ids[self.pairs[:, 1]]], axis=1)
        return LexiconPrior(source, target, pairs, self.values, self.weight)

    def pseudo_counts(self, bitext: Bitext, rows: TableRows) -> np.ndarray:
        """float32 (2, K): for every word pair of a text's rows, ``weight`` times p(o|i), and times p(i|o).

        Of a pair that is there more than once the highest values count. If the text has none of the lexicon's
        pairs, that is logged.
        """
        x, y = self.pairs.T
        found, indices = find_pairs((self.source, self.target), x, y, rows, bitext)
        if len(columns := rows.columns) and not len(found):
            log.warning("none of the lexicon's word pairs occurs in the text; are its sides exchanged?")
        counts = np.zeros((2, len(columns)), np.float32)
        for each, values in zip(counts, self.values[found].T, strict=True):
            np.maximum.at(each, indices, np.float32(self.weight) * values)
        return counts


def find_pairs(
    vocabularies: tuple[Vocabulary, Vocabulary], x: np.ndarray, y: np.ndarray, rows: TableRows, bitext: Bitext
) -> tuple[np.ndarray, np.ndarray]:
    """Find word pairs (x, y) of other vocabularies in the rows of a text.

    Returns:
        which of the pairs are there, and their indices into the rows' columns.
    """
    i = bitext.source.vocabulary.translate(vocabularies[0])[x]
    o = bitext.target.vocabulary.translate(vocabularies[1])[y]  # -1: the text does not have the word
    offsets, columns, _ = rows
    width = max(len(bitext.target.vocabulary), 1)
    keys = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets)) * width + columns
    known = np.flatnonzero((i >= 0) & (o >= 0))
    wanted = i[known].astype(np.int64) * width + o[known]
    indices = np.searchsorted(keys, wanted)
    there = indices < len(keys)
    there[there] = keys[indices[there]] == wanted[there]
    return known[there], indices[there]


def check_knowledge(prior: LexiconPrior | None, start: object, kind: type) -> None:
    """Raise AlignkitError unless what a fit is given is a lexicon, and a model of its kind, or None."""
    check_type(prior, LexiconPrior | None, "a prior must be a lexicon, as read_prior gives")
    check_type(start, kind | None, f"the model to start from must be {kind.__name__}")


def start_values(
    table: PairTable,
    vocabularies: tuple[Vocabulary, Vocabulary],
    values: np.ndarray,
    bitext: Bitext,
    rows: TableRows,
    by_target: bool = False,
) -> np.ndarray:
    """float32 (K,): p(o|i) of a fitted model for every word pair of a text's rows.

    A pair that the model does not have is initialised with 1/V_tgt; the values of a word with such pairs are then
    divided by their sum. Those of other words stay as they are, to the bit. Pruned pairs are treated in the same
    way: they cannot be told from pairs that never occurred together, of which another text has far more, and with
    a lower value those could hardly be learned.

    Args:
        table: the pairs of the model, with words of ``vocabularies``.
        values: float32, its probability for each of them.
        rows: of the text; the values are not looked at.
        by_target: the values are p(i|o): they sum to 1 by target word, and new ones are 1/V_src.
    """
    offsets, columns, _ = rows
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    found, indices = find_pairs(vocabularies, table.rows, table.columns, rows, bitext)
    start = np.full(len(columns), 1 / max(types[0 if by_target else 1], 1), np.float32)
    start[indices] = values[found]
    is_new = np.ones(len(columns), bool)
    is_new[indices] = False
    of = columns if by_target else np.repeat(np.arange(types[0]), np.diff(offsets))
    count = types[1 if by_target else 0]
    changed = np.bincount(of[is_new], minlength=count) > 0
    sums = np.zeros(count)
    column_sums(0, count, of, start, sums)
    divisor = np.where(changed, np.maximum(sums, 1e-30), 1.0)
    return (start / divisor[of]).astype(np.float32)


def start_null(null: np.ndarray, known: Vocabulary, words: Vocabulary) -> np.ndarray:
    """float32 (V,): p(o|NULL) of a fitted model for a text's words; new ones as in :func:`start_values`.

    Args:
        null: float32, of the model.
        known, words: the target vocabularies of the model and of the text.
    """
    ids = known.translate(words)
    start = np.where(ids >= 0, np.append(null, np.float32(0))[ids], np.float32(1 / max(len(words), 1)))
    if (ids < 0).any():
        start = start / max(float(start.sum()), 1e-30)
    return start.astype(np.float32)


def read_prior(path: PathLike, weight: float = PRIOR_WEIGHT) -> LexiconPrior:
    """Read a lexicon in one of :data:`FORMATS`, which its first line shows.

    Raises:
        InputError: the file is a saved model, or has no pair of words; or a line has another form than the first,
            has no probability, or repeats a pair of probabilities.
    """
    header = read_header(path) if Path(path).is_file() else None  # a pipe can be read only once
    if header is not None:
        kind = plainly_shown(header.get("kind"))
        what = "is a saved model" if kind in LOADERS else f"holds {kind}"
        raise InputError(
            path, f"{what}, not a lexicon", remedy="write the lexicon of a model with `alignkit lexicon`"
        )
    words, numbers = read_lexicon(path)
    source, target = (Vocabulary.from_tokens(dict.fromkeys(side)) for side in zip(*words, strict=True))
    pairs = np.array([(source.id(x), target.id(y)) for x, y in words], np.int32)
    values = np.array(numbers, np.float32)
    if values.ndim == 1:  # counts, of which each word's share is its probability
        shares = [values / np.maximum(np.bincount(ids, values), 1e-30)[ids] for ids in pairs.T]
        values = np.stack(shares, axis=1).astype(np.float32)
    return LexiconPrior(source, target, pairs, values, weight)


def read_lexicon(path: PathLike) -> tuple[list[tuple[str, str]], list[float] | list[tuple[float, float]]]:
    """Read a lexicon: its pairs of words, and for each its count, or p(target | source) and p(source | target).

    Where the second probability is missing, the first stands for both. Entries of several words are left out, and
    their number is logged; so are blank lines, pairs with the empty word of eflomal or Moses, and lines at the top
    that begin with # and are no entries.

    Raises:
        InputError: as :func:`read_prior`.
    """
    lines, phrases = read_lines(path), 0
    first = next((n for n, line in enumerate(lines, 1) if line.strip() and line[0] != "#"), 1)
    example = "".join(lines[first - 1 : first])
    form = next((name for name, each in FORMATS.items() if re.fullmatch(each, example)), "a lexicon")
    counts: dict[tuple[str, str], float] = {}
    values: dict[tuple[str, str], tuple[float, float]] = {}
    for number, line in enumerate(lines, 1):
        match = re.fullmatch(FORMATS.get(form, _PAIR), line)
        if not line.strip() or (match is None and number < first):
            continue  # blank, or a comment
        entry = {} if match is None else {name: text for name, text in match.groupdict().items() if text}
        try:
            numbers = [float(entry[name]) for name in ("p", "q", "count") if name in entry]
        except ValueError:
            numbers = [-1]
        if match is None or not all(0 <= x < inf if "count" in entry else 0 <= x <= 1 for x in numbers):
            remedy = f"line {first} decides what the file is; probabilities lie in [0, 1], counts are not below 0"
            raise InputError(path, f"is not a line of {form}", line=number, remedy=remedy)
        pair = entry.get("source", "").strip(" "), entry.get("target", "").strip(" ")
        if not all(pair):
            continue
        if any(" " in word for word in pair):
            phrases += 1
        elif "p" in entry:
            if pair in values:
                raise InputError(path, f"the pair {pair[0]!r}, {pair[1]!r} is there twice", line=number)
            values[pair] = numbers[0], numbers[-1]
        else:
            counts[pair] = counts.get(pair, 0) + numbers[0] if numbers else 1
    if phrases:
        log.warning("%s: left out entries of several words: %d", path, phrases)
    if not counts and not values:
        raise InputError(path, "has no pair of words, as a lexicon has")
    return (list(values), list(values.values())) if values else (list(counts), list(counts.values()))
