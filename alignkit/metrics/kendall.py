"""Kendall's tau-b (Kendall 1945): the likeness of the orders that u and v give the source tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.kernels import metrics as kernels
from alignkit.metrics.intervals import RESAMPLES, ratio
from alignkit.metrics.protocol import Metric, MetricSettings, score_pair
from alignkit.scores import ScoresLike
from alignkit.support.arrays import brief_repr, offsets_of
from alignkit.support.threads import run_evenly, thread_count


@dataclass(frozen=True, eq=False)
class TauSums:
    """Sufficient statistics of the mean of tau-b, per sentence pair.

    Attributes:
        total: float64 (M,), the sum over rows where it is defined.
        rows: float64 (M,), the number of those rows.
        undefined: float64 (M,), the number of the others: shorter than two, or all values of u or of v equal.
    """

    total: np.ndarray
    rows: np.ndarray
    undefined: np.ndarray

    __repr__ = brief_repr


@dataclass(frozen=True)
class RankCorrelation:
    """The mean of tau-b over the rows where it is defined, NaN if there is none.

    Attributes:
        tau: -1 (opposite order) to 1 (same order).
        chance: 0, the expectation for unrelated orders.
        low, high: bootstrap percentile interval over sentence pairs.
        rows: rows where it is defined.
        undefined: rows left out.
    """

    tau: float
    chance: float
    low: float
    high: float
    rows: int
    undefined: int


def sum_tau(u: ScoresLike, v: ScoresLike, threads: int | None = None) -> TauSums:
    """Kendall's tau-b of each row of u with that of v, summed sentence pair by sentence pair.

    tau-b = (concordant - discordant) / sqrt((n - ties in u) (n - ties in v)) over the n = L (L - 1) / 2 pairs of
    places; counted in integers. It is symmetric.

    Args:
        u, v: scores of the same M pairs, with the same shapes (see :func:`alignkit.scores.as_scores`).
        threads: all there are by default; no bit depends on it.

    Raises:
        AlignkitError: the shapes differ.
    """
    scores = score_pair(u, v)
    sums = np.zeros((len(scores.shapes), 3), np.float64)
    threads = thread_count(threads)
    # All pairs of places of a row are compared, up to where sorting is cheaper.
    cost = offsets_of(np.diff(scores.offsets) * scores.shapes[:, 1] + 1)
    run_evenly(lambda low, high: kernels.fill_tau_sums(low, high, scores, sums), cost, threads)
    return TauSums(*(np.ascontiguousarray(column) for column in sums.T))


def kendall(
    u: ScoresLike, v: ScoresLike, *, resamples: int = RESAMPLES, seed: int = 0, threads: int | None = None
) -> RankCorrelation:
    """Mean of Kendall's tau-b over rows, with its interval and the number of rows left out.

    Args:
        u, v, threads: as in :func:`sum_tau`.
        resamples: bootstrap resamples of the sentence pairs; 0 for no interval.
        seed: of the bootstrap.

    Raises:
        AlignkitError: as :func:`sum_tau`.
    """
    settings = MetricSettings(resamples=resamples, seed=seed, threads=threads)
    return RankCorrelation(**TAU.measure(u, v, settings))


def _values(sums: TauSums) -> dict[str, Any]:
    tau = ratio(sums.total, sums.rows)
    return {"tau": tau, "chance": np.zeros_like(tau), "rows": sums.rows, "undefined": sums.undefined}


TAU = Metric(
    name="tau",
    symbol="tau",
    title="Kendall's tau-b of the orders of the source tokens by u and by v, mean over {rows}",
    chance="what unrelated orders would give",
    reference="scores",
    symmetric=True,
    share=False,
    count=lambda u, v, settings: sum_tau(u, v, settings.threads),
    values=_values,
    whole=("rows", "undefined"),
)
