"""Every metric of the registry keeps what its record promises."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from planted import random_scores

from alignkit.classical.diagonal import fit_diagonal
from alignkit.errors import AlignkitError
from alignkit.lab.report.tables import metric_matrix
from alignkit.links.from_scores import best_links
from alignkit.links.links import GoldLinks
from alignkit.metrics.agreement import agreement
from alignkit.metrics.protocol import MetricSettings
from alignkit.metrics.registry import METRICS, SCORE_METRICS, compare, find_metric

SETTINGS = MetricSettings(resamples=50)


def pair_of(metric, pairs=30, same=False):
    """u and v for a metric: random scores, or gold links and links."""
    u, v = random_scores(7, pairs=pairs, levels=4)
    v = u if same else v
    if metric.reference == "scores":
        return u, v
    links = best_links(u)
    return GoldLinks(links, links), best_links(v)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_summary_has_the_value_its_interval_and_whole_numbers(metric):
    u, v = pair_of(metric)
    found = metric.measure(u, v, SETTINGS)
    assert next(iter(found)) == metric.name
    assert found["low"] <= found[metric.name] <= found["high"]
    whole = {name for name, value in found.items() if type(value) is int}
    assert whole == {*metric.whole} == {*found} & {"rows", "undefined", "links"}
    assert metric.measure(u, v, SETTINGS) == found
    assert metric.text(found[metric.name])
    assert "{" not in metric.describe(SETTINGS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_sums_of_the_counts_are_all_it_takes(metric):
    """The counts of two halves add up: what a bootstrap rests on."""
    u, v = pair_of(metric)
    counts = metric.count(u, v, SETTINGS)
    columns = vars(counts)
    assert {column.shape for column in columns.values()} == {(len(v),)}
    sums = [column[:9].sum() + column[9:].sum() for column in columns.values()]
    joined = metric.values(type(counts)(*sums))
    assert {name: float(value) for name, value in joined.items()} == pytest.approx(metric.total(counts))


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_intervals_are_of_the_counts_of_pairs_that_are_drawn_again(metric):
    u, v = pair_of(metric)
    settings = MetricSettings(percent=20, resamples=200, seed=3)
    columns = vars(counts := metric.count(u, v, settings))
    sums = naive.resample_sums(np.stack(list(columns.values()), axis=1).tolist(), 3, 200)
    drawn = [metric.values(type(counts)(*map(np.array, row)))[metric.name] for row in sums]
    found = metric.measure(u, v, settings)
    assert (found["low"], found["high"]) == pytest.approx(np.percentile(drawn, [2.5, 97.5]))
    assert found["low"] < found[metric.name] < found["high"]


@pytest.mark.parametrize("metric", SCORE_METRICS, ids=lambda metric: metric.name)
def test_symmetric_or_not(metric):
    u, v = pair_of(metric)
    assert (metric.measure(u, v, SETTINGS) == metric.measure(v, u, SETTINGS)) is metric.symmetric


@pytest.mark.parametrize("metric", SCORE_METRICS, ids=lambda metric: metric.name)
def test_chance_is_what_unrelated_scores_give(metric):
    found = metric.measure(*pair_of(metric, pairs=400), SETTINGS)
    assert found["low"] <= found["chance"] <= found["high"]
    same = metric.measure(*pair_of(metric, same=True), SETTINGS)
    assert same[metric.name] == 1


@pytest.mark.parametrize("metric", SCORE_METRICS, ids=lambda metric: metric.name)
def test_a_table_has_every_ordered_pair(metric):
    u, v = pair_of(metric)
    table = compare({"a": u, "b": v, "c": u}, metric, SETTINGS)
    names = [("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")]
    assert list(zip(table.u, table.v, strict=True)) == names
    assert table[metric.name][0] == metric.measure(u, v, SETTINGS)[metric.name]
    alone = compare({"a": u}, metric, SETTINGS)
    assert (len(alone), list(alone.columns)) == (0, list(table.columns))


def test_an_aligner_scores_by_the_kind_in_which_its_name_ends(planted):
    model, text = fit_diagonal(planted[0], iterations=1), planted[0]
    found = compare({"run.1.beta": model, "run.alpha.1": model}, settings=SETTINGS, text=text)
    scores = {kind: model.score(text, kind) for kind in ("beta", "alpha")}
    assert found.agreement.tolist() == compare(scores, settings=SETTINGS).agreement.tolist()
    assert found.agreement[0] < 1
    with pytest.raises(AlignkitError, match="m is an aligner; give the Bitext that it is to score as text="):
        compare({"m": model})


def test_the_main_metric_is_agreement():
    u, v = pair_of(SCORE_METRICS[0])
    table = compare({"a": u, "b": v}, settings=MetricSettings(percent=20, seed=3))
    expected = agreement(u, v, 20, resamples=1000, seed=3)
    assert list(table.columns) == ["u", "v", "agreement", "chance", "low", "high", "rows", "ties"]
    assert dict(table.iloc[0].drop(["u", "v"])) == vars(expected)


def test_names():
    assert find_metric("tau") is METRICS["tau"]
    for name in ("aer", "nonsense"):  # AER needs gold links
        with pytest.raises(AlignkitError, match="choose from agreement, tau"):
            find_metric(name)


@pytest.mark.parametrize("metric", SCORE_METRICS, ids=[metric.name for metric in SCORE_METRICS])
def test_a_table_shows_the_chance_level_of_a_metric_that_has_one(metric):
    u, v = pair_of(metric)
    without = replace(
        metric, chance="", values=lambda sums: {metric.name: metric.values(sums)[metric.name]}, whole=()
    )
    for one in (metric, without):
        row = metric_matrix(compare({"u": u, "v": v}, one, SETTINGS), one).splitlines()[1]
        value = metric.text(metric.measure(u, v, SETTINGS)[metric.name])
        assert row.split()[2] == value
        assert ("(" in row) == bool(one.chance)
