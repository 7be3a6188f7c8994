"""Confidence intervals: of sums over sentence pairs by bootstrap, of shares and means; and where they lie.

A statistic of the bootstrap (Efron 1979) is computed from sums over independent units, so that a resample only
sums again; the values are never recomputed. Of a few runs: Wilson's, Student's and Newcombe's intervals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alignkit.kernels import metrics as kernels

RESAMPLES = 1000
CONFIDENCE = 0.95


def resampled_sums(statistics: np.ndarray, seed: int = 0, resamples: int = RESAMPLES) -> np.ndarray:
    """float64 (B, K): the columns' sums over M rows drawn with replacement, B times.

    The same seed and number of rows give the same draws. NaN if fewer than two rows have a value that is not 0,
    since one sentence pair does not show how far another would be.

    Args:
        statistics: (M, K), a row per sentence pair.
        seed: of the draws.
        resamples: B.
    """
    sums = np.full((resamples, statistics.shape[1]), np.nan)
    if np.count_nonzero(statistics.any(axis=1)) < 2:
        return sums
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


def adjusted_p(observed: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """float64 (K,): p values of K differences, of being above 0, adjusted for having looked at all of them.

    Each is the share of resamples in which any difference lies as far above its observed value as this one lies
    above 0 (single-step maximum statistic; Westfall and Young 1993), so that if none of them is above 0, the
    smallest is at most 0.05 in about 5 % of all texts. Without resamples, or if they are NaN, all are 1.

    Args:
        observed: (K,), in one unit.
        draws: (B, K), of resamples of the same sentence pairs.
    """
    largest = (draws - observed).max(axis=1, initial=-np.inf)
    return (1 + (~(largest[:, None] < observed)).sum(axis=0)) / (1 + len(draws))


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


#: Student's interval is used for up to this many values, where a bootstrap would be too narrow
SMALL = 30


def against_chance(low: float, high: float, chance: float) -> str:
    """``above``, ``below`` or ``at`` chance, by where a 95 % interval lies.

    Empty if a number is NaN, or the interval has no width: resamples of a few values that are all alike do not
    show how far others would be.
    """
    if math.isnan(low) or math.isnan(high) or math.isnan(chance) or low == high:
        return ""
    return "above" if low > chance else "below" if high < chance else "at"


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, ``hits`` of ``trials`` independent runs. (0, 1) without trials."""
    from scipy.stats import binomtest

    if trials == 0:
        return 0.0, 1.0
    found = binomtest(int(hits), int(trials)).proportion_ci(CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


def mean_interval(values: Any, least: float = -math.inf, most: float = math.inf) -> tuple[float, float]:
    """95 % interval of the mean of independent values (runs, sentences).

    Student's for up to ``SMALL`` values, above that the bootstrap's percentiles. NaN with fewer than two, and with
    two or three that are equal: they do not show how far another would be.

    Args:
        values: none of them NaN.
        least, most: what values there can be, 0 and 1 of shares: Student's interval of a few of them reaches
            further, and ends there.
    """
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2 or (len(sample) < 4 and np.ptp(sample) == 0):
        return math.nan, math.nan
    if len(sample) > SMALL:
        return bootstrap_mean(sample)
    from scipy.stats import t

    half = t.ppf((1 + CONFIDENCE) / 2, len(sample) - 1) * sample.std(ddof=1) / math.sqrt(len(sample))
    return max(float(sample.mean() - half), least), min(float(sample.mean() + half), most)


def bootstrap_mean(values: Any, seed: int = 0, resamples: int = 2000) -> tuple[float, float]:
    """95 % percentile interval of the mean of independent values; too narrow for a few, NaN for fewer than two."""
    sample = np.asarray(values, np.float64).ravel()
    return bootstrap_ratio(sample, np.ones(len(sample)), seed, resamples)


def share_difference(hits: int, trials: int, other_hits: int, other_trials: int) -> tuple[float, float, float]:
    """A share minus another one of independent runs, and its 95 % interval (Newcombe 1998, method 10).

    Without trials of one of them the difference is NaN, and the interval all that the other's leaves possible.
    """
    low, high = wilson(hits, trials)
    other_low, other_high = wilson(other_hits, other_trials)
    if not (trials and other_trials):
        return math.nan, low - other_high, high - other_low
    one, other = hits / trials, other_hits / other_trials
    gap = one - other
    return gap, gap - math.hypot(one - low, other_high - other), gap + math.hypot(high - one, other - other_low)
