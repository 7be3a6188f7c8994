"""Spans projected through links."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.links.projection import ProjectedSpan, project_spans


def project(span, links):
    return project_spans([[span]], Links.from_strings([links]))[0][0]


def test_a_name_that_moves():
    """ "gestern hat Angela Merkel gewonnen" - "Angela Merkel won yesterday"."""
    links = "0-3 1-2 2-0 3-1 4-2"
    assert project((2, 4), links) == ProjectedSpan(0, 2, ((0, 2),), True, 1.0)
    assert project((4, 5), links) == ProjectedSpan(2, 3, ((2, 3),), False, 1.0)  # "won" is "hat" as well
    assert project((1, 5), links) == ProjectedSpan(0, 3, ((0, 3),), True, 1.0)


def test_gaps_and_strays():
    found = project((0, 3), "0-0 2-1 0-5 4-3")
    assert found == ProjectedSpan(0, 6, ((0, 2), (5, 6)), False, 2 / 3)
    assert found.longest_run == (0, 2)
    assert project((0, 1), "0-1 0-3").longest_run == (1, 2)
    assert project((1, 2), "0-0") is None
    assert project((1, 9), "1-0").coverage == 1 / 8


def test_a_place_between_tokens():
    links = "0-2 0-3 2-0"
    assert [project((p, p), links).start for p in range(5)] == [2, 0, 0, 1, 1]
    assert project((1, 1), links) == ProjectedSpan(0, 0, ((0, 0),), True, 1.0)
    assert project((0, 0), "") is None


def test_what_is_no_span():
    for span in ((2, 1), (-1, 2)):
        with pytest.raises(AlignkitError, match="no span"):
            project(span, "0-0")
    with pytest.raises(AlignkitError, match="spans of 2 sentence pairs, links of 1"):
        project_spans([[], []], Links.from_strings(["0-0"]))


spans = st.tuples(st.integers(0, 8), st.integers(1, 4)).map(lambda pair: (pair[0], sum(pair)))
links = st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12)


@given(spans, links)
def test_projections_say_what_the_links_say(span, pairs):
    (found,) = project_spans([[span]], Links.from_lists([pairs]))[0]
    inside = {t for s, t in pairs if span[0] <= s < span[1]}
    if not inside:
        assert found is None
        return
    assert (found.start, found.end) == (min(inside), max(inside) + 1)
    assert {t for a, b in found.runs for t in range(a, b)} == inside
    assert all(end < start for (_, end), (start, _) in pairwise(found.runs))
    outside = {t for s, t in pairs if not span[0] <= s < span[1]}
    assert found.is_consistent == (not outside & set(range(found.start, found.end)))


@given(spans, spans, links)
def test_nested_spans_stay_nested_and_consistent_ones_apart(one, other, pairs):
    whole = (min(one[0], other[0]), max(one[1], other[1]))
    a, b, both = project_spans([[one, other, whole]], Links.from_lists([pairs]))[0]
    for part in (a, b):
        if part is not None:
            assert both.start <= part.start <= part.end <= both.end
    disjoint = one[1] <= other[0] or other[1] <= one[0]
    if disjoint and a and b and a.is_consistent and b.is_consistent:
        assert a.end <= b.start or b.end <= a.start
