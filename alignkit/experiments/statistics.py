"""Statistics that several experiments share."""

from __future__ import annotations

from typing import Any

import numpy as np

from alignkit.metrics.bootstrap import ratio
from alignkit.metrics.intervals import mean_interval
from alignkit.metrics.kendall import sum_tau
from alignkit.scores import Scores


def averaged(values: Any) -> tuple[float, tuple[float, float]]:
    """The mean of independent values (runs, sentences) without NaN, and its 95 % interval."""
    sample = np.asarray(values, np.float64).ravel()
    sample = sample[~np.isnan(sample)]
    return float(sample.mean()) if len(sample) else float("nan"), mean_interval(sample)


def sentence_taus(u: Scores, v: Scores) -> np.ndarray:
    """Kendall's tau-b of u and v within each of M sentences, float64 (M,); NaN where it is undefined.

    Args:
        u, v: scores of the same sentences; of a matrix with several rows, the mean of their tau-b.
    """
    sums = sum_tau(u, v)
    return ratio(sums.total, sums.rows)
