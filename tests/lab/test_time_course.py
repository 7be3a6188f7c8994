"""The time course of a run, against each checkpoint scored by itself."""

from __future__ import annotations

import pandas as pd
import pytest

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.lab.time_course import TimeCourseSettings, series, time_course
from alignkit.metrics.agreement import AGREEMENT, agreement
from alignkit.metrics.kendall import kendall
from alignkit.neural.aligners import load_checkpoint
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.scores import Scores


@pytest.fixture(scope="module")
def run(folder):
    return TranslationRun(folder / "general-0")


@pytest.fixture(scope="module")
def dictionary(run):
    return fit_ibm1(run.train).score(run.valid, "beta")


def test_every_checkpoint_in_both_orders(run, dictionary):
    table = time_course(run, run.valid, {"ibm1.beta": dictionary}, device="cpu")
    assert set(table.run) == {"general-0"}
    assert not table.name.str.contains("bleu").any()  # it was not asked for
    assert table.step.is_monotonic_increasing
    for step, path in run.checkpoints.items():
        alpha = load_checkpoint(path, "cpu").score(run.valid, "alpha")
        there = table[table.step == step].set_index("name").value
        expected = agreement(alpha, dictionary)
        assert there["A(alpha(step), ibm1.beta)"] == expected.agreement
        assert there["low(alpha(step), ibm1.beta)"] == expected.low
        assert there["A(ibm1.beta, alpha(step))"] == agreement(dictionary, alpha).agreement
        assert there["tau(ibm1.beta, alpha(step))"] == kendall(dictionary, alpha).tau
    assert "tau(alpha(step), ibm1.beta)" not in set(table.name)  # tau is symmetric
    steps, values = series(table, "valid.accuracy")
    assert list(zip(steps.tolist(), values.tolist(), strict=True)) == run.log.series("valid.accuracy")


@pytest.mark.parametrize(("order", "u", "v"), [("fixed", "r", "alpha(step)"), ("step", "alpha(step)", "r")])
def test_one_metric_in_one_order_without_intervals(run, dictionary, order, u, v):
    settings = TimeCourseSettings(metrics=(AGREEMENT,), order=order, resamples=0)
    table = time_course(run, run.valid, {"r": dictionary}, settings, label="x", device="cpu")
    assert set(table.run) == {"x"}
    assert {name for name in table.name if "(" in name} == {f"A({u}, {v})", f"chance({u}, {v})"}


def test_scores_can_be_cropped(run, dictionary):
    """Without the last target token, EOS, in the network's scores and the reference alike."""

    def crop(scores):
        return Scores.from_matrices([matrix[:-1] for matrix in scores])

    def cropped(network, pairs, kind):
        return crop(network.score(pairs, kind))

    table = time_course(run, run.valid, {"r": crop(dictionary)}, device="cpu", score=cropped)
    step, path = list(run.checkpoints.items())[-1]
    alpha = crop(load_checkpoint(path, "cpu").score(run.valid, "alpha"))
    value = table[table.step == step].set_index("name").value["A(alpha(step), r)"]
    assert value == agreement(alpha, crop(dictionary)).agreement
    assert value != agreement(load_checkpoint(path, "cpu").score(run.valid, "alpha"), dictionary).agreement


def test_series_of_one_run(run, dictionary):
    settings = TimeCourseSettings(metrics=(AGREEMENT,), resamples=0)
    table = time_course(run, run.valid, {"r": dictionary}, settings, device="cpu")
    both = pd.concat([table, table.assign(run="other", value=-1.0)])
    steps, values = series(both, "A(alpha(step), r)", "general-0")
    assert (steps.tolist(), (values >= 0).all()) == (list(run.checkpoints), True)
    assert len(series(both, "nothing")[0]) == 0


def test_several_kinds_of_one_network_are_compared_too(run):
    calls = []
    settings = TimeCourseSettings(kinds=("alpha", "beta"))
    table = time_course(run, run.valid, {}, settings, device="cpu", progress=lambda *call: calls.append(call))
    last = table[table.step == max(run.checkpoints)].set_index("name").value
    assert 0 < last["A(alpha(step), beta(step))"] <= 1
    assert "tau(alpha(step), beta(step))" in last.index
    assert [call[:2] for call in calls] == [(i + 1, len(run.checkpoints)) for i in range(len(run.checkpoints))]
    assert "A(beta(step), alpha(step))" in last.index
    settings = TimeCourseSettings(metrics=(AGREEMENT,), kinds=("alpha", "beta"), order="step", resamples=0)
    one = set(time_course(run, run.valid, {}, settings, device="cpu").name)
    assert not any("step" in name for name in one)  # only in both orders
