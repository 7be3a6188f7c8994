"""The values of a table for the words of a text: lexical scores, posteriors, best source positions."""

from __future__ import annotations

import numpy as np

from alignkit.classical.inverted_index import bags_of, invert, token_index
from alignkit.classical.translation_table import PairTable
from alignkit.kernels import translation_table as kernels
from alignkit.kernels.inverted_index import Bags, Tokens
from alignkit.kernels.translation_table import Matrices, RowSpans
from alignkit.parallel import blocks, run_blocks
from alignkit.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext

_SEARCH = 16  # how many values can be copied in the time of finding one


class Lookup:
    """Table values for the words of a bitext, which may have another vocabulary than the table.

    Args:
        table: V_src rows, V_tgt columns.
        bitext: the text to score.
        source_ids, target_ids: int32, the table's id of each word of the bitext's vocabularies, -1 if unknown.
        threads: how many threads to use; no result depends on it.

    Attributes:
        rows: a row for each source word of the bitext.
        width: the number of columns.
        is_reduced: whether the rows hold only the bitext's own words, so that a line that comes alone costs what
            it holds, not what the table or its words' rows hold.
    """

    def __init__(
        self, table: PairTable, bitext: Bitext, source_ids: np.ndarray, target_ids: np.ndarray, threads: int
    ) -> None:
        # An unknown word, -1, has an empty row.
        starts = table.offsets[np.maximum(source_ids, 0)]
        ends = table.offsets[source_ids + 1]  # of -1: the first row's start, as starts has it
        self.rows = RowSpans(starts, ends, table.columns, table.values)
        self.width = table.width
        self.bitext, self.threads = bitext, threads
        self._null_ids = np.arange(table.width, dtype=np.int32)  # the table's id of each column
        self.is_reduced = _SEARCH * len(source_ids) * len(target_ids) <= self.width + int((ends - starts).sum())
        if self.is_reduced:
            self._reduce(target_ids)
            target_ids = np.arange(self.width, dtype=np.int32)
        self._same_ids = len(target_ids) == self.width and np.array_equal(target_ids, np.arange(self.width))
        # An unknown target word gets a column of zeros after the last.
        self._target_ids = np.where(target_ids < 0, np.int32(self.width), target_ids)

    def _reduce(self, target_ids: np.ndarray) -> None:
        """Makes the table one of the bitext's words only, with every pair of them, 0 where the table has none."""
        count, width = len(self.rows.starts), len(target_ids)
        values = np.zeros((count, width), np.float32)
        kernels.search_rows(self.rows, target_ids, values)
        starts = np.arange(count + 1) * width
        columns = np.tile(np.arange(width, dtype=np.int32), count)
        self.rows = RowSpans(starts[:-1], starts[1:], columns, values.ravel())
        self.width, self._null_ids = width, target_ids

    def columns_of(self, words: np.ndarray) -> np.ndarray:
        """Target words of the bitext as columns of the table; ``width`` for unknown ones."""
        return words if self._same_ids else self._target_ids[words]

    @property
    def target_tokens(self) -> Tokens:
        """The target tokens as columns of the table."""
        return Tokens(self.columns_of(self.bitext.target.tokens), self.bitext.target.offsets)

    def scores(self) -> Scores:
        """beta: the table's value of every (y_t, x_l)."""
        shapes, lengths = self.bitext.shapes, self.bitext.source.lengths
        offsets = flat_offsets(shapes)
        matrices = Matrices(np.zeros(offsets[-1], np.float32), offsets)
        index, target = token_index(self.bitext.source, self.threads), self.target_tokens

        def fill(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            kernels.fill_scores(low, high, index, self.rows, target, lengths, matrices, dense)

        run_blocks(fill, blocks(np.diff(offsets), self.threads), self.threads)
        return Scores(matrices.values, offsets, shapes)

    def posteriors(self, null: np.ndarray | None, null_weights: np.ndarray) -> Scores:
        """alpha: each row of :meth:`scores` divided by its sum, NULL's part included.

        Args:
            null: float32 (V_tgt,), NULL's row of the table, or None.
            null_weights: float32 (M,), NULL's weight in each pair relative to that of one source position.
        """
        scores, target = self.scores(), self.target_tokens
        matrices, lengths = Matrices(scores.values, scores.offsets), self.bitext.source.lengths
        null_values = self.null_values(null)

        def divide(low: int, high: int) -> None:
            kernels.normalise_scores(low, high, target, lengths, null_values, null_weights, matrices)

        run_blocks(divide, blocks(np.diff(scores.offsets), self.threads), self.threads)
        return scores

    def null_values(self, null: np.ndarray | None) -> np.ndarray:
        """float32 (width + 1,): NULL's row by column, 0 for unknown words; zeros without NULL."""
        values = np.zeros(self.width + 1, np.float32)
        if null is not None:
            known = np.flatnonzero(self._null_ids >= 0)
            values[known] = null[self._null_ids[known]]
        return values

    def best_positions(self, null: np.ndarray | None, null_weights: np.ndarray) -> np.ndarray:
        """int32 (N_tgt,): the position of each target token's best source word, the leftmost of equals; -1 where
        NULL is better or the table has no value. Arguments of :meth:`posteriors`.
        """
        source, target = bags_of(self.bitext, self.threads)
        first, types = source.first_positions(self.threads), len(self.bitext.source.vocabulary)
        index = invert(source.words, first, source.offsets, types, self.threads)
        bags = Bags(self.columns_of(target.words), target.counts, target.offsets)
        rows = self.rows._replace(values=self.rows.values.view(np.uint32))
        null_values, keys = self.null_values(null), np.empty(len(target.words), np.uint64)

        def search(low: int, high: int) -> None:
            kernels.start_keys(low, high, bags, null_values, null_weights, keys)
            dense = np.zeros(self.width + 1, np.uint32)
            kernels.best_sources(low, high, index, rows, bags, keys, dense)

        run_blocks(search, blocks(source.sizes * target.sizes, self.threads), self.threads)
        positions = np.empty(len(self.bitext.target.tokens), np.int32)

        def spread(low: int, high: int) -> None:
            kernels.token_positions(low, high, target.token_entries, keys, positions)

        run_blocks(spread, blocks(self.bitext.target.lengths, self.threads), self.threads)
        return positions
