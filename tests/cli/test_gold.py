"""alignkit gold."""

from __future__ import annotations

from tests.uses.test_annotate import embedded


def test_the_page_shows_given_links(alignkit, text, write, tmp_path):
    links = write("links", "0-0:0.2 1-1 2-2\n0-1\n")
    page = tmp_path / "gold.html"
    outcome = alignkit("gold", *text, links, "-o", page)
    assert outcome.code == 0
    assert (
        "links has 2 lines, the text 6 pairs: the links are those of the first\n2 pairs, 4 links\n" in outcome.err
    )
    shown = embedded(page.read_text())
    assert [(pair["line"], pair["links"]) for pair in shown] == [(1, [[0, 0], [1, 1], [2, 2]]), (2, [[0, 1]])]


def test_one_pair_with_one_link(alignkit, write):
    outcome = alignkit("gold", write("s", "a\n"), write("t", "A\n"), write("l", "0-0\n"), "-o", write("page", ""))
    assert (outcome.code, outcome.err) == (0, "1 pair, 1 link\n")


def test_without_links_the_text_is_aligned(alignkit, text):
    shown = embedded(alignkit("gold", *text, "--pairs", 3, "-q").out.decode())
    assert len(shown) == 3
    assert all(pair["links"] == [[i, i] for i in range(len(pair["source"]))] for pair in shown)


def test_links_of_another_text_are_one_line(alignkit, text, write, failure):
    failure(alignkit("gold", *text, write("links", "0-9\n")), "line 1")
    failure(alignkit("gold", write("s", "\n\n"), write("t", "\n\n"), write("l", "\n\n")), "blank side")
