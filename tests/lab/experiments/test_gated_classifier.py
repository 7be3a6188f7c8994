"""Relevance and attention of a classifier with linear attention, followed to the last step."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from alignkit.lab.experiments import Verdict
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


def test_a_run_ends_at_itself(two_telling_words):
    torch.set_num_threads(1)
    settings = experiment.GatedClassifierSettings(labelled=two_telling_words, epochs=4, **SETTINGS)
    told = []
    result = experiment.run_gated_classifier(settings, lambda *what: told.append(what[:2]))
    raw = result.rows["steps"]
    last = raw[raw.step == raw.step.max()]
    assert (last[["attention", "relevance"]] == 1).all(axis=None)
    assert len(last) == 2
    assert raw[raw.step == 0]["from uniform"].max() < 0.1
    assert last["from uniform"].min() > 0.2
    assert last.accuracy.min() > 0.9
    assert told[-1] == (2 * told[-1][1] // 2, told[-1][1])
    split = read_split(settings)
    again = experiment.relevance_and_attention(split, settings, 1, no_progress)
    pd.testing.assert_frame_equal(again.round(5), raw[raw.seed == 1].reset_index(drop=True))


def course(attention, relevance, far, seed=0):
    values = {"attention": attention, "relevance": relevance, "from uniform": far, "accuracy": 1.0}
    return pd.DataFrame({"seed": seed, "step": [0, 10, 50, 100], **values})


def verdicts(attention, relevance, far):
    parts = [course([x + 0.001 * s for x in attention], relevance, far, s) for s in range(4)]
    raw = pd.concat(parts, ignore_index=True)
    return [
        each.verdict
        for each in experiment.gated_classifier_claims(raw, half_way_rows(raw, ["seed"], experiment.CURVES))
    ]


def test_claims_follow_the_courses():
    late, early = [0.1, 0.15, 0.3, 1.0], [0.1, 0.8, 0.9, 1.0]
    assert verdicts(late, early, [0, 0.02, 0.1, 0.8]) == [Verdict.HOLDS] * 2
    assert verdicts(early, late, [0, 0.6, 0.7, 0.8]) == [Verdict.FAILS] * 2
