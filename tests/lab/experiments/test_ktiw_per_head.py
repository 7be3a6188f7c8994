"""Half-way steps per head by hand, and the experiment on a planted text."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import ktiw as experiment
from alignkit.lab.experiments.ktiw import AgreementCurves
from alignkit.neural.settings import TransformerSettings

from .test_ktiw_drives_attention import texts  # noqa: F401  (a fixture)


def halves_of(alpha, lexicon, pairs=40):
    """Half-way steps of curves (steps, 2 G): the share of ten rows that agree, the same in every pair."""
    curves = AgreementCurves("planted", rows=np.full(pairs, 10))
    for step, both in enumerate(zip(alpha, lexicon, strict=True)):
        curves.steps.append(10 * step)
        curves.hits.append(np.concatenate(both)[:, None] * np.full(pairs, 10.0))
    return curves.half_ways()


def test_half_way_steps_of_heads_by_hand():
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


def test_a_planted_text(texts):  # noqa: F811
    small = experiment.KtiwPerHeadSettings(
        **texts,
        pieces=60,
        epochs=20,
        layers=1,
        heads=2,
        embedding=16,
        hidden=32,
        batch=16,
        scored=20,
        steps=80,
        learning_rate=8e-3,
    )
    result = experiment.run_ktiw_per_head(small)
    assert list(result.table["head"]) == ["1.1", "1.2", "all heads"]
    raw = result.rows["steps"]
    assert raw.groupby("step").size().eq(3).all()
    ends = raw[raw.step == raw.step.max()].set_index("head")
    start = raw[raw.step == 0].set_index("head")
    name = "A(lexicon, ibm1.beta)"
    assert ends.loc["all heads", name] > start.loc["all heads", name] + 0.1
    assert raw[["A(alpha, ibm1.beta)", name]].to_numpy().min() >= 0


def test_an_interval_is_unknown_if_one_resample_in_ten_lacks_a_head():
    for lacking, known in ((10, False), (4, True)):
        ratios = np.full((101, 2), 1.5)
        ratios[1 : 1 + lacking, 1] = np.nan
        value, interval = experiment.head_statistic(ratios, lambda part: part.min(1))
        assert value == 1.5
        assert (interval == (1.5, 1.5)) is known
