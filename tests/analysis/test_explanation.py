"""The explanation tests: exact ones against brute force, and all on a planted text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import jensenshannon

from alignkit.analysis.attention_tests import (
    Decision,
    adversarial_attention,
    attention_distance,
    erased_until_flip,
    permutation_change,
    sigmoid,
    uniform_change,
)
from alignkit.analysis.explanation import decisions, explain_classifier, explain_run
from alignkit.errors import AlignkitError
from alignkit.neural.classifier_settings import ClassifierRunSettings, ClassifierSettings, ClassifierTraining
from alignkit.neural.settings import TextSettings
from alignkit.neural.training.classifier_run import ClassifierRun, train_classifier
from alignkit.text.labelled import LabelledLines
from alignkit_cli.main import run


def random_decision(seed, length=6):
    rng = np.random.default_rng(seed)
    return Decision(rng.dirichlet(np.ones(length) * 0.7), rng.normal(size=length) * 2, float(rng.normal()))


def test_divergence_is_scipys():
    for seed in range(5):
        one, other = random_decision(seed).alpha, random_decision(seed + 50).alpha
        assert attention_distance(one, other) == pytest.approx(jensenshannon(one, other) ** 2)
    assert attention_distance(np.array([1.0, 0]), np.array([0, 1.0])) == pytest.approx(np.log(2))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_the_adversary_is_allowed_and_no_other_corner_is_further(seed, epsilon):
    """Corners of the allowed attentions, found by linear programs in random directions."""
    decision = random_decision(seed)
    value, attention = adversarial_attention(decision, epsilon)
    assert attention.min() >= 0
    assert attention.sum() == pytest.approx(1)
    assert abs(decision.probability(attention) - sigmoid(decision.logit)) <= epsilon + 1e-9
    assert attention_distance(decision.alpha, attention) == pytest.approx(value)
    p = sigmoid(decision.logit)
    ends = [min(max(p + sign * epsilon, 1e-12), 1 - 1e-12) for sign in (-1, 1)]
    low, high = (np.log(end / (1 - end)) - decision.bias for end in ends)
    rng = np.random.default_rng(seed)
    for _ in range(150):
        corner = linprog(
            rng.normal(size=6),
            A_ub=[decision.strength, -decision.strength],
            b_ub=[high, -low],
            A_eq=[np.ones(6)],
            b_eq=[1],
            bounds=(0, 1),
        ).x
        assert attention_distance(decision.alpha, np.clip(corner, 0, None)) <= value + 1e-7


def test_erasure_equals_a_loop():
    for seed in range(30):
        decision = random_decision(seed)
        order = np.random.default_rng(seed).permutation(6)
        expected = np.nan
        for count in range(1, 6):
            alpha = decision.alpha.copy()
            alpha[order[:count]] = 0
            logit = alpha @ decision.strength / alpha.sum() + decision.bias
            if (logit > 0) != (decision.logit > 0):
                expected = count / 6
                break
        assert erased_until_flip(decision, order) == pytest.approx(expected, nan_ok=True)


def test_uniform_and_permuted_attention():
    decision = Decision(np.array([0.9, 0.1, 0.0]), np.array([3.0, -3.0, -3.0]), 0.0)
    change, flips = uniform_change(decision)
    assert change == pytest.approx(1 / (1 + np.exp(-2.4)) - 1 / (1 + np.exp(1)))
    assert flips
    even = Decision(np.full(4, 0.25), np.arange(4.0), 0.0)
    assert uniform_change(even) == (0.0, False)
    assert permutation_change(even, np.random.default_rng(0)) == pytest.approx(0)


def planted(count, seed):
    """Noise with one word that decides the label."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        words = list(rng.choice([f"w{i}" for i in range(10)], rng.integers(3, 9)))
        y = int(rng.integers(2))
        words.insert(int(rng.integers(len(words) + 1)), ("bad", "good")[y])
        texts.append(" ".join(words))
        labels.append("ny"[y])
    return LabelledLines(texts, labels)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        settings = ClassifierRunSettings(
            TextSettings("words"),
            ClassifierSettings(embedding=8, hidden=8, attention_hidden=8),
            ClassifierTraining(batch=8, learning_rate=2e-2, steps=120, seed=seed),
        )
        train_classifier(folder / str(seed), planted(150, 1), planted(50, 2), ("n", "y"), settings, device="cpu")
    return folder


def test_decisions_are_the_classifiers(runs):
    own = ClassifierRun(runs / "0")
    classifier = own.load(device="cpu")
    found = [one.logit for one in decisions(classifier, own.valid)]
    np.testing.assert_allclose(found, classifier.logits(own.valid.bitext), atol=1e-5)


def test_attention_to_the_telling_word_explains(runs):
    table = explain_run(runs / "0", runs / "1").set_index("test")
    assert table.value["top 5 %, leave-one-out"] > 0.6
    assert 0 < table.value["tau, leave-one-out"] <= 1
    assert table.value["erased, attention"] < table.value["erased, random"]
    assert 0 <= table.value["adversary, JSD"] <= 1
    assert table.value["seeds, JSD"] < 1
    assert (table.texts[["adversary, JSD", "seeds, JSD", "uniform, flips"]] == 50).all()
    known = table[table.low.notna()]
    assert ((known.low <= known.value + 1e-9) & (known.value <= known.high + 1e-9)).all()
    assert "tau, gradient" in known.index


def test_the_command_prints_the_table(runs, capsys):
    assert run(["explain", str(runs / "0"), "--limit", "10"]) == 0
    printed = capsys.readouterr().out
    assert "\nerased, random" in printed
    assert "seeds, JSD" not in printed
    assert run(["explain", str(runs / "0"), "--other", str(runs / "1"), "--json"]) == 0
    found = {row["test"]: row for row in json.loads(capsys.readouterr().out)["explanation"]}
    assert found["seeds, JSD"]["texts"] == 50
    assert run(["explain", str(runs)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_impossible_settings(runs):
    own = ClassifierRun(runs / "0")
    for options, message in (({"epsilon": 0.0}, "epsilon must lie"), ({"permutations": 0}, "at least 1")):
        with pytest.raises(AlignkitError, match=message):
            explain_classifier(own.load(device="cpu"), own.valid, **options)
