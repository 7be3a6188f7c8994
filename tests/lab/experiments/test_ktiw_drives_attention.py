"""Half-way steps, their bootstrap, and the experiment on a planted text, trained and from a run directory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import ktiw as experiment
from alignkit.lab.experiments.ktiw import AgreementCurves
from alignkit.lab.experiments.networks import encode_plan, half_way, take_pairs
from alignkit.metrics.agreement import agreement
from alignkit.scores import Scores


def test_half_way_steps_by_hand():
    steps = np.array([0.0, 10, 30, 100])
    curves = np.array([[0.1, 0.0, 0.5], [0.2, 0.4, 0.5], [0.3, 0.8, 0.51], [0.9, 0.6, 0.5]])
    # middles 0.5 and 0.4; the third never rises by enough
    assert half_way(steps, curves) == pytest.approx([30 + 70 / 3, 10, np.inf])


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A permuted copy: which word translates which is known, and attention can be learned."""
    folder = tmp_path_factory.mktemp("texts")
    pairs, _ = permuted_copy(3, pairs=300, types=12, longest=5)
    names = []
    for part, some in (("train", pairs[:250]), ("valid", pairs[250:])):
        for side in (0, 1):
            path = folder / f"{part}.{side}"
            path.write_text("".join(" ".join(pair[side]) + "\n" for pair in some))
            names.append(str(path))
    return dict(zip(("source", "target", "valid_source", "valid_target"), names, strict=True))


@pytest.fixture(scope="module")
def encoded(texts):
    return encode_plan(experiment.KtiwSettings(**texts, pieces=60))


def planted_network(step, lexicon, learned):
    """A network whose scores of each kind are the lexicon's from some step on, and at random before."""

    def score(pairs, kind):
        assert len(pairs) == len(lexicon)
        noise = np.random.default_rng([step, learned[kind]]).random(len(lexicon.values), np.float32)
        return Scores(lexicon.values if step >= learned[kind] else noise, lexicon.offsets, lexicon.shapes)

    return SimpleNamespace(step=step, metrics={"valid.accuracy": step / 100}, score=score)


@pytest.mark.parametrize("kept", [False, True])
def test_curves_are_those_of_agreement(texts, encoded, kept, monkeypatch):
    """The lexical probe knows IBM Model 1's lexicon from step 10 on, attention follows it from step 30 on."""
    lexicon = fit_ibm1(encoded.training, iterations=2, null=False).score(take_pairs(encoded.valid, 40), "beta")
    trained, told = [], []

    def network(step):
        return planted_network(int(step), lexicon, {"alpha": 30, "beta": 10})

    def train(settings, text, progress, look, device):
        trained.append(settings.training.seed)
        for step in (0, 10, 30):
            look(network(step))

    run = SimpleNamespace(train=encoded.training, valid=encoded.valid, checkpoints={0: "0", 10: "10", 30: "30"})
    monkeypatch.setattr(experiment, "open_run", lambda path: run)
    monkeypatch.setattr(experiment, "load_network", network)
    monkeypatch.setattr(experiment.networks, "train_network", train)
    where = {"run": "kept"} if kept else {**texts, "pieces": 60, "runs": 2, "seed": 3}
    settings = experiment.KtiwSettings(**where, scored=40, iterations=2)
    result = experiment.run_ktiw_drives_attention(settings, lambda *what: told.append(what))
    assert trained == ([] if kept else [3, 4])
    assert told == ([(1, 3, "step 0"), (2, 3, "step 10"), (3, 3, "step 30")] if kept else [])
    steps = result.rows["steps"]
    assert steps.run.tolist() == (["run"] * 3 if kept else ["seed 3"] * 3 + ["seed 4"] * 3)
    for row in steps.to_dict("records"):
        scores = {
            kind: network(row["step"]).score(encoded.valid.take(np.arange(40)), kind) for kind in ("alpha", "beta")
        }
        scores["ibm1.beta"] = lexicon
        for u, v in experiment.CURVES:
            expected = agreement(scores[u], scores[v], resamples=0)
            assert row[f"A({u}, {v})"] == pytest.approx(expected.agreement, abs=1e-5)
            assert row[f"chance ({u}, {v})"] == pytest.approx(expected.chance, abs=1e-5)
        assert row["accuracy"] == row["step"] / 100
    halves = result.rows["halves"].iloc[0]
    assert 10 < halves.alpha < 30
    assert 0 < halves.beta < 10
    assert halves.ratio == pytest.approx(halves.alpha / halves.beta)
    assert halves.low < halves.ratio < halves.high
    assert [claim.verdict for claim in result.claims] == [Verdict.HOLDS] * 3
    run.checkpoints.pop(30)
    if kept:
        with pytest.raises(AlignkitError, match="not a run directory with checkpoints"):
            experiment.run_ktiw_drives_attention(settings)


def test_a_run_whose_interval_is_unknown_leaves_the_claim_undecided(bounds):
    """Two runs, of which one has no interval: nothing is known of the least of both. A third learned nothing."""
    halves = pd.DataFrame({"ratio": [1.5, 1.4, np.nan], "low": [1.2, 1.3, np.nan], "high": [1.8, 1.9, np.nan]})
    ends = pd.DataFrame({"curve": experiment.CURVES, "gain": 0.3, "low": 0.2, "high": 0.4})
    ends = pd.concat([ends, ends.assign(gain=[0.5, 0.1, 0.1], low=[0.4, 0.02, 0], high=[0.6, 0.7, 0])])
    found = list(experiment.ktiw_drives_attention_claims(halves, ends))
    assert bounds == [(1.0, None), (0.05, None), (0.05, None)]
    ends_of = [(claim.value, claim.low, claim.high) for claim in found[1:]]
    assert ends_of == [(pytest.approx(0.4), 0.2, 0.6), (pytest.approx(0.2), 0.02, 0.7)]
    assert (found[0].value, found[0].low, found[0].high) == (1.4, 1.2, 1.9)
    halves.loc[1, ["low", "high"]] = np.nan
    assert next(experiment.ktiw_drives_attention_claims(halves, ends)).verdict is Verdict.UNDECIDED


def test_half_way_steps_of_counts_and_their_bootstrap():
    """Every pair agrees at first in 1 of 10 rows; beta knows 9 of 10 from step 10 on, alpha from step 20 on."""
    curves = AgreementCurves("planted", rows=np.full(30, 10.0))
    for step in (0, 10, 20):
        hits = [9.0 if step >= learned else 1.0 for learned in (20, 10, 20)]
        curves.steps.append(step)
        curves.accuracy.append(0.5)
        curves.hits.append(np.repeat(hits, 30).reshape(3, 30))
        curves.expected.append(np.full((3, 30), 1.0))
    row = experiment.half_way_row(curves)
    assert (row["alpha"], row["beta"], row["ratio"]) == pytest.approx((15, 5, 3))
    assert (row["low"], row["high"]) == pytest.approx((3, 3))  # all pairs are alike
    assert [gain["gain"] for gain in experiment.gains_of(curves)] == pytest.approx([0.8] * 3)
    curves.hits = [hits * 0 + 1 for hits in curves.hits]
    assert np.isnan(experiment.half_way_row(curves)["ratio"])  # nothing was learned
