from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError, InputError
from alignkit.links.formats import Alignment, render
from alignkit.links.links import (
    AlignedPair,
    GoldLinks,
    Link,
    Links,
    as_gold,
    as_links,
    check_range,
    parse_links,
    parse_probabilities,
)
from alignkit.scores import heat_map

LISTS = [[(2, 0), (0, 1), (2, 0)], [], [(10, 9), (9, 10), (1234567, 0)]]


def as_lists(links):
    return [[tuple(pair) for pair in sentence.tolist()] for sentence in links]


def test_lists_are_sorted_and_freed_of_repetitions():
    links = Links.from_lists(LISTS)
    assert as_lists(links) == [[(0, 1), (2, 0)], [], [(9, 10), (10, 9), (1234567, 0)]]
    assert len(links) == 3
    assert links.pairs.dtype == np.int32
    assert as_lists(Links.from_lists([])) == []
    assert links[-1].tolist() == links[2].tolist()
    for m in (3, -4):
        with pytest.raises(IndexError):
            links[m]


def test_pharaoh_text():
    assert Links.from_lists(LISTS).to_pharaoh() == b"0-1 2-0\n\n9-10 10-9 1234567-0\n"
    assert Links.from_lists([]).to_pharaoh() == b""
    assert Links.from_lists([[], []]).to_pharaoh() == b"\n\n"


sentences = st.lists(
    st.lists(st.tuples(*[st.one_of(st.integers(0, 12), st.integers(0, 10**9 - 1))] * 2), max_size=6),
    max_size=6,
)


@given(sentences)
@settings(max_examples=100, deadline=None)
def test_pharaoh_text_is_what_python_would_write_and_reads_back(lists):
    links = Links.from_lists(lists)
    expected = "".join(" ".join(f"{s}-{t}" for s, t in sorted(set(one))) + "\n" for one in lists)
    assert links.to_pharaoh() == expected.encode()
    again = parse_links("x", expected.splitlines())
    assert as_lists(again.sure) == as_lists(again.possible) == as_lists(links)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), max_size=5), st.lists(st.integers(0, 5)))
@settings(max_examples=100, deadline=None)
def test_exactly_what_is_sorted_and_unrepeated_is_taken(pairs, cuts):
    offsets = [0, *sorted(min(cut, len(pairs)) for cut in cuts), len(pairs)]
    parts = [pairs[a:b] for a, b in pairwise(offsets)]
    fine = all(part == sorted(set(part)) and all(min(link) >= 0 for link in part) for part in parts)
    arrays = np.array(pairs, np.int32).reshape(-1, 2), np.array(offsets, np.int64)
    if fine:
        Links(*arrays)
    else:
        with pytest.raises(ValueError):
            Links(*arrays)


@given(sentences)
@settings(max_examples=100, deadline=None)
def test_reversed(lists):
    links = Links.from_lists(lists)
    assert as_lists(links.reversed) == [sorted({(t, s) for s, t in one}) for one in lists]
    assert as_lists(links.reversed.reversed) == as_lists(links)


def test_nonsense_is_refused():
    pairs = np.zeros((3, 2), np.int32)
    for offsets in ([0, 2], [1, 3], [0, 2, 1, 3], [], [0, 2**63 - 1, -2, 3]):
        with pytest.raises(ValueError):
            Links(pairs, np.array(offsets, np.int64))
    with pytest.raises(ValueError):
        Links(pairs.reshape(2, 3), np.array([0, 2]))
    with pytest.raises(TypeError):
        Links(pairs.astype(np.int64), np.array([0, 3]))
    for wrong in ([(0, 1), (0, 1), (2, 2)], [(1, 0), (0, 1), (2, 2)], [(0, 1), (0, 0), (2, 2)]):
        with pytest.raises(ValueError, match="sorted"):
            Links(np.array(wrong, np.int32), np.array([0, 3]))
        with pytest.raises(ValueError, match="sorted"):
            Links(np.array([*wrong[2:], *wrong[:2]], np.int32), np.array([0, 1, 1, 3]))
        Links(np.array(wrong, np.int32), np.array([0, 1, 1, 2, 3]))
    with pytest.raises(ValueError, match="negative"):
        Links(np.array([(-1, 0)], np.int32), np.array([0, 1]))
    with pytest.raises(ValueError, match="same sentence pairs"):
        GoldLinks(Links.from_lists([[]]), Links.from_lists([[], []]))


