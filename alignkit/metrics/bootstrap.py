"""Bootstrap intervals of ratios of sums over sentence pairs (Efron 1979)."""

from __future__ import annotations

import numpy as np

RESAMPLES = 1000
CONFIDENCE = 0.95


def resampled(tops: np.ndarray, bottoms: np.ndarray, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """float64 (resamples,): sum of tops / sum of bottoms over as many sentences drawn with replacement.

    NaN where the bottoms of a draw sum to 0. The same seed and number of sentences give the same draws.

    Args:
        tops, bottoms: (M,), one of each per sentence pair.
        seed: of the draws.
        resamples: how many.
    """
    from alignkit.kernels import agreement as kernels

    ratios = np.empty(resamples, np.float64)
    kernels.resample_ratios(tops.astype(np.float64), bottoms.astype(np.float64), seed, ratios)
    return ratios


def middle(draws: np.ndarray) -> tuple[float, float]:
    """The central 95 % of the draws that are defined; (NaN, NaN) if none is."""
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0:
        return float("nan"), float("nan")
    low, high = np.percentile(defined, (50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)))
    return float(low), float(high)
