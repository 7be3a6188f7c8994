"""Verdicts on claims, and progress."""

from __future__ import annotations

import math

import pytest

from alignkit.lab.experiments import Verdict, averaged, claim, judge
from alignkit.lab.report.tables import finite
from alignkit.metrics.intervals import mean_interval, wilson
from alignkit.support.stages import named_progress


@pytest.mark.parametrize(
    ("low", "high", "bounds", "verdict"),
    [
        (0.3, 0.4, {"above": 0.2}, Verdict.HOLDS),
        (0.1, 0.4, {"above": 0.2}, Verdict.UNDECIDED),
        (0.1, 0.2, {"above": 0.2}, Verdict.FAILS),
        (0.1, 0.2, {"below": 0.3}, Verdict.HOLDS),
        (0.3, 0.4, {"below": 0.3}, Verdict.FAILS),
        (0.1, 0.4, {"above": 0.0, "below": 0.5}, Verdict.HOLDS),
        (0.6, 0.7, {"above": 0.0, "below": 0.5}, Verdict.FAILS),
        (math.nan, 0.7, {"above": 0.0}, Verdict.UNDECIDED),
    ],
)
def test_judge(low, high, bounds, verdict):
    assert judge(low, high, **bounds) is verdict


def test_an_exact_claim_is_judged_by_its_value():
    assert claim("x", "y", 1.0, above=0.5).verdict is Verdict.HOLDS
    assert claim("x", "y", 0.5, above=0.5).verdict is Verdict.FAILS


def test_none_and_all_are_exact_ends():
    """With 5, 14, 28 ... trials rounding once left 1e-17, and "some fail" held where none did."""
    for trials in range(1, 300):
        assert wilson(0, trials)[0] == 0
        assert wilson(trials, trials)[1] == 1
        assert claim("some fail", "share", 0.0, wilson(0, trials), above=0.0).verdict is Verdict.UNDECIDED


def test_one_run_decides_nothing():
    assert claim("x", "y", 5.0, mean_interval([5.0]), above=1.0).verdict is Verdict.UNDECIDED
    assert claim("x", "y", 5.0, mean_interval([5.0, 5.1]), above=1.0).verdict is Verdict.HOLDS
    assert claim("x", "y", 5.0, mean_interval([5.0, 6.0]), above=1.0).verdict is Verdict.UNDECIDED


def test_nan_is_left_out_of_a_mean():
    value, interval = averaged([1.0, math.nan, 3.0, 5.0])
    assert value == 3
    assert interval == mean_interval([1.0, 3.0, 5.0])
    assert math.isnan(averaged([math.nan])[0])


def test_the_progress_of_a_part():
    told = []
    named_progress(lambda *what: told.append(what), "copy", 1, 4)(3, 10, "")
    named_progress(lambda *what: told.append(what), "", 1, 4)(3, 10, "epoch 1")
    named_progress(lambda *what: told.append(what), "copy")(3, 10, "epoch 1")
    assert told == [(13, 40, "copy"), (13, 40, "epoch 1"), (3, 10, "copy: epoch 1")]


def test_json_knows_neither_nan_nor_infinity():
    rows = [{"head": "1.1", "alpha": math.inf, "low": math.nan, "n": 3, "step": 1.5}]
    assert [finite(row) for row in rows] == [{"head": "1.1", "alpha": None, "low": None, "n": 3, "step": 1.5}]
