"""Spans projected through links."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.links import Links, parse_probabilities
from alignkit.uses.projection import RULES, LinkedPair, ProjectedSpan, project_spans


def project(span, links, **options):
    values = parse_probabilities("links", [links])
    return project_spans([[span]], Links.from_strings([links]), values, **options)[0][0]


def place(span, links, rule):
    found = project(span, links, rule=rule)
    return found and (found.start, found.end)


def test_a_name_that_moves():
    """ "gestern hat Angela Merkel gewonnen" - "Angela Merkel won yesterday"."""
    links = "0-3 1-2 2-0 3-1 4-2"
    assert project((2, 4), links) == ProjectedSpan(0, 2, 1.0, True)
    assert project((4, 5), links) == ProjectedSpan(2, 3, 1.0, False)  # "won" is "hat" as well
    assert project((1, 5), links) == ProjectedSpan(0, 3, 1.0, True)


@pytest.mark.parametrize(
    ("links", "hull", "contiguous", "head", "unsplit"),
    [
        ("0-1 1-2", (1, 3), (1, 3), (1, 3), (1, 3)),
        ("0-0:0.6 1-2:0.9", (0, 3), (0, 3), (2, 3), None),  # nothing else is linked to the word in between
        ("0-0 1-1 2-2:0.5 2-3:0.5 1-4:0.9 1-4", (0, 5), (0, 2), (0, 2), None),
        ("0-0:0.6 2-1:0.4 2-2:0.9 0-3:0.9 1-4:0.5", (0, 5), (3, 5), (3, 5), None),
        ("0-0:0.9 1-1:0.3 2-2", (0, 2), (0, 2), (0, 2), (0, 2)),
        ("0-0:0.4 2-0:0.9 2-1 1-2:0.3 2-2:0.9", (0, 3), (0, 1), (0, 1), None),  # each is more like another word
        ("2-0", None, None, None, None),
    ],
)
def test_the_rules(links, hull, contiguous, head, unsplit):
    wanted = {"hull": hull, "contiguous": contiguous, "head": head, "unsplit": unsplit}
    assert {rule: place((0, 2), links, rule) for rule in RULES} == wanted


def test_the_probability_of_a_projection():
    links = "0-0:0.8 0-5:0.9 1-0:0.4 3-9"
    assert project((0, 3), links) == ProjectedSpan(0, 6, (0.9 + 0.4) / 3, True)
    assert project((0, 2), links, rule="contiguous", least=0.6) == ProjectedSpan(0, 6, 0.65, True)
    assert project((0, 1), links, rule="head").probability == 0.9
    assert project((0, 2), links, least=0.66) is None
    assert project((2, 4), "3-9").probability == 1 / 2
    mixed = project_spans([[(0, 2)]], Links.from_strings(["0-0 1-1"]), np.array([np.nan, 0.5]))
    assert mixed[0][0].probability == 0.75  # without a probability, a link is certain


def test_a_place_between_tokens():
    links = "0-2 0-3 2-0"
    assert [project((p, p), links).start for p in range(5)] == [2, 0, 0, 1, 1]
    assert project((1, 1), links) == ProjectedSpan(0, 0, 1.0, True)
    assert project((0, 0), "") is None


def test_what_is_no_span():
    for span in ((2, 1), (-1, 2)):
        with pytest.raises(AlignkitError, match="no span"):
            project(span, "0-0")
    with pytest.raises(AlignkitError, match=r"a span must be a range .*, not '0'; give a list of them for each"):
        project_spans([(0, 1)], Links.from_strings(["0-0"]))  # a pair's spans are a list
    with pytest.raises(AlignkitError, match="spans of 2 sentence pairs, links of 1"):
        project_spans([[], []], Links.from_strings(["0-0"]))
    with pytest.raises(AlignkitError, match="0 probabilities of 1 links"):
        project_spans([[]], Links.from_strings(["0-0"]), np.zeros(0))
    with pytest.raises(AlignkitError, match="unknown rule 'best'; choose from hull, "):
        project((0, 1), "0-0", rule="best")
    with pytest.raises(AlignkitError, match="least is a probability from 0 to 1, not 50"):
        project((0, 1), "0-0", least=50)


spans = st.tuples(st.integers(0, 8), st.integers(1, 4)).map(lambda pair: (pair[0], sum(pair)))
weights = st.sampled_from([0.25, 0.5, 1.0])  # their sums are exact
links = st.dictionaries(st.tuples(st.integers(0, 8), st.integers(0, 8)), weights, max_size=12)


def pair_of(weighted, **options):
    return LinkedPair(sorted((s, t, p) for (s, t), p in weighted.items()), **options)


@settings(max_examples=40)
@given(spans, links)
def test_the_contiguous_range_is_the_best_of_all(span, weighted):
    found = pair_of(weighted, rule="contiguous").project(span)
    inside = pair_of(weighted).linked(span)
    if found is None:
        assert not inside
        return
    others = LinkedPair([(s, t, p) for (s, t), p in weighted.items() if not span[0] <= s < span[1]]).linked((0, 9))
    total = {
        (a, b): sum(inside.get(t, 0) - others.get(t, 0) for t in range(a, b))
        for a in inside
        for b in range(a + 1, 10)
        if b - 1 in inside
    }
    assert total[found.start, found.end] == max(total.values())


@settings(max_examples=40)
@given(spans, links)
def test_the_hull_says_what_the_links_say(span, weighted):
    found = pair_of(weighted).project(span)
    inside = {t for s, t in weighted if span[0] <= s < span[1]}
    assert (found is None) == (not inside)
    if found:
        assert (found.start, found.end) == (min(inside), max(inside) + 1)
        outside = {t for s, t in weighted if not span[0] <= s < span[1]}
        assert found.is_consistent == (not outside & set(range(found.start, found.end)))


@settings(max_examples=40)
@given(spans, spans, links)
def test_nested_spans_stay_nested_and_consistent_ones_apart(one, other, weighted):
    whole = (min(one[0], other[0]), max(one[1], other[1]))
    a, b, both = map(pair_of(weighted).project, (one, other, whole))
    for part in (a, b):
        if part is not None:
            assert both.start <= part.start <= part.end <= both.end
    disjoint = one[1] <= other[0] or other[1] <= one[0]
    if disjoint and a and b and a.is_consistent and b.is_consistent:
        assert a.end <= b.start or b.end <= a.start


@settings(max_examples=40)
@given(st.lists(spans, max_size=4), spans, links, st.sampled_from(list(RULES)))
def test_ranges_are_shortened_until_they_do_not_overlap(sides, region, weighted, rule):
    pair = pair_of(weighted, rule=rule)
    before = [pair.project(side) for side in sides]
    before = [range(max(x.start, region[0]), min(x.end, region[1])) if x else range(0) for x in before]
    after = [range(*(place or (0, 0))) for place in pair.apart(sides, region)]
    for one, other in zip(before, after, strict=True):
        assert set(other) <= set(one)
    assert len({t for each in after for t in each}) == sum(map(len, after))
    alone = not any(set(a) & set(b) for i, a in enumerate(before) for b in before[:i])
    if alone:
        assert list(map(list, after)) == list(map(list, before))


def test_a_word_goes_to_the_span_with_the_better_link():
    pair = LinkedPair([(0, 0, 1.0), (0, 2, 0.4), (1, 2, 0.9), (1, 3, 0.5)])
    assert pair.apart([(0, 1), (1, 2)], (0, 4)) == [(0, 2), (2, 4)]
    assert pair.apart([(0, 1), (1, 2)], (2, 3)) == [None, (2, 3)]
    around = LinkedPair([(0, 0, 0.3), (0, 2, 0.9), (1, 1, 1.0)])
    assert around.apart([(0, 1), (1, 2), (1, 1)], (0, 3)) == [(2, 3), (1, 2), None]
