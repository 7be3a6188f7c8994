"""Kendall's tau-b against scipy and closed forms."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import random_scores

from alignkit.errors import AlignkitError
from alignkit.metrics.kendall import kendall, sum_tau
from alignkit.scores import Scores


def one_row(*values):
    return Scores.from_matrices([np.array([values], np.float32)])


def tau(u, v):
    return kendall(one_row(*u), one_row(*v), resamples=0).tau


def scipys(u, v):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Ranks first: scipy takes infinite values for missing ones.
        return scipy.stats.kendalltau(*(np.unique(row, return_inverse=True)[1] for row in (u, v))).statistic


@pytest.mark.parametrize("levels", [0, 2, 5], ids=["distinct", "two levels", "five levels"])
def test_equals_scipys_row_by_row(levels):
    u, v = random_scores(3, levels=levels)
    sums = sum_tau(u, v)
    for m in range(len(u)):
        wanted = [scipys(x, y) for x, y in zip(u[m], v[m], strict=True) if len(x) > 1]
        wanted = [value for value in wanted if not math.isnan(value)]
        assert sums.total[m] == pytest.approx(sum(wanted), abs=1e-10)
        assert (sums.rows[m], sums.undefined[m]) == (len(wanted), len(u[m]) - len(wanted))
    found = kendall(u, v)
    assert found.tau == pytest.approx(sums.total.sum() / sums.rows.sum())
    assert found.low < found.tau < found.high


VALUES = st.sampled_from([-math.inf, -1.0, 0.0, 1e-30, 0.5, math.inf])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_row_of_ties_and_infinities(pairs):
    u, v = np.array(pairs, np.float32).T
    assert tau(u, v) == pytest.approx(scipys(u, v), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("size", [128, 129, 3000])
def test_long_rows(size):
    rng = np.random.default_rng(size)
    u, v = rng.integers(0, size // 3, (2, size)).astype(np.float32)
    assert tau(u, v) == pytest.approx(scipys(u, v), abs=1e-12)


def test_rows_without_an_order_are_left_out_and_counted():
    u = Scores.from_matrices([np.ones((2, 3)), [[1, 2, 3], [3, 2, 1]], np.ones((4, 1)), np.ones((1, 0))])
    v = Scores.from_matrices([[[1, 2, 3]] * 2, [[1, 2, 3], [7, 7, 7]], np.ones((4, 1)), np.ones((1, 0))])
    found = kendall(u, v)
    assert (found.tau, found.rows, found.undefined) == (1, 1, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = kendall(u.from_matrices([np.ones((2, 3))]), v.from_matrices([np.ones((2, 3))]))
    assert math.isnan(nothing.tau)
    assert math.isnan(nothing.low)
    assert (nothing.rows, nothing.undefined) == (0, 2)


def test_different_shapes_are_refused():
    with pytest.raises(AlignkitError, match="shapes differ"):
        sum_tau(one_row(1, 2), one_row(1))
