"""What a fitted joint aligner counted, as prior knowledge about another text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alignkit.classical.hmm.parameters import FittedHMM, HMMParameters
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.word_classes import BackOff, Classes, affix_part
from alignkit.classical.lexical_model import PairTable
from alignkit.classical.word_pairs import SourceRanges
from alignkit.kernels.hmm_known import KnownClassPairs, known_values
from alignkit.kernels.hmm_m_step import column_sums, row_sums
from alignkit.kernels.hmm_rows import FERTILITIES
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.translation_table import RowSpans
from alignkit.text.vocabulary import Vocabulary

#: Pairs with fewer expected links than this tell classes of words nothing; nearly all pairs are such.
LEAST_COUNT = 0.05
_MOST_LINKS = 1e15  # more than any text has, and far from what 32 bits hold


@dataclass(frozen=True, eq=False)
class FittedCounts:
    """The expected counts that a joint aligner was fitted with.

    Attributes:
        pairs: float32 (K,), links of each word pair of the aligner's table.
        null: float32 (2,), the sums of NULL's counts in the forward and in the reverse direction.

    Raises:
        ValueError: a count is negative or not finite, or they are more than any text has.
    """

    pairs: np.ndarray
    null: np.ndarray

    def __post_init__(self) -> None:
        if (self.pairs.dtype, self.null.dtype, self.null.shape) != (np.float32, np.float32, (2,)):
            raise ValueError("counts must be float32, and two of them NULL's")
        if not all(np.isfinite(array).all() and (array >= 0).all() for array in (self.pairs, self.null)):
            raise ValueError("counts must be finite and not negative")
        if max(array.sum(dtype=np.float64) for array in (self.pairs, self.null)) > _MOST_LINKS:
            raise ValueError(f"counts must not sum to more than {_MOST_LINKS:.0e}")


class KnownModel:
    """A fitted joint aligner, prepared to be adapted to texts.

    Args:
        model: of both directions.
        counts: those that it was fitted with.
        settings: of the adaptation.

    Attributes:
        totals: float64 (V_src,) and (V_tgt,), the expected number of links of each word.
        null: float64 (V_tgt,) and (V_src,), NULL's counts in each direction.
        fertilities: float64 (V_src, F) and (V_tgt, F), the number of occurrences with 0, 1, ... links.
        classes: counts of pairs of classes, in the order of :attr:`BackOff.classes`.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts, settings: HMMSettings) -> None:
        table = model.table
        rows = np.repeat(np.arange(table.shape[0], dtype=np.int32), np.diff(table.offsets))
        self.model, self.pairs = model, counts.pairs
        self.totals = tuple(
            np.bincount(words, counts.pairs, minlength=size).astype(np.float64)
            for words, size in zip((rows, table.columns), table.shape, strict=True)
        )
        self.null = tuple(
            direction.null.astype(np.float64) * float(total)
            for direction, total in zip(model.directions, counts.null, strict=True)
        )
        self.fertilities = tuple(
            _fertility_counts(direction, totals, settings.fertility)
            for direction, totals in zip(model.directions, self.totals, strict=True)
        )
        some = np.flatnonzero(counts.pairs >= LEAST_COUNT)
        known = rows[some], table.columns[some], counts.pairs[some]
        vocabularies = model.source, model.target
        self.classes = [
            ClassPairs(vocabularies, known, self.totals, letters, suffix)
            for letters, suffix in BackOff.affix_kinds(settings.affixes if settings.back_off > 0 else ())
        ]


class KnownPairs:
    """What a model counted of the word pairs of a text.

    Args:
        known: the model.
        ids: the model's ids of the text's source and target words, -1 if unknown.
        rows: the K pairs of the text.
        ranges: of the text's source words.

    Attributes:
        values: float32 (K,), counts.
        rest: float64 (V_src,) and (V_tgt,), the counts of each word's pairs that the text does not have.
    """

    def __init__(
        self, known: KnownModel, ids: tuple[np.ndarray, np.ndarray], rows: TableRows, ranges: SourceRanges
    ) -> None:
        self.known, self.ids = known, ids
        table, width = known.model.table, known.model.table.width
        spans = _spans(PairTable(table.offsets, table.columns, known.pairs, width), ids[0])
        self.values = np.zeros(len(rows.columns), np.float32)

        def fill(low: int, high: int) -> None:
            known_values(low, high, spans, rows, ids[1], np.zeros(width, np.float32), self.values)

        ranges.over_rows(fill)
        sums = np.empty(len(ids[0])), np.zeros(len(ids[1]))
        row_sums(0, len(ids[0]), rows.offsets, self.values, sums[0])
        column_sums(0, len(ids[1]), rows.columns, self.values, sums[1])
        self.rest = tuple(np.maximum(taken(known.totals[side], ids[side]) - sums[side], 0) for side in (0, 1))


