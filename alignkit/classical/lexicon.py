"""Translation tables as text: TSV, Moses' lexical weights, Marian's shortlist, eflomal's priors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from alignkit.aligner import Aligner, Around, Symmetrized, check_directions
from alignkit.classical.cooccurrence import PairTable
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.model import FittedHMM
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.link_counts import LinkedWords
from alignkit.classical.settings import SHORTLIST, LexiconFormat
from alignkit.errors import AlignkitError
from alignkit.text.vocabulary import Vocabulary

NULL = "NULL"  #: how Moses writes the empty word
#: White space to a C++ stream or Python's split, but part of a token here.
_BREAKS = "\v\f\r\x1c\x1d\x1e\x1f"

#: Smaller probabilities would be 0.0000000 in Moses' files, and have no logarithm.
_SMALLEST = 5e-8


def entries(
    model: LexicalModel, best: int | None = None, minimum: float = 0.0
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(source id, target ids, probabilities) of every source word that has translations.

    Source words come in order of their bytes; the translations fall in probability, and equals are in order of
    their bytes. Probabilities of 0 are left out.

    Args:
        model: with the table.
        best: the most translations of a source word; None: all.
        minimum: the least probability.
    """
    rank = _ranks(model.target)
    for i in np.argsort(_ranks(model.source)).tolist():
        columns, values = model.table.row(i)
        chosen = _select(columns, values, rank, best, minimum)
        if len(chosen):
            yield i, columns[chosen], values[chosen]


