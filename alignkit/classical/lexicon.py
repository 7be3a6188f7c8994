"""Translation tables of lexical models as text: TSV, Moses' lexical weights, Marian's shortlist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.aligner.protocol import Aligner
from alignkit.aligner.symmetrized import Symmetrized
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.settings import SHORTLIST, LexiconFormat
from alignkit.classical.translation_table import PairTable
from alignkit.errors import AlignkitError
from alignkit.text.vocabulary import Vocabulary

NULL = "NULL"  #: how Moses writes the empty word
#: White space to a C++ stream or a Python split, but letters of a token to us.
_BREAKS = "\v\f\r\x1c\x1d\x1e\x1f"

Entry = tuple[int, np.ndarray, np.ndarray]
#: Smaller ones are 0.0000000 in Moses' files, which no logarithm can be taken of.
_SMALLEST = 5e-8


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Trans(target word | source word) of a fitted lexical model.

    Attributes:
        source, target: V_src and V_tgt words.
        table: (V_src, V_tgt).
        null: float32 (V_tgt,), Trans(target word | NULL), or None.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    null: np.ndarray | None = None

    def entries(
        self, best: int | None = None, minimum: float = 0.0
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(source id, target ids, probabilities) of every source word that has any, words in order of their bytes.

        The translations fall in probability; equals are in order of their bytes. Only values above 0 come.

        Args:
            best: at most so many for each source word; None: all.
            minimum: only those at least so probable.
        """
        rank = _ranks(self.target)
        for i in np.argsort(_ranks(self.source)).tolist():
            columns, values = self.table.row(i)
            chosen = _select(columns, values, rank, best, minimum)
            if len(chosen):
                yield i, columns[chosen], values[chosen]

    def null_entries(self, best: int | None = None, minimum: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(target ids, probabilities) of NULL, as in :meth:`entries`; empty without NULL."""
        values = np.zeros(len(self.target), np.float32) if self.null is None else self.null
        columns = np.arange(len(values))
        chosen = _select(columns, values, _ranks(self.target), best, minimum)
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


def lexicon_of(aligner: Aligner) -> Lexicon:
    """The translation table of a fitted model; of two symmetrized ones, the forward model's.

    Raises:
        AlignkitError: the model is not one of translation probabilities between words.
    """
    if isinstance(aligner, Symmetrized):
        return lexicon_of(aligner.forward)
    if not isinstance(aligner, LexicalModel):
        models = "ibm1, diagonal, hmm or align"
        raise AlignkitError(f"{aligner.name} has no translation table; give a model that {models} saved")
    return Lexicon(aligner.source, aligner.target, aligner.table, aligner.null)


def lexicon_files(
    forward: Lexicon,
    reverse: Lexicon | None = None,
    file_format: LexiconFormat = "tsv",
    best: int | None = None,
    minimum: float = 0.0,
) -> dict[str, Iterator[bytes]]:
    """The files of a lexicon: what comes after their common name -> their content, in parts.

    Args:
        forward: source to target.
        reverse: target to source, of the same text; for ``tsv`` and ``moses``.
        file_format: ``tsv`` (see :func:`tsv`); ``moses`` (see :func:`moses`), ``.f2e`` and ``.e2f`` with a reverse
            model; or ``shortlist``, as ``moses`` without NULL and with the best translations only.
        best, minimum: as in :meth:`Lexicon.entries`; a shortlist has ``SHORTLIST`` translations by default.

    Raises:
        AlignkitError: the format has no place for the reverse model, or the two are not of opposite directions.
    """
    if reverse is not None:
        if file_format == "shortlist":
            raise AlignkitError("a shortlist has one direction; give one model")
        if len(forward.source) and not any(word in reverse.target for word in forward.source):
            raise AlignkitError(
                "the reverse model has no source word among its targets: is it of the other direction?"
            )
    if file_format == "tsv":
        return {"": tsv(forward, reverse, best, minimum)}
    if file_format == "shortlist":
        return {"": moses(forward, best or SHORTLIST, minimum, null=False)}
    if reverse is None:
        return {"": moses(forward, best, minimum)}
    return {".f2e": moses(forward, best, minimum), ".e2f": moses(reverse, best, minimum)}


def tsv(
    forward: Lexicon, reverse: Lexicon | None = None, best: int | None = None, minimum: float = 0.0
) -> Iterator[bytes]:
    """Lines ``source TAB target TAB p(target | source)``, and TAB p(source | target) if there is a reverse model.

    Which pairs there are, and their order, follows from the forward model; the reverse probability is 0 for a pair
    that the reverse model does not have. NULL is left out: a word of the text may be spelled like it.
    """
    row = _reverse_values(forward, reverse) if reverse is not None else None
    for i, columns, values in forward.entries(best, minimum):
        word = forward.source[i]
        ends = [""] * len(columns) if row is None else [f"\t{p:.6g}" for p in row(i, columns)]
        lines = zip(columns.tolist(), values.tolist(), ends, strict=True)
        yield "".join(f"{word}\t{forward.target[o]}\t{p:.6g}{end}\n" for o, p, end in lines).encode()


def _reverse_values(forward: Lexicon, reverse: Lexicon) -> Any:
    """A function (source id, target ids) -> p(source | target), both ids of the forward lexicon."""
    own_source = reverse.target.translate(forward.source)
    own_target = reverse.source.translate(forward.target)

    def values(i: int, columns: np.ndarray) -> list[float]:
        o = int(own_source[i])
        rows = own_target[columns].tolist()
        return [reverse.table.value(r, o) if r >= 0 and o >= 0 else 0.0 for r in rows]

    return values


def moses(lexicon: Lexicon, best: int | None = None, minimum: float = 0.0, null: bool = True) -> Iterator[bytes]:
    """Lines ``target source p(target | source)``, as in Moses' lexical weights: ``lex.f2e`` if the source is f.

    A word that holds a control character which others take for white space is left out: its line would be read
    as another. So is one that is spelled NULL, if the file has NULL, too.

    Args:
        lexicon, best, minimum: as in :meth:`Lexicon.entries`.
        null: also write NULL's translations, last (Moses knows it as a source word; a shortlist needs none).
    """
    minimum = max(minimum, _SMALLEST)
    words = [tuple(map(_plain, vocabulary)) for vocabulary in (lexicon.source, lexicon.target)]

    def lines(word: str, columns: np.ndarray, values: np.ndarray) -> bytes:
        pairs = zip((words[1][o] for o in columns.tolist()), values.tolist(), strict=True)
        return "".join(f"{other} {word} {p:.7f}\n" for other, p in pairs if other).encode()

    for i, columns, values in lexicon.entries(best, minimum):
        if words[0][i]:
            yield lines(words[0][i], columns, values)
    if null:
        yield lines(NULL, *lexicon.null_entries(best, minimum))


def _plain(word: str) -> str:
    """The word, or nothing if it cannot stand in a file of words between spaces, or would be taken for NULL."""
    return "" if word == NULL or any(letter in word for letter in _BREAKS) else word
