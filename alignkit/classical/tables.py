"""Tables of word pairs, the index they are estimated with, and the scores they give.

A :class:`PairTable` holds a number for every pair of a source and a target word that meet in some sentence
pair. Every lexical model (co-occurrence, IBM models) is such a table; what differs is how it is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.bitext import Bitext
from alignkit.kernels import lexical
from alignkit.links import Links
from alignkit.parallel import blocks, run_blocks
from alignkit.scores import Scores, flat_offsets


@dataclass(frozen=True, eq=False)
class PairTable:
    """A sparse (V_src, V_tgt) table, row by row (CSR).

    Attributes:
        offsets: int64 (V_src + 1,), where each row starts.
        columns: int32 (K,), target ids, rising within a row.
        values: float32 (K,).
        width: V_tgt.
    """

    offsets: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    width: int

    def __post_init__(self) -> None:
        if (self.offsets.dtype, self.columns.dtype, self.values.dtype) != (np.int64, np.int32, np.float32):
            raise TypeError("PairTable needs int64 offsets, int32 columns and float32 values")
        starts_right = len(self.offsets) > 0 and self.offsets[0] == 0
        # Compared, not subtracted: the difference of two wild numbers may wrap around to a positive one.
        rises = starts_right and not (self.offsets[1:] < self.offsets[:-1]).any()
        if not rises or not self.offsets[-1] == len(self.columns) == len(self.values):
            raise ValueError("PairTable offsets must rise from 0 to the number of pairs")
        if len(self.columns) and not 0 <= self.columns.min() <= self.columns.max() < self.width:
            raise ValueError("PairTable columns must lie in [0, V_tgt)")

    @property
    def shape(self) -> tuple[int, int]:
        """(V_src, V_tgt)."""
        return len(self.offsets) - 1, self.width

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(columns, values) of source word i, views."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        return self.columns[span], self.values[span]

    def value(self, i: int, o: int) -> float:
        """The number of the pair (i, o), 0 if the two never met."""
        columns, values = self.row(i)
        k = int(np.searchsorted(columns, o))
        return float(values[k]) if k < len(columns) and columns[k] == o else 0.0

    def to_dense(self) -> np.ndarray:
        """float32 (V_src, V_tgt); for small tables."""
        dense = np.zeros(self.shape, np.float32)
        dense[np.repeat(np.arange(self.shape[0]), np.diff(self.offsets)), self.columns] = self.values
        return dense


@dataclass(frozen=True)
class Index:
    """Where each source word occurs: see :mod:`alignkit.kernels.lexical`."""

    starts: np.ndarray
    sentences: np.ndarray
    positions: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, types: int) -> Index:
        """The index of tokens with ids in [0, types)."""
        starts = np.zeros(types + 1, np.int64)
        np.cumsum(np.bincount(tokens, minlength=types), out=starts[1:])
        sentences = np.empty(len(tokens), np.int32)
        positions = np.empty(len(tokens), np.int32)
        lexical.invert(tokens, offsets, starts[:-1].copy(), sentences, positions)
        return cls(starts, sentences, positions)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.starts, self.sentences, self.positions


class PairStatistics:
    """A bitext laid out for estimation: the index, the rows of every pair that meets, and blocks of even work.

    The rows' ``values`` start as ones and belong to the estimator that made this object.
    """

    def __init__(self, bitext: Bitext, threads: int) -> None:
        source, target = bitext.source, bitext.target
        self.bitext = bitext
        self.threads = threads
        self.types = (len(source.vocabulary), len(target.vocabulary))
        self.index = Index.of(source.tokens, source.offsets, self.types[0])
        self.target = (target.tokens, target.offsets)
        work = np.empty(self.types[0], np.int64)
        lexical.row_work(self.index.starts, self.index.sentences, target.lengths, work)
        # More ranges than threads, because one frequent word can be a tenth of all work.
        self.row_ranges = blocks(work, 1 if threads == 1 else 8 * threads)
        self.sentence_ranges = blocks(source.lengths * target.lengths, threads)
        self.rows = self._rows()

    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes = np.empty(self.types[0], np.int64)

        def count(low: int, high: int) -> None:
            lexical.row_sizes(low, high, self.index.arrays, self.target, self._stamp(), sizes)

        self.over_rows(count)
        offsets = np.zeros(self.types[0] + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        columns = np.empty(offsets[-1], np.int32)

        def fill(low: int, high: int) -> None:
            lexical.fill_rows(low, high, self.index.arrays, self.target, self._stamp(), offsets, columns)

        self.over_rows(fill)
        return offsets, columns, np.ones(len(columns), np.float32)

    def _stamp(self) -> np.ndarray:
        return np.full(self.types[1], -1, np.int32)

    def over_rows(self, function) -> None:  # type: ignore[no-untyped-def]
        """Runs ``function(low, high)`` over blocks of source words."""
        run_blocks(function, self.row_ranges, self.threads)

    def over_sentences(self, function) -> None:  # type: ignore[no-untyped-def]
        """Runs ``function(low, high)`` over blocks of sentences."""
        run_blocks(function, self.sentence_ranges, self.threads)

    def add_weights(self, weights: np.ndarray) -> None:
        """values[i, o] *= the sum of ``weights`` (N_tgt,) over the tokens o in the sentences of i."""

        def add(low: int, high: int) -> None:
            sums = np.zeros(self.types[1], np.float64)
            lexical.add_weights(low, high, self.index.arrays, self.rows, self.target, weights, sums)

        self.over_rows(add)

    def table(self) -> PairTable:
        """The rows as a table (no copy)."""
        return PairTable(*self.rows, self.types[1])


class Lookup:
    """Table values for the words of a bitext, which may have another vocabulary than the table.

    Args:
        table: V_src rows, V_tgt columns.
        bitext: the text to score.
        source_ids, target_ids: int32, the table's id of each word of the bitext's vocabularies, -1 if unknown.
        threads: how many threads to use.
    """

    def __init__(
        self, table: PairTable, bitext: Bitext, source_ids: np.ndarray, target_ids: np.ndarray, threads: int
    ) -> None:
        # Place -1, an unknown word, is an empty row after the last.
        starts = np.append(table.offsets[:-1], 0)[source_ids]
        ends = np.append(table.offsets[1:], 0)[source_ids]
        # The index is over the words of the bitext, not of the table: one line costs what that line holds.
        self.rows = (starts, ends, table.columns, table.values)
        self.width = table.width
        self.index = Index.of(bitext.source.tokens, bitext.source.offsets, len(source_ids))
        unknown = np.int32(self.width)  # an unknown target word gets a column of zeros after the last
        self.target = (
            np.where(target_ids < 0, unknown, target_ids)[bitext.target.tokens],
            bitext.target.offsets,
        )
        self.lengths = bitext.source.lengths
        self.shapes = bitext.shapes
        self.threads = threads
        self.ranges = blocks(self.lengths * bitext.target.lengths, threads)

    def scores(self) -> Scores:
        """beta: the table's value of every (y_t, x_l)."""
        offsets = flat_offsets(self.shapes)
        values = np.zeros(offsets[-1], np.float32)

        def fill(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            out = (values, offsets)
            lexical.fill_scores(low, high, self.index.arrays, self.rows, self.target, self.lengths, out, dense)

        run_blocks(fill, self.ranges, self.threads)
        return Scores(values, offsets, self.shapes)

    def posteriors(self, null: np.ndarray | None) -> Scores:
        """alpha: each row of :meth:`scores` divided by its sum, NULL's value float32 (V_tgt,) included."""
        scores = self.scores()
        null_values = np.zeros(self.width + 1, np.float32)
        if null is not None:
            null_values[:-1] = null
        out = (scores.values, scores.offsets)

        def divide(low: int, high: int) -> None:
            lexical.normalise_scores(
                low, high, self.target, self.lengths, null_values, int(null is not None), out
            )

        run_blocks(divide, self.ranges, self.threads)
        return scores

    def links(self, null: np.ndarray | None) -> Links:
        """The best source word of every target word; none where NULL is better or nothing is known."""
        tokens, offsets = self.target
        values = np.zeros(len(tokens), np.float32)
        if null is not None:
            values[:] = np.append(null, np.float32(0))[tokens]
        places = np.full(len(tokens), -1, np.int32)

        def search(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            best = (values, places)
            lexical.best_sources(low, high, self.index.arrays, self.rows, self.target, best, dense)

        run_blocks(search, self.ranges, self.threads)
        return links_of_places(places, offsets, self.lengths)


def links_of_places(places: np.ndarray, target_offsets: np.ndarray, lengths: np.ndarray) -> Links:
    """Links from the source position int32 (N_tgt,) of each target token, -1 for none."""
    linked = np.concatenate([[0], np.cumsum(places >= 0)])
    offsets = linked[target_offsets]
    pairs = np.empty((offsets[-1], 2), np.int32)
    counts = np.zeros(int(lengths.max(initial=0)) + 1, np.int64)
    lexical.links_of_places(places, target_offsets, lengths, offsets, pairs, counts)
    return Links(pairs, offsets)
