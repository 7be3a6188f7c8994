"""The explanation tests of a classifier's run, on a planted text."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import expit

from alignkit.errors import AlignkitError
from alignkit.lab.explain.registry import UNTRAINED, ExplanationSettings
from alignkit.lab.explain.subject import Subject, decisions, explanation_table, subject_of_run
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit.text.labelled import LabelledText
from alignkit_cli.main import run
from tests.lab.explain.conftest import train


def explain_classifier(classifier, text, others=(), **options):
    """The table of tests of a classifier, without the training text."""
    return explanation_table(Subject(classifier, text, text, ExplanationSettings(**options), others))


def test_decisions_are_the_classifiers(runs):
    own = ClassifierRun(runs / "0")
    classifier = own.load(device="cpu")
    found = [one.logit for one in decisions(classifier.network, own.valid)]
    np.testing.assert_allclose(found, classifier.logits(own.valid.bitext), atol=1e-5)


def test_attention_to_the_telling_word_explains(runs):
    table = explanation_table(subject_of_run(runs / "0", [runs / "1"])).set_index("test")
    assert table.value["top 5 %, leave-one-out"] > 0.6
    assert 0 < table.value["tau, leave-one-out"] <= 1
    assert table.value["erased, attention"] < table.value["erased, random"]
    assert 0 <= table.value["adversary, JSD"] <= 1
    assert table.value["seeds, JSD"] < 1
    assert (table.n[["adversary, JSD", "seeds, JSD", "uniform, flips"]] == 50).all()
    known = table[table.low.notna()]
    assert ((known.low <= known.value + 1e-9) & (known.value <= known.high + 1e-9)).all()
    assert "tau, gradient" in known.index


def leaning(runs, text, y):
    """The classifier of the second run, with a bias by which it no longer decides for y in half of these texts."""
    found = ClassifierRun(runs / "1").load(device="cpu")
    logits = found.logits(text.bitext)
    with torch.no_grad():
        found.network.output.bias -= float(np.median(logits[logits > 0 if y else logits < 0]))
    return found


def test_other_seeds_against_their_own_outputs(runs):
    own = ClassifierRun(runs / "0")
    classifier, text = own.load(device="cpu"), own.valid
    others = [leaning(runs, text, y) for y in (0, 1)]
    p = expit(classifier.logits(text.bitext))
    every = [expit(other.logits(text.bitext)) for other in others]
    alpha = [each.score(text.bitext, "alpha") for each in (classifier, *others)]
    for chosen in ([0], [1], [0, 1]):
        table = explain_classifier(classifier, text, [others[n] for n in chosen], tests=("seeds",))
        found = table.set_index("test")
        change = np.mean([np.abs(p - every[n]).mean() for n in chosen])
        same = np.mean([((p > 0.5) == (every[n] > 0.5)).mean() for n in chosen])
        apart = np.mean(
            [
                jensenshannon(u[0], v[0], base=2) ** 2
                for n in chosen
                for u, v in zip(alpha[0], alpha[n + 1], strict=True)
            ]
        )
        assert change > 0.1
        assert same < 0.95
        assert found.value["seeds, change"] == pytest.approx(change, abs=1e-5)
        assert found.value["seeds, same decision"] == pytest.approx(same)
        assert found.value["seeds, JSD"] == pytest.approx(apart, abs=1e-5)
        assert (found.n == len(text)).all()


def test_other_attention_against_the_network(runs):
    """Uniform and permuted attention by the network itself, in texts short enough for all permutations."""
    own = ClassifierRun(runs / "0")
    classifier, valid = own.load(device="cpu"), own.valid.bitext
    text = LabelledText.from_bitext(valid.take(np.flatnonzero(valid.source.lengths <= 6)))
    table = explain_classifier(classifier, text, tests=("uniform",), permutations=5001).set_index("test")
    before, even, permuted = expit(classifier.logits(text.bitext)), [], []
    for m, words in enumerate(text.corpus):
        with torch.no_grad():
            h, mask = classifier.network.encode(
                torch.from_numpy(words.astype(np.int64))[:, None], np.array([len(words)])
            )
            alpha = classifier.network.weights(h, mask)[0].tolist()
            orders = torch.tensor([*permutations(alpha)])
            uniform = torch.full((1, len(words)), 1 / len(words))
            even.append(classifier.network.judge_with(h, uniform).item())
            after = expit(classifier.network.judge_with(h.expand(len(orders), -1, -1), orders).numpy())
        permuted.append(np.quantile(np.abs(after - before[m]), [0.46, 0.54]))
    even = expit(np.array(even))
    assert len(table) == 3
    assert (table.n == len(text)).all()
    assert len(text) > 10
    assert table.value["uniform, change"] == pytest.approx(np.abs(even - before).mean(), abs=1e-5)
    assert table.value["uniform, flips"] == pytest.approx(((even > 0.5) != (before > 0.5)).mean())
    low, high = np.mean(permuted, 0)
    assert 0.02 < low <= table.value["permuted, change"] <= high < low + 0.2
    assert not low <= table.value["uniform, change"] <= high


def test_attention_of_sigmoids_has_no_distance(runs):
    """A divergence is of distributions: other seeds and adversaries are compared only where rows sum to 1."""
    own = ClassifierRun(runs / "0")
    classifier, text = own.load(device="cpu"), own.valid
    network = classifier.network
    sigmoid = Classifier(replace(network.settings, attention="feed-forward+sigmoid")).eval()
    strange = replace(classifier, network=sigmoid)
    for one, others in ((strange, [classifier]), (classifier, [strange]), (classifier, [classifier, strange])):
        assert explain_classifier(one, text, others, tests=("seeds",)).empty
    assert explain_classifier(strange, text, tests=("adversary",)).empty
    assert len(explain_classifier(classifier, text, [classifier], tests=("seeds",))) == 3


def test_the_command_prints_the_table(runs, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["explain", str(runs / "0"), "--limit", "10"]) == 0
    printed = capsys.readouterr().out
    assert "\nerased, random" in printed
    assert "seeds, JSD" not in printed
    assert run(["explain", str(runs / "0"), "--other", str(runs / "1"), "--json"]) == 0
    found = {row["test"]: row for row in json.loads(capsys.readouterr().out)["explanation"]}
    assert found["seeds, JSD"]["n"] == 50
    assert {row["group"] for row in found.values()} == set(UNTRAINED)
    train(tmp_path / "short", 0, 3)
    assert run(["explain", "short", "--test", "inattention", "--avoid", "good"]) == 0
    assert "recurrent, lambda 1, hidden" in capsys.readouterr().out
    assert run(["explain", str(runs)]) == 2
    error = capsys.readouterr().err
    assert error == f"alignkit: error: {runs}: is not a run; give one of those in it: {runs / '0'}, {runs / '1'}\n"
    file = runs / "0" / "config.json"
    assert run(["explain", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"alignkit: error: {file}: is not a run directory; give a")
    monkeypatch.setattr("alignkit.lab.explain.subject.subject_of_run", None)  # it is refused before the work
    assert run(["explain", str(runs / "0" / "best.pt")]) == 2
    assert (
        "best.pt: is not a run directory; give a run directory of `alignkit classify`" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--avoid", "good"], "--avoid goes only with the test inattention."),
        (["--test", "seeds"], "--test seeds needs --other RUN"),
    ],
)
def test_an_option_that_no_test_reads(runs, capsys, options, message):
    assert run(["explain", str(runs / "0"), *options]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must lie"),
        ({"permutations": 0}, "at least 1"),
        ({"tests": ("none",)}, "unknown explanation test 'none'"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(AlignkitError, match=message):
        ExplanationSettings(**options)
