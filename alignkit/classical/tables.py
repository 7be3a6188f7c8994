"""Tables of word pairs and the scores they give.

A :class:`PairTable` holds a number for every pair of a source and a target word that meet in some sentence
pair. Every lexical model (co-occurrence, IBM models) is such a table; what differs is how it is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.bitext import Bitext
from alignkit.classical.bags import Bags, invert
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
        self.bitext = bitext
        unknown = np.int32(self.width)  # an unknown target word gets a column of zeros after the last
        self.target_tokens = np.where(target_ids < 0, unknown, target_ids)[bitext.target.tokens]
        self.threads = threads

    def scores(self) -> Scores:
        """beta: the table's value of every (y_t, x_l)."""
        source, shapes = self.bitext.source, self.bitext.shapes
        offsets = flat_offsets(shapes)
        values = np.zeros(offsets[-1], np.float32)
        lengths = source.lengths
        positions = (np.arange(len(source.tokens)) - np.repeat(source.offsets[:-1], lengths)).astype(np.int32)
        index = invert(source.tokens, positions, source.offsets, len(source.vocabulary))
        target = (self.target_tokens, self.bitext.target.offsets)

        def fill(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            lexical.fill_scores(low, high, index, self.rows, target, lengths, (values, offsets), dense)

        run_blocks(fill, blocks(np.diff(offsets), self.threads), self.threads)
        return Scores(values, offsets, shapes)

    def posteriors(self, null: np.ndarray | None) -> Scores:
        """alpha: each row of :meth:`scores` divided by its sum, NULL's value float32 (V_tgt,) included."""
        scores = self.scores()
        null_values = np.zeros(self.width + 1, np.float32)
        if null is not None:
            null_values[:-1] = null
        target = (self.target_tokens, self.bitext.target.offsets)
        lengths, has_null = self.bitext.source.lengths, int(null is not None)
        out = (scores.values, scores.offsets)

        def divide(low: int, high: int) -> None:
            lexical.normalise_scores(low, high, target, lengths, null_values, has_null, out)

        run_blocks(divide, blocks(np.diff(scores.offsets), self.threads), self.threads)
        return scores

    def links(self, null: np.ndarray | None) -> Links:
        """The best source word of every target word; none where NULL is better or nothing is known."""
        source, offsets = self.bitext.source, self.bitext.target.offsets
        bags = Bags.of(source.tokens, source.offsets, len(source.vocabulary), self.threads)
        first = bags.first_positions(source.offsets)
        index = invert(bags.words, first, bags.offsets, len(source.vocabulary))
        target = Bags.of(self.target_tokens, offsets, self.width + 1, self.threads)
        values = np.zeros(len(target.words), np.float32)
        if null is not None:
            values[:] = np.append(null, np.float32(0))[target.words]
        places = np.full(len(values), -1, np.int32)

        def search(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            lexical.best_sources(low, high, index, self.rows, target.arrays, (values, places), dense)

        run_blocks(search, blocks(bags.sizes * target.sizes, self.threads), self.threads)
        return links_of_places(target.by_token(places, offsets), offsets, source.lengths)


def links_of_places(places: np.ndarray, target_offsets: np.ndarray, lengths: np.ndarray) -> Links:
    """Links from the source position int32 (N_tgt,) of each target token, -1 for none."""
    linked = np.concatenate([[0], np.cumsum(places >= 0)])
    offsets = linked[target_offsets]
    pairs = np.empty((offsets[-1], 2), np.int32)
    counts = np.zeros(int(lengths.max(initial=0)) + 1, np.int64)
    lexical.links_of_places(places, target_offsets, lengths, offsets, pairs, counts)
    return Links(pairs, offsets)
