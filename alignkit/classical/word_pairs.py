"""The word pairs that occur in a bitext, and a bitext indexed for sweeps over them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alignkit.classical.inverted_index import SentenceBags, bags_of, invert
from alignkit.kernels import inverted_index as kernels
from alignkit.kernels import out_of_core
from alignkit.kernels.inverted_index import RowRoom, TableRows
from alignkit.kernels.out_of_core import RowColumns
from alignkit.parallel import blocks, clipped, run_blocks
from alignkit.text.bitext import Bitext

#: Pairs, of 8 bytes each, that a buffer holds while rows are collected, whose sizes are not known before: with
#: buffers of this size they take no more memory than they need.
ROOM = 1 << 18


class SourceRanges:
    """Ranges of source words with even work for threads.

    Args:
        work: int64 (V_src,), of each source word.
        threads: how many to use; no result depends on it.
    """

    def __init__(self, work: np.ndarray, threads: int) -> None:
        self.size, self.threads = len(work), threads
        # More ranges than threads, because one frequent word can be a tenth of all work.
        self.row_ranges = blocks(work, 1 if threads == 1 else 8 * threads)

    def over_rows(self, function: Callable[[int, int], None], first: int = 0, end: int | None = None) -> None:
        """Runs ``function(low, high)`` over ranges of source words, of all or of first <= i < end."""
        end = self.size if end is None else end
        run_blocks(function, clipped(self.row_ranges, first, end), self.threads)


class IndexedBitext(SourceRanges):
    """A bitext indexed by source word, and ranges of even work for threads.

    Args:
        source, target: bags of the two sides, of M sentences.
        types: (V_src, V_tgt).
        threads: how many to use; no result depends on it.

    Attributes:
        index: of the source bags, with counts.
        target: the target bags, as kernels take them.
        entries_met: int64 (V_src,), how many target entries each source word meets.
        row_ranges: ranges of source words.
    """

    def __init__(self, source: SentenceBags, target: SentenceBags, types: tuple[int, int], threads: int) -> None:
        self.types = types
        self.target = target.arrays
        self.index = invert(source.words, source.counts, source.offsets, types[0], threads)
        sizes = target.sizes
        self.entries_met = work = np.empty(types[0], np.int64)

        def count(low: int, high: int) -> None:
            kernels.row_work(low, high, self.index, sizes, work)

        run_blocks(count, blocks(np.diff(self.index.starts), threads), threads)
        super().__init__(work, threads)
        self._sentence_ranges = blocks(source.sizes * sizes, threads)

    @classmethod
    def of(cls, bitext: Bitext, threads: int, keep_bags: bool = True) -> IndexedBitext:
        """A bitext, indexed; ``keep_bags`` is ``keep`` of :func:`alignkit.classical.inverted_index.bags_of`."""
        types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        return cls(*bags_of(bitext, threads, keep_bags), types, threads)

    def over_sentences(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over ranges of sentences."""
        run_blocks(function, self._sentence_ranges, self.threads)

    def weighted_pairs(self, weights: np.ndarray, room: int = ROOM) -> TableRows:
        """Every pair (i, o) that occurs; its value is the sum over the sentences of i of n_i * weights[k], k being
        the entry of o there.

        Args:
            weights: float32 (E_tgt,), positive, one for each entry of the target bags.
            room: how many pairs a buffer holds.
        """
        pairs, values = self._collected(weights, room, keep_values=True)
        return TableRows(*pairs, values)

    def columns(self) -> RowColumns:
        """Every pair that occurs."""
        return self._collected(np.ones(len(self.target.words), np.float32), ROOM, keep_values=False)[0]

    def pairs(self) -> TableRows:
        """Every pair that occurs; the values are ones."""
        offsets, columns = self.columns()
        return TableRows(offsets, columns, np.ones(len(columns), np.float32))

    def _collected(self, weights: np.ndarray, room: int, keep_values: bool) -> tuple[RowColumns, np.ndarray]:
        """Every pair that occurs, and the values of :meth:`weighted_pairs`, or none."""
        sizes = np.empty(self.types[0], np.int64)

        def collect(low: int, high: int) -> list[tuple[np.ndarray, np.ndarray]]:
            bounds = np.minimum(self.entries_met[low:high], self.types[1])
            size = min(int(bounds.sum()), max(room, int(bounds.max(initial=0)))) + 1
            buffer = RowRoom(np.empty(size, np.int32), np.empty(size, np.float32), sizes)
            sums = np.zeros(self.types[1], np.float64)
            found = []
            while low < high:
                end = kernels.collect_rows(low, high, self.index, self.target, weights, sums, buffer)
                filled, low = int(sizes[low:end].sum()), end
                values = buffer.values[: filled if keep_values else 0]
                found.append((buffer.columns[:filled].copy(), values.copy()))
            return found

        found = [pair for part in run_blocks(collect, self.row_ranges, self.threads) for pair in part]
        offsets = np.zeros(self.types[0] + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        columns = [columns for columns, _ in found]
        values = [values for _, values in found]
        del found
        merged = np.concatenate([np.empty(0, np.int32), *columns])
        del columns  # before room is taken for the values
        return RowColumns(offsets, merged), np.concatenate([np.empty(0, np.float32), *values])

    def merged_pairs(self, rows: RowColumns) -> RowColumns:
        """The pairs of ``rows`` and those that occur here."""
        sizes = np.empty(self.types[0], np.int64)

        def count(low: int, high: int) -> None:
            stamp = np.full(self.types[1], -1, np.int32)
            out_of_core.row_sizes(low, high, self.index, self.target, rows, stamp, sizes)

        self.over_rows(count)
        offsets = np.zeros(self.types[0] + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        merged = RowColumns(offsets, np.empty(offsets[-1], np.int32))

        def merge(low: int, high: int) -> None:
            stamp = np.full(self.types[1], -1, np.int32)
            out_of_core.merge_rows(low, high, self.index, self.target, rows, stamp, merged)

        self.over_rows(merge)
        return merged
