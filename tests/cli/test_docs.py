"""The references of commands and library say what these say, the index of experiments what their results say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GENERATE = runpy.run_path(str(DOCS / "generate.py"))


@pytest.mark.parametrize("page", GENERATE["PAGES"])
def test_generated_pages_are_not_stale(page):
    assert (DOCS / page).read_text(encoding="utf-8") == GENERATE["PAGES"][page](), "run: python docs/generate.py"


def test_library_reference_has_no_marks_of_its_source():
    """Whatever is not understood in a docstring would stand in the page as it is."""
    written = (DOCS / "api.md").read_text(encoding="utf-8")
    for mark in (":func:", ":class:", ":meth:", "``", "Args:", "<object", "<class", " at 0x"):
        assert mark not in written, mark


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Counts words. Then more.", "Counts words."),
        ("Count\nwords: as they are", "Count words: as they are."),
        ("Trained by 1.5 passes\n\nArgs:", "Trained by 1.5 passes."),
        ("", ""),
    ],
)
def test_first_sentence(text, sentence):
    assert GENERATE["first_sentence"](text) == sentence
