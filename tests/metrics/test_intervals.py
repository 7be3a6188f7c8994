"""Intervals of shares and means, against published values and closed forms."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest

from alignkit.metrics.intervals import (
    SMALL,
    adjusted_p,
    against_chance,
    bootstrap_mean,
    bootstrap_ratio,
    mean_interval,
    percentile_interval,
    ratio,
    resampled_sums,
    share_difference,
    wilson,
)


def test_wilson_is_the_published_example():
    """Newcombe 1998 (two-sided intervals for the single proportion), table I: 15 of 148 and 0 of 20, method 3."""
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0, 1)


def test_against_chance():
    cases = [
        (0.2, 0.3, 0.1),
        (0.1, 0.3, 0.1),
        (0.1, 0.3, 0.3),
        (0.1, 0.3, 0.31),
        (math.nan, 0.3, 0.1),
        (0.1, 0.3, math.nan),
    ]
    assert [against_chance(*case) for case in cases] == ["above", "at", "at", "below", "", ""]


def test_p_values_are_shares_of_resamples_with_as_large_a_gain_anywhere():
    draws = np.array([[2.0, 2.0], [1.0, 2.0], [3.0, 2.0]])  # 1, 0 and 2 above the observed ones at most
    assert adjusted_p(np.array([1.0, 2.0]), draws).tolist() == [3 / 4, 2 / 4]
    assert adjusted_p(np.array([1.0, 2.0]), draws[:0]).tolist() == [1, 1]


def test_difference_of_shares_is_the_published_example():
    """Newcombe 1998, table II, example (a): 56/70 against 48/80, method 10."""
    assert share_difference(56, 70, 48, 80) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert share_difference(10, 10, 0, 20) == pytest.approx((1.0, 0.6791, 1.0), abs=5e-4)  # example (h)
    gap, low, high = share_difference(3, 9, 3, 9)
    assert (gap, low) == (0, -high)


def test_the_difference_from_a_share_without_trials_is_unknown():
    low, high = wilson(3, 9)
    gap, *interval = share_difference(3, 9, 0, 0)
    assert math.isnan(gap)
    assert interval == [low - 1, high]
    assert share_difference(0, 0, 3, 9)[1:] == (-high, 1 - low)
    assert share_difference(0, 0, 0, 0)[1:] == (-1, 1)


@pytest.mark.parametrize(("number", "quantile"), [(2, 12.7062), (3, 4.3027), (10, 2.2622), (30, 2.0452)])
def test_the_interval_of_few_values_is_students(number, quantile):
    """With the 97.5 % quantiles of printed tables."""
    values = np.random.default_rng(number).normal(size=number)
    half = quantile * values.std(ddof=1) / math.sqrt(number)
    assert mean_interval(values) == pytest.approx((values.mean() - half, values.mean() + half), abs=1e-4 * half)


def test_the_interval_of_many_values_is_the_bootstrap():
    values = np.random.default_rng(0).normal(size=SMALL + 1)
    assert mean_interval(values) == bootstrap_mean(values)
    assert mean_interval(values) != mean_interval(values[:-1])


def test_one_value_has_no_interval():
    assert all(map(math.isnan, (*mean_interval([5.0]), *bootstrap_mean([5.0]), *bootstrap_mean([]))))
    assert all(
        map(math.isnan, (*mean_interval([5.0] * 2), *mean_interval([5.0] * 3)))
    )  # nor have a few equal ones
    assert mean_interval([5.0] * 4) == (5, 5)
    assert bootstrap_mean([1.0, 3.0]) == (1, 3)
    assert all(map(math.isnan, bootstrap_ratio(np.array([1, 0]), np.array([2, 0]))))  # of one pair with a value
    assert adjusted_p(np.array([1.0, 2.0]), resampled_sums(np.array([[1.0, 2.0]]))).tolist() == [1, 1]


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_resampled_sums_equal_the_naive_ones(seed):
    rows = np.random.default_rng(2).integers(0, 100, (13, 3))
    assert resampled_sums(rows, seed, 20).tolist() == naive.resample_sums(rows.tolist(), seed, 20)


def test_the_bootstrap_of_a_mean_is_of_naive_resamples():
    values = np.random.default_rng(3).normal(size=9)
    means = [total / 9 for (total,) in naive.resample_sums(values[:, None].tolist(), 0, 2000)]
    assert bootstrap_mean(values) == pytest.approx(np.percentile(means, [2.5, 97.5]))


def test_ratios_without_a_bottom_are_left_out():
    assert np.array_equal(ratio([1, 2, 0], [2, 0, 0]), [0.5, math.nan, math.nan], equal_nan=True)
    assert percentile_interval(np.array([math.nan, 0.5, 0.5])) == (0.5, 0.5)
    assert all(map(math.isnan, percentile_interval(np.full(3, math.nan))))
    assert bootstrap_ratio(np.array([1, 1, 0]), np.array([2, 2, 0])) == (0.5, 0.5)


def test_the_interval_of_a_few_shares_does_not_leave_their_range():
    shares = [0.0, 0.1, 1.0]
    low, high = mean_interval(shares)
    assert low < 0
    assert high > 1
    assert mean_interval(shares, 0, 1) == (0, 1)
    assert mean_interval([0.4, 0.5, 0.6], 0, 1) == mean_interval([0.4, 0.5, 0.6])
