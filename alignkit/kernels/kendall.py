"""Row-wise rank correlation of two sets of scores."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel


@kernel
def concord_pairs(x, y):
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
def kendall_tau(x, y):
    """Kendall's tau-b of two rows (L,); NaN if they are shorter than two or all values of one are equal."""
    size = np.int64(len(x))
    pairs = size * (size - 1) // 2
    concord, tied_x, tied_y = concord_pairs(x, y)
    if tied_x == pairs or tied_y == pairs:
        return np.nan
    # The root of a square is exact: tau of a row with itself is 1.
    return concord / np.sqrt(np.float64(pairs - tied_x) * np.float64(pairs - tied_y))


@kernel
def fill_tau_sums(low, high, scores, sums):
    """Kendall's tau-b of every row, summed per sentence pair, for pairs low <= m < high.

    Args:
        scores: a :class:`.agreement.ScorePair`.
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
