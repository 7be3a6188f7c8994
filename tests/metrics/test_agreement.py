import math
import warnings
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import random_scores

from alignkit.errors import AlignkitError
from alignkit.metrics.agreement import agreement, contextualised, count_agreement
from alignkit.metrics.protocol import top_share
from alignkit.scores import Scores


def one_row(*values):
    return Scores.from_matrices([np.array([values], np.float32)])


@pytest.mark.parametrize("percent", [5, 2.5, 10, "33.3", 50, 100, Fraction(1, 100)])
@pytest.mark.parametrize("levels", [0, 2, 5], ids=["distinct", "two levels", "five levels"])
def test_equals_the_naive_count(percent, levels):
    u, v = random_scores(1, levels=levels)
    found = agreement(u, v, percent, resamples=10)
    expected = naive.agreement([m.tolist() for m in u], [m.tolist() for m in v], percent)
    assert (found.agreement, found.chance, found.ties, found.rows) == pytest.approx(expected, abs=1e-12)


VALUES = st.sampled_from([-math.inf, -1.0, 0.0, 1e-30, 0.5, math.inf])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=60), st.sampled_from([5, 2.5, 20, 100]))
@settings(max_examples=100, deadline=None)
def test_any_row_of_ties_and_infinities(pairs, percent):
    u, v = (one_row(*side) for side in zip(*pairs, strict=True))
    found = agreement(u, v, percent, resamples=0)
    expected = naive.agreement([u[0].tolist()], [v[0].tolist()], percent)
    assert (found.agreement, found.chance, found.ties, found.rows) == pytest.approx(expected, abs=1e-12)
    assert math.isnan(found.low)


def test_the_top_is_counted_in_integers():
    """In floating point 7 % of 100 is 7.000000000000001, which would let an eighth place in."""
    assert 0.07 * 100 > 7
    row = one_row(*np.random.default_rng(1).permutation(100))
    assert agreement(row, row, 7, resamples=0).chance == pytest.approx(0.07, abs=1e-12)


def test_a_percentage_however_small_lets_the_first_place_in():
    row = one_row(1, 2, 3)
    for percent in (Fraction(1, 10**9), "1/1000000", Fraction(1, 10**5)):
        found = agreement(row, row, percent, resamples=0)
        assert (found.agreement, found.chance) == (1, pytest.approx(1 / 3))


def test_percentages_are_exact():
    assert top_share(5) == Fraction(1, 20)
    assert top_share(1.1) == top_share("1.1") == Fraction(11, 1000)
    assert top_share("1/10") == top_share(Fraction(1, 10)) == Fraction(1, 1000)
    assert top_share(100 / 3) == Fraction(1, 3)
    assert top_share("66.66667") == Fraction(6666667, 10**7)


@pytest.mark.parametrize(
    "percent", [0, -1, 100.1, "x", float("nan"), float("inf"), "1/0", "", "1e999999999", "1e-999999999"]
)
def test_wrong_percentages(percent):
    with pytest.raises(AlignkitError, match="percentage"):
        agreement(one_row(1), one_row(1), percent)


@pytest.mark.parametrize("percent", [0.05, ".05", 0.999, "1e-5"])
def test_a_share_is_no_percentage(percent):
    with pytest.raises(AlignkitError, match=r"less than one per cent; for 5 per cent give 5, .* '1/20'"):
        agreement(one_row(1), one_row(1), percent)


def test_rows_without_columns_are_not_compared():
    u = Scores.from_matrices([np.ones((2, 0)), np.ones((0, 3)), np.ones((1, 2))])
    assert agreement(u, u).rows == 1
    nothing = Scores.from_matrices([np.ones((2, 0))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = agreement(nothing, nothing)
    assert found.rows == 0
    assert all(math.isnan(x) for x in (found.agreement, found.chance, found.low, found.high, found.ties))


def test_different_shapes_are_refused():
    with pytest.raises(AlignkitError, match="shapes differ"):
        agreement(one_row(1, 2), one_row(1))


def test_threads_do_not_change_a_bit():
    u, v = random_scores(5, pairs=80, levels=4)
    counts = [count_agreement(u, v, threads=threads) for threads in (1, 2, 3, 8)]
    for name in ("rows", "hits", "ties", "expected"):
        assert len({getattr(count, name).tobytes() for count in counts}) == 1
    assert counts[0].rows.tolist() == [rows * (columns > 0) for rows, columns in u.shapes]


ACCURACY = [0.1, 0.3, 0.5, 0.6]
AGREEMENTS = [0.05, 0.2, 0.2, 0.7]


@pytest.mark.parametrize(
    ("performance", "agreements", "levels"),
    [
        (ACCURACY, AGREEMENTS, {0.0: 0.1, 0.05: 0.3, 0.1: 0.3, 0.2: 0.6, 0.69: 0.6, 0.7: None, math.nan: None}),
        ([1, 2, 3], [0.5, 0.1, 0.5], {0.3: 1}),  # though a later step falls below
        ([math.nan, 0.5], [0.5, 0.6], {0.3: None, 0.55: 0.5}),  # not measured at the first step
        ([], [], {0.1: None}),
    ],
)
def test_xi_is_the_performance_at_the_first_step_above_the_level(performance, agreements, levels):
    for level, xi in levels.items():
        assert contextualised(performance, agreements, level) == xi


def test_unlike_numbers_of_steps_are_refused():
    with pytest.raises(AlignkitError, match="4 and 3"):
        contextualised(ACCURACY, AGREEMENTS[:3], 0.1)
