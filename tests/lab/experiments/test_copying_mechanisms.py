"""Copying by mechanism: the softmax network is that of the other experiments; sparse ones lose tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import copying as experiment
from alignkit.lab.experiments.copying import Sequences, random_network, train_networks
from alignkit.support.stages import no_progress

SMALL = experiment.CopyingMechanismsSettings(
    seeds=2, mechanisms=("softmax", "sparsemax", "reinforce"), length=10, hidden=8, batch=8, steps=30
)


def test_the_softmax_network_is_that_of_copying():
    """Two loops train the same network on the same sequences."""
    expected = train_networks(Sequences("permutation", 10, 10), SMALL, 2, no_progress)
    for seed, other in enumerate(expected):
        found = experiment.train_mechanism("softmax", seed, SMALL)
        assert found.steps.tolist() == other.steps.tolist()
        np.testing.assert_allclose(found.loss, other.loss, rtol=1e-4)
        np.testing.assert_allclose(found.accuracy, other.accuracy, atol=0.03)


def test_what_is_outside_of_the_support():
    runs = {name: experiment.train_mechanism(name, 0, SMALL) for name in SMALL.mechanisms}
    assert (runs["softmax"].outside == 0).all()
    assert (runs["softmax"].support == 11).all()  # ten words and the end
    assert (runs["reinforce"].support == 1).all()
    sparse = runs["sparsemax"]
    assert 1 < sparse.support[-1] <= 11
    assert 0 < sparse.outside[-1] < 1
    sequences, network = Sequences("permutation", 10, 10), random_network(13, 8, 0, "general+reinforce").eval()
    parts = (torch.from_numpy(part) for part in sequences.draw(np.random.default_rng(0), 8))
    source, previous, target = parts
    with torch.no_grad():  # measured in evaluation mode
        encoding = network.encode(source.t(), np.full(8, 11))
        decoded = network.decode(previous.t(), encoding, encoding.start)
        nats = cross_entropy(network.output(decoded.features).flatten(0, 1), target.flatten())
    assert runs["reinforce"].loss[0] == pytest.approx(float(nats), rel=1e-5)
    outside = 1 - (decoded.weights > 0).diagonal(dim1=1, dim2=2).double().mean()
    assert runs["reinforce"].outside[0] == pytest.approx(float(outside))
    again = experiment.train_mechanism("reinforce", 0, SMALL)
    np.testing.assert_array_equal(again.loss, runs["reinforce"].loss)


def test_a_network_that_copies_stops():
    """Once two measurements in a row are good; one alone, before that, is not enough."""
    settings = replace(SMALL, every=1, batch=2, length=5)
    through = experiment.train_mechanism("softmax", 2, replace(settings, solved=2.0))
    pairs = np.minimum(through.accuracy[1:], through.accuracy[:-1])
    end = next(k for k in range(2, 30) if pairs[k] > pairs[:k].max() and max(through.accuracy[:k]) >= pairs[k]) + 1
    found = experiment.train_mechanism("softmax", 2, replace(settings, solved=pairs[end - 1]))
    assert found.steps.tolist() == list(range(end + 1))
    assert found.loss.tolist() == through.loss[: end + 1].tolist()


@pytest.mark.parametrize(("every", "steps", "early"), [(1, 2, 2), (5, 100, 20), (15, 100, 15), (50, 100, 0)])
def test_the_early_measurement_is_that_of_its_step(every, steps, early, monkeypatch):
    """Or the last one before, of networks that have learned all by then."""
    measured = np.array([step for step in range(0, steps + 1, every)])
    runs = [measured, measured[:2]]

    def train(name, seed, settings):
        own = runs[seed]
        return experiment.AttentionRun(own, own * 0.0, own * 1.0, outside=own / 100, support=own * 1.0)

    monkeypatch.setattr(experiment, "train_mechanism", train)
    settings = replace(SMALL, mechanisms=("softmax",), seeds=2, steps=steps, every=every)
    row = experiment.run_copying_mechanisms(settings).table.iloc[0]
    assert row[f"own token outside at step {early}"] == pytest.approx((early + min(early, every)) / 200)


def test_every_mechanism_is_trained_from_every_seed(monkeypatch):
    assert experiment.train_mechanism("sparsemax", 1, replace(SMALL, steps=5, every=3)).steps.tolist() == [0, 3, 5]
    run, trained, told = experiment.train_mechanism("sparsemax", 1, replace(SMALL, steps=1)), [], []

    def train(name, seed, settings):
        trained.append((name, seed))
        return run

    monkeypatch.setattr(experiment, "train_mechanism", train)
    experiment.run_copying_mechanisms(replace(SMALL, steps=1), lambda *given: told.append(given))
    assert trained == [(name, seed) for name in SMALL.mechanisms for seed in (0, 1)]
    assert told[0] == (1, 6, "softmax")
    assert told[-1] == (6, 6, "reinforce")
    assert list(experiment.copying_mechanisms_claims({"gumbel": []}, SMALL)) == []
    with pytest.raises(AlignkitError, match="with a normalizer"):
        experiment.CopyingMechanismsSettings(mechanisms=("hardmax",))
