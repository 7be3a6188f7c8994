"""The interventions on the lexicon: what is written, erased and frozen, and how the claims are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import interventions as experiment
from alignkit.lab.experiments.copying import SequenceRun

SMALL = experiment.WrittenLexiconSettings(
    seeds=2,
    length=6,
    types=12,
    hidden=16,
    batch=32,
    steps=30,
    learning_rate=2e-2,
    doses=(0, 80),
    contrasts=(6, 12),
)


def test_what_is_written_erased_frozen_and_graded(monkeypatch):
    trainings, kept, told = [], experiment.copying.train_on_sequences, []

    def spy(given, seeds, draw, plan, progress, frozen=(), uniform=False):
        runs = kept(given, seeds, draw, plan, progress, frozen=frozen, uniform=uniform)
        trainings.append((given, frozen, uniform, runs, draw.__self__.types, list(seeds), plan))
        return runs

    def changed(start, run):
        after = run.network.state_dict()
        return {name.split(".")[0] for name, x in start.state_dict().items() if not torch.equal(x, after[name])}

    monkeypatch.setattr(experiment.copying, "train_on_sequences", spy)
    settings = replace(SMALL, steps=3, doses=(0, 2), contrasts=(6, 9))
    result = experiment.run_written_lexicon(settings, lambda *what: told.append(what[:2]))
    assert [uniform for _, _, uniform, *_ in trainings] == [False, True, False, True, *[False] * 6]
    assert [types for *_, types, _, _ in trainings] == [6, 12, 6, 6, 6, 6, 6, 6, 6, 9]
    everything = {"embedding", "encoder", "decoder", "attention", "context", "combine", "output"}
    assert [number for number, (_, frozen, *_) in enumerate(trainings) if frozen] == [6, 7]
    for given, frozen, uniform, runs, _, seeds, plan in trainings:
        assert seeds == ([2000, 2001] if uniform else [1000, 1001])
        assert (plan.steps, plan.solved) == ((2, 2.0) if uniform else (3, settings.solved))
        for start, run in zip(given, runs, strict=True):
            left = {"attention"} if uniform else set(frozen)
            assert changed(start, run) == everything - left
    assert everything - set(experiment.LEXICAL) == {"decoder", "attention"}
    fresh, written = trainings[0][0], [run.network for run in trainings[1][3]]
    assert trainings[2][0] == trainings[6][0] == written
    assert trainings[4][0] == [run.network for run in trainings[3][3]]
    assert trainings[7][0] == fresh
    for seed, (one, other) in enumerate(zip(trainings[5][0], written, strict=True)):
        assert torch.equal(one.output.bias, experiment.with_words_erased(other, seed).output.bias)
    assert not torch.equal(trainings[8][0][0].output.bias, trainings[8][0][1].output.bias)  # a seed each
    assert told[-1][0] == told[-1][1]
    names = [
        "written, 0 steps",
        "written, 2 steps",
        "flat, 2 steps",
        "erased",
        "frozen, written",
        "frozen, random",
    ]
    assert list(result.table.condition) == [*names, "6 of 6", "6 of 9"]
    known = result.table.known.tolist()
    assert known[0] == known[5]  # before the main training, frozen or not
    assert known[1] == known[4]
    assert len(result.rows["seeds"]) == 8 * 2
    assert len(result.claims) == 8


def condition(name, dose, steps):
    """Runs whose attention is on the own word from these steps on; never above the last, 30."""
    runs = []
    for step in steps:
        at = np.arange(0, 40, 10)
        runs.append(SequenceRun(at, np.array([0, 1, 0, 0.5]), np.zeros(4), (at >= step).astype(float)))
    return experiment.Condition(name, dose, np.linspace(0.1, 0.3, len(steps)), runs)


def test_never_counts_as_after_the_last():
    found = condition("x", 0, [10, 99, 30])
    assert found.emergence(SMALL).tolist() == [10, 40, 30]
    row = found.row(SMALL)
    assert (row["runs"], row["learned"], row["emerged"]) == (3, 2, pytest.approx(80 / 3))
    assert (row["known"], row["attention"], row["last accuracy"]) == (
        pytest.approx(0.2),
        pytest.approx(2 / 3),
        0.5,
    )


def test_attention_has_emerged_where_it_is_twice_uniform_for_good():
    """Of six words and the end: at least 2/7; at step 10 it is there by chance."""
    shares = np.array([0.1, 0.4, 2 / 7 - 1e-6, 2 / 7, 0.3])
    run = SequenceRun(np.arange(0, 50, 10), shares, shares, shares)
    assert experiment.Condition("x", 0, np.zeros(1), [run]).emergence(SMALL).tolist() == [30]


def test_rank_slopes_are_spearmans():
    rng = np.random.default_rng(0)
    doses, steps = [0, 10, 50, 90], rng.permutation(12).reshape(4, 3).astype(float)
    expected = [spearmanr(doses, column).statistic for column in steps.T]
    assert experiment.rank_slopes(doses, steps) == pytest.approx(expected)
    own = rng.random((4, 3))  # a dose for each seed
    expected = [spearmanr(*pair).statistic for pair in zip(own.T, steps.T, strict=True)]
    assert experiment.rank_slopes(own, steps) == pytest.approx(expected)
    assert np.isnan(experiment.rank_slopes(doses, np.ones((4, 1)))).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doses": (5, 10)}, "doses: 0 and"),
        ({"seeds": 1}, "intervals are over seeds"),
        ({"doses": (0,)}, "doses: 0 and"),
        ({"doses": (0, 10, 0)}, "doses has a value twice: 0 10 0"),
        ({"types": 5}, "must not be below length"),
        ({"contrasts": (5, 12)}, "must not be below length"),
    ],
)
def test_what_it_refuses(changes, message):
    with pytest.raises(AlignkitError, match=message):
        replace(SMALL, **changes)
