"""Symmetrize two directed alignments (Koehn, Och and Marcu 2003).

The links of a sentence pair are points (t, s): a target word and a source word. The points of either direction are
listed by t, then by s, the order in which the published algorithm visits them; memory depends on their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel

#: The bits of a point: the directions that have it, and whether it is chosen.
FORWARD, REVERSE, BOTH, CHOSEN = 1, 2, 3, 4
#: The order in which neighbours are visited, by row and column.
_ORDER = np.array([[4, 0, 5], [1, 8, 3], [6, 2, 7]])


class Points(NamedTuple):
    """Memory for one sentence pair at a time, enough for any.

    Attributes:
        sources: int32 (P,), s of each point.
        marks: uint8 (P,), its bits.
        starts, ends: int32 (T + 2,); row t has the points starts[t + 1] <= k < ends[t + 1].
            Rows -1 and T are empty.
        linked: bool (L + 2,) and (T + 2,), at s + 1 and t + 1 the words with a chosen point or without
            any point.
        near: int32 (9,), the neighbours of a point.
        counts: int32 (L + 1,), zeros on entry and on return.
    """

    sources: np.ndarray
    marks: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    linked: tuple[np.ndarray, np.ndarray]
    near: np.ndarray
    counts: np.ndarray


@kernel
def lengths(forward, reverse):
    """(L, T): one more than the largest s and t of two sorted lists of links (s, t)."""
    L, T = 0, 0
    for links in (forward, reverse):
        if len(links) > 0:
            L = max(L, links[len(links) - 1, 0] + 1)
        for k in range(len(links)):
            T = max(T, links[k, 1] + 1)
    return L, T


@kernel
def list_points(forward, reverse, T, points):
    """Lists the points of two sorted lists of links (s, t): one is sorted by counting, the other inserted."""
    sources, marks, starts, ends = points.sources, points.marks, points.starts, points.ends
    ends[: T + 2] = 0
    for k in range(len(forward)):
        ends[forward[k, 1] + 1] += 1
    for k in range(len(reverse)):
        ends[reverse[k, 1] + 1] += 1
    place = 0
    for row in range(T + 2):
        count = ends[row]
        starts[row] = ends[row] = place
        place += count
    for j in range(len(forward)):
        row = forward[j, 1] + 1
        sources[ends[row]], marks[ends[row]] = forward[j, 0], FORWARD
        ends[row] += 1
    for j in range(len(reverse)):
        s, row = reverse[j, 0], reverse[j, 1] + 1
        k = ends[row]
        while k > starts[row] and sources[k - 1] > s:
            k -= 1
        if k > starts[row] and sources[k - 1] == s:
            marks[k - 1] |= REVERSE
            continue
        for place in range(ends[row], k, -1):
            sources[place], marks[place] = sources[place - 1], marks[place - 1]
        sources[k], marks[k] = s, REVERSE
        ends[row] += 1


@kernel
def grow_point(t, s, first, neighbours, points):
    """Chooses the neighbours of point (t, s) that have an unlinked word; returns whether there was one.

    Args:
        first: a point in each of the rows t - 1, t and t + 1; those before are too far to the left.
    """
    sources, marks, _, ends, (used, linked), near, _ = points
    near[:] = -1
    for row in range(3):
        place = first[row]
        while place < ends[t + row] and sources[place] <= s + 1:
            if sources[place] >= s - 1:
                near[_ORDER[row, sources[place] - s + 1]] = place
            place += 1
    grown = False
    for n in range(neighbours):
        k = near[n]
        if k >= 0 and not marks[k] & CHOSEN:
            row = t + 1 + (-1 if n in (0, 4, 5) else (1 if n in (2, 6, 7) else 0))
            if not used[sources[k] + 1] or not linked[row]:
                marks[k] |= CHOSEN
                used[sources[k] + 1] = linked[row] = True
                grown = True
    return grown


@kernel
def grow(T, neighbours, points):
    """Grows the alignment from each chosen point in turn, until nothing changes."""
    sources, marks, starts, ends, (used, linked), _, _ = points
    grown = True
    while grown:
        grown = False
        for t in range(T):
            above, here, below = starts[t], starts[t + 1], starts[t + 2]
            for k in range(starts[t + 1], ends[t + 1]):
                s = sources[k]
                are_linked = linked[t] and linked[t + 1] and linked[t + 2]
                if not marks[k] & CHOSEN or (are_linked and used[s] and used[s + 1] and used[s + 2]):
                    continue
                while above < ends[t] and sources[above] < s - 1:
                    above += 1
                while sources[here] < s - 1:
                    here += 1
                while below < ends[t + 2] and sources[below] < s - 1:
                    below += 1
                grown |= grow_point(t, s, (above, here, below), neighbours, points)


@kernel
def add_unlinked(T, direction, both, points):
    """Chooses points of one direction that have an unlinked word; with ``both``, two unlinked words."""
    sources, marks, starts, ends, (used, linked), _, _ = points
    for t in range(T):
        for k in range(starts[t + 1], ends[t + 1]):
            s = sources[k]
            unlinked = np.int64(not used[s + 1]) + np.int64(not linked[t + 1])
            if marks[k] & direction and not marks[k] & CHOSEN and unlinked > both:
                marks[k] |= CHOSEN
                used[s + 1] = linked[t + 1] = True


@kernel
def choose_points(L, T, steps, points):
    """Chooses the points of one sentence pair's alignment; arguments as of :func:`symmetrize_pairs`."""
    sources, marks, starts, ends, (used, linked), _, _ = points
    from_union, neighbours, unlinked = steps
    used[: L + 2] = True
    linked[: T + 2] = True
    for choosing in (False, True):
        for t in range(T):
            for k in range(starts[t + 1], ends[t + 1]):
                if not choosing:
                    used[sources[k] + 1] = linked[t + 1] = False
                elif from_union or marks[k] == BOTH:
                    marks[k] |= CHOSEN
                    used[sources[k] + 1] = linked[t + 1] = True
    if neighbours:
        grow(T, neighbours, points)
    if unlinked:
        add_unlinked(T, FORWARD, unlinked == 2, points)
        add_unlinked(T, REVERSE, unlinked == 2, points)


