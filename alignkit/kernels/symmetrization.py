"""Symmetrize two directed alignments (Koehn, Och and Marcu 2003), 64 points of the alignment at a time.

The links of a sentence pair are points (t, s) of a grid with a row for each target word and a column for each
source word. A block holds 64 neighbouring points of a row as the bits of one number: bit b of block (t, w) is
the point (t, 64 w + b). Blocks are sorted by t, then by w, the order in which the published algorithm visits
the points.

A pair of at most 64 source words has one block for each row: row t is block t + 1. This case is compiled apart,
with None as the layout of the blocks. A longer pair only has blocks where a direction has a point, so that the
memory it takes depends on the number of links and not on the area of the grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel

#: The rows of ``bits``: the points of each direction, those of the union not chosen so far, and those chosen.
FORWARD, REVERSE, WAITING, CHOSEN = 0, 1, 2, 3
#: The number of source words in a block.
BLOCK_WIDTH = 64
_ZERO, _ONE, _LAST = np.uint64(0), np.uint64(1), np.uint64(63)
# A de Bruijn sequence: shifted by any number of bits, its first 6 bits are a different number.
_SEQUENCE, _SHIFT = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
_POSITIONS = np.zeros(BLOCK_WIDTH, np.uint8)
_POSITIONS[[((0x03F79D71B4CB0A89 << s) & (2**64 - 1)) >> 58 for s in range(BLOCK_WIDTH)]] = np.arange(BLOCK_WIDTH)


class BlockLayout(NamedTuple):
    """The places of the B blocks of a pair of more than 64 source words; block 0 is none of them, and empty.

    Attributes:
        rows, columns: int32 (B,), t and w of each block.
        starts: int32 (T + 3,); row t has the blocks starts[t + 1] <= k < starts[t + 2]. Rows -1 and T are empty.
    """

    rows: np.ndarray
    columns: np.ndarray
    starts: np.ndarray


class Workspace(NamedTuple):
    """Memory for one sentence pair at a time, enough for any.

    Attributes:
        bits: uint64 (4, B + 1), the blocks: FORWARD, REVERSE, WAITING and CHOSEN points.
        layout: of a pair of more than 64 source words.
        used: uint64 (W,), the linked source words.
        counts: int32 (the larger of T and L, + 1), zeros on entry and on return.
    """

    bits: np.ndarray
    layout: BlockLayout
    used: np.ndarray
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
def fill_rows(forward, reverse, T, bits):
    """Fill the blocks of a pair of at most 64 source words; returns the end of the blocks."""
    first, second = bits[FORWARD], bits[REVERSE]
    first[1 : T + 1] = _ZERO
    second[1 : T + 1] = _ZERO
    for k in range(len(forward)):
        first[forward[k, 1] + 1] |= _ONE << np.uint64(forward[k, 0])
    for k in range(len(reverse)):
        second[reverse[k, 1] + 1] |= _ONE << np.uint64(reverse[k, 0])
    return T + 1


@kernel
def fill_blocks(forward, reverse, T, bits, layout, last):
    """Lay out and fill the blocks of a pair of any length; returns the end of the blocks.

    Args:
        forward, reverse: links (s, t), sorted.
        last: int32 (T,), zeros on entry and on return: the last w in a row so far.
    """
    rows, columns, starts = layout
    starts[: T + 3] = 0
    for filling in (False, True):  # count the blocks of each row, then fill them
        last[:T] = -1
        i, j = 0, 0
        while i + j < len(forward) + len(reverse):  # both lists at once, in the order of s
            direction = FORWARD
            if i == len(forward) or (j < len(reverse) and reverse[j, 0] < forward[i, 0]):
                direction, s, t = REVERSE, reverse[j, 0], reverse[j, 1]
                j += 1
            else:
                s, t = forward[i, 0], forward[i, 1]
                i += 1
            is_new = last[t] != s >> 6
            last[t] = s >> 6
            if not filling:
                starts[t + 3] += is_new
                continue
            if is_new:
                block = starts[t + 2]
                starts[t + 2] += 1
                rows[block], columns[block] = t, s >> 6
                bits[FORWARD, block] = bits[REVERSE, block] = _ZERO
            bits[direction, starts[t + 2] - 1] |= _ONE << np.uint64(s & 63)
        if not filling:
            starts[0] = 1
            for row in range(1, T + 3):
                starts[row] += starts[row - 1]
    last[:T] = 0
    return starts[T + 2]


@kernel
def lowest(bits):
    """The lowest bit that is set, alone."""
    return bits & (~bits + _ONE)


@kernel
def position(bit):
    """The number of a bit that is set alone, 0 to 63."""
    return _POSITIONS[(bit * _SEQUENCE) >> _SHIFT]


@kernel
def row_of(k, layout):
    """t of block k."""
    if layout is None:
        return k - 1
    return np.int64(layout.rows[k])


@kernel
def column_of(k, layout):
    """w of block k."""
    if layout is None:
        return 0
    return np.int64(layout.columns[k])


@kernel
def is_linked(k, chosen, layout):
    """Whether the target word of block k is linked."""
    if layout is None:
        return chosen[k] != _ZERO
    t = layout.rows[k]
    for other in range(layout.starts[t + 1], layout.starts[t + 2]):
        if chosen[other] != _ZERO:
            return True
    return False


@kernel
def near(k, points, layout):
    """The points of block k that are among ``points`` or have a neighbour there."""
    if layout is None:
        around = points[k - 1] | points[k] | points[k + 1]
        return around | around << _ONE | around >> _ONE
    t, w = layout.rows[k], layout.columns[k]
    around = _ZERO
    for other in range(layout.starts[t], layout.starts[t + 3]):
        block, step = points[other], layout.columns[other] - w
        if step == 0:
            around |= block | block << _ONE | block >> _ONE
        elif step == -1:
            around |= block >> _LAST
        elif step == 1:
            around |= block << _LAST
    return around


@kernel
def neighbour(n, t, w, bit, layout):
    """Neighbour n of a point of block (t, w), in the published order; block 0 if its own block has no points.

    Returns:
        (the number of its block, its w, its bit).
    """
    row = t + (-1 if n in (0, 4, 5) else (1 if n in (2, 6, 7) else 0))
    is_left, is_right = n in (1, 4, 6), n in (3, 5, 7)
    point = bit >> _ONE if is_left else (bit << _ONE if is_right else bit)
    if layout is None:
        return row + 1, 0, point
    if not point:
        w, point = (w - 1, _ONE << _LAST) if is_left else (w + 1, _ONE)
    for k in range(layout.starts[row + 1], layout.starts[row + 2]):
        if layout.columns[k] == w:
            return k, w, point
    return 0, w, point


@kernel
def grow_point(t, w, bit, neighbours, bits, used, layout):
    """Choose the waiting neighbours of a point of block (t, w) that have an unlinked word; returns whether there
    was one."""
    waiting, chosen = bits[WAITING], bits[CHOSEN]
    grown = False
    for n in range(8):
        if n == neighbours:
            break
        k, column, point = neighbour(n, t, w, bit, layout)
        if waiting[k] & point and (not used[column] & point or not is_linked(k, chosen, layout)):
            chosen[k] |= point
            waiting[k] &= ~point
            used[column] |= point
            grown = True
    return grown


@kernel
def grow(end, neighbours, bits, used, layout):
    """Grow the alignment from each chosen point in turn, until nothing changes."""
    waiting, chosen = bits[WAITING], bits[CHOSEN]
    grown = True
    while grown:
        grown = False
        for k in range(1, end):
            around = near(k, waiting, layout)
            points = chosen[k] & around
            while points:
                bit = lowest(points)
                grown |= grow_point(row_of(k, layout), column_of(k, layout), bit, neighbours, bits, used, layout)
                points = chosen[k] & around & ~(bit | (bit - _ONE))  # those to the right, which may be new


@kernel
def grow_in_order(end, bits, used, layout):
    """Choose waiting points with a chosen neighbour and an unlinked word, in their own order, until nothing
    changes: what fast_align's atools grows, which is not always what the published steps do."""
    waiting, chosen = bits[WAITING], bits[CHOSEN]
    grown = True
    while grown:
        grown = False
        for k in range(1, end):
            points, w = waiting[k], column_of(k, layout)
            while points:
                bit = lowest(points)
                points &= ~bit
                if near(k, chosen, layout) & bit and (not used[w] & bit or not is_linked(k, chosen, layout)):
                    chosen[k] |= bit
                    waiting[k] &= ~bit
                    used[w] |= bit
                    grown = True


