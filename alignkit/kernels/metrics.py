"""Two sets of scores of the same sentence pairs, and their agreement and rank correlation row by row; sums over
sentence pairs drawn with replacement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel


class ScorePair(NamedTuple):
    """Matrices (T, L) of M sentence pairs by two aligners, one after another.

    Attributes:
        u, v: float32, the values of all matrices, row by row.
        shapes: int32 (M, 2), T and L.
        offsets: int64 (M + 1,), where each matrix begins.
    """

    u: np.ndarray
    v: np.ndarray
    shapes: np.ndarray
    offsets: np.ndarray


@kernel
def kth_largest(row, k, work):
    """The k-th largest (k >= 1) of ``row``; ``work`` float32 (at least k,) ends with the k largest, falling."""
    filled = 0
    for value in row:
        if filled < k:
            place = filled
            filled += 1
        elif value > work[k - 1]:
            place = k - 1
        else:
            continue
        while place > 0 and work[place - 1] < value:
            work[place] = work[place - 1]
            place -= 1
        work[place] = value
    return work[k - 1]


@kernel
def compare_row(u, v, part, work):
    """Top agreement of one row: (u's first argmax, hit, tie, share of places at the top of v).

    Place k is in the top if #{j : v_j > v_k} < L * part, that is, if v_k is at least the value of rank
    ceil(L * part); in integers, since 0.07 * 100 is above 7 in floating point.

    Args:
        u, v: float32 (L,), at least one value each.
        part: (numerator, denominator) of the share that counts as the top; 1/20 for 5 %.
        work: float32 (L,) or longer.
    """
    numerator, denominator = part
    width = len(u)
    rank = (width * numerator + denominator - 1) // denominator
    best = 0
    for j in range(1, width):  # np.argmax would load what Numba knows of NumPy, and SciPy
        best = j if u[j] > u[best] else best
    threshold = kth_largest(v, rank, work)
    not_below = 0
    rivals = 0
    for j in range(width):
        not_below += v[j] >= threshold
        rivals += v[j] >= v[best]
    hit = v[best] >= threshold
    tie = hit and rivals > rank  # counting equals against it, the place would not be in the top
    return best, hit, tie, not_below / width


@kernel
def list_agreement(low, high, scores, part, work, first, rows):
    """The agreement of v with u row by row, for pairs low <= m < high that have columns.

    Args:
        scores: a :class:`ScorePair`.
        part, work: as in :func:`compare_row`; ``work`` for the longest row.
        first: int64 (M,), where the rows of each pair go.
        rows: arrays (R,) to fill: int64 u's first argmax, bool hit, bool hit that a tie decided, float64 expected
            share of hits of a place drawn at random.
    """
    u, v, shapes, offsets = scores
    best, hits, ties, expected = rows
    for m in range(low, high):
        width = shapes[m, 1]
        if width == 0:
            continue
        for t in range(shapes[m, 0]):
            start = offsets[m] + t * width
            place, hit, tie, share = compare_row(u[start : start + width], v[start : start + width], part, work)
            best[first[m] + t] = place
            hits[first[m] + t] = hit
            ties[first[m] + t] = tie
            expected[first[m] + t] = share


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
        scores: a :class:`ScorePair`.
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


@kernel
def resample_sums(statistics, seed, sums):
    """Bootstrap: sums[b] = the columns' sums over M sentence pairs drawn with replacement.

    The draws come from splitmix64 started at ``seed``, so they do not depend on a library's version.

    Args:
        statistics: float64 (M, K), a row per sentence pair.
        seed: of the draws.
        sums: float64 (B, K), filled.
    """
    state = np.uint64(seed)
    pairs, columns = statistics.shape
    count = np.uint64(pairs)
    for b in range(len(sums)):
        for k in range(columns):
            sums[b, k] = 0.0
        for _ in range(pairs):
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            m = np.int64(z % count)  # the bias of % is below M / 2^64
            for k in range(columns):
                sums[b, k] += statistics[m, k]
