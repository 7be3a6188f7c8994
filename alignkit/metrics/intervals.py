"""Confidence intervals of shares and means: Wilson, Student, Newcombe, bootstrap; and where they lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alignkit.metrics.bootstrap import CONFIDENCE, bootstrap_ratio

#: Student's interval is used for up to this many values, where a bootstrap would be too narrow
SMALL = 30


def against_chance(low: float, high: float, chance: float) -> str:
    """``above``, ``below`` or ``at`` chance, by where a 95 % interval lies; empty if a number is NaN."""
    if math.isnan(low) or math.isnan(high) or math.isnan(chance):
        return ""
    return "above" if low > chance else "below" if high < chance else "at"


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, ``hits`` of ``trials`` independent runs. (0, 1) without trials."""
    from scipy.stats import binomtest

    if trials == 0:
        return 0.0, 1.0
    found = binomtest(int(hits), int(trials)).proportion_ci(CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


def mean_interval(values: Any) -> tuple[float, float]:
    """95 % interval of the mean of independent values (runs, sentences).

    Student's for up to ``SMALL`` values, above that the bootstrap's percentiles. NaN with fewer than two, since
    one value does not show how far another would be.
    """
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2:
        return math.nan, math.nan
    if len(sample) > SMALL:
        return bootstrap_mean(sample)
    from scipy.stats import t

    half = t.ppf((1 + CONFIDENCE) / 2, len(sample) - 1) * sample.std(ddof=1) / math.sqrt(len(sample))
    return float(sample.mean() - half), float(sample.mean() + half)


def bootstrap_mean(values: Any, seed: int = 0, resamples: int = 2000) -> tuple[float, float]:
    """95 % percentile interval of the mean of independent values; too narrow for a few, NaN for fewer than two."""
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2:
        return math.nan, math.nan
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
