"""Half-way steps, their bootstrap, and the experiment on a planted text, trained and from a run directory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import ktiw as experiment
from alignkit.lab.experiments.ktiw import AgreementCurves
from alignkit.lab.experiments.networks import half_way
from alignkit.metrics.agreement import agreement


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
def found(texts):
    return experiment.run_ktiw_drives_attention(
        experiment.KtiwSettings(**texts, pieces=60, epochs=8, scored=40, runs=1, learning_rate=5e-3)
    )


def test_curves_rise_and_are_those_of_agreement(found, texts):
    steps = found.rows["steps"]
    assert steps.step.is_monotonic_increasing
    first, last = steps.iloc[0], steps.iloc[-1]
    for name in ("A(alpha, ibm1.beta)", "A(beta, ibm1.beta)"):
        assert last[name] > first[name] + 0.2
    halves = found.rows["halves"].iloc[0]
    assert halves.low <= halves.ratio <= halves.high
    assert 0 < halves.beta < last.step
    for kind, end in zip(("alpha", "beta"), found.claims[1:], strict=True):
        assert end.value == pytest.approx(
            last[f"A({kind}, ibm1.beta)"] - last[f"chance ({kind}, ibm1.beta)"], abs=2e-5
        )
        assert end.low < end.value - 1e-3  # one run of 40 pairs is not exact
        assert end.high > end.value + 1e-3


def test_a_run_directory_gives_its_own_agreements(texts, tmp_path):
    from alignkit.neural.aligners import load_checkpoint
    from alignkit.neural.training.run_directory import TranslationRun
    from alignkit.neural.training.translation import train_translation

    plan = experiment.KtiwSettings(**texts, pieces=60, epochs=1)
    lines, held = plan.lines()
    settings = plan.settings().change(training={"keep": "logged"})
    train_translation(tmp_path, lines, held, settings, device="cpu")
    result = experiment.run_ktiw_drives_attention(experiment.KtiwSettings(run=str(tmp_path), scored=0))
    steps, run = result.rows["steps"], TranslationRun(tmp_path)
    assert steps.step.tolist() == list(run.checkpoints)
    ibm1 = fit_ibm1(run.train, iterations=5, null=False).score(run.valid, "beta")
    last = steps.iloc[-1]
    network = load_checkpoint(run.checkpoints[int(last.step)], "cpu")
    expected = agreement(network.score(run.valid, "alpha"), ibm1)
    assert last["A(alpha, ibm1.beta)"] == pytest.approx(expected.agreement, abs=1e-5)
    assert last["chance (alpha, ibm1.beta)"] == pytest.approx(expected.chance, abs=1e-5)


def test_not_a_run(tmp_path):
    with pytest.raises(AlignkitError, match="it is not a run"):
        experiment.run_ktiw_drives_attention(experiment.KtiwSettings(run=str(tmp_path)))


def test_a_run_whose_interval_is_unknown_leaves_the_claim_undecided():
    """Two runs, of which one has no interval: nothing is known of the least of both."""
    halves = pd.DataFrame({"ratio": [1.5, 1.4], "low": [1.2, 1.3], "high": [1.8, 1.9]})
    ends = pd.DataFrame({"curve": experiment.CURVES, "gain": 0.3, "low": 0.2, "high": 0.4})
    found = list(experiment.ktiw_drives_attention_claims(halves, ends))
    assert [claim.verdict for claim in found] == [Verdict.HOLDS] * 3
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
