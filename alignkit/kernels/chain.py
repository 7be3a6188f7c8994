"""Kernels of one hidden Markov chain over the positions of one sentence: forward, backward, expected jumps.

``direction``, its parameters, is described in :mod:`alignkit.kernels.hmm`.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.jit import kernel

# Smaller numbers would leave the range of float32 when multiplied.
TINY = np.float32(1e-30)
# A pair of sentences beyond this number of steps (T L L) is aligned without jumps: no other cost is quadratic.
MOST_STEPS = 4e9
# States with a smaller share of the probability, or of the largest backward message, pass nothing on: that saves
# time, and moves no AER in its second decimal.
NEGLIGIBLE = np.float32(1e-5)
# Loops over positions run in steps of so many, which compile to single instructions: a fifth to a third of the
# time of short sentences went without them to what is left over. Work space is that much longer than the sentence.
STEP = 8


@kernel
def widen(weights, low, high, wide):
    """wide[d - low] = weights[d] for low <= d <= high, with the ends of ``weights`` for all beyond them.

    ``weights`` are those of -W..W if low is negative, of 0..W if it is 0.
    """
    width = (len(weights) - 1) // 2 if low < 0 else 0
    for d in range(low, high + 1):
        wide[d - low] = weights[min(max(d + width, 0), len(weights) - 1)]


@kernel
def fold(wide, low, weights):
    """The opposite of :func:`widen`: adds wide[d - low] to weights[d]."""
    width = (len(weights) - 1) // 2 if low < 0 else 0
    for k in range(len(wide)):
        weights[min(max(k + low + width, 0), len(weights) - 1)] += wide[k]


@kernel
def lexical_posteriors(T, L, e, e_null, p0):
    """Posteriors where every position is as likely: e and e_null are overwritten; returns the log-likelihood."""
    likelihood = 0.0
    share = np.float32((1 - p0) / L)
    p_null = np.float32(p0)
    for t in range(T):
        total = p_null * e_null[t]
        for j in range(L):
            e[t, j] *= share
            total += e[t, j]
        total = max(total, TINY)
        likelihood += math.log(total)
        for j in range(L):
            e[t, j] /= total
        e_null[t] = p_null * e_null[t] / total
    return likelihood


@kernel
def forward(T, L, e, e_null, chain, f, g, scales, row):
    """Scaled forward probabilities of x_j (f) and of NULL at x_j (g), (T, L) each; returns the log-likelihood.

    Args:
        chain: (jumps float32, of -(L - 1)..L - 1 around the middle of the array; start float32 (L,), summing to
            1; leave float32 (L,): (1 - p0) / the sum of jumps from j; p0 float32).
        scales: float32 (T,), filled: what each row was divided by.
        row: float32 (L + STEP,), work space.
    """
    jumps, start, leave, p0 = chain
    middle = (len(jumps) - 1) // 2
    padded = (L + STEP - 1) // STEP * STEP
    likelihood = 0.0
    for t in range(T):
        if t == 0:
            for j in range(L):
                f[0, j] = (1 - p0) * start[j] * e[0, j]
                g[0, j] = p0 * start[j] * e_null[0]
        else:
            row[:padded] = 0
            for j in range(L):
                mass = f[t - 1, j] + g[t - 1, j]
                g[t, j] = p0 * e_null[t] * mass
                if mass < NEGLIGIBLE:
                    continue
                mass *= leave[j]
                for low in range(0, padded, STEP):
                    for k in range(STEP):
                        row[low + k] += mass * jumps[middle - j + low + k]
            for j in range(L):
                f[t, j] = row[j] * e[t, j]
        total = np.float32(0)
        for j in range(L):
            total += f[t, j] + g[t, j]
        scales[t] = max(total, TINY)
        likelihood += math.log(scales[t])
        share = 1 / scales[t]
        for j in range(L):
            f[t, j] *= share
            g[t, j] *= share
    return likelihood


@kernel
def backward(T, L, e, e_null, chain, f, g, scales, rows, counts):
    """Turns f and g of :func:`forward` into posteriors, left in e and e_null, and adds to ``counts``.

    Args:
        rows: float32 (4, L + STEP), work space.
        counts: (jumps float32, laid out as those of ``chain``: expected jumps divided by their weights;
            leaving float64 (L,): the expected number of jumps from each position).
    """
    jumps, _, leave, p0 = chain
    middle = (len(jumps) - 1) // 2
    jump_counts, leaving = counts
    padded = (L + STEP - 1) // STEP * STEP
    b, new, ahead, mass = rows[0], rows[1], rows[2], rows[3]
    for j in range(L):
        b[j] = 1
    for t in range(T - 1, -1, -1):
        share = np.float32(1 / scales[t])
        stay = p0 * e_null[t] * share
        total = np.float32(0)
        for j in range(L):
            ahead[j] = e[t, j] * b[j] * share
            e[t, j] = f[t, j] * b[j]
            total += g[t, j] * b[j]
        e_null[t] = total
        if t == 0:
            break
        least = np.float32(0)
        new[:padded] = 0
        ahead[L:padded] = 0
        for j in range(L):
            mass[j] = f[t - 1, j] + g[t - 1, j]
            least = max(least, ahead[j])
        least *= NEGLIGIBLE
        for k in range(L):
            value = ahead[k]
            if value <= least:
                continue
            for low in range(0, padded, STEP):
                for j in range(STEP):  # jumps read backwards: the weight of k - j
                    new[low + j] += value * jumps[middle + k - low - j]
        for j in range(L):
            if mass[j] < NEGLIGIBLE:
                continue
            value = mass[j] * leave[j]
            for low in range(0, padded, STEP):
                for k in range(STEP):
                    jump_counts[middle - j + low + k] += value * ahead[low + k]
            leaving[j] += value * new[j]
        for j in range(L):
            b[j] = new[j] * leave[j] + stay * b[j]


@kernel
def prepare_chain(L, wide, starts, p0, start, leave):
    """Fills start and leave of :func:`forward`'s chain from the weights of all jumps and first positions."""
    middle = (len(wide) - 1) // 2
    total = 0.0
    for j in range(L):
        total += starts[j]
    for j in range(L):
        start[j] = starts[j] / total
    for j in range(L):
        total = 0.0
        for k in range(L):
            total += wide[middle - j + k]
        leave[j] = (1 - p0) / max(total, 1e-30)


