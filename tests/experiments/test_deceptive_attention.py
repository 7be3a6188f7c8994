"""The objective of deceptive attention, and its direction on a planted text."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from alignkit.experiments import deceptive_attention as experiment
from alignkit.experiments.classifiers import (
    ClassifierPlan,
    Outputs,
    classifier_settings,
    outputs,
    read_split,
    train_in_memory,
)
from alignkit.experiments.protocol import Verdict
from alignkit.neural.training.attention_losses import adversarial_loss, copy_but_attention, divergence
from alignkit.neural.training.classification import Judged
from alignkit.scores.scores import Scores
from alignkit.types import no_progress


def test_divergences():
    rows = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    other = torch.tensor([[0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    kl = divergence(rows, other, mask)
    assert kl.tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3), 0], abs=1e-6)


@pytest.fixture(scope="module")
def split(two_telling_words):
    return read_split(ClassifierPlan(labelled=two_telling_words))


def small(split, seed, epochs, prepare=None):
    settings = classifier_settings(ClassifierPlan(embedding=8, hidden=6), split, seed, epochs)
    return train_in_memory(split, settings, no_progress, prepare=prepare)


@pytest.fixture(scope="module")
def teacher(split):
    return small(split, seed=0, epochs=1)


def test_the_loss_by_hand(split, teacher):
    Q = small(split, seed=1, epochs=0)
    p, q = (outputs(network, split.training) for network in (teacher, Q))
    some = np.array([3, 17, 20])
    rows = [torch.from_numpy(q.alpha[m][0]) for m in some]
    alpha = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    labels, logits = torch.zeros(3), torch.from_numpy(q.logits[some]).float()
    found = adversarial_loss(p.logits, p.alpha, 0.3)(Judged(some, labels, logits, alpha, alpha > 0)).item()
    total = 0.0
    for m in some:
        distance = abs(1 / (1 + np.exp(-p.logits[m])) - 1 / (1 + np.exp(-q.logits[m])))
        total += distance - 0.3 * (p.alpha[m] * np.log(p.alpha[m] / q.alpha[m])).sum()
    assert found == pytest.approx(total / 3, abs=1e-5)
    assert abs(found) > 1e-4


def test_the_divergence_of_the_loss_is_that_of_q_from_p():
    """KL(P || Q) for P = (.9, .1) and Q = (.5, .5); the other way round it is another number."""
    own = Outputs(np.zeros(1), Scores.from_matrices([np.array([[0.9, 0.1]])]))
    alpha = torch.tensor([[0.5, 0.5]])
    judged = Judged(np.array([0]), torch.zeros(1), torch.zeros(1), alpha, alpha > 0)
    kl = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert adversarial_loss(own.logits, own.alpha, 2.0)(judged).item() == pytest.approx(-2 * kl, abs=1e-6)
    back = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert abs(kl - back) > 0.1


def test_same_predictions_other_attention(two_telling_words):
    settings = experiment.DeceptiveAttentionSettings(
        labelled=two_telling_words,
        embedding=16,
        hidden=12,
        epochs=6,
        copy_epochs=10,
        rate=5e-3,
        seeds=1,
        weights=(0.0, 0.02),
    )
    told = []
    table = experiment.run_deceptive_attention(settings, lambda *what: told.append(what[:2])).table.set_index(
        "lambda"
    )
    assert told == [(step, 15 * 26) for step in range(1, 15 * 26 + 1)]
    assert table.loc["P", "right"] > 0.95
    assert table.loc["P", ["TVD", "JSD"]].tolist() == [0, 0]
    assert table.loc["0.02", "same"] > 0.95
    assert table.loc["0.02", "JSD"] > table.loc["0", "JSD"] + 0.1
    assert table.loc["0.02", "tau P"] < table.loc["0", "tau P"]


def test_q_starts_from_p_but_for_its_attention(split, teacher):
    Q = small(split, seed=1, epochs=0, prepare=copy_but_attention(teacher))
    fresh = small(split, seed=1, epochs=0)
    for name, weight in Q.state_dict().items():
        expected = fresh if name.startswith("attention.") else teacher
        assert torch.equal(weight, expected.state_dict()[name]), name
    assert not torch.equal(fresh.output.weight, teacher.output.weight)


def test_the_first_claim_can_fail():
    """Lambda is chosen by every other sentence; on the rest its Q may keep fewer predictions than the copy."""
    import pandas as pd

    def rows(name: str, same: np.ndarray) -> pd.DataFrame:
        other = {"JSD": 0.1, "tau influence": 0.0}
        return pd.DataFrame({"lambda": name, "sentence": np.arange(40), "same": same, **other})

    first = np.arange(40) % 2 == 0
    raw = pd.concat([rows("P", np.ones(40)), rows("0", np.ones(40)), rows("0.1", first.astype(float))])
    found = experiment.deceptive_attention_claims(raw)[0]
    assert "lambda 0.1 " in found.statistic
    assert (found.value, found.verdict) == (-1, Verdict.FAILS)


def test_the_claims_are_never_about_the_plain_copy():
    import pandas as pd

    def rows(name: str, same: float) -> pd.DataFrame:
        return pd.DataFrame({"lambda": name, "sentence": np.arange(40), "same": same})

    raw = [rows("P", 1.0), rows("0", 0.9), rows("0.1", 0.5), rows("0.2", 0.4)]
    assert experiment.chosen(pd.concat(raw)) == ("0.1", "0")
    assert experiment.chosen(pd.concat([*raw, rows("0.3", 0.89), rows("0.4", 0.3)])) == ("0.3", "0")
