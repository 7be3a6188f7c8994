"""alignkit show."""

from __future__ import annotations

import re
import sys

import pytest

from alignkit.lab.comparison import CompareSettings
from alignkit_cli.compare import sample_pictures, train_on_sample
from alignkit_cli.shared import sample_files
from alignkit_cli.show import chosen_pairs, picture


def test_given_links_are_drawn(alignkit, text, write):
    links = write("links", "0-0:0.2 1-1 2-2\n0-0 1-1\n")
    outcome = alignkit("show", *text, links, "--pairs", "1-9")
    assert outcome.code == 0
    assert outcome.err.endswith("links has 2 lines, the text 6 pairs: the links are those of the first\n")
    assert outcome.lines == [
        *("pair 1", "╭ a", "│ ╭ b", "│ │ ╭ c", "░░· ·  A", "· ██·  B", "· · ██ C", ""),
        *("pair 2", "╭ b", "│ ╭ a", "██·  B", "· ██ A", ""),
    ]
    words = ["a-A b-B c-C", "b-B a-A"]
    outcome = alignkit("show", *text, links, "--words", "--pairs", 2)
    assert [line.replace("\u2013", "-") for line in outcome.lines] == words


def test_without_links_the_text_is_aligned(alignkit, text, tmp_path):
    assert alignkit("show", *text, "--words", "--pairs", "2-2", "-q").lines == ["b\u2013B a\u2013A"]
    assert alignkit("ibm1", "-q", *text, "--save-model", tmp_path / "m", "-o", tmp_path / "l").code == 0
    outcome = alignkit("show", *text, "--model", tmp_path / "m", "--pairs", 1)
    assert outcome.lines[-4].endswith(" A")


def test_one_file_with_its_links(alignkit, write):
    text, links = write("text", "a b ||| A B\nb ||| B\n"), write("links", "0-0 1-1\n\n")
    assert alignkit("show", text, links, "--words", "--pairs", "1-2").lines == ["a\u2013A b\u2013B", ""]


def test_a_terminal_without_these_characters_gets_others(alignkit, text, write, monkeypatch):
    monkeypatch.setattr("alignkit_cli.show.encoding", lambda: "ascii")
    links = write("links", "0-0\n")
    source, target = write("s", "ä b\n"), write("t", "A B\n")
    assert alignkit("show", source, target, links).lines[1:5] == [", ?", "| , b", "##.  A", ". .  B"]
    assert alignkit("show", source, target, links, "--words").lines == ["?-A"]


@pytest.mark.parametrize(("term", "coloured"), [("xterm", True), ("dumb", False)])
def test_colour_only_where_the_terminal_has_it(term, coloured, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", term)
    assert ("\x1b" in "".join(picture([[1.0]], ["a"], ["A"]))) == coloured


@pytest.mark.parametrize(
    ("choice", "chosen"), [((0, 2), [1, 3]), ((0, 3), [0, 1, 3]), ((0, 9), [0, 1, 3]), ((2, 3), [1, 2])]
)
def test_few_short_pairs_are_chosen_first(choice, chosen):
    assert chosen_pairs([(30, 30), (5, 6), (0, 4), (4, 9)], choice) == chosen


def test_errors(alignkit, failure, text, write):
    links = write("links", "0-0\n0-5\n")
    failure(alignkit("show", *text, links), "line 2")
    failure(alignkit("show", *text, write("few", "0-0\n"), "--pairs", "2-3"), "there is no pair 2")
    for pairs in ("0", "3-2", "0-2", "x", "-1"):
        failure(alignkit("show", *text, "--pairs", pairs), "neither a number of pairs nor lines")
    failure(alignkit("show", *text, links, "--model", links), "Give LINKS or --model, not both")
    failure(alignkit("show", "--sample", *text), "Give SRC and TGT or --sample, not both")
    failure(alignkit("show"), "Missing argument SRC (try --sample")


def test_compare_trains_a_small_network_on_the_sample(monkeypatch):
    calls = []
    monkeypatch.setattr("alignkit.pipeline.training.train", lambda *given, **how: calls.append((given, how)))
    for threads in (None, 3):
        train_on_sample("folder", CompareSettings(seed=4, threads=threads, device="cpu"), quiet=True)
        given, how = calls.pop()
        assert given == (*sample_files("train"), "folder")
        assert how.pop("progress")
        valid = sample_files("test")
        assert how == {"preset": "small", "seed": 4, "device": "cpu", "valid": valid, "threads": threads or 1}


def test_compare_draws_counting_and_attention_side_by_side():
    from alignkit.pipeline.align import align

    fitted = align(*sample_files(), method="ibm1", threads=1).aligner  # in place of a network
    lines = sample_pictures(fitted)
    assert re.fullmatch(r"counting \(IBM Model 1\) +attention \(a small network\)", lines[0])
    assert lines.count("") == 2
    left, right = lines[0].index("counting"), lines[0].index("attention")
    for line in lines[1 : lines.index("")]:
        assert line[left:right].rstrip() == line[right:]
