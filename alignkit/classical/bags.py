"""Sentences as bags of distinct words, and where each word occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alignkit.bitext import Bitext
from alignkit.kernels import lexical
from alignkit.parallel import blocks, run_blocks


@dataclass(frozen=True)
class Bags:
    """The distinct words of each of M sentences, with how often they come.

    Attributes:
        words: int32 (E,), in order of first appearance within a sentence.
        counts: float32 (E,).
        offsets: int64 (M + 1,), where each bag starts.
        entries: int32 (N,), for each token of the text its place in its sentence's bag.
    """

    words: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, types: int, threads: int) -> Bags:
        """The bags of sentences of tokens with ids in [0, types)."""
        ranges = blocks(np.diff(offsets), threads)
        sizes = np.zeros(len(offsets) - 1, np.int64)

        def count(low: int, high: int) -> None:
            lexical.count_distinct(low, high, tokens, offsets, np.full(types, -1, np.int32), sizes)

        run_blocks(count, ranges, threads)
        bag_offsets = np.zeros(len(offsets), np.int64)
        np.cumsum(sizes, out=bag_offsets[1:])
        words, counts = np.empty(bag_offsets[-1], np.int32), np.empty(bag_offsets[-1], np.float32)
        entries = np.empty(len(tokens), np.int32)

        def fill(low: int, high: int) -> None:
            work = (np.full(types, -1, np.int32), np.empty(types, np.int32))
            lexical.fill_bags(low, high, tokens, offsets, (words, counts, bag_offsets), entries, work)

        run_blocks(fill, ranges, threads)
        return cls(words, counts, bag_offsets, entries)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As kernels take them."""
        return self.words, self.counts, self.offsets

    @property
    def sizes(self) -> np.ndarray:
        """int64 (M,), distinct words per sentence."""
        return np.diff(self.offsets)

    def by_token(self, values: np.ndarray, token_offsets: np.ndarray) -> np.ndarray:
        """Values (E,) of entries as values (N,) of tokens."""
        starts = np.repeat(self.offsets[:-1], np.diff(token_offsets))
        return values[starts + self.entries]

    def first_positions(self, token_offsets: np.ndarray) -> np.ndarray:
        """int32 (E,): where in its sentence each distinct word comes first."""
        lengths = np.diff(token_offsets)
        places = np.repeat(self.offsets[:-1], lengths) + self.entries
        positions = np.arange(len(places)) - np.repeat(token_offsets[:-1], lengths)
        first = np.empty(len(self.words), np.int32)
        first[places[::-1]] = positions[::-1]  # of several writes to one place, the last stays: the leftmost
        return first


def bags_of(bitext: Bitext, threads: int) -> tuple[Bags, Bags]:
    """The bags of both sides."""
    source, target = (
        Bags.of(side.tokens, side.offsets, len(side.vocabulary), threads)
        for side in (bitext.source, bitext.target)
    )
    return source, target


Index = tuple[np.ndarray, np.ndarray, np.ndarray]


def invert(words: np.ndarray, notes: np.ndarray, offsets: np.ndarray, types: int) -> Index:
    """For each word in [0, types) its sentences in text order, each with its note (a count or a position).

    Args:
        words: int32 (E,).
        notes: (E,), what to keep beside each.
        offsets: int64 (M + 1,), where each sentence starts.

    Returns:
        starts int64 (types + 1,), sentences int32 (E,), notes (E,).
    """
    starts = np.zeros(types + 1, np.int64)
    np.cumsum(np.bincount(words, minlength=types), out=starts[1:])
    sentences, sorted_notes = np.empty(len(words), np.int32), np.empty_like(notes)
    lexical.invert((words, notes, offsets), starts[:-1].copy(), sentences, sorted_notes)
    return starts, sentences, sorted_notes


class PairStatistics:
    """A bitext laid out for estimation: the index, the rows of every pair that meets, and blocks of even work.

    The rows' ``values`` start as ones and belong to the estimator that made this object.

    Args:
        source, target: bags of the two sides.
        types: (V_src, V_tgt).
        threads: how many to use.
    """

    def __init__(self, source: Bags, target: Bags, types: tuple[int, int], threads: int) -> None:
        self.threads = threads
        self.types = types
        self.target = target.arrays
        self.index = invert(source.words, source.counts, source.offsets, types[0])
        work = np.empty(types[0], np.int64)
        lexical.row_work(self.index[0], self.index[1], target.sizes, work)
        # More ranges than threads, because one frequent word can be a tenth of all work.
        self.row_ranges = blocks(work, 1 if threads == 1 else 8 * threads)
        self.sentence_ranges = blocks(source.sizes * target.sizes, threads)
        self.rows = self._rows()

    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes = np.empty(self.types[0], np.int64)

        def count(low: int, high: int) -> None:
            lexical.row_sizes(low, high, self.index, self.target, self._stamp(), sizes)

        self.over_rows(count)
        offsets = np.zeros(self.types[0] + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        columns = np.empty(offsets[-1], np.int32)

        def fill(low: int, high: int) -> None:
            lexical.fill_rows(low, high, self.index, self.target, self._stamp(), offsets, columns)

        self.over_rows(fill)
        return offsets, columns, np.ones(len(columns), np.float32)

    def _stamp(self) -> np.ndarray:
        return np.full(self.types[1], -1, np.int32)

    def over_rows(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over blocks of source words."""
        run_blocks(function, self.row_ranges, self.threads)

    def over_sentences(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over blocks of sentences."""
        run_blocks(function, self.sentence_ranges, self.threads)

    def add_weights(self, weights: np.ndarray) -> None:
        """values[i, o] *= sum over the sentences of i of n_i * weights[k], k the entry of o there.

        Args:
            weights: float32, one for each entry of the target bags.
        """

        def add(low: int, high: int) -> None:
            sums = np.zeros(self.types[1], np.float64)
            lexical.add_weights(low, high, self.index, self.rows, self.target, weights, sums)

        self.over_rows(add)
