"""Spans projected through links, beside a reference that tries all ranges."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.uses.projection import RULES, LinkedPair, ProjectedSpan, project_spans

spans = st.tuples(st.integers(0, 5), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair)))
weights = st.sampled_from([0.25, 0.5, 1.0])  # their sums are exact
pairs = st.tuples(st.integers(0, 4), st.integers(0, 5))
links = st.one_of(st.dictionaries(pairs, weights, min_size=least, max_size=14) for least in (0, 9))
least_ones = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def best_links(weighted, end, is_chosen):
    """{token at this end: the probability of its most probable link}, of some links."""
    found = {}
    for link, p in weighted.items():
        if is_chosen(link):
            found[link[end]] = max(p, found.get(link[end], 0))
    return found


def runs_of(tokens):
    groups = groupby(enumerate(sorted(tokens)), lambda pair: pair[1] - pair[0])
    return [(own[0][1], own[-1][1] + 1) for own in (list(group) for _, group in groups)]


def naive_range(inside, outside, rule):
    """The range of target tokens that a rule chooses."""
    hull = min(inside), max(inside) + 1
    if rule == "contiguous":  # of equally good ones that which ends first, then the shortest
        ranges = [(a, b + 1) for a in inside for b in inside if a <= b]
        return max(
            ranges,
            key=lambda own: (sum(inside.get(t, 0) - outside.get(t, 0) for t in range(*own)), -own[1], own[0]),
        )
    if rule == "head":
        best = max(inside, key=lambda t: (inside[t], -t))
        return next((a, b) for a, b in runs_of(inside) if a <= best < b)
    return hull if rule == "hull" or len(runs_of(inside)) == 1 else None


def naive_projection(span, weighted, rule, least):
    first, last = span
    if first == last:  # before what the next linked token is linked to, or behind what the last one is
        tokens = sorted({s for s, _ in weighted})
        behind = [s for s in tokens if s >= first]
        if not tokens:
            return None
        ends = [t for s, t in weighted if s == (behind or tokens[-1:])[0]]
        place = min(ends) if behind else max(ends) + 1
        return ProjectedSpan(place, place, 1.0, True)
    inside = best_links(weighted, 1, lambda link: first <= link[0] < last)
    outside = best_links(weighted, 1, lambda link: not first <= link[0] < last)
    found = naive_range(inside, outside, rule) if inside else None
    if found is None:
        return None
    into = best_links(weighted, 0, lambda link: first <= link[0] < last and found[0] <= link[1] < found[1])
    probability = sum(into.values()) / (last - first)
    is_consistent = all(t not in outside for t in range(*found))
    return ProjectedSpan(*found, probability, is_consistent) if probability >= least else None


def pair_of(weighted, rule, least):
    return LinkedPair(sorted((s, t, p) for (s, t), p in weighted.items()), rule, least)


@settings(max_examples=100)
@given(spans, links, least_ones)
def test_projections_are_those_of_a_naive_reference(span, weighted, least):
    for rule in RULES:
        assert pair_of(weighted, rule, least).project(span) == naive_projection(span, weighted, rule, least)


def naive_apart(sides, region, weighted, rule, least):
    """Each token is of the span with the most probable link to it, each span the run with the most links."""
    linked = [best_links(weighted, 1, lambda link, side=side: side[0] <= link[0] < side[1]) for side in sides]
    found = [naive_projection(side, weighted, rule, least) for side in sides]
    own = [set() for _ in sides]
    for t in range(*region):
        claims = [i for i, place in enumerate(found) if place and place.start <= t < place.end]
        if claims:
            own[max(claims, key=lambda i: (linked[i].get(t, 0), -i))].add(t)
    wanted = []
    for tokens, values in zip(own, linked, strict=True):
        sums = {run: sum(values.get(t, 0) for t in range(*run)) for run in runs_of(tokens)}
        wanted.append(max(sums, key=lambda run: (sums[run], -run[0]), default=None))
    return wanted


@settings(max_examples=70)
@example([(0, 1), (1, 2)], (0, 6), {(0, 0): 0.5, (0, 1): 0.5, (1, 2): 1.0, (0, 3): 0.75}, 0.0)
@given(st.lists(spans, max_size=4), spans, links, least_ones)
def test_spans_are_set_apart_as_by_a_naive_reference(sides, region, weighted, least):
    for rule in RULES:
        wanted = naive_apart(sides, region, weighted, rule, least)
        assert pair_of(weighted, rule, least).apart(sides, region) == wanted


def test_all_pairs_of_a_text():
    """Without a probability, a link is certain."""
    spans, links = [[(0, 2), (1, 2)], [], [(0, 2)]], Links.from_strings(["0-0 1-1", "0-0", "0-0 1-2"])
    found = project_spans(spans, links, np.array([np.nan, 0.5, 0.1, 0.6, 0.8]))
    hulls = [ProjectedSpan(0, 2, 0.75, True), ProjectedSpan(1, 2, 0.5, True)], [], [ProjectedSpan(0, 3, 0.7, True)]
    assert found == list(hulls)
    assert project_spans(spans, links)[2] == [ProjectedSpan(0, 3, 1.0, True)]
    only = project_spans(spans, links, np.array([0.5, 0.9, 1.0, 0.6, 0.8]), rule="head", least=0.9)
    assert only == [[None, ProjectedSpan(1, 2, 0.9, True)], [], [None]]


def test_what_is_no_span():
    given = Links.from_strings(["0-0"])
    for span in ((2, 1), (-1, 2)):
        with pytest.raises(AlignkitError, match="no span"):
            project_spans([[span]], given)
    with pytest.raises(AlignkitError, match=r"a span must be a range .*, not '0'; give a list of them for each"):
        project_spans([(0, 1)], given)  # a pair's spans are a list
    with pytest.raises(AlignkitError, match="spans of 2 sentence pairs, links of 1"):
        project_spans([[], []], given)
    with pytest.raises(AlignkitError, match="0 probabilities of 1 links"):
        project_spans([[]], given, np.zeros(0))
    with pytest.raises(AlignkitError, match=r"links must be Links, as Links.from_strings gives, not \['0-0'\]"):
        project_spans([[]], ["0-0"])
    with pytest.raises(AlignkitError, match="unknown rule 'best'; choose from hull, "):
        project_spans([[]], given, rule="best")
    for least in (-0.1, 50):
        with pytest.raises(AlignkitError, match=f"least is a probability from 0 to 1, not {least}"):
            project_spans([[]], given, least=least)
    assert project_spans([[(0, 1)]], given, least=1) == [[ProjectedSpan(0, 1, 1.0, True)]]