@kernel
def add_unlinked(end, points, both, chosen, used, layout):
    """Choose points of one direction that have an unlinked word; with ``both``, two unlinked words."""
    for k in range(1, end):
        left = points[k] & ~chosen[k]
        w = column_of(k, layout)
        while left:
            bit = lowest(left)
            left &= ~bit
            t_free, s_free = not is_linked(k, chosen, layout), not used[w] & bit
            if (t_free and s_free) if both else (t_free or s_free):
                chosen[k] |= bit
                used[w] |= bit


@kernel
def choose_points(L, end, steps, bits, used, layout):
    """Choose the points of one sentence pair's alignment, whose two directions are in ``bits``; arguments as of
    :func:`symmetrize_pairs`."""
    from_union, neighbours, unlinked, in_order = steps
    forward, reverse, waiting, chosen = bits[FORWARD], bits[REVERSE], bits[WAITING], bits[CHOSEN]
    for w in range((L + 63) >> 6):
        used[w] = _ZERO
    waiting[0] = waiting[end] = chosen[0] = chosen[end] = _ZERO
    for k in range(1, end):
        union = forward[k] | reverse[k]
        chosen[k] = union if from_union else forward[k] & reverse[k]
        waiting[k] = union & ~chosen[k]
        used[column_of(k, layout)] |= chosen[k]
    if neighbours and in_order:
        grow_in_order(end, bits, used, layout)
    elif neighbours:
        grow(end, neighbours, bits, used, layout)
    if unlinked:
        add_unlinked(end, forward, unlinked == 2, chosen, used, layout)
        add_unlinked(end, reverse, unlinked == 2, chosen, used, layout)


