"""The explanation tests of a classifier's run, on a planted text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.explain.registry import ExplanationSettings
from alignkit.lab.explain.subject import Subject, explanation_table
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit_cli.main import run
from tests.lab.explain.conftest import train


def explain_classifier(classifier, text, others=(), **options):
    """The table of tests of a classifier, without the training text."""
    return explanation_table(Subject(classifier, text, text, ExplanationSettings(**options), others))


def test_attention_of_sigmoids_has_no_distance(runs, monkeypatch):
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
    monkeypatch.setattr("alignkit.lab.explain.interventions.order_rows", None)  # it is refused before other tests
    with pytest.raises(AlignkitError, match="the trained adversary needs a classifier whose attention is learned"):
        explain_classifier(strange, text, tests=("order", "trained-adversary"))


def test_the_command_prints_the_table(runs, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    twice = ("--test", "order") * 2
    assert run(["explain", str(runs / "0"), "--limit", "10", *twice, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["explanation"]) == 6
    assert run(["explain", str(runs / "0"), "--limit", "10"]) == 0
    printed = capsys.readouterr().out
    assert "\nerased, random" in printed
    assert printed.split("\n")[0].split() == ["test", "value", "95", "%", "interval", "n"]
    assert all(f"\n{name}: " in printed for name in ("order", "uniform", "erasure", "adversary"))
    assert "seeds, JSD" not in printed
    assert run(["explain", str(runs / "0"), "--other", str(runs / "1"), "--json"]) == 0
    found = {row["test"]: row for row in json.loads(capsys.readouterr().out)["explanation"]}
    assert found["seeds, JSD"]["n"] == 50
    assert {row["group"] for row in found.values()} == {"order", "uniform", "erasure", "adversary", "seeds"}
    train(tmp_path / "short", 0, 3)
    assert run(["explain", "short", "--test", "inattention", "--avoid", "good"]) == 0
    assert "recurrent, lambda 1, hidden" in capsys.readouterr().out
    assert run(["explain", str(runs)]) == 2
    error = capsys.readouterr().err
    assert error == f"alignkit: error: {runs}: is not a run; give one of those in it: {runs / '0'}, {runs / '1'}\n"
    for name in ("abcdefg", "abcdef"):
        for letter in name:
            (tmp_path / name / letter).mkdir(parents=True)
            (tmp_path / name / letter / "best.pt").touch()
        assert run(["explain", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.endswith(f"{name}/f{', ...' if 'g' in name else ''}\n")
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
        (["--test", "order", "--other", "RUN"], "--other goes only with the test seeds."),
        (["--test", "seeds"], "--test seeds needs --other RUN"),
        (["--other", "RUN"], "a run is given twice"),
    ],
)
def test_options_that_tell_no_test_anything(runs, capsys, options, message):
    options = [str(runs / "0") if option == "RUN" else option for option in options]
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
