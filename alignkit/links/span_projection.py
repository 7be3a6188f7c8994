"""Spans of source tokens (entities, markup, terms) projected through links onto target tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.links.links import Links

#: A range [start, end) of tokens or characters.
Span = tuple[int, int]


@dataclass(frozen=True)
class ProjectedSpan:
    """Where a span of source tokens is in the target sentence.

    Attributes:
        start, end: the smallest range [start, end) with all target tokens that are linked to the span. A part of a
            span is projected into the range of the whole, so nested markup stays nested.
        runs: the ranges of consecutive target tokens that are linked to the span, in order. More than one: other
            tokens stand between them.
        is_consistent: whether no target token in [start, end) is linked to a source token outside of the span, as
            phrase extraction asks of its phrases (Koehn, Och and Marcu 2003). Disjoint spans that are both
            consistent do not overlap in the target.
        coverage: the share of the span's source tokens that have a link.
    """

    start: int
    end: int
    runs: tuple[Span, ...]
    is_consistent: bool
    coverage: float

    @property
    def longest_run(self) -> Span:
        """The longest of the runs, the first of equals: a guess that one wrong link far away does not widen."""
        return max(self.runs, key=lambda run: run[1] - run[0])


def project_spans(spans: Iterable[Iterable[Span]], links: Links) -> list[list[ProjectedSpan | None]]:
    """Project spans of source tokens onto the target tokens that are linked to them.

    A span without links has no projection (None). An empty span (p, p), such as a line break before token p, goes
    in front of the target tokens of the next source token that has links, or, without one, behind those of the
    last one; its range is empty as well. For spans of target tokens, give ``links.reversed``.

    Args:
        spans: of each of M sentence pairs, any number of ranges [start, end) of source tokens, which may overlap.
        links: of the M pairs.

    Raises:
        AlignkitError: a span ends before it starts, or starts below 0; or not as many lists of spans as pairs.
    """
    lists = [list(each) for each in spans]
    if len(lists) != len(links):
        raise AlignkitError(f"spans of {len(lists)} sentence pairs, links of {len(links)}")
    return [[_project(span, pairs) for span in each] for each, pairs in zip(lists, links, strict=True)]


def _project(span: Span, pairs: np.ndarray) -> ProjectedSpan | None:
    first, last = span
    if not 0 <= first <= last:
        raise AlignkitError(f"{span} is no span: it must be a range (start, end) of token numbers")
    if first == last:
        return _project_position(first, pairs)
    source, target = pairs.T
    inside = (source >= first) & (source < last)
    if not inside.any():
        return None
    found = np.unique(target[inside])
    start, end = int(found[0]), int(found[-1]) + 1
    strays = ~inside & (target >= start) & (target < end)
    cuts = np.flatnonzero(np.diff(found) > 1) + 1
    runs = tuple((int(run[0]), int(run[-1]) + 1) for run in np.split(found, cuts))
    return ProjectedSpan(start, end, runs, not strays.any(), len(np.unique(source[inside])) / (last - first))


def _project_position(place: int, pairs: np.ndarray) -> ProjectedSpan | None:
    """The projection of the empty span before source token ``place``."""
    if not len(pairs):
        return None
    source, target = pairs.T
    after = source[source >= place]
    at = target[source == after.min()].min() if len(after) else target[source == source.max()].max() + 1
    return ProjectedSpan(int(at), int(at), ((int(at), int(at)),), True, 1.0)


def words_in_line(line: str) -> list[Span]:
    """The character ranges [start, end) of the words of a line, which spaces and tabs separate."""
    found, start = [], None
    for place, letter in enumerate(f"{line} "):
        if letter in " \t":
            if start is not None:
                found.append((start, place))
            start = None
        elif start is None:
            start = place
    return found


def spans_of_characters(line: str, spans: Sequence[Span]) -> list[Span]:
    """Ranges of characters as ranges of words: all words that share a character with them.

    A range of white space alone, or an empty one, is the empty range before the next word.
    """
    words = words_in_line(line)
    found = []
    for start, end in spans:
        first = sum(stop <= start for _, stop in words)
        found.append((first, max(first, sum(begin < end for begin, _ in words))))
    return found


def characters_of_spans(line: str, spans: Sequence[Span]) -> list[Span]:
    """Ranges of words as ranges of characters; an empty range is in front of its word, or at the end of the line.

    Raises:
        AlignkitError: the line does not have these words.
    """
    words = words_in_line(line)
    found = []
    for first, last in spans:
        if not 0 <= first <= last <= len(words):
            raise AlignkitError(f"{(first, last)} is no range of the {len(words)} words of the line")
        if first < last:
            found.append((words[first][0], words[last - 1][1]))
        else:
            at = words[first][0] if first < len(words) else len(line)
            found.append((at, at))
    return found
