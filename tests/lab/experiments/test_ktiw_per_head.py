"""Half-way steps per head by hand, and the experiment on a planted text."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import ktiw as experiment
from alignkit.lab.experiments.ktiw import AgreementCurves
from alignkit.lab.experiments.networks import take_pairs
from alignkit.metrics.agreement import agreement
from alignkit.neural.settings import TransformerSettings

from .test_ktiw_drives_attention import encoded, planted_network, texts  # noqa: F401  (fixtures)


def halves_of(alpha, lexicon, pairs=40):
    """Half-way steps of curves (steps, 2 G): the share of ten rows that agree, the same in every pair."""
    curves = AgreementCurves("planted", rows=np.full(pairs, 10))
    for step, both in enumerate(zip(alpha, lexicon, strict=True)):
        curves.steps.append(10 * step)
        curves.hits.append(np.concatenate(both)[:, None] * np.full(pairs, 10.0))
    return curves.half_ways()


def test_half_way_steps_of_heads_by_hand(bounds):
    """Head 1.1 follows its lexicon, 1.2 learns no attention; the mean is learned last."""
    alpha = [[0.1, 0.2, 0.1], [0.1, 0.2, 0.1], [0.5, 0.21, 0.1], [0.5, 0.2, 0.5]]
    lexicon = [[0.1, 0.1, 0.0], [0.3, 0.1, 0.4], [0.3, 0.5, 0.4], [0.3, 0.5, 0.4]]
    halves = halves_of(alpha, lexicon)
    assert halves[0, :3] == pytest.approx([15, np.inf, 25])
    assert halves[0, 3:] == pytest.approx([5, 15, 5])
    assert experiment.step_ratios(halves[:, :3], halves[:, 3:])[0] == pytest.approx([3, np.nan, 5], nan_ok=True)
    assert experiment.step_ratios(halves[:, :3], halves[:, 5:])[0] == pytest.approx([3, np.nan, 5], nan_ok=True)
    first, every, own = experiment.ktiw_per_head_claims(halves)
    assert (first.value, first.low, first.verdict) == (5, 5, Verdict.HOLDS)
    assert (every.value, every.high, every.verdict) == (3, 3, Verdict.HOLDS)
    assert "least of 1 heads" in every.statistic
    assert bounds == [(1.0, None), (1.0, None), (0.5, None)]
    assert (own.value, own.verdict) == (1, Verdict.HOLDS)
    rows = experiment.head_half_ways(("1.1", "1.2", "all heads"), halves).set_index("head")
    assert rows.loc["1.1", "alpha / lexicon"] == 3
    assert np.isnan(rows.loc["1.2", "alpha / beta low"])


def test_what_was_not_learned_is_undecided():
    flat = [[0.1, 0.2, 0.1]] * 4
    claims = list(experiment.ktiw_per_head_claims(halves_of(flat, flat)))
    assert [one.verdict for one in claims] == [Verdict.UNDECIDED] * 3


def test_the_settings_are_those_of_a_transformer():
    settings = experiment.KtiwPerHeadSettings().settings()
    network = settings.network
    assert isinstance(network, TransformerSettings)
    assert (network.layers, network.heads, network.embedding, network.attention) == (2, 4, 128, "scaled-dot")
    assert (settings.training.warmup, settings.training.rate_warmup, settings.training.steps) == (0, 200, 3000)


def test_heads_are_followed_one_by_one(texts, encoded, monkeypatch):  # noqa: F811
    """Head l.h attends as IBM Model 1 from step 10 (2 l + h) on, and its lexicon is that from 10 h on."""
    lexicon = fit_ibm1(encoded.training, iterations=2, null=False).score(take_pairs(encoded.valid, 20), "beta")

    def train(settings, text, progress, look, device):
        for step in range(0, 90, 10):
            network = planted_network(step, lexicon, {"alpha": 80, "beta": 30})
            network.with_reading = lambda reading, step=step: planted_network(
                step, lexicon, {"alpha": 20 * reading.layer + 10 * reading.head, "ov": 10 * reading.head}
            )
            look(network)

    monkeypatch.setattr(experiment.networks, "train_network", train)
    settings = experiment.KtiwPerHeadSettings(**texts, pieces=60, layers=2, heads=2, scored=20, iterations=2)
    result = experiment.run_ktiw_per_head(settings)
    table = result.table.set_index("head")
    assert list(table.index) == ["1.1", "1.2", "2.1", "2.2", "all heads"]
    assert np.ceil(table.alpha / 10).tolist() == [3, 4, 5, 6, 8]
    assert np.ceil(table.lexicon / 10).tolist() == [1, 2, 1, 2, 3]
    assert table["alpha / beta"].tolist() == pytest.approx(
        (table.alpha / table.lexicon["all heads"]).tolist(), abs=0.01
    )
    raw = result.rows["steps"].set_index(["head", "step"])
    for head, kind, learned in (("2.1", "alpha", 50), ("1.2", "lexicon", 20), ("all heads", "alpha", 80)):
        curve = raw.loc[head][f"A({kind}, ibm1.beta)"]
        assert (curve == 1).tolist() == [step >= learned for step in curve.index]
    result.draw(figure := Figure())
    line = figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == list(range(1, 91, 10))
    assert line.get_ydata().tolist() == raw.loc["1.1"]["A(alpha, ibm1.beta)"].tolist()
    start = planted_network(0, lexicon, {"alpha": 50}).score(take_pairs(encoded.valid, 20), "alpha")
    expected = agreement(start, lexicon, resamples=0).agreement
    assert raw.loc["2.1", 0]["A(alpha, ibm1.beta)"] == pytest.approx(expected, abs=1e-5)


def test_an_interval_is_unknown_if_one_resample_in_twenty_lacks_a_head():
    for lacking, known in ((6, False), (5, True)):
        ratios = np.full((101, 2), 1.5)
        ratios[1 : 1 + lacking, 1] = np.nan
        value, interval = experiment.head_statistic(ratios, lambda part: part.min(1))
        assert value == 1.5
        assert (interval == (1.5, 1.5)) is known
