"""Copying by mechanism: the softmax network is that of the other experiments; sparse ones lose tokens."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import copying as experiment
from alignkit.lab.experiments.copying import SequenceRun, Sequences, train_networks
from alignkit.support.stages import no_progress

SMALL = experiment.CopyingMechanismsSettings(
    seeds=2, mechanisms=("softmax", "sparsemax", "reinforce"), length=5, hidden=8, batch=8, steps=30
)


def test_the_softmax_network_is_that_of_copying():
    """Two loops train the same network on the same sequences."""
    expected = train_networks(Sequences("permutation", 5, 5), SMALL, 2, no_progress)
    for seed, other in enumerate(expected):
        found = experiment.train_mechanism("softmax", seed, SMALL)
        assert found.steps.tolist() == other.steps.tolist()
        np.testing.assert_allclose(found.loss, other.loss, rtol=1e-4)
        np.testing.assert_allclose(found.accuracy, other.accuracy, atol=0.03)


def test_what_is_outside_of_the_support():
    runs = {name: experiment.train_mechanism(name, 0, SMALL) for name in SMALL.mechanisms}
    assert (runs["softmax"].outside == 0).all()
    assert (runs["softmax"].support == 6).all()  # five words and the end
    assert (runs["reinforce"].support == 1).all()
    sparse = runs["sparsemax"]
    assert 1 < sparse.support[-1] <= 6
    assert 0 < sparse.outside[-1] < 1
    again = experiment.train_mechanism("reinforce", 0, SMALL)
    np.testing.assert_array_equal(again.loss, runs["reinforce"].loss)


def test_a_network_that_copies_stops():
    """With all the luck of short sequences, softmax learns to copy, and is measured twice before it stops."""
    easy = experiment.CopyingMechanismsSettings(length=3, hidden=32, batch=64, steps=400, every=20)
    found = experiment.train_mechanism("softmax", 0, easy)
    assert found.steps[-1] < 400
    assert (found.accuracy[-2:] >= easy.solved).all()
    assert found.accuracy[0] < 0.6


def test_claims_compare_with_softmax():
    def runs(accuracies):
        return [SequenceRun(np.array([0, 300]), np.array([0.1, last]), np.zeros(2)) for last in accuracies]

    settings = experiment.CopyingMechanismsSettings()
    good, bad = [1.0] * 19 + [0.5], [0.5] * 17 + [1.0] * 3
    found = {"softmax": runs(good), "sparsemax": runs(bad), "gumbel": runs(good)}
    claims = list(experiment.copying_mechanisms_claims(found, settings))
    assert [one.verdict for one in claims] == [Verdict.HOLDS, Verdict.UNDECIDED]
    assert claims[0].value == pytest.approx(0.8)
    assert "sparsemax (no gradient outside its support)" in claims[0].text
    assert list(experiment.copying_mechanisms_claims({"gumbel": runs(good)}, settings)) == []


def test_the_table_and_the_rows():
    told = []
    result = experiment.run_copying_mechanisms(SMALL, lambda *given: told.append(given))
    assert list(result.table.mechanism) == list(SMALL.mechanisms)
    assert (result.table.runs == 2).all()
    assert told[-1] == (6, 6, "reinforce")
    rows = result.rows["accuracy"]
    assert set(rows.columns) == {"mechanism", "run", "step", "accuracy", "loss", "outside", "support"}
    assert len(rows) == 6 * 4
    with pytest.raises(AlignkitError, match="with a normalizer"):
        experiment.CopyingMechanismsSettings(mechanisms=("hardmax",))
