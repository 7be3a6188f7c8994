"""Row-wise rank correlation of two sets of scores."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel

#: up to this length, comparing all pairs of places takes less time than sorting
SHORT = 128


@kernel
def concord_short(x, y):
    """(concordant - discordant, pairs tied in x, pairs tied in y) over all pairs of places of two rows."""
    concord = 0
    tied_x = 0
    tied_y = 0
    for i in range(1, len(x)):
        xi = x[i]
        yi = y[i]
        for j in range(i):
            rise_x = np.int32(xi > x[j]) - np.int32(xi < x[j])
            rise_y = np.int32(yi > y[j]) - np.int32(yi < y[j])
            concord += rise_x * rise_y
            tied_x += 1 - rise_x * rise_x
            tied_y += 1 - rise_y * rise_y
    return concord, tied_x, tied_y


@kernel
def _ties(sorted_row):
    """Number of pairs of equal neighbours-by-value in a sorted row."""
    pairs = 0
    run = 1
    for i in range(1, len(sorted_row)):
        if sorted_row[i] == sorted_row[i - 1]:
            pairs += run
            run += 1
        else:
            run = 1
    return pairs


@kernel
def _sort_counting(row, work):
    """Sort ``row`` by merging; returns the number of pairs that stood in falling order. ``work`` is as long."""
    size = len(row)
    swaps = 0
    width = 1
    while width < size:
        for low in range(0, size, 2 * width):
            middle = min(low + width, size)
            high = min(low + 2 * width, size)
            left = low
            right = middle
            for place in range(low, high):
                if left < middle and (right >= high or row[left] <= row[right]):
                    work[place] = row[left]
                    left += 1
                else:
                    work[place] = row[right]
                    right += 1
                    swaps += middle - left
        for place in range(size):
            row[place] = work[place]
        width *= 2
    return swaps


@allocating_kernel
def concord_long(x, y):
    """The same as :func:`concord_short`, in O(L log L) (Knight 1966)."""
    by_y = np.argsort(y, kind="mergesort")
    order = by_y[np.argsort(x[by_y], kind="mergesort")]  # by x, and by y among equal x
    size = len(x)
    in_x = x[order]
    in_y = y[order]
    tied_x = 0
    tied_both = 0
    run = 1
    run_both = 1
    for i in range(1, size):
        if in_x[i] == in_x[i - 1]:
            tied_x += run
            run += 1
            if in_y[i] == in_y[i - 1]:
                tied_both += run_both
                run_both += 1
            else:
                run_both = 1
        else:
            run = 1
            run_both = 1
    discordant = _sort_counting(in_y, np.empty_like(in_y))
    tied_y = _ties(in_y)
    pairs = size * (size - 1) // 2
    # Every pair is tied in x, tied in y (both: counted twice), concordant or discordant.
    concord = pairs - tied_x - tied_y + tied_both - 2 * discordant
    return concord, tied_x, tied_y


@kernel
def kendall_tau(x, y):
    """Kendall's tau-b of two rows (L,); NaN if they are shorter than two or all values of one are equal."""
    size = np.int64(len(x))
    pairs = size * (size - 1) // 2
    concord, tied_x, tied_y = concord_short(x, y) if size <= SHORT else concord_long(x, y)
    if tied_x == pairs or tied_y == pairs:
        return np.nan
    # The root of a square is exact: tau of a row with itself is 1.
    return concord / np.sqrt(np.float64(pairs - tied_x) * np.float64(pairs - tied_y))


@kernel
def fill_tau_sums(low, high, scores, sums):
    """Kendall's tau-b of every row, summed per sentence pair, for pairs low <= m < high.

    Args:
        scores: a :class:`alignkit.kernels.score_pairs.ScorePair`.
        sums: float64 (M, 3), filled with the sum of tau, the rows where it is defined, and the rows where not.
    """
    u, v, shapes, offsets = scores
    for m in range(low, high):
        rows, width = shapes[m, 0], shapes[m, 1]
        total = 0.0
        defined = 0.0
        for t in range(rows):
            start = offsets[m] + t * width
            tau = kendall_tau(u[start : start + width], v[start : start + width])
            if tau == tau:  # not NaN
                total += tau
                defined += 1.0
        sums[m, 0] = total
        sums[m, 1] = defined
        sums[m, 2] = rows - defined
