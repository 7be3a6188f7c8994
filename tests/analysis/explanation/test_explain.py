"""The explanation tests of a classifier's run, on a planted text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alignkit.analysis.explanation.explain import explain_classifier, explain_run
from alignkit.analysis.explanation.settings import UNTRAINED
from alignkit.analysis.explanation.subject import decisions
from alignkit.errors import AlignkitError
from alignkit.neural.training.classifier_run import ClassifierRun
from alignkit_cli.main import run


def test_decisions_are_the_classifiers(runs):
    own = ClassifierRun(runs / "0")
    classifier = own.load(device="cpu")
    found = [one.logit for one in decisions(classifier, own.valid)]
    np.testing.assert_allclose(found, classifier.logits(own.valid.bitext), atol=1e-5)


def test_attention_to_the_telling_word_explains(runs):
    table = explain_run(runs / "0", [runs / "1"]).set_index("test")
    assert table.value["top 5 %, leave-one-out"] > 0.6
    assert 0 < table.value["tau, leave-one-out"] <= 1
    assert table.value["erased, attention"] < table.value["erased, random"]
    assert 0 <= table.value["adversary, JSD"] <= 1
    assert table.value["seeds, JSD"] < 1
    assert (table.texts[["adversary, JSD", "seeds, JSD", "uniform, flips"]] == 50).all()
    known = table[table.low.notna()]
    assert ((known.low <= known.value + 1e-9) & (known.value <= known.high + 1e-9)).all()
    assert "tau, gradient" in known.index


def test_the_command_prints_the_table(runs, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["explain", str(runs / "0"), "--limit", "10"]) == 0
    printed = capsys.readouterr().out
    assert "\nerased, random" in printed
    assert "seeds, JSD" not in printed
    assert run(["explain", str(runs / "0"), "--other", str(runs / "1"), "--json"]) == 0
    found = {row["test"]: row for row in json.loads(capsys.readouterr().out)["explanation"]}
    assert found["seeds, JSD"]["texts"] == 50
    assert {row["group"] for row in found.values()} == set(UNTRAINED)
    assert run(["explain", str(runs / "0"), "--test", "trained-adversary", "--steps", "2", "--csv", "t.csv"]) == 0
    assert "lambda 0.03, TVD" in capsys.readouterr().out
    assert run(["explain", str(runs / "0"), "--other", str(runs / "1"), "--html", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Does attention explain n or y?" in page
    assert "Attention (classifier 2)" in page
    assert run(["explain", str(runs / "0"), "--test", "order", "--all"]) == 2
    assert run(["explain", str(runs)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert (tmp_path / "t.csv").read_text().startswith("group,test,value,low,high,texts,meaning\ntrained-adv")


def test_impossible_settings(runs):
    own = ClassifierRun(runs / "0")
    for options, message in (({"epsilon": 0.0}, "epsilon must lie"), ({"permutations": 0}, "at least 1")):
        with pytest.raises(AlignkitError, match=message):
            explain_classifier(own.load(device="cpu"), own.valid, **options)
