"""Confidence intervals of shares and means: Wilson, Student, Newcombe, bootstrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def wilson(hits: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: of ``trials`` runs ``hits`` did it. (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    share, square = hits / trials, z * z / trials
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    # Exact where rounding would leave 1e-17 of it: "some do" is not shown by none of them.
    return (middle - half if hits else 0.0), (middle + half if hits < trials else 1.0)


# Student's t that 97.5 % stay below, for 1, 2, ... degrees of freedom.
_STUDENT = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452),
)


def mean_interval(values: Any) -> tuple[float, float]:
    """95 % interval of the mean of independent values (runs, sentences): Student's up to 30 of them, where a
    bootstrap would be too narrow, and the bootstrap's percentiles from there on.

    NaN with fewer than two, for one says nothing of how far another would be.
    """
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2:
        return math.nan, math.nan
    if len(sample) > len(_STUDENT) + 1:
        return bootstrap_mean(sample)
    half = _STUDENT[len(sample) - 2] * sample.std(ddof=1) / math.sqrt(len(sample))
    return float(sample.mean() - half), float(sample.mean() + half)


def bootstrap_mean(values: Any, seed: int = 0, resamples: int = 2000) -> tuple[float, float]:
    """95 % percentile interval of the mean of independent values; too narrow for a few, NaN for fewer than two."""
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2:
        return math.nan, math.nan
    draws = np.random.default_rng(seed).integers(0, len(sample), (resamples, len(sample)))
    low, high = np.quantile(sample[draws].mean(1), [0.025, 0.975])
    return float(low), float(high)


def share_difference(hits: int, trials: int, other_hits: int, other_trials: int) -> tuple[float, float, float]:
    """A share minus another one of independent runs, and its 95 % interval (Newcombe 1998, method 10)."""
    one, other = hits / trials, other_hits / other_trials
    low, high = wilson(hits, trials)
    other_low, other_high = wilson(other_hits, other_trials)
    gap = one - other
    return gap, gap - math.hypot(one - low, other_high - other), gap + math.hypot(high - one, other - other_low)
