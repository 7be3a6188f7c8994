"""alignkit omissions."""

from __future__ import annotations

import json

import pytest

import alignkit as library

WORDS = dict(zip(("haus", "baum", "katze", "vogel"), ("house", "tree", "kitten", "bird"), strict=True))
LINES = ["haus baum katze", "baum haus vogel", "katze vogel haus", "vogel katze baum"] * 30


@pytest.fixture
def damaged(write):
    """120 pairs, one without the translation of its last word, and one with a word more than its source."""
    target = [" ".join(WORDS[word] for word in line.split()) for line in LINES]
    source = [*LINES, "haus baum vogel", "", "baum katze"]
    target += ["house tree", "", "tree bird kitten"]
    return write("s", "\n".join(source) + "\n"), write("t", "\n".join(target) + "\n")


def test_omissions_and_additions_are_marked(alignkit, damaged, tmp_path):
    how = "--embeddings", "none", "--least", "0.3"
    outcome = alignkit("omissions", *damaged, *how)
    assert outcome.code == 0
    assert outcome.err.endswith("2 of 123 pairs with omissions or additions\n")
    aligned = library.align(*map(str, damaged), embeddings="none")
    shares = [f"line {m + 1}  {100 * aligned.coverage(m).share:.1f} %" for m in (120, 122)]
    assert outcome.lines == [
        *(shares[0], "haus baum [-vogel-]", "house tree", ""),
        *(shares[1], "baum katze", "tree {+bird+} kitten", ""),
    ]
    shown = tmp_path / "shown"
    assert alignkit("omissions", *damaged, *how, "-q", "-o", shown).out == b""
    assert shown.read_bytes() == outcome.out
    assert alignkit("omissions", *damaged, *how, "--least", "1").out == b""


def test_json_has_a_line_for_each_pair(alignkit, damaged):
    aligned = library.align(*map(str, damaged), embeddings="none")
    records = [
        json.loads(line) for line in alignkit("omissions", *damaged, "--embeddings", "none", "--json").lines
    ]
    assert records == [{"line": m + 1, **aligned.coverage(m).as_record()} for m in range(123)]
    assert records[121]["share"] is None


def test_a_saved_model_and_colours(alignkit, damaged, write, tmp_path, monkeypatch):
    model = tmp_path / "m.npz"
    assert alignkit("align", "-q", *damaged, "--embeddings", "none", "--save-model", model).code == 0
    pair = write("one", "haus \x1b[2J vogel ||| house\n")
    monkeypatch.setattr("alignkit_cli.show.has_colour", lambda: True)
    outcome = alignkit("omissions", pair, "--model", model, "-q", "--least", "0.2")
    assert outcome.lines[1:3] == ["haus \ufffd[2J \x1b[31mvogel\x1b[0m", "house"]
    added = write("two", "haus ||| house bird tree\n")
    assert (
        "house \x1b[32mbird tree\x1b[0m"
        in alignkit("omissions", added, "--model", model, "-q", "--least", "0.2").lines
    )
    assert (
        "\x1b"
        not in alignkit("omissions", added, "--model", model, "-q", "--least", "0.2", "-o", "-").out.decode()
    )


def test_errors(alignkit, failure, text):
    failure(alignkit("omissions"), "Missing argument SRC")
    failure(alignkit("omissions", *text, "--least", "2"), "--least")
