"""Pairs to align by hand, and the page on which their links are corrected."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from browser import Browser, chromium

from alignkit.links.gold import read_gold
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext
from alignkit.uses.annotate import annotation_page, pairs_to_annotate

HOSTILE = "</script><b>&"


def numbered(sizes):
    """A text whose pairs have so many words on both sides, all different."""
    sides = [[[f"{side}{m}_{i}" for i in range(size)] for m, size in enumerate(sizes)] for side in "xy"]
    return Bitext.from_sentences(*sides)


def embedded(page):
    """What the page shows, from its data."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])["pairs"]


def test_pairs_are_different_and_of_moderate_length():
    bitext = numbered([3, 5, 41, 0, 8, 6, 40, 4])
    assert pairs_to_annotate(bitext, 5).tolist() == [1, 4, 5, 6, 7]
    assert pairs_to_annotate(bitext, 6).tolist() in ([0, 1, 4, 5, 6, 7], [1, 2, 4, 5, 6, 7])
    assert pairs_to_annotate(bitext, 99).tolist() == [0, 1, 2, 4, 5, 6, 7]  # not the blank one
    doubled = Bitext(bitext.source.take(np.arange(16) % 8), bitext.target.take(np.arange(16) % 8))
    assert sorted(pairs_to_annotate(doubled, 99) % 8) == [0, 1, 2, 4, 5, 6, 7]


def test_the_draw_is_random_and_repeats():
    bitext = numbered([5] * 50)
    drawn = [tuple(pairs_to_annotate(bitext, 10, seed).tolist()) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(sorted(set(pairs)) == list(pairs) and len(pairs) == 10 for pairs in drawn)


@pytest.fixture(scope="module")
def page():
    bitext = Bitext.from_sentences([["a"], ["b", HOSTILE], ["c", "d"]], [["A"], ["B", "B2"], ["C", "D"]])
    links = Links.from_lists([[(0, 0)], [(0, 0), (1, 1)], [(0, 1)]])
    return annotation_page(bitext, links, np.array([1, 2]))


def test_the_page_has_the_words_and_the_links_and_runs_nothing_else(page):
    text = page.decode()
    assert embedded(text) == [
        {"line": 2, "source": ["b", HOSTILE], "target": ["B", "B2"], "links": [[0, 0], [1, 1]]},
        {"line": 3, "source": ["c", "d"], "target": ["C", "D"], "links": [[0, 1]]},
    ]
    assert HOSTILE not in text
    assert "@@" not in text
    for name in ("style", "script"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        code = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{code}'" in text


@pytest.mark.parametrize(("count", "title"), [(1, "1 sentence pair to"), (2, "2 sentence pairs to")])
def test_the_title_counts_the_pairs(count, title):
    page = annotation_page(numbered([4, 4]), Links.from_lists([[], []]), np.arange(count))
    assert f"<h1>{title} align by hand</h1>" in page.decode()


@pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (apt-get install chromium)")
def test_ticked_pairs_are_saved_as_gold_links(page, tmp_path):
    place, saved = tmp_path / "gold.html", tmp_path / "gold.links"
    place.write_bytes(page)
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(place)
        browser.run("URL.createObjectURL = (blob) => { window.saved = blob; return '#'; }; 0")
        click = "document.querySelectorAll('{}')[{}].click()"
        for square in (0, 0, 1, 1, 3, 3):  # sure links go, and one that was none becomes possible
            browser.run(click.format("td button", square))
        browser.run(click.format("input", 0))
        assert browser.run("document.getElementById('done').textContent") == "1 of 2 pairs ticked"
        for square in (6, 6):  # the only link of the other pair
            browser.run(click.format("td button", square))
        browser.run(click.format("input", 1))
        told = browser.run("document.getElementById('done').textContent")
        assert told == "2 of 2 pairs ticked, 1 without a link, not saved"
        browser.run(click.format("#save", 0))
        saved.write_text(str(browser.run("window.saved.text()")))
        # The browser remembers. (Loading the page again would race with Chromium, which writes late.)
        script = page.decode().rpartition("<script>")[2].partition("</script>")[0]
        browser.run(f"document.getElementById('pairs').replaceChildren(); {script}; 0")
        assert browser.run("document.querySelector('input').checked") is True
        assert browser.problems == []
    finally:
        browser.close()
    gold = read_gold(saved)
    assert len(gold) == 3
    assert [links.tolist() for links in gold.possible] == [[], [[1, 0]], []]
    assert len(gold.sure.pairs) == 0
