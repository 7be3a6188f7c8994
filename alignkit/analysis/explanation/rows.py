"""Rows of the table of explanation tests: a mean, its interval, and what it says.

The mean is over texts; of a translation network over sentence pairs, or over target words where words are ordered.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alignkit.metrics.intervals import mean_interval

Row = dict[str, Any]  #: test, value, low, high, n (how many the mean is over), meaning
COLUMNS = ("group", "test", "value", "low", "high", "n", "meaning")  #: of the table; group is the test's name

Bounds = tuple[float, float]  #: of the values that there can be
SHARES: Bounds = (0, 1)
DIFFERENCES: Bounds = (-1, 1)  #: of two shares
SIZES: Bounds = (0, math.inf)
NUMBERS: Bounds = (-math.inf, math.inf)


def mean_row(test: str, values: Any, meaning: str, bounds: Bounds = SHARES) -> Row:
    """A row with the mean of the values that are defined, and its 95 % interval.

    Args:
        test: what is measured, in a few words.
        values: one for each text or sentence pair; NaN where there is none.
        meaning: what it says.
        bounds: where the values lie; so the interval does not reach further.
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    low, high = mean_interval(known, *bounds)
    value = float(known.mean()) if len(known) else float("nan")
    return {"test": test, "value": value, "low": low, "high": high, "n": len(known), "meaning": meaning}
