"""The objective of deceptive attention, and its direction on a planted text."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import classifiers as experiment
from alignkit.lab.experiments.classifiers import ClassifierPlan, read_split, train_in_memory
from alignkit.neural.training.classification import label_loss
from alignkit.scores import Scores
from alignkit.support.stages import no_progress
from alignkit.text.labelled import LabelledText


@pytest.fixture(scope="module")
def split(two_telling_words):
    return read_split(ClassifierPlan(labelled=two_telling_words, held=16))


@pytest.mark.parametrize("fresh", [False, True])
def test_every_network_is_trained_from_what_it_should_be(split, fresh, monkeypatch):
    """Two P, and for each one with a new attention and a Q for every lambda, as they are before the first step."""
    made, losses = [], []

    def train(split, settings, progress, *, prepare=None, loss=label_loss):
        network = train_in_memory(
            split,
            settings.change(training={"steps": 0}),
            no_progress,
            prepare=prepare if prepare else lambda _: None,
        )
        made.append((settings.training.seed, settings.training.steps // 15, loss, network))
        return network

    def loss_towards(logits, alpha, weight):
        losses.append((logits, alpha.values, weight))
        return weight

    monkeypatch.setattr(experiment, "read_split", lambda settings: split)
    monkeypatch.setattr(experiment, "train_in_memory", train)
    monkeypatch.setattr(experiment, "adversarial_loss", loss_towards)
    sizes = {"embedding": 8, "hidden": 6, "epochs": 3, "copy_epochs": 4, "seeds": 2, "weights": (0.0, 0.02)}
    raw = experiment.run_deceptive_attention(experiment.DeceptiveAttentionSettings(fresh=fresh, **sizes)).rows
    raw, networks = raw["sentences"], [network for *_, network in made]
    wanted = [(seed + 1000, 4, loss) for seed in (0, 1) for loss in (label_loss, 0.0, 0.02)]
    assert [tuple(what) for *what, _ in made] == [(0, 3, label_loss), (1, 3, label_loss), *wanted]
    for number, network in enumerate(networks[2:]):
        P, loss = networks[number // 3], made[2 + number][2]
        for name, weight in network.state_dict().items():
            same = torch.equal(weight, P.state_dict()[name])
            assert same == (not name.startswith("attention.") and (not fresh or loss is label_loss)), (
                number,
                name,
            )
    for number, (logits, alpha, weight) in enumerate(losses):
        assert weight == (0.0, 0.02)[number % 2]
        assert np.array_equal(logits, experiment.classifier_logits(networks[number // 2], split.training))
        own = experiment.classifier_scores(networks[number // 2], split.training, "alpha")
        assert np.array_equal(alpha, own.values)
    assert set(raw["lambda"]) == {"P", "other seed", "new attention", "0", "0.02"}
    own = [experiment._measure(network, split.valid) for network in networks]
    pairs = {
        ("P", 1): (1, 1),
        ("other seed", 0): (1, 0),
        ("other seed", 1): (0, 1),
        ("new attention", 1): (5, 1),
        ("0.02", 1): (7, 1),
    }
    for (name, seed), (one, other) in pairs.items():
        expected = experiment._compare(name, seed, split.valid, own[one], own[other]).round(5)
        found = raw[(raw["lambda"] == name) & (raw.seed == seed)].reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected)


def test_a_network_is_compared_with_p_sentence_by_sentence(split):
    """P says yes with 0.75 and 0.9, the other network no with 0.75 and 0.5; attention of two words."""
    few = LabelledText.from_bitext(split.valid.bitext.take(np.arange(2)))
    alphas = [Scores.from_matrices([np.array([row])] * 2) for row in ([0.9, 0.1], [0.1, 0.9])]
    logits = np.array([math.log(3), math.log(9)]), np.array([-math.log(3), 0.0])
    influences = [Scores.from_matrices([np.array([row])] * 2) for row in ([0.1, 0.9], [0.9, 0.1])]
    p, q = (experiment.Measured(*each) for each in zip(logits, alphas, influences, strict=True))
    found = experiment._compare("q", 0, few, q, p)
    assert found["TVD"].tolist() == pytest.approx([0.5, 0.4])
    assert found["same"].tolist() == [0, 0]  # a logit of 0 says no
    assert found["right"].tolist() == [not label for label in few.labels]
    assert found["tau P"].tolist() == found["tau influence"].tolist() == [-1, -1]  # against its own influence
    assert found["JSD"].iloc[0] == pytest.approx(math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1))


def test_one_seed_has_no_yardstick(two_telling_words):
    with pytest.raises(AlignkitError, match="two are needed"):
        experiment.DeceptiveAttentionSettings(labelled=two_telling_words, seeds=1)
    for weights in ((0.0,), (0.1, 0.2), (0.0, 0.2, 0.1)):
        with pytest.raises(AlignkitError, match=r"a plain copy's lambda \(0\) and at least one more .* rising"):
            experiment.DeceptiveAttentionSettings(labelled=two_telling_words, weights=weights)
