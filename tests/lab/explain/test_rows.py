import math

import pytest

from alignkit.lab.explain.subject import DIFFERENCES, mean_row


def test_a_row_is_the_mean_of_what_is_defined():
    row = mean_row("x", [0.5, math.nan, 1.0], "y")
    assert (row["test"], row["value"], row["n"], row["meaning"]) == ("x", 0.75, 2, "y")
    empty = mean_row("x", [math.nan], "y")
    assert empty["n"] == 0
    assert all(math.isnan(empty[name]) for name in ("value", "low", "high"))


@pytest.mark.parametrize(
    ("bounds", "expected"), [((), (0, 1)), ((DIFFERENCES,), (-1, 1)), (((-9, 9),), (-5.853, 6.853))]
)
def test_the_interval_ends_where_values_end(bounds, expected):
    """Student's with one degree of freedom: 0.5 -+ 12.706 * 0.5."""
    row = mean_row("x", [0.0, 1.0], "y", *bounds)
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-3)
