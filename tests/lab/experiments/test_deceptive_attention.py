"""The objective of deceptive attention, and its direction on a planted text."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import classifiers as experiment
from alignkit.lab.experiments.classifiers import (
    ClassifierPlan,
    classifier_settings,
    read_split,
    train_in_memory,
)
from alignkit.neural.training.classification import Judged, adversarial_loss, copy_but_attention, divergence
from alignkit.scores import Scores
from alignkit.support.stages import no_progress
from alignkit.text.labelled import LabelledText


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
    p, q = (experiment._measure(network, split.training) for network in (teacher, Q))
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
    own = Scores.from_matrices([np.array([[0.9, 0.1]])])
    alpha = torch.tensor([[0.5, 0.5]])
    judged = Judged(np.array([0]), torch.zeros(1), torch.zeros(1), alpha, alpha > 0)
    kl = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert adversarial_loss(np.zeros(1), own, 2.0)(judged).item() == pytest.approx(-2 * kl, abs=1e-6)
    back = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert abs(kl - back) > 0.1


def test_same_predictions_other_attention(two_telling_words):
    settings = experiment.DeceptiveAttentionSettings(
        labelled=two_telling_words,
        embedding=16,
        hidden=12,
        epochs=3,
        copy_epochs=4,
        rate=1.2e-2,
        seeds=2,
        weights=(0.0, 0.02),
    )
    told = []
    table = experiment.run_deceptive_attention(settings, lambda *what: told.append(what[:2])).table.set_index(
        "lambda"
    )
    shares = [done / total for done, total in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(told) == 2 * 15 * (3 + 3 * 4)  # P, one with a new attention, and a Q for each of two lambdas
    assert table.loc["P", "right"] > 0.95
    assert table.loc["P", ["TVD", "JSD"]].tolist() == [0, 0]
    assert 0 < table.loc["other seed", "JSD"] < table.loc["0.02", "JSD"]
    assert table.loc["other seed", "right"] == table.loc["P", "right"]  # the same two networks
    assert table.loc["0.02", "same"] > 0.95
    assert table.loc["new attention", "right"] > 0.95
    assert 0 < table.loc["new attention", "JSD"] < table.loc["0.02", "JSD"]
    assert table.loc["0.02", "JSD"] > table.loc["0", "JSD"] + 0.1
    assert table.loc["0.02", "tau P"] < table.loc["0", "tau P"]


def test_q_starts_from_p_but_for_its_attention(split, teacher):
    Q = small(split, seed=1, epochs=0, prepare=copy_but_attention(teacher))
    fresh = small(split, seed=1, epochs=0)
    for name, weight in Q.state_dict().items():
        expected = fresh if name.startswith("attention.") else teacher
        assert torch.equal(weight, expected.state_dict()[name]), name
    assert not torch.equal(fresh.output.weight, teacher.output.weight)


def test_a_network_is_compared_with_p_sentence_by_sentence(split):
    """P says yes with 0.75 and 0.5, the other network no with 0.75 and yes with 0.9; attention of two words."""
    few = LabelledText.from_bitext(split.valid.bitext.take(np.arange(2)))
    alphas = [Scores.from_matrices([np.array([row])] * 2) for row in ([0.9, 0.1], [0.1, 0.9])]
    logits = np.array([math.log(3), 0.0]), np.array([-math.log(3), math.log(9)])
    p, q = (experiment.Measured(*each, alphas[0]) for each in zip(logits, alphas, strict=True))
    found = experiment._compare("q", 0, few, q, p)
    assert found["TVD"].tolist() == pytest.approx([0.5, 0.4])
    assert found["same"].tolist() == [0, 0]  # a logit of 0 says no
    assert found["right"].tolist() == [not few.labels[0], few.labels[1]]
    assert found["tau P"].tolist() == found["tau influence"].tolist() == [-1, -1]
    assert found["JSD"].iloc[0] == pytest.approx(math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1))


def rows(name, **columns):
    import pandas as pd

    values = {"same": 1.0, "right": 1.0, "JSD": 0.0, "tau influence": 0.0} | columns
    return pd.DataFrame({"lambda": name, "seed": np.arange(40), "sentence": 0, **values})


def test_a_lambda_is_judged_by_what_other_seeds_differ_by():
    """0.85 of P's predictions are many where a new attention keeps 0.8, and few where it keeps 0.9."""
    import pandas as pd

    def verdicts(shared, **columns):
        spread = np.where(np.arange(40) % 2, 0.05, -0.05)
        q = {"same": 0.85 + spread, "JSD": 0.6 + spread, "tau influence": -0.3 + spread} | columns
        others = rows("other seed", JSD=0.2), rows("new attention", same=shared)
        parts = [rows("P", **{"tau influence": 0.1 + spread}), *others, rows("0"), rows("0.1", **q)]
        found = list(experiment.deceptive_attention_claims(pd.concat(parts)))
        assert len(found) == 5  # none about the plain copy, lambda 0
        assert found[0].verdict is Verdict.HOLDS
        return [each.verdict for each in found[1:]]

    assert verdicts(0.8) == [Verdict.HOLDS] * 4
    assert verdicts(0.9) == [Verdict.FAILS, *[Verdict.HOLDS] * 3]
    right = np.where(np.arange(40) < 4, 0.0, 1.0)  # a tenth fewer
    fails = {"right": right, "JSD": 0.1, "tau influence": 0.2}
    assert verdicts(0.8, **fails)[2:] == [Verdict.FAILS, Verdict.FAILS]
    assert verdicts(0.8, **fails)[1] is not Verdict.HOLDS


def test_one_seed_has_no_yardstick(two_telling_words):
    with pytest.raises(AlignkitError, match="two are needed"):
        experiment.DeceptiveAttentionSettings(labelled=two_telling_words, seeds=1)
