"""Relevance and attention of a classifier with linear attention, followed to the last step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from alignkit.lab.experiments import classifiers as experiment
from alignkit.lab.experiments.classifiers import classifier_settings, read_split
from alignkit.lab.experiments.networks import half_way_rows
from alignkit.neural.networks.classifier import Classifier
from alignkit.scores import Scores
from alignkit.support.stages import no_progress

SETTINGS = {"embedding": 8, "hidden": 8, "seeds": 2, "rate": 1e-2}


def test_the_attention_is_linear_in_the_states(two_telling_words):
    split = read_split(experiment.GatedClassifierSettings(labelled=two_telling_words))
    settings = experiment.GatedClassifierSettings(labelled=two_telling_words, **SETTINGS)
    plan = classifier_settings(settings, split, 0, 1, experiment.LINEAR).change(network={"vocabulary": 30})
    torch.manual_seed(0)
    network = Classifier(plan.network)
    words, lengths = torch.randint(4, 30, (5, 1)), np.array([5])
    h, mask = network.encode(words, lengths)
    (vector,) = (part for name, part in network.attention.named_parameters() if name.endswith("vector"))
    expected = torch.softmax(h @ vector, 1)
    assert torch.allclose(network.weights(h, mask), expected, atol=1e-6)


def test_distance_from_uniform_by_hand():
    rows = [np.array([[0.5, 0.5]]), np.array([[1.0, 0, 0, 0]]), np.zeros((1, 0))]
    assert experiment.distance_from_uniform(Scores.from_matrices(rows)) == pytest.approx((0 + 0.75) / 2)


def test_courses_lead_to_the_last_step(monkeypatch):
    """Of two texts, attention finds the last word from step 20 on, in the second; relevance does from 10 on."""
    low, high = np.array([[0.9, 0.1]]), np.array([[0.2, 0.8]])
    planted = {
        "alpha": [(low, low), (low, low), (low, high)],
        "relevance": [(low, low), (high, high), (high, high)],
    }
    plans = []

    def train(split, settings, progress, *, look):
        plans.append(settings)
        for place, step in enumerate((0, 10, 20)):
            look(
                SimpleNamespace(network=place, step=step, metrics={"valid.accuracy": step / 100, "valid.loss": 9})
            )

    def scores(network, text, kind):
        return Scores.from_matrices(list(planted[kind][network]))

    monkeypatch.setattr(experiment, "train_in_memory", train)
    monkeypatch.setattr(experiment, "classifier_scores", scores)
    split = SimpleNamespace(training=range(90), valid=None)
    settings = experiment.GatedClassifierSettings(batch=40, **SETTINGS)
    raw = experiment.relevance_and_attention(split, settings, 7, no_progress)
    assert raw.attention.tolist() == [0.5, 0.5, 1]
    assert raw.relevance.tolist() == [0, 1, 1]
    assert raw["from uniform"].tolist() == pytest.approx([0.4, 0.4, 0.35])
    assert raw.accuracy.tolist() == [0, 0.1, 0.2]
    training, network = plans[0].training, plans[0].network
    assert (training.schedule, training.steps, training.batch, training.seed) == ("classification", 18, 40, 7)
    assert (training.learning_rate, network.attention, network.attention_hidden) == (1e-2, experiment.LINEAR, 8)


def test_claims_compare_half_way_steps():
    """From uniform: 0.1 to 0.5 by way of 0.9; relevance is half-way, at 0.55, at step 6.43."""
    values = {"step": [0, 10, 50, 100], "attention": [0.1, 0.15, 0.3, 1], "relevance": [0.1, 0.8, 0.9, 1]}
    course = pd.DataFrame({**values, "from uniform": [0.1, 0.2, 0.9, 0.5]})
    neither = course.assign(attention=0.1, relevance=0.1)
    never = course.assign(attention=0.1)
    raw = pd.concat([each.assign(seed=seed) for seed, each in enumerate((course, course, neither, never))])
    halves = half_way_rows(raw, ["seed"], experiment.CURVES)
    first, second = experiment.gated_classifier_claims(raw, halves)
    assert "2 of 4 learn both" in first.statistic
    assert first.value == pytest.approx(np.log2((50 + 50 * 0.25 / 0.7) / (10 * 0.45 / 0.7)))
    assert second.value == pytest.approx(0.1 * 0.45 / 0.7 / 0.4)
