"""Small statistics that several experiments share."""

from __future__ import annotations

from typing import Any

import numpy as np

from alignkit.metrics.intervals import mean_interval


def averaged(values: Any) -> tuple[float, tuple[float, float]]:
    """The mean of independent values (runs, sentences), NaN left out, and its interval."""
    sample = np.asarray(values, np.float64).ravel()
    sample = sample[~np.isnan(sample)]
    return float(sample.mean()) if len(sample) else float("nan"), mean_interval(sample)


def solve_x_plus_exp(goal: np.ndarray) -> np.ndarray:
    """The x with x + e^x = goal, for each, by bisection to the last digits."""
    # x < 0: x > goal - 1; x >= 0: e^x <= goal.
    low, high = np.minimum(goal - 1, 0.0), np.log(np.maximum(goal, 1.0)) + 1
    for _ in range(80):
        middle = (low + high) / 2
        below = middle + np.exp(middle) < goal
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    result: np.ndarray = (low + high) / 2
    return result


def kendall(u: np.ndarray, v: np.ndarray) -> float:
    """Kendall's tau-b of two arrays (L,); NaN if one of them is constant."""
    upper = np.triu_indices(len(u), 1)
    a, b = (np.sign(x[upper[0]] - x[upper[1]]) for x in (np.asarray(u, float), np.asarray(v, float)))
    norm = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / norm) if norm else float("nan")
