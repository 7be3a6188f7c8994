"""Classes of words that share their first or last letters: the pseudo-counts that pairs of words get from the
other pairs of their classes, and a fitted model's counts between classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alignkit.classical.cooccurrence import table_of_pairs
from alignkit.classical.lexical_model import Ids, row_spans
from alignkit.kernels.hmm_m_step import NO_BACKGROUND, BackgroundClasses, BackOffClasses, add_back_off
from alignkit.kernels.inverted_index import TableRows
from alignkit.support.arrays import offsets_of, values_of
from alignkit.support.threads import run_evenly
from alignkit.text.spellings import base_letters
from alignkit.text.vocabulary import Vocabulary

#: Added to what the other words of a class sum to, in divisors: classes that have hardly been seen say little.
FEW = 8.0


class Classes(NamedTuple):
    """A partition of V words."""

    of: np.ndarray  # int32 (V,), the class of each word
    first: np.ndarray  # int64 (A + 1,), where each class starts in ``members``
    members: np.ndarray  # int32 (V,), the words in order of their class


def affix_classes(words: Iterable[str], affix: slice) -> Classes:
    """Classes of words, given by their letters, that share those at a place; a shorter word is its own affix."""
    ids: dict[str, int] = {}
    of = np.array([ids.setdefault(word[affix], len(ids)) for word in words], np.int32)
    first = offsets_of(np.bincount(of, minlength=len(ids)))
    return Classes(of, first, np.argsort(of, kind="stable").astype(np.int32))


@dataclass(frozen=True, eq=False)
class BackOff:
    """Pseudo-counts of word pairs from other pairs of their classes: words that share first or last letters.

    With a, b the classes of i, o, the pair (i, o) gets, in the row of i, a share of ``weight`` in proportion to
    count(a, b) - count(i, o), and to how frequent o is in its class.

    Attributes:
        classes: of the source and of the target words.
        weight: what each row gets in all at most, where much is known of its classes.
        frequencies: of the source and the target words.
        background: a model's expected counts, which are added to those of the text.
    """

    classes: tuple[Classes, Classes]
    weight: float
    frequencies: list[np.ndarray]
    background: TextClassCounts | None = None

    def add(
        self, rows: TableRows, totals: tuple[np.ndarray, np.ndarray], pair_counts: np.ndarray, threads: int
    ) -> None:
        """Adds to the pseudo-counts of both directions.

        Args:
            rows: counts of the word pairs by source word.
            totals: float64, their sums by source word, and by target word.
            pair_counts: float32 (K, 3), as :attr:`PairCounts.counts`.
        """
        factors = []
        for side, (of, first, _) in enumerate(self.classes):
            # Of each word: weight / what the rest of its class sums to, and its share in its class.
            frequency, number = self.frequencies[side].astype(np.float64), len(first) - 1
            rest = np.maximum(np.bincount(of, totals[side], minlength=number)[of] - totals[side], 0)
            if self.background is not None:
                rest = rest + self.background.rest[side]
            factor = self.weight / (rest + FEW)
            share = frequency / np.maximum(np.bincount(of, frequency, minlength=number)[of], 1)
            factors.append(np.stack([share, factor] if side else [factor, share], axis=1).astype(np.float32))
        source, target = self.classes
        classes = BackOffClasses(source.members, source.first, target.of, factors[0], factors[1])
        background = NO_BACKGROUND if self.background is None else self.background.counts
        work = np.add.reduceat(np.diff(rows.offsets)[source.members], source.first[:-1])

        def add(low: int, high: int) -> None:
            sums, labels = np.zeros(len(target.first) - 1), np.empty(work[low:high].max(), np.uint32)
            add_back_off(low, high, classes, background, rows, sums, labels, pair_counts)

        run_evenly(add, offsets_of(work), threads, parts=8)


class ClassCounts:
    """A model's expected counts between classes of words with the same first or last letters.

    Args:
        letters: of the source and target words of the model.
        counted: int32 (N,) source words, int32 (N,) target words, float32 (N,) counts of pairs.
        totals: of each word's counts.
        affix: the place of the letters of a word that its class shares.
    """

    def __init__(
        self,
        letters: Sequence[Sequence[str]],
        counted: tuple[np.ndarray, np.ndarray, np.ndarray],
        totals: tuple[np.ndarray, ...],
        affix: slice,
    ) -> None:
        self.affix, self.word_totals = affix, totals
        self.ids: tuple[dict[str, int], dict[str, int]] = {}, {}
        source, target = self.of = tuple(
            np.fromiter((ids.setdefault(word[affix], len(ids)) for word in words), np.int64, len(words))
            for ids, words in zip(self.ids, letters, strict=True)
        )
        self.totals = tuple(
            np.bincount(of, each, minlength=len(ids))
            for of, each, ids in zip((source, target), totals, self.ids, strict=True)
        )
        types = len(self.ids[0]), len(self.ids[1])
        self.table = table_of_pairs(source[counted[0]], target[counted[1]], counted[2], types)

    def classes_of(self, side: int, words: Iterable[str]) -> np.ndarray:
        """int32 (V,): the classes of source (0) or target (1) words, -1 if the model has none such."""
        ids, affix = self.ids[side], self.affix
        return np.array([ids.get(base_letters(word)[affix], -1) for word in words], np.int32)

    def of_text(
        self, classes: tuple[Classes, Classes], words: list[Vocabulary], ids: Ids, pairs: np.ndarray
    ) -> TextClassCounts:
        """The counts for the classes of a text.

        Args:
            classes: of its source and its target words.
            words: its vocabularies; ids: the model's ids of these words, -1 if unknown.
            pairs: float32 (K,), the model's counts of its word pairs.
        """
        same = [  # by the first word of each of the text's classes
            self.classes_of(side, (own[int(i)] for i in each.members[each.first[:-1]]))
            for side, (each, own) in enumerate(zip(classes, words, strict=True))
        ]
        target_class = np.full(len(self.ids[1]), -1, np.int32)
        there = same[1] >= 0
        target_class[same[1][there]] = np.flatnonzero(there)
        rest = []
        for side, (each, own) in enumerate(zip(classes, ids, strict=True)):
            in_text = np.bincount(each.of, values_of(self.word_totals[side], own), len(each.first) - 1)
            rest.append(np.maximum(values_of(self.totals[side], same[side]) - in_text, 0)[each.of])
        counts = BackgroundClasses(*row_spans(self.table, same[0]), target_class, pairs)
        return TextClassCounts(counts, (rest[0], rest[1]))


class TextClassCounts(NamedTuple):
    """A model's counts for the classes of a text.

    Attributes:
        counts: of pairs of classes.
        rest: float64 (V_src,) and (V_tgt,), for each word of the text the counts of those words of its class that
            the text does not have.
    """

    counts: BackgroundClasses
    rest: tuple[np.ndarray, np.ndarray]
