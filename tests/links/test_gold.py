"""Gold files: two formats, two index bases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError, InputError
from alignkit.links.gold import find_base, is_naacl, parse_gold
from alignkit.links.links import Links


def as_lists(links):
    return [[tuple(pair) for pair in sentence.tolist()] for sentence in links]


# The shared tasks' format.


def test_naacl():
    lines = ["0001 1 1", "1 2 1 P", "1 2 3 S 0.7", "", "3 1 2 P 1", "3 0 1", "3 1 2 P", "4 0 1"]
    found = parse_gold("gold", lines)
    assert (found.base, found.warning) == (1, None)
    assert as_lists(found.gold.sure) == [[(0, 0), (1, 2)], [], [], []]
    assert as_lists(found.gold.possible) == [[(0, 0), (1, 0), (1, 2)], [], [(0, 1)], []]


def test_naacl_counted_from_zero_on_request():
    found = parse_gold("gold", ["1 0 0 S", "1 1 2 P"], base="0")
    assert as_lists(found.gold.possible) == [[(0, 0), (1, 2)]]


def test_naacl_that_links_position_0_with_0_counts_from_zero():
    """NULL has no link with NULL; by itself, a 0 is NULL."""
    found = parse_gold("gold", ["1 2 0", "", "2 0 0 P", "2 1 2"])
    assert found.base == 0
    assert found.warning == "gold: line 3 links position 0 with position 0: read as counting from 0"
    assert as_lists(found.gold.possible) == [[(2, 0)], [(0, 0), (1, 2)]]
    assert as_lists(found.gold.sure) == [[(2, 0)], [(1, 2)]]
    assert parse_gold("gold", ["1 0 0", "1 1 2"], base="1").gold.possible.to_strings() == ["0-1"]
    assert parse_gold("gold", ["1 2 0", "1 0 3", "1 1 1"]).base == 1


@pytest.mark.parametrize(
    "bad",
    ["1 1", "0 1 1", "1 1 1 X", "1 -1 1", "x 1 1 S", "0-0 1-1", "1 1 1 S 0.5 6", "99999999 1 1", 50 * "1"],
)
def test_what_is_not_naacl_is_named_with_its_line(bad):
    with pytest.raises(InputError, match=f"gold, line 3: '{bad[:40]}' is not a link; lines look like"):
        parse_gold("gold", ["1 1 1", "", bad], file_format="naacl")


@pytest.mark.parametrize(
    ("lines", "naacl"),
    [
        (["1 1 1"], True),
        (["", "  12 1 3 P"], True),
        (["1 2 3 0.5"], True),
        (["0-0 1-1 2-2"], False),
        (["1-1"], False),
        ([], False),
        (["", ""], False),
        (["1 1"], False),
    ],
)
def test_the_format_is_told_by_the_first_line(lines, naacl):
    assert is_naacl(lines) == naacl


# What the indices count from.


def shapes(*pairs):
    return np.array(pairs, np.int32)


def test_one_based_gold_is_found_out_by_the_lengths():
    lines = ["1-1 2-2", "1p1", "3-1"]
    found = parse_gold("gold", lines, shapes=shapes((2, 2), (1, 1), (1, 3)))
    assert found.base == 1
    assert "gold: index 0 never occurs, and line 1 has an index past" in found.warning
    assert as_lists(found.gold.possible) == [[(0, 0), (1, 1)], [(0, 0)], [(2, 0)]]
    assert as_lists(found.gold.sure) == [[(0, 0), (1, 1)], [], [(2, 0)]]


@pytest.mark.parametrize(("line", "pair"), [("3-1", (9, 3)), ("1-3", (3, 9))])
def test_one_index_past_the_end_is_enough(line, pair):
    assert parse_gold("gold", [line], shapes=shapes(pair)).base == 1


def test_long_sentences_leave_it_as_it_is_but_say_so():
    found = parse_gold("gold", ["1-1"] * 50, shapes=shapes(*[(5, 5)] * 50))
    assert found.base == 0
    assert "never occurs; if the file counts from 1, give --gold-base 1, in Python base=1" in found.warning


@pytest.mark.parametrize(
    ("lines", "base"),
    [
        (["1-1"] * 10, 1),
        (["1-1"] * 9, 0),
        (["2-2"] * 10, 0),  # of words 0, 1 and 2 on both sides, 20 positions: fewer than 10 zeros are expected
        (["2-2"] * 15, 1),
        (["1-1"] * 29 + ["40-40"], 1),  # by the mean of the lengths
        (["9-9"] * 40, 0),
        (["1-1 5-5"] * 10, 0),  # six words
        (["1-1 5-5"] * 15, 1),
    ],
)
def test_without_lengths_enough_lines_decide(lines, base):
    found = parse_gold("gold", [*lines, ""], option="--hyp-base")
    assert found.base == base
    said = f"index 0 occurs in none of {len(lines)} lines with links" if base else "index 0 never occurs; if"
    assert said in found.warning
    assert f"--hyp-base {1 - base}" in found.warning
    assert found.gold.possible[0][0].tolist() == [int(lines[0][0]) - base] * 2


def test_possible_links_count_too_and_all_pairs_need_a_length():
    found = parse_gold("gold", ["2-2", "0p1"], shapes=shapes((2, 2), (2, 2)))
    assert (found.base, found.warning) == (0, None)
    assert ", and line 2 has" in parse_gold("gold", ["1-1", "2-2"], shapes=shapes((5, 5), (2, 2))).warning
    with pytest.raises(InputError, match="gold: has 2 lines, the text 1 pair"):
        parse_gold("gold", ["1-1", "1-1"], shapes=shapes((1, 1)))


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4), max_size=20))
@settings(max_examples=100, deadline=None)
def test_links_with_an_index_0_are_never_shifted(lists):
    links = Links.from_lists([*lists, [(3, 0)]])
    assert find_base("x", links) == (0, None)
    assert find_base("x", links, shapes(*[(1, 1)] * len(links))) == (0, None)


def test_nothing_to_judge_by():
    assert find_base("x", Links.from_lists([[], []])) == (0, None)
    assert find_base("x", Links.from_lists([])) == (0, None)


def test_a_base_that_is_given_is_taken():
    for lines, base, expected in (
        (["1-1"] * 20, "0", (1, 1)),
        (["1-1"], 1, (0, 0)),
        (["2-1"] * 20, "1", (1, 0)),
    ):
        found = parse_gold("gold", lines, base=base)
        assert (as_lists(found.gold.sure)[0][0], found.warning, found.base) == (expected, None, int(base))
    with pytest.raises(InputError, match="gold, line 2: index 0 in links that count from 1"):
        parse_gold("gold", ["1-1", "2-0"], base="1")


def test_unknown_names():
    for words in ({"base": "2"}, {"file_format": "xml"}):
        with pytest.raises(AlignkitError, match="formats are"):
            parse_gold("gold", [], **words)