# Parsing.


def test_parse_gold():
    gold = parse_links("gold", ["0-0 1p2 \t3-1", "", "2?2 2-2:0.93 2-2:1e-05 3?3"])
    assert as_lists(gold.sure) == [[(0, 0), (3, 1)], [], [(2, 2)]]
    assert as_lists(gold.possible) == [[(0, 0), (1, 2), (3, 1)], [], [(2, 2), (3, 3)]]
    assert len(gold) == 3


NO_LINKS = "0 0- -1 0--1 0-1-2 a-b 0:1 0-1, 0P1 0/1 0-1: 0-1:x 0-1:0.5:0.5 1.0-2 \u0661-\u0662 0-9999999999 -1-2"


@pytest.mark.parametrize("item", NO_LINKS.split())
def test_what_is_not_a_link_is_named_with_its_line(item):
    with pytest.raises(InputError) as caught:
        parse_links("gold.txt", ["0-0", "", f"1-1 {item} 2-2"])
    assert str(caught.value) == f"gold.txt, line 3: {item!r} is not a link; links look like 0-1, 0p1 or 0?1"


@pytest.mark.parametrize("space", ["", " \t"])
@pytest.mark.parametrize(("output_format", "name"), [("json", "JSON"), ("giza", "GIZA\\+\\+'s format")])
def test_other_formats_of_links_are_named(output_format, name, space):
    alignment = Alignment(Links.from_strings(["0-0"]), [["a"]], [["b"]], np.ones(1))
    lines = [space + line for line in render(alignment, output_format).decode().splitlines()]
    with pytest.raises(
        InputError,
        match=f"x, line 1: .*links look like .*, but this looks like {name}; `alignkit align --format pharaoh`",
    ):
        parse_links("x", lines)


def test_a_long_item_is_shown_in_part():
    with pytest.raises(InputError, match=r"line 1: '0-9{18}\.\.\.9{10}' is not a link"):
        parse_links("gold.txt", ["0-" + "9" * 5000])


# Ranges. shapes are (T, L): here 2 target and 3 source tokens.


def test_links_within_range_pass():
    check_range("x", Links.from_lists([[(2, 1), (0, 0)], []]), np.array([[2, 3], [0, 0]], np.int32))


@pytest.mark.parametrize("link", [(3, 0), (2, 2), (9, 9)])
def test_a_link_out_of_range_is_named_with_its_line(link):
    links = Links.from_lists([[(0, 0)], [], [(0, 1), link]])
    with pytest.raises(InputError) as caught:
        check_range("hyp", links, np.array([[2, 3]] * 3, np.int32))
    assert str(caught.value) == (
        f"hyp, line 3: link {link[0]}-{link[1]} points outside a pair of 3 source and 2 target tokens; "
        "are these the links of this text, with the same tokenization?"
    )


def test_exchanged_sides_are_recognised():
    with pytest.raises(InputError, match=r"line 1: link 0-2 points outside .* exchanged"):
        check_range("hyp", Links.from_lists([[(0, 2), (1, 1)]]), np.array([[2, 3]], np.int32))


def test_one_based_gold_is_recognised():
    links = Links.from_lists([[(1, 1), (2, 1)], [(3, 2)]])
    with pytest.raises(InputError, match=r"line 2: link 3-2 points outside .*1-based"):
        check_range("gold", links, np.array([[2, 3]] * 2, np.int32))


