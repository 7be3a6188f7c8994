"""Growing an alignment from two directed ones; lists of points instead of matrices, so long lines are cheap.

Points are rows (t, s) of one sentence pair, sorted: the published algorithm walks the target words in order
and, within each, the source words.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.jit import kernel

FORWARD, REVERSE, CHOSEN = np.uint8(1), np.uint8(2), np.uint8(4)


@kernel
def merge(forward, reverse, points, flags):
    """The union of two sorted lists of points; flags say which list each came from. Returns its size."""
    i, j, n = 0, 0, 0
    while i < len(forward) or j < len(reverse):
        take_forward = j >= len(reverse) or (
            i < len(forward)
            and (
                forward[i, 0] < reverse[j, 0]
                or (forward[i, 0] == reverse[j, 0] and forward[i, 1] <= reverse[j, 1])
            )
        )
        take_reverse = i >= len(forward) or (
            j < len(reverse)
            and (
                reverse[j, 0] < forward[i, 0]
                or (reverse[j, 0] == forward[i, 0] and reverse[j, 1] <= forward[i, 1])
            )
        )
        flags[n] = 0
        if take_forward:
            points[n] = forward[i]
            flags[n] |= FORWARD
            i += 1
        if take_reverse:
            points[n] = reverse[j]
            flags[n] |= REVERSE
            j += 1
        n += 1
    return n


@kernel
def find(points, n, t, s):
    """The place of point (t, s) among the first n, or -1."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if points[middle, 0] < t or (points[middle, 0] == t and points[middle, 1] < s):
            low = middle + 1
        else:
            high = middle
    if low < n and points[low, 0] == t and points[low, 1] == s:
        return low
    return -1


@kernel
def choose(points, flags, k, target_used, source_used):
    """Takes point k into the alignment."""
    flags[k] |= CHOSEN
    target_used[points[k, 0]] = True
    source_used[points[k, 1]] = True


@kernel
def grow_diag(points, flags, n, target_used, source_used):
    """Adds neighbours of chosen points, diagonal ones too, that are in the union and have an unlinked word."""
    neighbours = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
    grown = True
    while grown:
        grown = False
        for k in range(n):
            if not flags[k] & CHOSEN:
                continue
            for dt, ds in neighbours:
                other = find(points, n, points[k, 0] + dt, points[k, 1] + ds)
                if other < 0 or flags[other] & CHOSEN:
                    continue
                if not target_used[points[other, 0]] or not source_used[points[other, 1]]:
                    choose(points, flags, other, target_used, source_used)
                    grown = True


@kernel
def final(points, flags, n, direction, both, target_used, source_used):
    """Adds points of one direction with an unlinked word; with ``both``, only if both words are unlinked."""
    for k in range(n):
        if not flags[k] & direction or flags[k] & CHOSEN:
            continue
        t_free, s_free = not target_used[points[k, 0]], not source_used[points[k, 1]]
        if (t_free and s_free) if both else (t_free or s_free):
            choose(points, flags, k, target_used, source_used)


@kernel
def symmetrise_pair(forward, reverse, steps, work, used):
    """Symmetrises one sentence pair; returns the size of the union, whose points have CHOSEN set or not.

    Args:
        forward, reverse: int32 (K, 2), sorted points (t, s).
        steps: (start, grow, final): start 0 intersection, 1 union; grow 0 or 1; final 0 none, 1 or, 2 and.
        work: (points int32 (K_f + K_r, 2), flags uint8 (K_f + K_r,)).
        used: (bool (T,), bool (L,)), target and source words linked so far, all False; left as they end.
    """
    points, flags = work
    target_used, source_used = used
    start, grow, ending = steps
    n = merge(forward, reverse, points, flags)
    for k in range(n):
        if start == 1 or flags[k] == FORWARD | REVERSE:
            choose(points, flags, k, target_used, source_used)
    if grow:
        grow_diag(points, flags, n, target_used, source_used)
    if ending:
        final(points, flags, n, FORWARD, ending == 2, target_used, source_used)
        final(points, flags, n, REVERSE, ending == 2, target_used, source_used)
    return n


@kernel
def symmetrise(forward, reverse, steps, work, used, out):
    """:func:`symmetrise_pair` for all pairs.

    Args:
        forward, reverse: (points (K, 2), offsets (M + 1,)).
        work: as above, for the largest pair.
        used: as above, for the longest sides.
        out: (points int32 (K_f + K_r, 2), offsets int64 (M + 1,)), filled.
    """
    points, flags = work
    target_used, source_used = used
    out_points, out_offsets = out
    total = 0
    for m in range(len(out_offsets) - 1):
        a = forward[0][forward[1][m] : forward[1][m + 1]]
        b = reverse[0][reverse[1][m] : reverse[1][m + 1]]
        n = symmetrise_pair(a, b, steps, work, used)
        for k in range(n):
            target_used[points[k, 0]] = False
            source_used[points[k, 1]] = False
            if flags[k] & CHOSEN:
                out_points[total] = points[k]
                total += 1
        out_offsets[m + 1] = total


@kernel
def products(forward, reverse, shapes, offsets, bound, out, filling):
    """Points (s, t) whose two directions' values multiply to at least ``bound`` (and more than 0).

    Args:
        forward: float32, matrices (T, L) one after another; reverse: the same of shape (L, T).
        shapes: int32 (M, 2), T and L; offsets: int64 (M + 1,), where each matrix starts, in both.
        out: (points int32 (K, 2), offsets int64 (M + 1,)).
        filling: whether to fill the points, or only to count: the offsets are filled either way.
    """
    points, point_offsets = out
    total = 0
    point_offsets[0] = 0
    for m in range(len(shapes)):
        rows, width = shapes[m, 0], shapes[m, 1]
        for s in range(width):
            for t in range(rows):
                f, r = forward[offsets[m] + t * width + s], reverse[offsets[m] + s * rows + t]
                value = np.float64(f) * np.float64(r)
                if value >= bound and value > 0.0:
                    if filling:
                        points[total, 0] = s
                        points[total, 1] = t
                    total += 1
        point_offsets[m + 1] = total