def null_entries(
    model: LexicalModel, best: int | None = None, minimum: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(target ids, probabilities) of NULL, as in :func:`entries`; empty without NULL."""
    values = np.zeros(len(model.target), np.float32) if model.null is None else model.null
    columns = np.arange(len(values))
    chosen = _select(columns, values, _ranks(model.target), best, minimum)
    return columns[chosen], values[chosen]


def _ranks(vocabulary: Vocabulary) -> np.ndarray:
    """int64 (V,): the place of each word among all in order of their UTF-8 bytes."""
    data, bounds = vocabulary.text.tobytes(), vocabulary.offsets.tolist()
    order = sorted(range(len(vocabulary)), key=lambda i: data[bounds[i] : bounds[i + 1]])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _select(
    columns: np.ndarray, values: np.ndarray, rank: np.ndarray, best: int | None, minimum: float
) -> np.ndarray:
    """The places of the values to keep, the largest first."""
    kept = np.flatnonzero((values > 0) & (values >= minimum))
    if best is not None and len(kept) > 4 * best:
        # Sorting a long row for its first few is most of the work: leave out what cannot be among them.
        bound = np.partition(values[kept], len(kept) - best)[len(kept) - best]
        kept = kept[values[kept] >= bound]
    return kept[np.lexsort((rank[columns[kept]], -values[kept]))][:best]


def lexicon_of(aligner: Aligner) -> LexicalModel:
    """The model with the translation table: the aligner; of two symmetrized ones the forward one; of models of
    several views that of words; of one around another that within, of a target-to-source one with the source
    words as its target's.

    Raises:
        AlignkitError: the model is not one of translation probabilities between words.
    """
    if isinstance(aligner, Symmetrized):
        return lexicon_of(aligner.forward)
    if isinstance(aligner, Around):
        return lexicon_of(aligner.inner)
    if isinstance(aligner, JointHMM):
        return aligner.words
    if not isinstance(aligner, LexicalModel):
        models = "ibm1, diagonal, hmm or align"
        raise AlignkitError(f"{aligner.name} has no translation table; give a model that {models} saved")
    return aligner


def translations(aligner: Aligner, word: str, best: int | None = None) -> list[tuple[str, float]]:
    """As :meth:`alignkit.aligner.Aligner.translations` has them."""
    model = lexicon_of(aligner)
    if (i := model.source.id(word)) < 0 and (i := model.source.id(word.lower())) < 0:
        return []
    columns, values = model.table.row(i)
    found = zip((model.target[o] for o in columns.tolist()), values.tolist(), strict=True)
    return sorted(((w, p) for w, p in found if p > 0), key=lambda each: (-each[1], each[0].encode()))[:best]


def reverse_lexicon_of(aligner: Aligner) -> LexicalModel:
    """The target-to-source translation table of a model of both directions: symmetrized models, or the joint one.

    Raises:
        AlignkitError: the model has one direction, or no translation probabilities between words.
    """
    if isinstance(aligner, Symmetrized):
        return lexicon_of(aligner.reverse)
    model = lexicon_of(aligner)
    if not isinstance(model, FittedHMM) or model.reverse is None:
        raise AlignkitError(f"{aligner.name} has one direction only; give a model of both, or a reverse one")
    rows = model.table.rows
    order = np.lexsort((rows, model.table.columns))
    offsets = np.searchsorted(model.table.columns[order], np.arange(len(model.target) + 1)).astype(np.int64)
    table = PairTable(offsets, rows[order], model.reverse.emission[order], len(model.source))
    return LexicalModel(model.target, model.source, table, null=model.reverse.null)


def lexicon_files(
    forward: LexicalModel,
    reverse: LexicalModel | None = None,
    file_format: LexiconFormat = "tsv",
    best: int | None = None,
    counts: LinkedWords | None = None,
) -> dict[str, Iterator[bytes]]:
    """The files of a lexicon: the suffix of each one's name -> its content, in parts.

    Args:
        forward: source to target.
        reverse: target to source, of the same text; for ``tsv`` and ``moses``.
        file_format: ``tsv`` (see :func:`tsv`); ``moses`` (see :func:`moses`), ``.f2e`` and ``.e2f`` with a reverse
            model; ``shortlist``, as ``moses`` without NULL and with the best translations only; or ``eflomal``
            (see :func:`eflomal`).
        best: as in :func:`entries`; a shortlist has ``SHORTLIST`` translations by default.
        counts: of the links that the lexicon is counted from, for ``tsv`` and ``eflomal``.

    Raises:
        AlignkitError: the format has no place for the reverse model, or the two are not of opposite directions; or
            it needs counts.
    """
    if file_format == "eflomal":
        if counts is None:
            raise AlignkitError("eflomal's priors are counts of links, which no model has; give SRC TGT LINKS")
        return {"": eflomal(counts, best)}
    if reverse is not None:
        if file_format == "shortlist":
            raise AlignkitError("a shortlist has one direction; give one model")
        check_directions(forward, reverse)
    if file_format == "tsv":
        return {"": tsv(forward, reverse, best, None if counts is None else counts.table)}
    if file_format == "shortlist":
        return {"": moses(forward, best or SHORTLIST, null=False)}
    if reverse is None:
        return {"": moses(forward, best)}
    return {".f2e": moses(forward, best), ".e2f": moses(reverse, best)}


def tsv(
    forward: LexicalModel,
    reverse: LexicalModel | None = None,
    best: int | None = None,
    counts: PairTable | None = None,
) -> Iterator[bytes]:
    """Lines ``source TAB target TAB p(target | source)``, and TAB p(source | target) if there is a reverse model,
    and TAB the number of links if there are counts of the forward model's words.

    The pairs and their order are those of :func:`entries` of the forward model; the reverse probability is 0 for a
    pair that the reverse model does not have. NULL is left out: a word of the text may be spelled like it.
    """
    row = _reverse_values(forward, reverse) if reverse is not None else None
    for i, columns, values in entries(forward, best):
        word = forward.source[i]
        ends = [""] * len(columns) if row is None else [f"\t{p:.6g}" for p in row(i, columns)]
        if counts is not None:
            ends = [f"{end}\t{counts.value(i, o):.0f}" for end, o in zip(ends, columns.tolist(), strict=True)]
        lines = zip(columns.tolist(), values.tolist(), ends, strict=True)
        yield "".join(f"{word}\t{forward.target[o]}\t{p:.6g}{end}\n" for o, p, end in lines).encode()


def _reverse_values(forward: LexicalModel, reverse: LexicalModel) -> Callable[[int, np.ndarray], list[float]]:
    """A function (source id, target ids) -> p(source | target), both ids of the forward lexicon."""
    own_source = reverse.target.translate(forward.source)
    own_target = reverse.source.translate(forward.target)

    def values(i: int, columns: np.ndarray) -> list[float]:
        o = int(own_source[i])
        rows = own_target[columns].tolist()
        return [reverse.table.value(r, o) if r >= 0 and o >= 0 else 0.0 for r in rows]

    return values


def moses(model: LexicalModel, best: int | None = None, null: bool = True) -> Iterator[bytes]:
    """Lines ``target source p(target | source)``, as in Moses' lexical weights: ``lex.f2e`` if the source is f.

    Left out are words with a control character that other programs take for white space, whose lines would be
    misread, and words that are spelled NULL.

    Args:
        model, best: as in :func:`entries`.
        null: also write NULL's translations, last (Moses knows it as a source word; a shortlist needs none).
    """
    words = [tuple(map(_plain, vocabulary)) for vocabulary in (model.source, model.target)]

    def lines(word: str, columns: np.ndarray, values: np.ndarray) -> bytes:
        pairs = zip((words[1][o] for o in columns.tolist()), values.tolist(), strict=True)
        return "".join(f"{other} {word} {p:.7f}\n" for other, p in pairs if other).encode()

    for i, columns, values in entries(model, best, _SMALLEST):
        if words[0][i]:
            yield lines(words[0][i], columns, values)
    if null:
        yield lines(NULL, *null_entries(model, best, _SMALLEST))


def eflomal(counts: LinkedWords, best: int | None = None) -> Iterator[bytes]:
    """The lines of eflomal's priors: how often words are linked (``LEX``), how many links a word has in each
    direction (``FERF``, ``FERR``), and the jumps between links (``HMMF``, ``HMMR``).

    Left out are words with control characters, as in :func:`moses`.

    Args:
        counts: of the links.
        best: as in :func:`entries`.
    """
    source, target = counts.lexicon.source, counts.lexicon.target
    for i, columns, _ in entries(counts.lexicon, best):
        pairs = ((source[i], target[o], counts.table.value(i, o)) for o in columns.tolist())
        yield "".join(f"LEX\t{x}\t{y}\t{n:.0f}\n" for x, y, n in pairs if _plain(x) and _plain(y)).encode()
    for direction, side in (("F", counts), ("R", counts.reversed)):
        lines = [f"FER{direction}\t{word}\t{k}\t{n}\n" for word, k, n in side.fertilities() if _plain(word)]
        yield "".join([*lines, *(f"HMM{direction}\t{jump}\t{n}\n" for jump, n in side.jumps())]).encode()


def _plain(word: str) -> str:
    """The word, or "" if it cannot stand between spaces in a file or would be taken for NULL."""
    return "" if word == NULL or any(letter in word for letter in _BREAKS) else word
