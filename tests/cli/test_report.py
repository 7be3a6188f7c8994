"""``alignkit report`` without a run: words, saved models, and the scores of others."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from alignkit.scores import Scores


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture
def text(write):
    return write("x", "der hund\ndie katze schläft\ndie hund\n"), write("y", "the dog\nthe cat sleeps\nthe dog\n")


def test_the_sample(alignkit, tmp_path):
    """IBM Model 1 and the Markov model, fitted on the sample's text, on its held-out part."""
    first = alignkit("report", "--sample", "-o", tmp_path / "a.html")
    assert (first.code, first.out) == (0, b"")
    assert "100 of 100 sentence pairs" in first.err
    data = data_of(tmp_path / "a.html")
    assert [each["name"] for each in data["sets"]] == ["hmm.alpha", "ibm1.beta"]
    assert len(data["sentences"]) == 100
    assert alignkit("report", "--sample", "-o", tmp_path / "b.html", "--threads", 1, "-q").err == ""
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_scores_links_and_gold(alignkit, text, write, tmp_path):
    matrices = [np.eye(2), np.eye(3), np.array([[0.25, 0.75], [0.5, 0.5]])]
    Scores.from_matrices(matrices).save(tmp_path / "s.npz")
    links = write("l=1", "0-0 1-1\n0-0 1-1 2-2\n1-0\n")
    gold = write("g", "0-0 1p1\n0-0\n0-0\n")
    found = alignkit(
        *("report", "--text", *text, "--scores", f"marian={tmp_path / 's.npz'}", "--scores", f"human={links}"),
        *("--gold", gold, "-o", tmp_path / "a.html"),
    )
    assert found.code == 0, found.err
    data = data_of(tmp_path / "a.html")
    assert [each["name"] for each in data["sets"]] == ["hmm.alpha", "ibm1.beta", "marian.alpha", "human.alpha"]
    assert [pair["g"] for pair in data["sentences"]] == [[[0, 0, 1], [1, 1, 0]], [[0, 0, 1]], [[0, 0, 1]]]
    # the rows by hand: 2 + 3 agree; in the third pair the first agrees, and the second by a tie (all 0)
    assert data["main"] == [2, 1]  # the page begins with the first that was given
    for line in data["bands"]["length"]["2,3"], data["bands"]["length"]["3,2"]:
        assert [row[:3] for row in line] == [["1\N{EN DASH}5", 7, 1.0]]


def test_a_saved_model(alignkit, text, tmp_path):
    assert alignkit("hmm", *text, "--save-model", tmp_path / "m.npz", "-q").code == 0
    assert alignkit("report", "--text", *text, "--model", tmp_path / "m.npz", "-o", tmp_path / "a.html").code == 0
    assert {each["name"] for each in data_of(tmp_path / "a.html")["sets"]} == {"ibm1.beta", "m.alpha", "m.beta"}


def test_failures(alignkit, failure, text, write, tmp_path):
    out = ("-o", tmp_path / "a.html")
    failure(alignkit("report", "--text", *text), "--output")
    failure(alignkit("report", *out), "--text")
    failure(alignkit("report", "--lowercase", *out), "--lowercase goes only with --text")
    failure(alignkit("report", "--text", *text, "--scores", "x", *out), "NAME=FILE")
    failure(
        alignkit("report", "--text", *text, "--scores", f"a={text[0]}", "--scores", f"a={text[1]}", *out), "twice"
    )
    good, bad = write("good", "0-0\n0-0\n\n"), write("bad", "0-0\n0-9\n\n")
    same = "--scores", f"a={good}", "--scores", f"a.alpha={good}"
    failure(alignkit("report", "--text", *text, *same, *out), "two sets of scores with the name a.alpha")
    failure(alignkit("report", "--text", *text, "--scores", f"a={bad}", *out), "bad, line 2", "0-9")
    failure(alignkit("report", "--text", *text, "--gold", bad, *out), "bad, line 2", "0-9")
    short = write("short", "0-0\n")
    failure(alignkit("report", "--text", *text, "--scores", f"a={short}", *out), "1 pair, the text has 3")
    failure(alignkit("report", tmp_path / "none", *out), "none")
    blank = write("blank", "\n\n\n")
    failure(alignkit("report", "--text", blank, text[1], *out), "no pair of the text has words on both sides")
    assert not (tmp_path / "a.html").exists()
