"""alignkit remap."""

from __future__ import annotations

import gzip

import pytest


@pytest.fixture
def texts(write):
    old = write("old.x", "Haus , ja !\n\ndas Haus\n"), write("old.y", "house , yes !\n\nthe house\n")
    new = write("new.x", "▁Ha us , ▁ja !\n\n▁das ▁Ha us\n"), write("new.y", "▁house , ▁yes !\n\n▁the ▁ho use\n")

    def arguments(links, way=0):
        (one, other) = (new, old) if way else (old, new)
        return ["remap", *one, links, "--to", *other]

    return arguments


def test_there_and_back(alignkit, write, texts, tmp_path):
    there = alignkit(*texts(write("links", "0-0 3-3\n\n1-1:0.5\n"), 0))
    assert (there.code, there.err) == (0, "")
    assert there.lines == ["0-0 1-0 4-3", "", "1-1 1-2 2-1 2-2"]
    assert alignkit(*texts("-", 1), stdin=there.out).lines == ["0-0 3-3", "", "1-1"]
    packed = write("links.gz", gzip.compress(there.out))
    assert alignkit(*texts(packed, 1), "-o", tmp_path / "o").out == b""
    assert (tmp_path / "o").read_text() == "0-0 3-3\n\n1-1\n"


def test_a_mark_of_its_own_shifts_no_link(alignkit, write):
    """SentencePiece puts its mark before some words as a piece of its own, also at the start of the line."""
    words = write("w.x", "日本 が 好き\n„ Ja “\n"), write("w.y", 'I like Japan\n" yes "\n')
    pieces = write("p.x", "▁ 日 本 ▁が ▁ 好き\n▁ „ ▁J a ▁ “\n"), write("p.y", '▁I ▁like ▁Ja pan\n▁ " ▁yes ▁ "\n')
    links = write("links", "0-2 2-1\n0-0 1-1 2-2\n")
    there = alignkit("remap", *words, links, "--to", *pieces)
    assert there.lines == [
        "0-2 0-3 1-2 1-3 2-2 2-3 4-1 5-1",
        "0-0 0-1 1-0 1-1 2-2 3-2 4-3 4-4 5-3 5-4",
    ]
    assert alignkit("remap", *pieces, "-", "--to", *words, stdin=there.out).lines == ["0-2 2-1", "0-0 1-1 2-2"]
    only = write("only", "1-2 5-1\n1-1 3-2 5-4\n")  # without those of the marks
    assert alignkit("remap", *pieces, only, "--to", *words).lines == ["0-2 2-1", "0-0 1-1 2-2"]


def test_other_text(alignkit, write, texts, failure):
    write("new.x", "▁Ha us , ▁ja !\n\n▁das ▁Hans\n")
    links = write("links", "0-0\n\n1-1\n")
    failure(alignkit(*texts(links, 0)), "new.x, line 3: has other characters", "--on-error skip")
    skipped = alignkit(*texts(links, 0), "--on-error", "skip")
    assert (skipped.code, skipped.lines) == (0, ["0-0 1-0", "", ""])
    assert skipped.err.startswith("warning: 1 pair differs")
