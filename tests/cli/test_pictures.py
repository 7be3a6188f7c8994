"""Pictures of sentence pairs keep their columns whatever the words are."""

from __future__ import annotations

import pytest

from alignkit_cli.show import BLOCKS, PLAIN, beside, grid, marks_for, width


def test_a_picture():
    assert grid([[1.0, 0.0], [0.1, 0.6]], ["das", "Haus"], ["the", "house"], PLAIN) == [
        ", das",
        "| , Haus",
        "##.  the",
        "--++ house",
    ]


def test_links_are_darker_the_more_probable():
    lines = grid([[0, 1e-9, 0.4, 0.7, 1]], list("abcde"), ["x"])
    assert lines[:2] == ["╭ a", "│ ╭ b"]
    assert lines[-1] == "· ░░▒▒▓▓██ x"


@pytest.mark.parametrize(
    "words", [["das", "Haus"], ["我们", "家"], ["שלום", "בית"], ["é\u0301", "ก็"]], ids=" ".join
)
@pytest.mark.parametrize("marks", [BLOCKS, PLAIN])
def test_columns_stand_before_all_words(words, marks):
    lines = [line.removeprefix("\u200e") for line in grid([[1, 0], [0, 1]], words, words, marks)]
    assert lines == [
        f"{marks.corner}{words[0]}",
        f"{marks.line}{marks.corner}{words[1]}",
        f"{marks.shades[-1]}{marks.nothing} {words[0]}",
        f"{marks.nothing}{marks.shades[-1]} {words[1]}",
    ]


def test_leftward_words_do_not_turn_their_line():
    lines = grid([[1]], ["שלום"], ["peace"])
    assert [line[0] for line in lines] == ["\u200e", "█"]
    assert width(lines[0]) == 6


def test_widths_and_pictures_side_by_side():
    assert [width(text) for text in ("ab", "我们", "é\u0301", "\x1b[32m██\x1b[0m", "")] == [2, 4, 1, 2, 0]
    assert beside(["我", "abc"], ["x", "y", "z"], gap=1) == ["我  x", "abc y", "    z"]


def test_no_word_steers_the_terminal():
    assert grid([[0]], ["a\x1b[31m"], ["\u202eb\u200cc"], PLAIN) == [", a\ufffd[31m", ".  \ufffdb\u200cc"]


def test_colours_and_encodings():
    assert grid([[1, 0]], ["a", "b"], ["c"], colour=True)[-1] == "\x1b[32m██\x1b[0m\x1b[2m· \x1b[0m c"
    assert [marks_for(name) for name in ("utf-8", "ascii", "latin-1", "none")] == [BLOCKS, PLAIN, PLAIN, PLAIN]
