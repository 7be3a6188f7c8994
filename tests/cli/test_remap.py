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


def test_other_text(alignkit, write, texts, failure):
    write("new.x", "▁Ha us , ▁ja !\n\n▁das ▁Hans\n")
    links = write("links", "0-0\n\n1-1\n")
    failure(alignkit(*texts(links, 0)), "new.x, line 3: has other characters", "--on-error skip")
    skipped = alignkit(*texts(links, 0), "--on-error", "skip")
    assert (skipped.code, skipped.lines) == (0, ["0-0 1-0", "", ""])
    assert skipped.err.startswith("warning: 1 pair differs")
