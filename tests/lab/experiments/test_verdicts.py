"""Verdicts on claims, and progress."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from alignkit.lab.experiments import (
    Experiment,
    Result,
    Verdict,
    averaged,
    cells,
    claim,
    judge,
    result_json,
    result_text,
    share_claim,
)
from alignkit.lab.experiments.copying import SequencePlan
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
        (0.6, 0.7, {"above": 0.6}, Verdict.UNDECIDED),
        (0.6, 0.7, {"below": 0.7}, Verdict.UNDECIDED),
        (0.6, 0.7, {"above": 0.8, "below": 0.9}, Verdict.FAILS),
        (math.nan, 0.7, {"above": 0.0}, Verdict.UNDECIDED),
        (0.7, math.nan, {"below": 0.0}, Verdict.UNDECIDED),
    ],
)
def test_judge(low, high, bounds, verdict):
    assert judge(low, high, **bounds) is verdict


def test_none_and_all_are_exact_ends():
    """With 5, 14, 28 ... trials rounding once left 1e-17, and "some fail" held where none did."""
    for trials in (*range(1, 40), 99, 299):
        assert wilson(0, trials)[0] == 0
        assert wilson(trials, trials)[1] == 1
        assert claim("some fail", "share", 0.0, wilson(0, trials), above=0.0).verdict is Verdict.UNDECIDED


def test_nan_is_left_out_of_a_mean():
    value, interval = averaged([1.0, math.nan, 3.0, 8.0])
    assert value == 4
    assert interval == mean_interval([1.0, 3.0, 8.0])
    assert math.isnan(averaged([math.nan])[0])
    assert averaged([0.0, 1.0, 1.0], 0, 1)[1] == (0, 1)


def test_a_share_is_judged_by_wilsons_interval():
    found = share_claim("x", "y", 9, 12, above=0.4)
    assert (found.value, found.low, found.high) == (0.75, *wilson(9, 12))
    assert found.verdict is Verdict.HOLDS
    assert share_claim("x", "y", 9, 12, below=0.4).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1000.5, 0.001234], ["1,000.50", "0.0012"]),
        ([12.5, 0.0, math.nan], ["12.50", "0.00", "-"]),
        ([0.25, 1.0, "all", True], ["0.250", "1.000", "all", "True"]),
        ([0.01234567], ["0.01235"]),
        ([0.00123456], ["0.001235"]),
        ([0.000012345, 1e-7], ["0.000012", "1e-07"]),
        ([3, 1200.0], ["3", "1,200"]),
        ([math.inf, 0.5], ["inf", "0.5000"]),
    ],
)
def test_numbers_of_a_column_have_four_digits_of_the_largest(values, expected):
    assert cells(values) == expected


def test_a_result_is_a_title_a_table_the_claims_and_the_remarks():
    table = pd.DataFrame({"name": ["a", "b"], "n": [1, 20]})
    claims = (claim("First", "one", 0.5, (0.4, 0.6), above=0), claim("Second", "two", 2.0, below=1))
    result = Result(table, claims, {}, lambda figure: None, ("A remark.",))
    experiment = Experiment("x", "what it is", "a paper")
    lines = result_text(experiment, result, "small").split("\n")
    assert lines[:3] == ["x: what it is (a paper; small)", "", "name   n"]
    assert lines[3:] == [
        *("a      1", "b     20", "", "HOLDS: First", "    one: 0.5000 [0.4000, 0.6000]"),
        *("DOES NOT HOLD: Second", "    two: 2", "", "A remark."),
    ]
    quick = replace(result, claims=tuple(replace(c, verdict=Verdict.NOT_COMPARABLE) for c in claims), remarks=())
    assert result_text(experiment, quick, "small").split("\n")[6:] == [
        *("NOT COMPARABLE AT THIS SIZE:", "First", "    one: 0.5000 [0.4000, 0.6000]", "Second", "    two: 2")
    ]
    assert result_text(experiment, replace(quick, claims=()), "small").endswith("b     20")
    facts = json.loads(result_json(experiment, SequencePlan(), result, "small"))
    assert (facts["size"], facts["remarks"], facts["source"]) == ("small", ["A remark."], "a paper")
    assert facts["table"] == [{"name": "a", "n": 1}, {"name": "b", "n": 20}]
    assert [each["verdict"] for each in facts["claims"]] == ["holds", "does not hold"]


def test_the_progress_of_a_part():
    told = []
    named_progress(lambda *what: told.append(what), "copy", 1, 4)(3, 10, "")
    named_progress(lambda *what: told.append(what), "", 1, 4)(3, 10, "epoch 1")
    named_progress(lambda *what: told.append(what), "copy")(3, 10, "epoch 1")
    assert told == [(13, 40, "copy"), (13, 40, "epoch 1"), (3, 10, "copy: epoch 1")]


def test_json_knows_neither_nan_nor_infinity():
    rows = [{"head": "1.1", "alpha": math.inf, "low": math.nan, "n": 3, "step": 1.5}]
    assert [finite(row) for row in rows] == [{"head": "1.1", "alpha": None, "low": None, "n": 3, "step": 1.5}]
