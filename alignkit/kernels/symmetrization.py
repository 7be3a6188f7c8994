"""Growing an alignment from two directed ones; lists of points instead of matrices, so long lines are cheap.

Points are rows (t, s) of one sentence pair, sorted: the published algorithm walks the target words in order
and, within each, the source words.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.symmetrization_bits import (
    MOST_SOURCE_WORDS,
    MOST_TARGET_WORDS,
    combine_bits,
    fill_rows,
    set_places,
    sides,
)

FORWARD, REVERSE, CHOSEN = np.uint8(1), np.uint8(2), np.uint8(4)
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@kernel
def turn(pairs, low, high, counts, out, place):
    """Exchanges the columns of pairs[low:high], sorted rows, and sorts again, into out[place:]: a counting sort.

    counts: int32 with room for the largest entry of the second column and two more; zeros, left so.
    """
    last = -1
    for k in range(low, high):
        counts[pairs[k, 1] + 1] += 1
        last = max(last, pairs[k, 1])
    for t in range(last + 1):
        counts[t + 1] += counts[t]
    for k in range(low, high):
        t = pairs[k, 1]
        there = place + counts[t]
        counts[t] += 1
        out[there, 0] = t
        out[there, 1] = pairs[k, 0]
    for t in range(last + 2):
        counts[t] = 0


@kernel
def turn_all(pairs, offsets, counts, out):
    """:func:`turn` for every sentence pair; offsets int64 (M + 1,)."""
    for m in range(len(offsets) - 1):
        turn(pairs, offsets[m], offsets[m + 1], counts, out, offsets[m])


@kernel
def merge(forward, n_forward, reverse, n_reverse, points, flags):
    """The union of two sorted lists of points; flags say which list each came from. Returns its size."""
    i, j, n = 0, 0, 0
    while i < n_forward or j < n_reverse:
        order = 0  # below 0: the next point is forward's alone; above: reverse's alone
        if j == n_reverse:
            order = -1
        elif i == n_forward:
            order = 1
        else:
            order = forward[i, 0] - reverse[j, 0]
            if order == 0:
                order = forward[i, 1] - reverse[j, 1]
        if order <= 0:
            points[n, 0], points[n, 1] = forward[i, 0], forward[i, 1]
            i += 1
        else:
            points[n, 0], points[n, 1] = reverse[j, 0], reverse[j, 1]
        flags[n] = FORWARD if order < 0 else (REVERSE if order > 0 else FORWARD | REVERSE)
        j += order >= 0
        n += 1
    return n


@kernel
def mark_rows(points, flags, n, rows, waiting):
    """rows[t] = the place of the first point of target word t or later; waiting[t] = how many are not chosen.

    Returns how many target words there are; rows has one more than that, and waiting two.
    """
    size, k = points[n - 1, 0] + 1, 0
    for t in range(size):
        rows[t] = k
        waiting[t] = 0
        while k < n and points[k, 0] == t:
            waiting[t] += not flags[k] & CHOSEN
            k += 1
    rows[size] = n
    waiting[size] = waiting[size + 1] = 0  # the last is that of the word before the first, -1
    return size


@kernel
def find(points, rows, t, s):
    """The place of point (t, s), or -1; ``rows`` from :func:`mark_rows`."""
    for k in range(rows[t], rows[t + 1]):
        if points[k, 1] == s:
            return k
    return -1


@kernel
def choose(points, flags, k, target_used, source_used):
    """Takes point k into the alignment."""
    flags[k] |= CHOSEN
    target_used[points[k, 0]] = True
    source_used[points[k, 1]] = True


@kernel
def grow_diag(points, flags, n, rows, waiting, target_used, source_used):
    """Adds neighbours of chosen points, diagonal ones too, that are in the union and have an unlinked word."""
    size = mark_rows(points, flags, n, rows, waiting)
    grown = True
    while grown:
        grown = False
        for k in range(n):
            t, s = points[k, 0], points[k, 1]
            above = size + 1 if t == 0 else t - 1
            if not flags[k] & CHOSEN or waiting[above] + waiting[t] + waiting[t + 1] == 0:
                continue
            for dt, ds in _NEIGHBOURS:
                if waiting[above if dt < 0 else t + dt] == 0:
                    continue
                other = find(points, rows, t + dt, s + ds)
                if other < 0 or flags[other] & CHOSEN:
                    continue
                if not target_used[t + dt] or not source_used[s + ds]:
                    choose(points, flags, other, target_used, source_used)
                    waiting[t + dt] -= 1
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
def symmetrise_pair(n, steps, work, used):
    """Marks the points of one sentence pair's symmetrised alignment with CHOSEN.

    Args:
        n: how many points the union has, at least one.
        steps: (start, grow, final): start 0 intersection, 1 union; grow 0 or 1; final 0 none, 1 or, 2 and.
        work: (points int32 (n, 2), flags uint8 (n,), rows int32 (T + 1,), waiting int32 (T + 2,)); the first two
            from :func:`merge`.
        used: (bool (T,), bool (L,)), target and source words linked so far, all False; left as they end.
    """
    points, flags, rows, waiting = work
    target_used, source_used = used
    start, grow, ending = steps
    for k in range(n):
        if start == 1 or flags[k] == FORWARD | REVERSE:
            choose(points, flags, k, target_used, source_used)
    if grow:
        grow_diag(points, flags, n, rows, waiting, target_used, source_used)
    if ending:
        final(points, flags, n, FORWARD, ending == 2, target_used, source_used)
        final(points, flags, n, REVERSE, ending == 2, target_used, source_used)


@kernel
def combine(n_first, n_second, steps, work, used, pairs, place):
    """Symmetrises one sentence pair; writes the points (s, t), sorted, to pairs[place:] and returns how many.

    Args:
        n_first, n_second: how many points of each direction there are, in the first two arrays of ``work``.
        steps: as of :func:`symmetrise_pair`.
        work, used: as of :func:`symmetrise`.
    """
    first, second, points, flags, rows, waiting, counts, _ = work
    target_used, source_used = used
    n = merge(first, n_first, second, n_second, points, flags)
    symmetrise_pair(n, steps, (points, flags, rows, waiting), used)
    size = 0
    for k in range(n):
        t, s = points[k, 0], points[k, 1]
        target_used[t] = False
        source_used[s] = False
        if flags[k] & CHOSEN:
            points[size, 0], points[size, 1] = t, s
            size += 1
    turn(points, 0, size, counts, pairs, place)
    return size


@kernel
def symmetrise(low, high, forward, reverse, steps, work, used, out):
    """Symmetrises the sentence pairs low <= m < high.

    Args:
        forward, reverse: (pairs int32 (K, 2), offsets int64 (M + 1,)), sorted (s, t).
        steps: as above.
        work: (two arrays like pairs, for one sentence pair of each; points, flags, rows and waiting as above,
            for the largest union; counts int32 as :func:`turn` and :func:`.bitsets.write` have them; rows as in
            :mod:`.bitsets`).
        used: as above, for the longest sides.
        out: (pairs int32 (K_f + K_r, 2), sizes int64 (M,)); the pairs of these sentences follow each other from
            where the two lists' would on.
    """
    first, second, counts, rows = work[0], work[1], work[6], work[7]
    pairs, sizes = out
    total = forward[1][low] + reverse[1][low]
    for m in range(low, high):
        a, b = forward[1][m], forward[1][m + 1]
        c, d = reverse[1][m], reverse[1][m + 1]
        sizes[m] = 0
        if a == b and c == d:
            continue
        L, T = sides(forward[0][a:b], reverse[0][c:d])
        if L <= MOST_SOURCE_WORDS and T <= MOST_TARGET_WORDS:
            fill_rows(forward[0][a:b], reverse[0][c:d], T, rows)
            sizes[m] = combine_bits(T, rows, steps, counts, pairs, total)
        else:
            turn(forward[0], a, b, counts, first, 0)
            turn(reverse[0], c, d, counts, second, 0)
            sizes[m] = combine(b - a, d - c, steps, work, used, pairs, total)
        total += sizes[m]


@kernel
def list_places(places, points):
    """The points (k, places[k]) of places that are not -1; returns how many they are."""
    count = 0
    for k in range(len(places)):
        if places[k] >= 0:
            points[count, 0], points[count, 1] = k, places[k]
            count += 1
    return count


@kernel
def places_fit(places, length):
    """Whether all are in [-1, length)."""
    least, most = np.int32(-1), np.int32(-1)
    for k in range(len(places)):
        least, most = min(least, places[k]), max(most, places[k])
    return least == -1 and most < length


@kernel
def symmetrise_places(low, high, forward, reverse, steps, work, used, out):
    """The same of directions that give each word one place of the other side, or -1 for none.

    Args:
        forward: (source places int32 (N_tgt,), offsets int64 (M + 1,) of the target tokens).
        reverse: (target places int32 (N_src,), offsets of the source tokens).
        steps, work, used, out: as of :func:`symmetrise`, with as much room as there are tokens. A size of -1 says
            that places of this pair are not in its sentences; the block ends there.
    """
    first, second, points, counts, rows = work[0], work[1], work[2], work[6], work[7]
    pairs, sizes = out
    total = forward[1][low] + reverse[1][low]
    for m in range(low, high):
        sources = forward[0][forward[1][m] : forward[1][m + 1]]
        targets = reverse[0][reverse[1][m] : reverse[1][m + 1]]
        if not (places_fit(sources, len(targets)) and places_fit(targets, len(sources))):
            sizes[m] = -1
            return
        if len(targets) <= MOST_SOURCE_WORDS and len(sources) <= MOST_TARGET_WORDS:
            set_places(sources, targets, rows)
            sizes[m] = combine_bits(len(sources), rows, steps, counts, pairs, total)
        else:
            n_first, n_second = list_places(sources, first), list_places(targets, points)
            sizes[m] = 0
            if n_first + n_second > 0:
                turn(points, 0, n_second, counts, second, 0)
                sizes[m] = combine(n_first, n_second, steps, work, used, pairs, total)
        total += sizes[m]


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
