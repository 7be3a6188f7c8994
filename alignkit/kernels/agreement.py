"""Row-wise agreement of two sets of scores."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel


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
def count_agreement(low, high, u, v, shapes, offsets, part, work, counts):
    """Sufficient statistics of the agreement of v with u, for pairs low <= m < high.

    Args:
        u, v: float32, flat matrices with the same int32 ``shapes`` (M, 2) and int64 ``offsets``.
        part: (numerator, denominator) of the share that counts as the top; 1/20 for 5 %.
        work: float32 (longest row,).
        counts: float64 (M, 4), filled with rows, hits, hits that a tie decided, and the expected number of hits
            of a place drawn at random.
    """
    numerator, denominator = part
    for m in range(low, high):
        rows, width = shapes[m, 0], shapes[m, 1]
        counts[m, 0] = 0.0
        counts[m, 1] = 0.0
        counts[m, 2] = 0.0
        counts[m, 3] = 0.0
        if width == 0:
            continue
        # Place k is in the top if #{j : v_j > v_k} < width * part, that is, if v_k is at least the value of rank
        # ceil(width * part); in integers, since 0.07 * 100 is above 7 in floating point.
        rank = (width * numerator + denominator - 1) // denominator
        for t in range(rows):
            start = offsets[m] + t * width
            counts[m, 0] += 1.0
            if rank < 1:
                continue
            u_row = u[start : start + width]
            v_row = v[start : start + width]
            chosen = np.argmax(u_row)
            threshold = kth_largest(v_row, rank, work)
            not_below = 0
            rivals = 0
            for j in range(width):
                not_below += v_row[j] >= threshold
                rivals += v_row[j] >= v_row[chosen]
            counts[m, 3] += not_below / width
            if v_row[chosen] >= threshold:
                counts[m, 1] += 1.0
                if rivals > rank:  # counting equals against it, the place would not be in the top
                    counts[m, 2] += 1.0


@kernel
def resample_ratios(numerators, denominators, seed, ratios):
    """Bootstrap: ratios[b] = sum of numerators / sum of denominators over M sentences drawn with replacement.

    The draws come from splitmix64 started at ``seed``, so they do not depend on a library's version.
    """
    state = np.uint64(seed)
    count = np.uint64(len(numerators))
    for b in range(len(ratios)):
        top = 0.0
        bottom = 0.0
        for _ in range(len(numerators)):
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            m = np.int64(z % count)  # the bias of % is below M / 2^64
            top += numerators[m]
            bottom += denominators[m]
        ratios[b] = top / bottom if bottom > 0 else np.nan
