"""Symmetrize two directed alignments (Koehn, Och and Marcu 2003).

The points of a sentence pair are the links (s, t) of either direction. They are kept as a list, sorted by s and
then by t as links are, and not as a grid, so that the memory they take depends on their number and not on the
lengths of the sentences. The published algorithm visits them row by row: by t, then by s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel

#: What is known of a point: the directions that have it, and whether the alignment has it.
FORWARD, REVERSE, CHOSEN = np.uint8(1), np.uint8(2), np.uint8(4)
BOTH = FORWARD | REVERSE
#: The neighbours of a point, as steps in s and in t, in the published order: the corners come last.
STEPS = np.array([(0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1)], np.int32)


class Points(NamedTuple):
    """The K points of one sentence pair, or room for those of any.

    Attributes:
        links: int32 (K, 2), the points (s, t), sorted.
        states: uint8 (K,), FORWARD, REVERSE and CHOSEN.
        order: int32 (K,), the points row by row.
        starts: int32 (T + 3,); row t has the points order[starts[t + 1] : starts[t + 2]]. Rows -1 and T are empty.
        waiting: int32 (T + 2,), the number of points of rows -1 to T that are not chosen.
        linked_source, linked_target: bool (L,) and (T,), the words that have a chosen point.
    """

    links: np.ndarray
    states: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    waiting: np.ndarray
    linked_source: np.ndarray
    linked_target: np.ndarray


@kernel
def merge_links(forward, reverse, points):
    """Fills the links and states of :class:`Points` from two sorted lists of links; returns (K, L, T)."""
    links, states = points.links, points.states
    size, L, T, i, j = 0, 0, 0, 0, 0
    while i < len(forward) or j < len(reverse):
        is_forward = i < len(forward)
        if is_forward and j < len(reverse):
            order = forward[i, 0] - reverse[j, 0]
            is_forward = order < 0 or (order == 0 and forward[i, 1] <= reverse[j, 1])
        if is_forward:
            s, t = forward[i, 0], forward[i, 1]
            i += 1
        else:
            s, t = reverse[j, 0], reverse[j, 1]
            j += 1
        if size == 0 or links[size - 1, 0] != s or links[size - 1, 1] != t:
            links[size, 0], links[size, 1], states[size] = s, t, 0
            size += 1
        states[size - 1] |= FORWARD if is_forward else REVERSE
        L, T = s + 1, max(T, t + 1)
    return size, L, T


@kernel
def fill_order(size, L, T, points):
    """Fills the rest of :class:`Points`, of which none is chosen."""
    links, _, order, starts, waiting, linked_source, linked_target = points
    starts[: T + 3] = 0
    waiting[: T + 2] = 0
    for k in range(size):
        starts[links[k, 1] + 3] += 1
        waiting[links[k, 1] + 1] += 1
    for row in range(1, T + 3):
        starts[row] += starts[row - 1]
    for k in range(size):
        row = links[k, 1] + 2
        order[starts[row]] = k
        starts[row] += 1
    linked_source[:L] = False
    linked_target[:T] = False


@kernel
def find_point(s, t, points):
    """The number of the point (s, t), -1 if there is none."""
    low, end = points.starts[t + 1], points.starts[t + 2]
    high = end
    while low < high:
        middle = (low + high) // 2
        if points.links[points.order[middle], 0] < s:
            low = middle + 1
        else:
            high = middle
    k = points.order[low] if low < end else np.int32(-1)
    return k if k >= 0 and points.links[k, 0] == s else np.int32(-1)


@kernel
def choose_point(k, unlinked, points):
    """Choose point k if it is not chosen and has at least so many unlinked words; returns whether it was."""
    if points.states[k] & CHOSEN:
        return False
    s, t = points.links[k, 0], points.links[k, 1]
    if (not points.linked_source[s]) + (not points.linked_target[t]) < unlinked:
        return False
    points.states[k] |= CHOSEN
    points.waiting[t + 1] -= 1
    points.linked_source[s] = points.linked_target[t] = True
    return True


@kernel
def grow(size, neighbours, points):
    """Choose the neighbours of each chosen point in turn that have an unlinked word, until nothing changes."""
    grown = True
    while grown:
        grown = False
        for place in range(size):
            k = points.order[place]
            if not points.states[k] & CHOSEN:
                continue
            for n in range(neighbours):
                s, t = points.links[k, 0] + STEPS[n, 0], points.links[k, 1] + STEPS[n, 1]
                if points.waiting[t + 1] > 0:
                    other = find_point(s, t, points)
                    if other >= 0:
                        grown |= choose_point(other, 1, points)


@kernel
def grow_in_order(size, points):
    """Choose the points with a chosen neighbour and an unlinked word, in their own order, until nothing changes:
    what fast_align's atools grows, which is not always what the published steps do."""
    grown = True
    while grown:
        grown = False
        for place in range(size):
            k = points.order[place]
            if points.states[k] & CHOSEN:
                continue
            for n in range(len(STEPS)):
                s, t = points.links[k, 0] + STEPS[n, 0], points.links[k, 1] + STEPS[n, 1]
                other = find_point(s, t, points)
                if other >= 0 and points.states[other] & CHOSEN:
                    grown |= choose_point(k, 1, points)
                    break


@kernel
def symmetrize_pairs(low, high, forward, reverse, steps, room, out):
    """Symmetrize the sentence pairs low <= m < high.

    Args:
        forward, reverse: (links int32 (K, 2), offsets int64 (M + 1,)), links (s, t), sorted.
        steps: (from_union, neighbours, unlinked, in_order), those of :class:`alignkit.links.heuristics.Steps`.
        room: :class:`Points`, whose links are not looked at.
        out: (links int32 (K_f + K_r, 2), sizes int64 (M,)). The links of these pairs stand one after another, from
            the place at which those of both directions together would.
    """
    forward_links, forward_offsets = forward
    reverse_links, reverse_offsets = reverse
    from_union, neighbours, unlinked, in_order = steps
    _, states, order, starts, waiting, linked_source, linked_target = room
    pairs, sizes = out
    place = forward_offsets[low] + reverse_offsets[low]
    for m in range(low, high):
        first = forward_links[forward_offsets[m] : forward_offsets[m + 1]]
        second = reverse_links[reverse_offsets[m] : reverse_offsets[m + 1]]
        links = pairs[place : place + len(first) + len(second)]  # all points at first, then the chosen ones
        points = Points(links, states, order, starts, waiting, linked_source, linked_target)
        size, L, T = merge_links(first, second, points)
        fill_order(size, L, T, points)
        for k in range(size):
            if from_union or states[k] & BOTH == BOTH:
                choose_point(k, 0, points)
        if neighbours and in_order:
            grow_in_order(size, points)
        elif neighbours:
            grow(size, neighbours, points)
        if unlinked:
            for direction in (FORWARD, REVERSE):
                for n in range(size):
                    if states[order[n]] & direction:
                        choose_point(order[n], unlinked, points)
        count = 0
        for k in range(size):
            if states[k] & CHOSEN:
                links[count, 0], links[count, 1] = links[k, 0], links[k, 1]
                count += 1
        sizes[m] = count
        place += count