@kernel
def write_links(L, end, chosen, layout, counts, pairs, place):
    """Write the chosen points as links (s, t) to pairs[place:], by a counting sort; returns their number."""
    for k in range(1, end):
        points = chosen[k]
        while points:
            bit = lowest(points)
            points &= ~bit
            counts[position(bit) + BLOCK_WIDTH * column_of(k, layout) + 1] += 1
    for s in range(L):
        counts[s + 1] += counts[s]
    size = counts[L]
    for k in range(1, end):
        points = chosen[k]
        while points:
            bit = lowest(points)
            points &= ~bit
            s = position(bit) + BLOCK_WIDTH * column_of(k, layout)
            there = place + counts[s]
            counts[s] += 1
            pairs[there, 0] = s
            pairs[there, 1] = row_of(k, layout)
    counts[: L + 1] = 0
    return size


@kernel
def symmetrize_pairs(low, high, forward, reverse, steps, workspace, out):
    """Symmetrize the sentence pairs low <= m < high.

    Args:
        forward, reverse: (links int32 (K, 2), offsets int64 (M + 1,)), links (s, t), sorted.
        steps: (from_union, neighbours, unlinked, in_order), those of :class:`alignkit.links.heuristics.Steps`.
        workspace: :class:`Workspace`.
        out: (links int32 (K_f + K_r, 2), sizes int64 (M,)). The links of these pairs stand one after another, from
            the place at which those of both directions together would.
    """
    forward_links, forward_offsets = forward
    reverse_links, reverse_offsets = reverse
    bits, layout, used, counts = workspace
    pairs, sizes = out
    place = forward_offsets[low] + reverse_offsets[low]
    for m in range(low, high):
        first = forward_links[forward_offsets[m] : forward_offsets[m + 1]]
        second = reverse_links[reverse_offsets[m] : reverse_offsets[m + 1]]
        L, T = lengths(first, second)
        if L <= BLOCK_WIDTH and T + 2 <= bits.shape[1]:
            end = fill_rows(first, second, T, bits)
            choose_points(L, end, steps, bits, used, None)
            sizes[m] = write_links(L, end, bits[CHOSEN], None, counts, pairs, place)
        else:
            end = fill_blocks(first, second, T, bits, layout, counts)
            choose_points(L, end, steps, bits, used, layout)
            sizes[m] = write_links(L, end, bits[CHOSEN], layout, counts, pairs, place)
        place += sizes[m]