def test_a_link_in_a_blank_pair_is_out_of_range():
    with pytest.raises(InputError, match="line 2"):
        check_range("x", Links.from_lists([[(0, 0)], [(0, 0)]]), np.array([[1, 1], [0, 1]], np.int32))


def test_chosen_sentence_pairs():
    rows = [[(0, 1), (2, 0)], [], [(1, 1)], [(0, 0)]]
    links = Links.from_lists(rows)
    for chosen in ([2, 0, 1], [3, 3], []):
        taken = links.take(np.array(chosen, np.int64))
        assert taken.to_strings() == Links.from_lists([rows[m] for m in chosen]).to_strings()
    gold = GoldLinks(Links.from_lists([[], [], [(1, 1)], []]), links).take(np.array([2, 1]))
    assert (gold.sure.to_strings(), gold.possible.to_strings()) == (["1-1", ""], ["1-1", ""])


# What links are made of, and how they are shown.

PAIR = AlignedPair(["das", "Haus"], ["the", "house", "!"], [Link(0, 1, 0.98765), Link(1, 2, 0.25)])


def test_links_may_be_lists_strings_and_aligned_pairs():
    assert as_links([PAIR, [(1, 0), (0, 2)], []]).to_strings() == ["0-1 1-2", "0-2 1-0", ""]
    assert as_links(["1-0 0p2", ""]).to_strings() == ["0-2 1-0", ""]
    gold = as_gold(["1-0 0p2", ""])
    assert (gold.sure.to_strings(), gold.possible.to_strings()) == (["1-0", ""], ["0-2 1-0", ""])
    assert as_gold(gold) is gold
    assert as_gold([[(1, 0)]]).sure.to_strings() == as_gold([[(1, 0)]]).possible.to_strings() == ["1-0"]
    for read, lines, message in (
        (as_links, ["0-0", [(0, 0)]], r"must be text, not \[\(0, 0\)\]"),
        (as_gold, [[], "0-0"], r"must be text, not \[\]"),
        (as_gold, ["0-0", "x"], r"^gold\[1\]: 'x' is not a link"),
    ):
        with pytest.raises(AlignkitError, match=message):
            read(lines)


def test_an_aligned_pair_shows_its_links():
    assert str(PAIR) == "0-1:0.9877 1-2:0.25"
    assert PAIR.words == [("das", "house"), ("Haus", "!")]
    matrix = np.array([[0, 0], [0.98765, 0], [0, 0.25]])
    assert PAIR.heat_map() == heat_map(matrix, PAIR.source, PAIR.target, by_row=False)
    assert repr(PAIR) == "AlignedPair(das-house Haus-!)"
    for length, shown in ((99, f"{'a' * 98}-b"), (100, f"{'a' * 99}…")):
        assert repr(AlignedPair(["a" * (length - 1)], ["b"], [Link(0, 0, 1)])) == f"AlignedPair({shown})"
    links = Links.from_lists([[(0, 0), (1, 1)], [(0, 0)]])
    assert repr(links) == "Links(2 pairs, 3 links)"
    assert repr(GoldLinks(links.block(1, 2), links.block(0, 1))) == "GoldLinks(1 pairs, 1 sure and 2 possible)"


def test_probabilities_are_in_the_order_of_the_links():
    found = parse_probabilities("f", ["1-1:0.5 0-0:1 1-1:0.7", "2-0", "", "0-0:0"])
    assert found.tolist() == pytest.approx([1, 0.5, np.nan, 0], nan_ok=True)
    assert parse_probabilities("f", ["0-0", ""]) is None
    for text in ("1.1", "-1", "1e", "e"):
        with pytest.raises(InputError, match=f"^f, line 2: '0-0:{text}' has no probability from 0 to 1 after"):
            parse_probabilities("f", ["1-1:1", f"0-0:{text}"])
