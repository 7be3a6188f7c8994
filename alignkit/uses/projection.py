"""Spans of source tokens projected onto the target tokens that are linked to them, by one of several rules.

This module imports nothing heavy, because the command line reads its choices from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.errors import AlignkitError, check_known, check_list, check_type

if TYPE_CHECKING:
    import numpy as np

    from alignkit.links.links import Links

#: A range [start, end) of tokens or characters.
Span = tuple[int, int]
#: A source token, a target token that is linked to it, and the probability of the link.
WeightedLink = tuple[int, int, float]
#: Target token -> the probability of its most probable link.
Linked = dict[int, float]


@dataclass(frozen=True)
class ProjectedSpan:
    """Where a span of source tokens is in the target sentence.

    Attributes:
        start, end: the range [start, end) of target tokens, chosen by the rule.
        probability: the mean, over the span's source tokens, of the probability of the most probable link into the
            range, 0 without one. Where links have no probabilities, this is the share of source tokens with links.
        is_consistent: true if no target token in [start, end) is linked to a source token outside of the span, as
            phrase extraction asks of its phrases (Koehn, Och and Marcu 2003). Disjoint spans that are both
            consistent do not overlap in the target.
    """

    start: int
    end: int
    probability: float
    is_consistent: bool


def _hull(inside: Linked, outside: Linked) -> Span:
    return min(inside), max(inside) + 1


def _contiguous(inside: Linked, outside: Linked) -> Span:
    best, total, start, found = -math.inf, 0.0, 0, (0, 0)
    for t in range(*_hull(inside, outside)):
        if t in inside and total <= 0:
            start, total = t, 0.0
        total += inside.get(t, 0.0) - outside.get(t, 0.0)
        if t in inside and total > best:
            best, found = total, (start, t + 1)
    return found


def _head(inside: Linked, outside: Linked) -> Span:
    best = max(sorted(inside), key=lambda t: inside[t])
    return next(run for run in _runs(sorted(inside)) if run[0] <= best < run[1])


def _unsplit(inside: Linked, outside: Linked) -> Span | None:
    return _hull(inside, outside) if len(_runs(sorted(inside))) == 1 else None


def _runs(tokens: Sequence[int]) -> list[Span]:
    """The ranges of consecutive numbers among sorted ones."""
    runs: list[Span] = []
    for t in tokens:
        start = runs.pop()[0] if runs and runs[-1][1] == t else t
        runs.append((start, t + 1))
    return runs


#: The registry of rules: each chooses a range of target tokens, or none, from those that are linked to a span and
#: those that are linked to other source tokens. The first is the default (benchmarks/projection.py compares them).
RULES: dict[str, Callable[[Linked, Linked], Span | None]] = {
    "hull": _hull,
    "contiguous": _contiguous,
    "head": _head,
    "unsplit": _unsplit,
}
DEFAULT_RULE = next(iter(RULES))


@dataclass(frozen=True)
class LinkedPair:
    """The links of a sentence pair, and how spans are projected through them.

    Attributes:
        links: of the pair.
        rule: a key of :data:`RULES`.
        least: spans with a lower :attr:`ProjectedSpan.probability` have no projection.
    """

    links: Sequence[WeightedLink]
    rule: str = DEFAULT_RULE
    least: float = 0.0

    def project(self, span: Span) -> ProjectedSpan | None:
        """The projection of a span of source tokens; None if it has none. See :func:`project_spans`."""
        check_list(span, "a span must be a range (start, end)", "give a list of them for each sentence pair")
        first, last = span
        if not 0 <= first <= last:
            raise AlignkitError(f"{span} is no span: it must be a range (start, end) of token numbers")
        if first == last:
            place = self.position(first)
            return None if place is None else ProjectedSpan(place, place, 1.0, True)
        inside = self.linked(span)
        outside = _most_probable((t, p) for s, t, p in self.links if not first <= s < last)
        found = RULES[self.rule](inside, outside) if inside else None
        if found is None:
            return None
        start, end = found
        best = _most_probable((s, p) for s, t, p in self.links if first <= s < last and start <= t < end)
        probability = sum(best.values()) / (last - first)
        if probability < self.least:
            return None
        return ProjectedSpan(start, end, probability, not any(start <= t < end for t in outside))

    def linked(self, span: Span) -> Linked:
        """The target tokens that are linked to a span."""
        return _most_probable((t, p) for s, t, p in self.links if span[0] <= s < span[1])

    def position(self, place: int) -> int | None:
        """The place between target tokens of the place before source token ``place``; None without links."""
        if not self.links:
            return None
        after = min(((s, t) for s, t, _ in self.links if s >= place), default=None)
        return max((s, t) for s, t, _ in self.links)[1] + 1 if after is None else after[1]

    def apart(self, spans: Sequence[Span], region: Span) -> list[Span | None]:
        """The projections of several spans within a range of target tokens, shortened so that they do not overlap.

        A token in several of them is left to the span with the most probable link to it, the first of equals. Of
        the tokens left to it, a span gets the consecutive ones with the most links, or None if it has none; so do
        empty spans.
        """
        linked, ranges = [self.linked(span) for span in spans], []
        owner: dict[int, int] = {}
        for i, span in enumerate(spans):
            place = self.project(span)
            ranges.append(range(max(place.start, region[0]), min(place.end, region[1])) if place else range(0))
            for t in ranges[i]:
                if t not in owner or linked[i].get(t, 0.0) > linked[owner[t]].get(t, 0.0):
                    owner[t] = i
        found: list[Span | None] = []
        for i, weights in enumerate(linked):
            runs = _runs([t for t in ranges[i] if owner[t] == i])
            found.append(max(runs, key=lambda run: sum(weights.get(t, 0.0) for t in range(*run)), default=None))
        return found


def _most_probable(items: Iterable[tuple[int, float]]) -> Linked:
    found: Linked = {}
    for token, p in items:
        found[token] = max(found.get(token, 0.0), p)
    return found


def project_spans(
    spans: Iterable[Iterable[Span]],
    links: Links,
    probabilities: np.ndarray | None = None,
    *,
    rule: str = DEFAULT_RULE,
    least: float = 0.0,
) -> list[list[ProjectedSpan | None]]:
    """Project spans of source tokens onto the target tokens that are linked to them.

    A span without links has no projection (None). An empty span (p, p), such as a line break before token p, goes
    in front of the target tokens of the next source token that has links, or, without one, behind those of the
    last one; its range is empty as well. For spans of target tokens, give ``links.reversed``.

    Args:
        spans: of each of M sentence pairs, any number of ranges [start, end) of source tokens, which may overlap.
        links: of the M pairs.
        probabilities: float (K,), one for each link; without them, all are 1.
        rule: ``hull``, the smallest range with all target tokens that are linked to the span, which keeps nested
            spans nested; ``contiguous``, the range in which the probabilities of links from the span, less those
            of links from elsewhere, have the largest sum (the most probable link of each target token counts);
            ``head``, the consecutive linked tokens around the most probable link; ``unsplit``, the hull, but
            nothing if tokens without a link to the span stand in between.
        least: spans with a lower :attr:`ProjectedSpan.probability` have no projection.

    Raises:
        AlignkitError: a span ends before it starts, or starts below 0; not as many lists of spans as pairs, or
            probabilities as links; an unknown rule; or ``least`` is no probability.
    """
    from alignkit.links.links import Links

    check_known(rule, RULES, "rule")
    check_type(links, Links, "links must be Links, as Links.from_strings gives")
    lists = [list(each) for each in spans]
    if len(lists) != len(links):
        raise AlignkitError(f"spans of {len(lists)} sentence pairs, links of {len(links)}")
    pairs = pairs_with_links(links, probabilities, rule, least)
    return [[pair.project(span) for span in each] for each, pair in zip(lists, pairs, strict=True)]


def pairs_with_links(
    links: Links, probabilities: np.ndarray | None = None, rule: str = DEFAULT_RULE, least: float = 0.0
) -> list[LinkedPair]:
    """The pairs of links; arguments as :func:`project_spans`, and a probability that is not known (NaN) is 1."""
    values = [1.0] * len(links.pairs) if probabilities is None else probabilities.tolist()
    if len(values) != len(links.pairs):
        raise AlignkitError(f"{len(values)} probabilities of {len(links.pairs)} links")
    if not 0 <= least <= 1:
        raise AlignkitError(f"least is a probability from 0 to 1, not {least}")
    rows = [(s, t, 1.0 if math.isnan(p) else p) for (s, t), p in zip(links.pairs.tolist(), values, strict=True)]
    bounds = links.offsets.tolist()
    return [LinkedPair(rows[bounds[m] : bounds[m + 1]], rule, least) for m in range(len(links))]