class ClassPairs:
    """A model's counts between classes of words with the same first or last letters.

    Args:
        vocabularies: source and target words of the model.
        counted: int32 (N,) source words, int32 (N,) target words, float32 (N,) counts of pairs.
        totals: of each word's counts.
        letters, suffix: of :func:`.word_classes.affix_classes`.
    """

    def __init__(
        self,
        vocabularies: tuple[Vocabulary, Vocabulary],
        counted: tuple[np.ndarray, np.ndarray, np.ndarray],
        totals: tuple[np.ndarray, ...],
        letters: int,
        suffix: bool,
    ) -> None:
        self.part = affix_part(letters, suffix)
        self.vocabularies, self.word_totals = vocabularies, totals
        self.ids: tuple[dict[str, int], dict[str, int]] = {}, {}
        source, target = (
            np.fromiter((ids.setdefault(word[self.part], len(ids)) for word in words), np.int64, len(words))
            for ids, words in zip(self.ids, vocabularies, strict=True)
        )
        self.totals = tuple(
            np.bincount(of, each, minlength=len(ids))
            for of, each, ids in zip((source, target), totals, self.ids, strict=True)
        )
        width = max(len(self.ids[1]), 1)
        keys, places = np.unique(source[counted[0]] * width + target[counted[1]], return_inverse=True)
        values = np.bincount(places, counted[2], minlength=len(keys)).astype(np.float32)
        offsets = np.searchsorted(keys // width, np.arange(len(self.ids[0]) + 1))
        self.table = PairTable(offsets.astype(np.int64), (keys % width).astype(np.int32), values, width)

    def of_words(self, side: int, words: Iterable[str]) -> np.ndarray:
        """int32 (V,): the classes of source (0) or target (1) words, -1 if the model has none such."""
        ids, part = self.ids[side], self.part
        return np.array([ids.get(word[part], -1) for word in words], np.int32)

    def of_text(
        self, classes: tuple[Classes, Classes], words: tuple[Vocabulary, Vocabulary], known: KnownPairs
    ) -> TextClassPairs:
        """The counts for the classes of a text."""
        found = [
            np.fromiter((ids.get(affix, -1) for affix in _affixes(each, own, self.part)), np.int32, len(each))
            for ids, each, own in zip(self.ids, classes, words, strict=True)
        ]
        target_class = np.full(len(self.ids[1]), -1, np.int32)
        there = found[1] >= 0
        target_class[found[1][there]] = np.flatnonzero(there)
        spans = _spans(self.table, found[0])
        rest = tuple(
            taken(self.totals[side], found[side])
            - np.bincount(classes[side].of, taken(self.word_totals[side], known.ids[side]), len(classes[side]))
            for side in (0, 1)
        )
        pairs = KnownClassPairs(spans.starts, spans.ends, spans.columns, spans.values, target_class, known.values)
        return TextClassPairs(
            pairs, (np.maximum(rest[0], 0)[classes[0].of], np.maximum(rest[1], 0)[classes[1].of])
        )


class TextClassPairs(NamedTuple):
    """A model's counts for the classes of a text.

    Attributes:
        pairs: of pairs of classes.
        rest: float64 (V_src,) and (V_tgt,), for each word of the text the counts of those words of its class that
            the text does not have.
    """

    pairs: KnownClassPairs
    rest: tuple[np.ndarray, np.ndarray]


def taken(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """values[ids], zeros where an id is -1."""
    return np.concatenate([values, np.zeros((1, *values.shape[1:]), values.dtype)])[ids]


def _spans(table: PairTable, ids: np.ndarray) -> RowSpans:
    """The rows of these ids; empty where an id is -1."""
    starts, ends = table.offsets[np.maximum(ids, 0)], table.offsets[ids + 1]
    return RowSpans(starts, ends, table.columns, table.values)


def _affixes(classes: Classes, words: Vocabulary, part: slice) -> Iterable[str]:
    """The letters that each class shares."""
    return (words[int(i)][part] for i in classes.members[classes.first[:-1]])


def _fertility_counts(direction: HMMParameters, links: np.ndarray, exponent: float) -> np.ndarray:
    """float64 (V, F): expected occurrences of each word with 0, 1, ... links, from its factors for one more.

    Args:
        links: float64 (V,), the expected number of links of each word.
        exponent: of the factors.
    """
    factors = direction.fertility.astype(np.float64)
    if factors.shape[1] != FERTILITIES - 1 or exponent <= 0:
        return np.zeros((len(factors), FERTILITIES))
    ratios = np.clip(factors, 1e-6, 1e6) ** (1 / exponent)
    chances = np.cumprod(np.concatenate([np.ones((len(factors), 1)), ratios], axis=1), axis=1)
    chances /= chances.sum(axis=1, keepdims=True)
    mean = chances @ np.arange(FERTILITIES)
    return chances * (links / np.maximum(mean, 0.1))[:, None]