@kernel
def posteriors(T, L, e, e_null, direction, weights, work, counts):
    """Posteriors of one sentence pair, left in e and e_null; returns the log-likelihood.

    Args:
        weights: (jumps, start): widened as far as the longest sentence of the block reaches.
        work: (f, g float32 (T, L); rows float32 (7, L + STEP); scales float32 (T,); leaving float64 (L,)).
        counts: (jumps, jump shares, start, start shares) float64, widened likewise, added to. The shares are
            what the M-step divides by: with Z_j the sum of weights from j, the expected number of jumps from j,
            divided by Z_j, for every jump that was possible.
    """
    p0 = np.float32(direction[7][0])
    if len(direction[5]) == 0 or float(T) * L * L > MOST_STEPS:
        return lexical_posteriors(T, L, e, e_null, p0)
    wide, starts = weights
    f, g, rows, scales, leaving = work
    start, leave, found = rows[4, :L], rows[5, :L], np.zeros(len(wide), np.float32)
    prepare_chain(L, wide, starts, p0, start, leave)
    chain = (wide, start, leave, p0)
    likelihood = forward(T, L, e, e_null, chain, f, g, scales, rows[6])
    for j in range(L):
        leaving[j] = 0.0
    backward(T, L, e, e_null, chain, f, g, scales, rows, (found, leaving))
    jump_counts, jump_shares, start_counts, start_shares = counts
    middle = (len(wide) - 1) // 2
    for d in range(middle - L + 1, middle + L):
        jump_counts[d] += found[d] * wide[d]
    total = 0.0
    for j in range(L):
        total += starts[j]
        share = leaving[j] * leave[j] / (1 - p0)
        for k in range(L):
            jump_shares[middle - j + k] += share
        # After the backward pass rows[0] holds b of the first target word.
        start_counts[j] += (f[0, j] + g[0, j]) * rows[0, j]
    for j in range(L):
        start_shares[j] += 1 / total
    return likelihood


@kernel
def widened(direction, most):
    """((jumps, start), their counts) for sentences of at most ``most`` tokens."""
    wide, starts = np.zeros(2 * most + 1, np.float32), np.zeros(most, np.float32)
    if len(direction[5]) > 0:
        widen(direction[5], -most, most, wide)
        widen(direction[6], 0, most - 1, starts)
    counts = (np.zeros(2 * most + 1), np.zeros(2 * most + 1), np.zeros(most), np.zeros(most))
    return (wide, starts), counts


@kernel
def fold_all(wide, most, counts):
    """Adds the widened counts of a block to its own."""
    fold(wide[0], -most, counts[0])
    fold(wide[1], -most, counts[1])
    fold(wide[2], 0, counts[2])
    fold(wide[3], 0, counts[3])
