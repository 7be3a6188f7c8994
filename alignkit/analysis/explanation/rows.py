"""Rows of the table of explanation tests: a mean, its interval, and what it says.

The mean is over texts; of a translation network over sentence pairs, or over target words where words are ordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alignkit.metrics.intervals import mean_interval

Row = dict[str, Any]  #: test, value, low, high, n (how many the mean is over), meaning
COLUMNS = ("group", "test", "value", "low", "high", "n", "meaning")  #: of the table; group is the test's name


def mean_row(test: str, values: Any, meaning: str) -> Row:
    """A row with the mean of the values that are defined, and its 95 % interval.

    Args:
        test: what is measured, in a few words.
        values: one for each text or sentence pair; NaN where there is none.
        meaning: what it says.
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    low, high = mean_interval(known)
    value = float(known.mean()) if len(known) else float("nan")
    return {"test": test, "value": value, "low": low, "high": high, "n": len(known), "meaning": meaning}
