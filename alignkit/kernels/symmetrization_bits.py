"""Symmetrisation of a sentence pair of up to 64 source words, a row of the alignment being one number of 64 bits.

The steps and their order are those of :mod:`.symmetrisation`, which has the lists for longer sentences: bit s of
row t is the point (t, s). ``rows`` = uint64 (4, more than T + 1): the points of the forward direction, those of
the reverse one, what of the union is not chosen yet (at t + 1: the first and last rows are empty borders), and
what is chosen.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel

MOST_SOURCE_WORDS = 64
MOST_TARGET_WORDS = 4096  # what there is room for
_ONE, _NONE = np.uint64(1), np.uint64(0)
# A de Bruijn sequence: each 6 neighbouring bits are another number, which says how far it was shifted.
_SEQUENCE = np.uint64(0x03F79D71B4CB0A89)
_TOP = np.uint64(58)
_PLACES = np.zeros(64, np.uint8)
_PLACES[[((0x03F79D71B4CB0A89 << s) & (2**64 - 1)) >> 58 for s in range(64)]] = np.arange(64)


@kernel
def lowest(bits):
    """The lowest bit that is set, alone."""
    return bits & (~bits + _ONE)


@kernel
def sides(forward, reverse):
    """(L, T), one more than the largest s and t of two lists of points (s, t), both sorted."""
    L, T = 0, 0
    for points in (forward, reverse):
        if len(points) > 0:
            L = max(L, points[len(points) - 1, 0] + 1)
        for k in range(len(points)):
            T = max(T, points[k, 1] + 1)
    return L, T


@kernel
def fill_rows(forward, reverse, T, rows):
    """Puts two lists of points (s, t) into rows[0] and rows[1], for t < T."""
    rows[0, :T] = _NONE
    rows[1, :T] = _NONE
    for k in range(len(forward)):
        rows[0, forward[k, 1]] |= _ONE << np.uint64(forward[k, 0])
    for k in range(len(reverse)):
        rows[1, reverse[k, 1]] |= _ONE << np.uint64(reverse[k, 0])


@kernel
def set_places(sources, targets, rows):
    """Puts (t, sources[t]) into rows[0] and (targets[s], s) into rows[1], but for places -1."""
    T = len(sources)
    for t in range(T):
        rows[0, t] = _ONE << np.uint64(sources[t]) if sources[t] >= 0 else _NONE
        rows[1, t] = _NONE
    for s in range(len(targets)):
        if targets[s] >= 0:
            rows[1, targets[s]] |= _ONE << np.uint64(s)


@kernel
def grow_point(t, s, rows, used):
    """Chooses the waiting neighbours of point (t, s), a bit, that have an unlinked word.

    Returns:
        (the source words used, whether a point was chosen).
    """
    waiting, chosen = rows[2], rows[3]
    grown = False
    for step in range(8):
        # (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1): target, source
        other = t + (-1 if step in (0, 4, 5) else (1 if step in (2, 6, 7) else 0))
        bit = s >> _ONE if step in (1, 4, 6) else (s << _ONE if step in (3, 5, 7) else s)
        if waiting[other + 1] & bit and (chosen[other] == _NONE or not used & bit):
            chosen[other] |= bit
            waiting[other + 1] &= ~bit
            used |= bit
            grown = True
    return used, grown


@kernel
def grow(T, rows, used):
    """grow-diag; returns the source words used."""
    waiting, chosen = rows[2], rows[3]
    grown = True
    while grown:
        grown = False
        for t in range(T):
            near = waiting[t] | waiting[t + 1] | waiting[t + 2]
            near |= near << _ONE | near >> _ONE
            passed = _NONE
            points = chosen[t] & near
            while points:
                s = lowest(points)
                passed |= s | (s - _ONE)
                used, more = grow_point(t, s, rows, used)
                grown |= more
                points = chosen[t] & near & ~passed  # the row may have grown, to the right too
    return used


@kernel
def finish(T, points, chosen, used, both):
    """Adds points of one direction with an unlinked word; with ``both``, only if both words are unlinked."""
    for t in range(T):
        left = points[t] & ~chosen[t]
        while left:
            s = lowest(left)
            left &= ~s
            t_free, s_free = chosen[t] == _NONE, not used & s
            if (t_free and s_free) if both else (t_free or s_free):
                chosen[t] |= s
                used |= s
    return used


@kernel
def write(T, chosen, counts, pairs, place):
    """Writes the chosen points (s, t), sorted, to pairs[place:]; returns how many.

    Args:
        counts: int32 (65 or more,), zeros, left so.
    """
    for t in range(T):
        points = chosen[t]
        while points:
            s = lowest(points)
            points &= ~s
            counts[_PLACES[(s * _SEQUENCE) >> _TOP] + 1] += 1
    for s in range(MOST_SOURCE_WORDS):
        counts[s + 1] += counts[s]
    size = counts[MOST_SOURCE_WORDS]
    for t in range(T):
        points = chosen[t]
        while points:
            bit = lowest(points)
            points &= ~bit
            s = _PLACES[(bit * _SEQUENCE) >> _TOP]
            there = place + counts[s]
            counts[s] += 1
            pairs[there, 0] = s
            pairs[there, 1] = t
    counts[: MOST_SOURCE_WORDS + 1] = 0
    return size


@kernel
def combine_bits(T, rows, steps, counts, pairs, place):
    """Symmetrises one sentence pair, whose directions are in rows[0] and rows[1]: writes the points (s, t),
    sorted, to pairs[place:] and returns how many.

    Args:
        steps: as of :func:`.symmetrisation.symmetrise_pair`.
        counts: as of :func:`write`.
    """
    forward, reverse, waiting, chosen = rows[0], rows[1], rows[2], rows[3]
    start, growing, ending = steps
    used = _NONE
    waiting[0] = waiting[T + 1] = _NONE
    for t in range(T):
        union = forward[t] | reverse[t]
        chosen[t] = union if start == 1 else forward[t] & reverse[t]
        waiting[t + 1] = union & ~chosen[t]
        used |= chosen[t]
    if growing:
        used = grow(T, rows, used)
    if ending:
        used = finish(T, forward, chosen, used, ending == 2)
        used = finish(T, reverse, chosen, used, ending == 2)
    return write(T, chosen, counts, pairs, place)
