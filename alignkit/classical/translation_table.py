"""Sparse tables of word pairs: a number for every source and target word that occur together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.kernels import translation_table as kernels
from alignkit.parallel import blocks, run_blocks
from alignkit.representation import brief_repr


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

    __repr__ = brief_repr

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
        """The number of the pair (i, o), 0 if the table does not have it."""
        columns, values = self.row(i)
        k = int(np.searchsorted(columns, o))
        return float(values[k]) if k < len(columns) and columns[k] == o else 0.0

    def pruned(self, threshold: float) -> PairTable:
        """The table without the pairs whose number is below ``threshold``; the others keep theirs."""
        if threshold <= 0:
            return self
        kept = self.values >= threshold
        counts = np.concatenate([[0], np.cumsum(kept)])
        return PairTable(counts[self.offsets], self.columns[kept], self.values[kept], self.width)

    def to_dense(self) -> np.ndarray:
        """float32 (V_src, V_tgt); for small tables."""
        dense = np.zeros(self.shape, np.float32)
        dense[np.repeat(np.arange(self.shape[0]), np.diff(self.offsets)), self.columns] = self.values
        return dense


def multiply_in_slices(values: np.ndarray, factors: np.ndarray, size: int = 1 << 20) -> None:
    """values float32 (K,) *= factors float64 (K,), in place, a slice at a time: no other array is as large."""
    for low in range(0, len(values), size):
        values[low : low + size] = values[low : low + size] * factors[low : low + size]


def normalise_rows(offsets: np.ndarray, values: np.ndarray, alpha: float | None = None, threads: int = 1) -> None:
    """Turn counts into probabilities row by row, in place: the M-step of a lexical model.

    Args:
        offsets: int64 (V_src + 1,), where each row starts.
        values: float32 (K,), counts.
        alpha: of a symmetric Dirichlet prior over the words of a row, by variational Bayes (Johnson 2007); None:
            maximum likelihood.
        threads: how many to use; no result depends on it.
    """

    def normalise(low: int, high: int) -> None:
        if alpha is None:
            kernels.divide_rows(low, high, offsets, values)
        else:
            kernels.variational_bayes_rows(low, high, offsets, values, float(alpha))

    run_blocks(normalise, blocks(np.diff(offsets), 1 if threads == 1 else 8 * threads), threads)
