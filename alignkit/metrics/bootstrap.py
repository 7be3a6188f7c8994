"""Bootstrap over sentence pairs or other independent units (Efron 1979).

A statistic is computed from sums over the units, so a resample only sums again; the values are never recomputed.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels import bootstrap as kernels

RESAMPLES = 1000
CONFIDENCE = 0.95


def resampled_sums(statistics: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> np.ndarray:
    """float64 (B, K): the columns' sums over M rows drawn with replacement, B times.

    The same seed and number of rows give the same draws.

    Args:
        statistics: (M, K), a row per sentence pair.
        seed: of the draws.
        resamples: B.
    """
    sums = np.empty((resamples, statistics.shape[1]), np.float64)
    kernels.resample_sums(np.ascontiguousarray(statistics, np.float64), seed, sums)
    return sums


def ratio(tops: np.ndarray, bottoms: np.ndarray) -> np.ndarray:
    """float64: tops / bottoms, NaN where the bottom is 0."""
    tops, bottoms = np.asarray(tops, np.float64), np.asarray(bottoms, np.float64)
    return np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms != 0)


def percentile_interval(draws: np.ndarray) -> tuple[float, float]:
    """The central 95 % of the draws (B,) that are defined; (NaN, NaN) if none is."""
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0:
        return float("nan"), float("nan")
    low, high = np.percentile(defined, (50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)))
    return float(low), float(high)


def bootstrap_ratio(
    tops: np.ndarray, bottoms: np.ndarray, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """95 % percentile interval of sum of tops / sum of bottoms over units (M,).

    Args:
        tops, bottoms: (M,), one of each per unit.
        seed, resamples: as in :func:`resampled_sums`.
    """
    sums = resampled_sums(np.stack([tops, bottoms], axis=1), seed, resamples)
    return percentile_interval(ratio(sums[:, 0], sums[:, 1]))