@kernel
def write_links(L, T, points, pairs, place):
    """Writes the chosen points as links (s, t) to pairs[place:], by a counting sort; returns their number."""
    sources, marks, starts, ends, _, _, counts = points
    for t in range(T):
        for k in range(starts[t + 1], ends[t + 1]):
            counts[sources[k] + 1] += (marks[k] & CHOSEN) > 0
    for s in range(L):
        counts[s + 1] += counts[s]
    size = counts[L]
    for t in range(T):
        for k in range(starts[t + 1], ends[t + 1]):
            if marks[k] & CHOSEN:
                there = place + counts[sources[k]]
                counts[sources[k]] += 1
                pairs[there, 0] = sources[k]
                pairs[there, 1] = t
    counts[: L + 1] = 0
    return size


@kernel
def symmetrize_pairs(low, high, forward, reverse, steps, points, out):
    """Symmetrizes the sentence pairs low <= m < high.

    Args:
        forward, reverse: (links int32 (K, 2), offsets int64 (M + 1,)), links (s, t), sorted.
        steps: (from_union, neighbours, unlinked), as :class:`alignkit.links.heuristics.Steps` describes them.
        points: :class:`Points`.
        out: (links int32 (K_f + K_r, 2), sizes int64 (M,)). The links of these pairs stand one after another, from
            the place at which those of both directions together would.
    """
    forward_links, forward_offsets = forward
    reverse_links, reverse_offsets = reverse
    pairs, sizes = out
    place = forward_offsets[low] + reverse_offsets[low]
    for m in range(low, high):
        first = forward_links[forward_offsets[m] : forward_offsets[m + 1]]
        second = reverse_links[reverse_offsets[m] : reverse_offsets[m + 1]]
        L, T = lengths(first, second)
        list_points(first, second, T, points)
        choose_points(L, T, steps, points)
        sizes[m] = write_links(L, T, points, pairs, place)
        place += sizes[m]
