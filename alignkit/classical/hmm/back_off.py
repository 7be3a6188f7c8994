"""Back-off to classes of words with the same first or last letters, from which rare words learn; and what a fitted
model has counted, as background knowledge about another text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alignkit.classical.cooccurrence import PairTable
from alignkit.classical.hmm.parameters import FittedCounts, FittedHMM, fertility_counts, taken
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.kernels.hmm_m_step import (
    NO_BACKGROUND,
    BackgroundClasses,
    BackOffClasses,
    add_back_off,
    background_values,
    column_sums,
    row_sums,
)
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.translation_table import RowSpans
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

#: Added to what the other words of a class sum to, in divisors: classes that have hardly been seen say little.
FEW = 8.0
#: Pairs with fewer expected links than this tell classes of words nothing; nearly all pairs are such.
LEAST_COUNT = 0.05

Ids = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Classes:
    """A partition of V words.

    Attributes:
        of: int32 (V,), the class of each word.
        first: int64 (A + 1,), where each class starts in ``members``.
        members: int32 (V,), the words in order of their class.
    """

    of: np.ndarray
    first: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1

    def sums(self, values: np.ndarray) -> np.ndarray:
        """float64 (V,): for each word the sum of the values (V,) of all words of its class."""
        return np.bincount(self.of, values, minlength=len(self))[self.of]


def affix_part(letters: int, suffix: bool) -> slice:
    """The place of a word's first (or last) letters."""
    return slice(-letters, None) if suffix else slice(letters)


def affix_classes(vocabulary: Vocabulary, letters: int, suffix: bool) -> Classes:
    """Classes of words that share this number of first (or last) letters; a shorter word is its own affix."""
    known: dict[str, int] = {}
    part = affix_part(letters, suffix)
    of = np.array([known.setdefault(word[part], len(known)) for word in vocabulary], np.int32)
    first = np.zeros(len(known) + 1, np.int64)
    np.cumsum(np.bincount(of, minlength=len(known)), out=first[1:])
    return Classes(of, first, np.argsort(of, kind="stable").astype(np.int32))


