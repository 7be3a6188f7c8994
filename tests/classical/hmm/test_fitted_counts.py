"""Counts that a joint aligner was fitted with."""

import numpy as np
import pytest

from alignkit.classical.hmm.model import FittedCounts

NULL = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ([1, -1], "not negative"),
        ([1, np.nan], "finite"),
        ([1, np.inf], "finite"),
        ([3e38, 3e38], "sum to more"),  # which 32 bits do not hold
        ([1e16, 0], "sum to more"),
    ],
)
def test_counts_that_no_text_gives_are_refused(counts, problem):
    counts = np.array(counts, np.float32)
    with pytest.raises(ValueError, match=problem):
        FittedCounts(counts, NULL)
    with pytest.raises(ValueError, match=problem):
        FittedCounts(NULL, counts)
    FittedCounts(np.array([0, 1e14], np.float32), NULL)
