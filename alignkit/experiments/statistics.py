"""Small statistics that several experiments share."""

from __future__ import annotations

from typing import Any

import numpy as np

from alignkit.experiments.protocol import bootstrap_mean


def averaged(values: Any) -> tuple[float, tuple[float, float]]:
    """The mean of independent values (runs, sentences), NaN left out, and its bootstrap interval."""
    sample = np.asarray(values, np.float64).ravel()
    sample = sample[~np.isnan(sample)]
    return float(sample.mean()) if len(sample) else float("nan"), bootstrap_mean(sample)