class BackOff:
    """Pseudo-counts of word pairs from the counts of other pairs of the same two classes.

    With a, b the classes of i, o, the pair (i, o) gets, in the row of i, a share of ``weight`` in proportion to
    count(a, b) - count(i, o), and to how frequent o is in its class.

    Args:
        bitext: the text.
        affixes: numbers of letters that make classes.
        weight: what each row gets in all at most, where much is known of its classes.
        background: a model's expected counts, which are added to those of the text.
    """

    def __init__(
        self, bitext: Bitext, affixes: tuple[int, ...], weight: float, background: BackgroundPairs | None = None
    ) -> None:
        sides = bitext.source, bitext.target
        self.classes = [
            (affix_classes(sides[0].vocabulary, *kind), affix_classes(sides[1].vocabulary, *kind))
            for kind in self.affix_kinds(affixes)
        ]
        self.weight = weight / max(len(self.classes), 1)
        self._background = list[TextClassCounts]()
        if background is not None:
            words = bitext.source.vocabulary, bitext.target.vocabulary
            self._background = [
                counts.of_text(classes, words, background)
                for counts, classes in zip(background.model.classes, self.classes, strict=True)
            ]
        self.frequencies = [
            np.bincount(side.tokens, minlength=len(side.vocabulary)).astype(np.float64) for side in sides
        ]

    @staticmethod
    def affix_kinds(affixes: tuple[int, ...]) -> list[tuple[int, bool]]:
        """The ways to class words, as (number of letters, True if they are the last)."""
        return [(letters, suffix) for letters in affixes for suffix in (False, True)]

    def add(
        self, rows: TableRows, totals: tuple[np.ndarray, np.ndarray], evidence: np.ndarray, threads: int
    ) -> None:
        """Adds to the pseudo-counts of both directions.

        Args:
            rows: counts of the word pairs by source word.
            totals: float64, their sums by source word, and by target word.
            evidence: float32 (K, 3), see kernels.hmm_e_step.LinkArrays.
        """
        for n, (source, target) in enumerate(self.classes):
            (source_rest, source_share), (target_rest, target_share) = (
                self._factors(side, n, totals[side]) for side in (0, 1)
            )
            source_factors = np.stack([source_rest, source_share], axis=1).astype(np.float32)
            target_factors = np.stack([target_share, target_rest], axis=1).astype(np.float32)
            pairs = BackOffClasses(source.members, source.first, target.of, source_factors, target_factors)
            self._add(n, pairs, rows, evidence, threads)

    def _factors(self, side: int, n: int, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each word of a side: weight / what the rest of its class sums to, and its share in its class."""
        frequency, classes = self.frequencies[side], self.classes[n][side]
        factor, whole = self.weight / (self._rest(side, n, totals) + FEW), np.maximum(classes.sums(frequency), 1)
        return factor, frequency / whole

    def _rest(self, side: int, n: int, totals: np.ndarray) -> np.ndarray:
        """float64 (V,): what the other words of each word's class sum to."""
        rest = np.maximum(self.classes[n][side].sums(totals) - totals, 0)
        return rest + self._background[n].rest[side] if self._background else rest

    def _add(self, n: int, pairs: BackOffClasses, rows: TableRows, evidence: np.ndarray, threads: int) -> None:
        targets = len(self.classes[n][1])
        work = np.add.reduceat(np.diff(rows.offsets)[pairs.members], pairs.first[:-1])

        def add(low: int, high: int) -> None:
            sums, labels = np.zeros(targets, np.float64), np.empty(work[low:high].max(), np.uint32)
            background = self._background[n].counts if self._background else NO_BACKGROUND
            add_back_off(low, high, pairs, background, rows, sums, labels, evidence)

        run_blocks(add, blocks(work, 1 if threads == 1 else 8 * threads), threads)


class BackgroundModel:
    """A fitted model of both directions as background knowledge about other texts.

    Args:
        model: fitted.
        counts: those that it was fitted with.
        settings: of the estimation that it is background for.

    Attributes:
        totals: float64 (V_src,) and (V_tgt,), the expected number of links of each word.
        null: float64 (V_tgt,) and (V_src,), NULL's counts in each direction.
        fertilities: float64 (V_src, F) and (V_tgt, F), the number of occurrences with 0, 1, ... links.
        classes: counts of pairs of classes, in the order of :attr:`BackOff.classes`.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts, settings: HMMSettings) -> None:
        table = model.table
        rows = table.rows
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
            fertility_counts(direction.fertility, totals, settings.fertility)
            for direction, totals in zip(model.directions, self.totals, strict=True)
        )
        some = np.flatnonzero(counts.pairs >= LEAST_COUNT)
        counted = rows[some], table.columns[some], counts.pairs[some]
        vocabularies = model.source, model.target
        self.classes = [
            ClassCounts(vocabularies, counted, self.totals, letters, suffix)
            for letters, suffix in BackOff.affix_kinds(settings.affixes if settings.back_off > 0 else ())
        ]


class BackgroundPairs:
    """A background model's expected counts of the word pairs of a text.

    Args:
        background: the model.
        ids: the model's ids of the text's source and target words, -1 if unknown.
        rows: the K pairs of the text.
        ranges: of the text's source words.
        threads: how many to use; no result depends on it.

    Attributes:
        values: float32 (K,), counts.
        rest: float64 (V_src,) and (V_tgt,), the counts of each word's pairs that the text does not have.
    """

    def __init__(
        self, background: BackgroundModel, ids: Ids, rows: TableRows, ranges: list[tuple[int, int]], threads: int
    ) -> None:
        self.model, self.ids, table = background, ids, background.model.table
        spans = _spans(table.with_values(background.pairs), ids[0])
        self.values = np.zeros(len(rows.columns), np.float32)

        def fill(low: int, high: int) -> None:
            background_values(low, high, spans, rows, ids[1], np.zeros(table.width, np.float32), self.values)

        run_blocks(fill, ranges, threads)
        sums = np.empty(len(ids[0])), np.zeros(len(ids[1]))
        row_sums(0, len(ids[0]), rows.offsets, self.values, sums[0])
        column_sums(0, len(ids[1]), rows.columns, self.values, sums[1])
        self.rest = tuple(np.maximum(taken(background.totals[side], ids[side]) - sums[side], 0) for side in (0, 1))


class ClassCounts:
    """A model's expected counts between classes of words with the same first or last letters.

    Args:
        vocabularies: source and target words of the model.
        counted: int32 (N,) source words, int32 (N,) target words, float32 (N,) counts of pairs.
        totals: of each word's counts.
        letters, suffix: of :func:`affix_classes`.
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
        self, classes: tuple[Classes, Classes], words: tuple[Vocabulary, Vocabulary], pairs: BackgroundPairs
    ) -> TextClassCounts:
        """The counts for the classes of a text."""
        same = [
            np.fromiter((ids.get(affix, -1) for affix in _affixes(each, own, self.part)), np.int32, len(each))
            for ids, each, own in zip(self.ids, classes, words, strict=True)
        ]
        target_class = np.full(len(self.ids[1]), -1, np.int32)
        there = same[1] >= 0
        target_class[same[1][there]] = np.flatnonzero(there)
        spans = _spans(self.table, same[0])
        rest = tuple(
            taken(self.totals[side], same[side])
            - np.bincount(classes[side].of, taken(self.word_totals[side], pairs.ids[side]), len(classes[side]))
            for side in (0, 1)
        )
        counts = BackgroundClasses(*spans, target_class, pairs.values)
        return TextClassCounts(
            counts, (np.maximum(rest[0], 0)[classes[0].of], np.maximum(rest[1], 0)[classes[1].of])
        )


class TextClassCounts(NamedTuple):
    """A model's counts for the classes of a text.

    Attributes:
        counts: of pairs of classes.
        rest: float64 (V_src,) and (V_tgt,), for each word of the text the counts of those words of its class that
            the text does not have.
    """

    counts: BackgroundClasses
    rest: tuple[np.ndarray, np.ndarray]


def _spans(table: PairTable, ids: np.ndarray) -> RowSpans:
    """The rows of these ids; empty where an id is -1."""
    starts, ends = table.offsets[np.maximum(ids, 0)], table.offsets[ids + 1]
    return RowSpans(starts, ends, table.columns, table.values)


def _affixes(classes: Classes, words: Vocabulary, part: slice) -> Iterable[str]:
    """The letters that each class shares."""
    return (words[int(i)][part] for i in classes.members[classes.first[:-1]])
