"""IBM Model 1 of a text that is larger than memory: a block of sentences at a time, the table in memory.

The result has the same bits as that of the whole text at once (see :mod:`alignkit.kernels.out_of_core`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alignkit.classical.inverted_index import Layout, Rows, bags_of, normalise_rows
from alignkit.classical.null import null_shares
from alignkit.kernels import out_of_core as kernels
from alignkit.kernels import translation_table
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import release_bitext

_SLICE = 1 << 20  # values converted at a time


class _Block(Layout):
    """The sentences low <= m < high of a text, laid out."""

    def __init__(self, text: Bitext, low: int, high: int, threads: int) -> None:
        part = text.block(low, high)
        self.low, self.high, self.lengths = low, high, part.source.lengths
        source, self.bags = bags_of(part, threads)
        types = len(part.source.vocabulary), len(part.target.vocabulary)
        super().__init__(source, self.bags, types, threads)


class BlockEstimation:
    """The parameters of IBM Model 1 while EM runs, the text being read block by block.

    Args:
        bitext: M pairs.
        ranges: the blocks [low, high) of sentences, in order.
        null, null_probability, alpha: as of :func:`alignkit.fit_ibm1`.
        threads: how many to use.

    Attributes:
        rows: the table (offsets, columns, values).
        null: float32 (V_tgt,), NULL's row.
    """

    def __init__(
        self,
        bitext: Bitext,
        ranges: list[tuple[int, int]],
        null: bool,
        null_probability: float | None,
        alpha: float | None,
        threads: int,
    ) -> None:
        self.bitext, self.ranges, self.threads, self.alpha = bitext, ranges, threads, alpha
        self.has_null, self.null_probability = null, null_probability
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        seen = np.zeros(self.types[1], np.float32)
        if null:
            for low, high in ranges:
                seen[bitext.block(low, high).target.tokens] = 1
                release_bitext(bitext)
        self.null = seen
        self.likelihood = np.zeros(len(bitext), np.float64)
        offsets, columns = self._meetings()
        self.rows: Rows = (offsets, columns, np.ones(len(columns), np.float32))
        taught = float(bitext.target.lengths[bitext.source.lengths > 0].sum())
        self.uniform_likelihood = -taught * float(np.log(max(self.types[1], 1)))

    def _blocks(self) -> Iterator[_Block]:
        for low, high in self.ranges:
            yield _Block(self.bitext, low, high, self.threads)
            release_bitext(self.bitext)

    def _meetings(self) -> tuple[np.ndarray, np.ndarray]:
        """(offsets, columns): for each source word the target words that it meets, rising."""
        rows = np.zeros(self.types[0] + 1, np.int64), np.empty(0, np.int32)
        for block in self._blocks():
            rows = self._merged(rows, block)
        return rows

    def _merged(self, rows: tuple[np.ndarray, np.ndarray], block: _Block) -> tuple[np.ndarray, np.ndarray]:
        """``rows`` (offsets, columns) and what meets in a block."""
        sizes = np.empty(self.types[0], np.int64)

        def count(low: int, high: int) -> None:
            stamp = np.full(self.types[1], -1, np.int32)
            kernels.row_sizes(low, high, block.index, block.target, rows, stamp, sizes)

        block.over_rows(count)
        offsets = np.zeros(self.types[0] + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        columns = np.empty(offsets[-1], np.int32)

        def merge(low: int, high: int) -> None:
            stamp = np.full(self.types[1], -1, np.int32)
            kernels.merge_rows(low, high, block.index, block.target, rows, stamp, (offsets, columns))

        block.over_rows(merge)
        return offsets, columns

    def step(self, first: bool) -> float:
        """One EM iteration; returns the log-likelihood under the parameters it started from."""
        offsets, columns, values = self.rows
        counts, null_sums = np.zeros(len(columns)), np.zeros(self.types[1])
        for block in self._blocks():
            shares = null_shares(block.lengths, self.has_null, self.null_probability)
            z = self._uniform(block, shares) if first else self._weigh(block, shares)
            self._add_counts(block, z, counts)
            if self.has_null:
                translation_table.null_counts(block.target, shares, z, null_sums)
        for low in range(0, len(values), _SLICE):
            values[low : low + _SLICE] = values[low : low + _SLICE] * counts[low : low + _SLICE]
        del counts
        ranges = blocks(np.diff(offsets), 1 if self.threads == 1 else 8 * self.threads)
        run_blocks(lambda a, b: normalise_rows(a, b, offsets, values, self.alpha), ranges, self.threads)
        if self.has_null:
            self.null = normalised_null(self.null, null_sums, self.alpha)
        return self.uniform_likelihood if first else float(self.likelihood.sum())

    def _add_counts(self, block: _Block, z: np.ndarray, counts: np.ndarray) -> None:
        rows = (*self.rows[:2], counts)

        def add(low: int, high: int) -> None:
            kernels.add_counts(low, high, block.index, rows, block.target, z, np.zeros(self.types[1]))

        block.over_rows(add)

    def _uniform(self, block: _Block, shares: np.ndarray) -> np.ndarray:
        """float32 (E_tgt,): n over the number of source positions, for each target entry."""
        z = np.repeat((1 / np.maximum(block.lengths + shares, 1)).astype(np.float32), block.bags.sizes)
        z *= block.bags.counts
        return z

    def _weigh(self, block: _Block, shares: np.ndarray) -> np.ndarray:
        """float32 (E_tgt,): n over the sum of Trans, for each target entry; notes the log-likelihood."""
        z = np.empty(len(block.bags.words), np.float32)
        places = block.lengths / (1 - (self.null_probability or 0.0))
        if self.null_probability is None:
            places += shares
        likelihood = self.likelihood[block.low : block.high]

        def add(low: int, high: int) -> None:
            dense = np.zeros(self.types[1], np.float32)
            translation_table.start_denominators(low, high, block.target, self.null, shares, z)
            translation_table.add_denominators(low, high, block.index, self.rows, block.target, z, dense)
            translation_table.weigh(low, high, block.target, places, z, likelihood)

        block.over_sentences(add)
        return z


def normalised_null(null: np.ndarray, sums: np.ndarray, alpha: float | None) -> np.ndarray:
    """NULL's row float32 (V_tgt,) after an M-step: its old values times what they are to be multiplied by."""
    counts = (null * sums).astype(np.float32)
    seen = counts > 0  # a word never seen: no evidence for NULL either
    row, offsets = counts[seen], np.array([0, seen.sum()])
    normalise_rows(0, 1, offsets, row, alpha)
    out = np.zeros_like(counts)
    out[seen] = row
    return out
