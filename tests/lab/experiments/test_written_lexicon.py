"""The interventions on the lexicon: what is written, erased and frozen, and how the claims are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
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


@pytest.fixture(scope="module")
def found():
    torch.set_num_threads(1)
    told = []
    result = experiment.run_written_lexicon(replace(SMALL, steps=10), lambda *what: told.append(what[:2]))
    return result, told


def test_the_lexicon_is_written_and_erased(found):
    result, told = found
    table = result.table.set_index("condition")
    assert list(table.index) == [
        *("written, 0 steps", "written, 80 steps", "flat, 80 steps", "erased"),
        *("frozen, written", "frozen, random", "6 of 6", "6 of 12"),
    ]
    chance = 1 / 7
    assert table.known["written, 80 steps"] > 0.6
    assert table.known["written, 80 steps"] == table.known["frozen, written"]
    for name in ("written, 0 steps", "frozen, random", "erased"):
        assert table.known[name] < 0.5, name
    assert table.known["flat, 80 steps"] < table.known["written, 80 steps"] - chance
    assert told[-1][0] == told[-1][1]
    assert len(result.rows["seeds"]) == 8 * SMALL.seeds
    assert len(result.claims) == 8


def test_what_is_frozen_stays_and_writing_leaves_the_attention(monkeypatch):
    trainings, kept = [], experiment.copying.train_on_sequences

    def spy(given, seeds, draw, plan, progress, frozen=(), uniform=False):
        runs = kept(given, seeds, draw, plan, progress, frozen=frozen, uniform=uniform)
        trainings.append((given, frozen, uniform, runs))
        return runs

    def changed(start, run):
        after = run.network.state_dict()
        return {name.split(".")[0] for name, x in start.state_dict().items() if not torch.equal(x, after[name])}

    monkeypatch.setattr(experiment.copying, "train_on_sequences", spy)
    experiment.run_written_lexicon(replace(SMALL, steps=3, doses=(0, 2), contrasts=(6,)))
    assert [uniform for *_, uniform, _ in trainings] == [False, True, False, True, *[False] * 5]
    everything = {"embedding", "encoder", "decoder", "attention", "context", "combine", "output"}
    assert sum(bool(frozen) for _, frozen, *_ in trainings) == 2
    for given, frozen, uniform, runs in trainings:
        for start, run in zip(given, runs, strict=True):
            left = {"attention"} if uniform else set(frozen)
            assert changed(start, run) == everything - left
    assert everything - set(experiment.LEXICAL) == {"decoder", "attention"}


def condition(name, dose, steps):
    """Runs whose attention is on the own word from these steps on; never above the last, 30."""
    runs = []
    for step in steps:
        at = np.arange(0, 40, 10)
        runs.append(SequenceRun(at, np.zeros(4), np.zeros(4), (at >= step).astype(float)))
    return experiment.Condition(name, dose, np.zeros(len(steps)), runs)


def judged(written, flat, erased, frozen, random, graded):
    first = [
        condition(f"written, {dose} steps", dose, steps) for dose, steps in zip((0, 80), written, strict=True)
    ]
    rest = [("flat, 80 steps", flat), ("erased", erased), ("frozen, written", frozen), ("frozen, random", random)]
    others = [condition(name, 0, steps) for name, steps in rest]
    kinds = [
        condition(f"6 of {v}", dose, steps) for v, dose, steps in zip((6, 12), (1.0, 2.0), graded, strict=True)
    ]
    found = experiment.written_lexicon_claims([*first, *others], kinds, replace(SMALL, seeds=len(flat)))
    return [each.verdict for each in found]


def test_claims_follow_the_steps_of_emergence():
    late, between, early = [99, 30, 30, 99] * 6, [20, 20, 30, 20] * 6, [10, 10, 20, 10] * 6
    assert judged((late, early), between, late, early, [99] * 24, (late, early)) == [Verdict.HOLDS] * 8
    found = judged((early, late), between, early, late, early, (early, late))
    assert found == [Verdict.FAILS] * 8


def test_where_attention_never_emerges_nothing_is_decided():
    late = [99] * 8
    found = judged((late, late), late, late, late, late, (late, late))
    assert found[:6] == [Verdict.UNDECIDED] * 6


def test_never_counts_as_after_the_last():
    assert condition("x", 0, [10, 99, 30]).emergence(SMALL).tolist() == [10, 40, 30]


def test_rank_slopes_are_spearmans():
    rng = np.random.default_rng(0)
    doses, steps = [0, 10, 50, 90], rng.permutation(12).reshape(4, 3).astype(float)
    expected = [spearmanr(doses, column).statistic for column in steps.T]
    assert experiment.rank_slopes(doses, steps) == pytest.approx(expected)
    assert np.isnan(experiment.rank_slopes(doses, np.ones((4, 1)))).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doses": (5, 10)}, "doses: 0 and"),
        ({"seeds": 1}, "intervals are over seeds"),
        ({"types": 5}, "must not be below length"),
        ({"contrasts": (5, 12)}, "must not be below length"),
    ],
)
def test_what_it_refuses(changes, message):
    with pytest.raises(AlignkitError, match=message):
        replace(SMALL, **changes)
