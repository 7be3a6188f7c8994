"""Kendall's tau-b (Kendall 1945): do u and v put the source tokens in the same order?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.kernels import kendall as kernels
from alignkit.metrics.bootstrap import RESAMPLES, middle, resampled
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.scores.scores import Scores


@dataclass(frozen=True, eq=False)
class TauSums:
    """What the mean of tau-b is computed from, per sentence pair, so that a bootstrap only sums again.

    Attributes:
        total: float64 (M,), the sum over rows where it is defined.
        rows: float64 (M,), how many those are.
        undefined: float64 (M,), how many others: shorter than two, or all values of u or of v equal.
    """

    total: np.ndarray
    rows: np.ndarray
    undefined: np.ndarray


@dataclass(frozen=True)
class RankCorrelation:
    """The mean of tau-b over the rows where it is defined, NaN if there is none.

    Attributes:
        tau: -1 (opposite order) to 1 (same order); 0 is what unrelated orders give.
        low, high: bootstrap percentile interval over sentence pairs.
        rows: rows where it is defined.
        undefined: rows left out.
    """

    tau: float
    low: float
    high: float
    rows: int
    undefined: int


def sum_tau(u: Scores, v: Scores, threads: int | None = None) -> TauSums:
    """Kendall's tau-b of each row of u with that of v, summed sentence pair by sentence pair.

    tau-b = (concordant - discordant) / sqrt((n - ties in u) (n - ties in v)) over the n = L (L - 1) / 2 pairs of
    places; counted in integers. It is symmetric.

    Args:
        u, v: scores of the same M pairs, with the same shapes.
        threads: all there are by default; no bit depends on it.

    Raises:
        AlignkitError: the shapes differ.
    """
    if not np.array_equal(u.shapes, v.shapes):
        raise AlignkitError("the two scores are not of the same sentence pairs: their shapes differ")
    sums = np.zeros((len(u), 3), np.float64)
    threads = thread_count(threads)

    def work(low: int, high: int) -> None:
        kernels.sum_tau(low, high, u.values, v.values, u.shapes, u.offsets, sums)

    # All pairs of places of a row are compared, up to where sorting is cheaper.
    cost = np.diff(u.offsets) * np.minimum(u.shapes[:, 1], kernels.SHORT) + 1
    run_blocks(work, blocks(cost, threads), threads)
    return TauSums(*(np.ascontiguousarray(column) for column in sums.T))


def rank_correlation(
    u: Scores,
    v: Scores,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> RankCorrelation:
    """Mean of Kendall's tau-b over rows, with its interval and the number of rows left out.

    Args:
        u, v, threads: as in :func:`sum_tau`.
        resamples: bootstrap resamples of the sentence pairs.
        seed: of the bootstrap.

    Raises:
        AlignkitError: as :func:`sum_tau`.
    """
    sums = sum_tau(u, v, threads)
    rows, undefined = int(sums.rows.sum()), int(sums.undefined.sum())
    if rows == 0:
        return RankCorrelation(np.nan, np.nan, np.nan, 0, undefined)
    low, high = middle(resampled(sums.total, sums.rows, seed, resamples))
    return RankCorrelation(float(sums.total.sum() / rows), low, high, rows, undefined)
