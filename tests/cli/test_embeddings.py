"""alignkit align --embeddings."""

from __future__ import annotations

import pytest

from alignkit.embeddings import encoders
from alignkit.support.packages import with_extra

TEXT = "rot haus klein ||| big red home\n ||| x\nBaum alt ||| old tree\n"
VECTORS = {
    "rot": "5 0 0 1 0", "red": "5 0 1 0 0", "haus": "0 5 0 0 1", "home": "0 5 1 0 0", "klein": "0 0 5 0 1",
    "big": "0 1 5 0 0", "baum": "0 0 0 5 1", "tree": "0 1 0 5 0", "alt": "1 0 0 0 5", "old": "0 0 1 0 5",
}  # fmt: skip


@pytest.mark.parametrize("quality", ["fast", "normal", "best"])
def test_vectors_of_words_decide_what_the_text_leaves_open(alignkit, write, quality):
    text, vectors = write("t", TEXT), write("v.vec", "".join(f"{w} {v}\n" for w, v in VECTORS.items()))
    wanted = ["0-1 1-2 2-0", "", "0-1 1-0"]
    assert alignkit("align", "-q", text, "--embeddings", vectors, "--quality", quality).lines == wanted
    assert alignkit("align", "-q", text, "--embeddings", f"{vectors},{vectors}").lines == wanted
    assert alignkit("align", "-q", text).lines != wanted


def test_links_by_embeddings_are_judged_by_views_that_have_them(alignkit, write):
    text, vectors = write("t", TEXT), write("v.vec", "".join(f"{w} {v}\n" for w, v in VECTORS.items()))
    links = write("links", "0-1 1-2 2-0\n\n0-1 1-0\n")
    without, informed = (alignkit("diagnose", text, links, *more) for more in ((), ("--embeddings", vectors)))
    assert "are judged too severely" in without.lines[1]
    assert "are judged too severely" not in informed.out.decode()
    aers = [float(outcome.lines[0].split()[2]) for outcome in (without, informed)]
    assert aers[1] < aers[0]


def test_problems_are_told_in_one_line(alignkit, failure, write, tmp_path, monkeypatch):
    text = write("t", TEXT)
    failure(alignkit("align", "-q", text, "--embeddings", "e6"), "'e6' is neither e5, none nor the name of a file")
    failure(alignkit("align", "-q", text, "--embeddings", write("bad", "rot x y\n")), "line 1: must be a word and")
    failure(alignkit("align", "-q", text, "--embeddings", ",".join([str(text)] * 3)), "one or two files")
    (tmp_path / "folder").mkdir()
    failure(
        alignkit("align", "-q", text, "--embeddings", tmp_path / "folder"),
        "be loaded as an encoder",
        "; give e5, a folder",
    )
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    failure(alignkit("align", "-q", text, "--embeddings", "e5"), with_extra("embeddings"))
