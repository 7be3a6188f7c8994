"""Kernels of one hidden Markov chain over the positions of one sentence: forward, backward, expected jumps.

``direction``, its parameters, is described in :mod:`alignkit.kernels.hmm`. Matrices (T, L) are flat, their rows
padded with zeros to a multiple of ``STEP``, so that loops over positions compile to whole vector instructions;
``stride`` is that length. Loops read shifted weights through a slice of them: an index that might be negative
keeps a loop from being compiled to vector instructions at all.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.jit import borrowing_kernel, kernel

# Smaller numbers would leave the range of float32 when multiplied.
TINY = np.float32(1e-30)
ONE = np.float32(1)
# Logarithms are taken of products of several numbers above TINY, before the product leaves the range of float64.
SMALL_PRODUCT = 1e-250
# A pair of sentences beyond this number of steps (T L L) is aligned without jumps: no other cost is quadratic.
MOST_STEPS = 4e9
# States with a smaller share of the probability, or of the largest backward message, pass nothing on: that saves
# time, and moves no AER in its second decimal.
NEGLIGIBLE = np.float32(1e-5)
STEP = 8


@borrowing_kernel
def padded(length):
    """The smallest multiple of STEP that is not below ``length``."""
    return (length + STEP - 1) // STEP * STEP


@borrowing_kernel
def widen(weights, low, high, wide):
    """wide[d - low] = weights[d] for low <= d <= high, with the ends of ``weights`` for all beyond them.

    ``weights`` are those of -W..W if low is negative, of 0..W if it is 0.
    """
    width = (len(weights) - 1) // 2 if low < 0 else 0
    for d in range(low, high + 1):
        wide[d - low] = weights[min(max(d + width, 0), len(weights) - 1)]


@borrowing_kernel
def fold(wide, low, weights):
    """The opposite of :func:`widen`: adds wide[d - low] to weights[d]."""
    width = (len(weights) - 1) // 2 if low < 0 else 0
    for k in range(len(wide)):
        weights[min(max(k + low + width, 0), len(weights) - 1)] += wide[k]


@borrowing_kernel
def lexical_posteriors(T, L, e, e_null, p0):
    """Posteriors where every position is as likely: e and e_null are overwritten; returns the log-likelihood."""
    likelihood, product = 0.0, 1.0
    stride = padded(L)
    share = np.float32((1 - p0) / L)
    p_null = np.float32(p0)
    for t in range(T):
        row = e[t * stride : (t + 1) * stride]
        total = np.float32(0)
        for j in range(L):
            total += row[j]
        null = p_null * e_null[t]
        total = max(null + share * total, TINY)
        product *= total
        if product < SMALL_PRODUCT:
            likelihood += math.log(product)
            product = 1.0
        factor = share / total
        for j in range(stride):
            row[j] *= factor
        e_null[t] = null / total
    return likelihood + math.log(product)


@borrowing_kernel
def spread(L, bound, values, factors, weights, places, out):
    """out[k] += sum of values[j] * factors[j] * weights[middle - j + k], over j < L with values above ``bound``.

    Args:
        places: int32 (L,), work space: which values are above; a list, because a test in the loop itself would
            be guessed wrong by the processor too often.
    """
    middle = (len(weights) - 1) // 2
    count = 0
    for j in range(L):
        places[count] = j
        count += values[j] > bound
    for n in range(count):
        j = places[n]
        value = values[j] * factors[j]
        shifted = weights[middle - j :]
        for k in range(len(out)):
            out[k] += value * shifted[k]


@borrowing_kernel
def forward(T, L, e, e_null, chain, f, g, scales, rows):
    """Scaled forward probabilities of x_j (f) and of NULL at x_j (g), (T, L) each; returns the log-likelihood.

    Args:
        chain: (jumps float32, of -(L - 1)..L - 1 around the middle of the array; the same read backwards; start
            float32 (stride,), summing to 1; leave float32 (stride,): (1 - p0) / the sum of jumps from j; p0).
        scales: float32 (T,), filled: what each row was divided by.
        rows: (float32 (7, stride), int32 (stride,)), work space.
    """
    jumps, _, start, leave, p0 = chain
    stride = padded(L)
    row, mass, places = rows[0][0, :stride], rows[0][1], rows[1]
    likelihood, product = 0.0, 1.0
    for t in range(T):
        here = t * stride
        now, null, e_now = f[here : here + stride], g[here : here + stride], e[here : here + stride]
        stay = p0 * e_null[t]
        if t == 0:
            for j in range(stride):
                row[j] = (ONE - p0) * start[j]
                mass[j] = start[j]
        else:
            before, null_before = f[here - stride : here], g[here - stride : here]
            for j in range(stride):
                mass[j] = before[j] + null_before[j]
                row[j] = 0
            spread(L, NEGLIGIBLE, mass, leave, jumps, places, row)
        total = np.float32(0)
        for j in range(stride):
            now[j] = row[j] * e_now[j]
        for j in range(L):
            total += now[j]
        total = max(total + stay, TINY)  # what is before, and at the start, sums to 1
        scales[t] = total
        product *= total
        if product < SMALL_PRODUCT:
            likelihood += math.log(product)
            product = 1.0
        share = ONE / total
        stay *= share
        for j in range(stride):
            now[j] *= share
            null[j] = stay * mass[j]
    return likelihood + math.log(product)


@borrowing_kernel
def backward(T, L, e, e_null, chain, f, g, scales, rows, counts):
    """Turns f and g of :func:`forward` into posteriors, left in e and e_null, and adds to ``counts``.

    Args:
        rows: (float32 (7, stride), int32 (stride,)), work space.
        counts: (moves float32 (L * stride,), zeros: the expected number of moves from j to k, divided by their
            weights; leaving float64 (L,): the expected number of jumps from each position).
    """
    _, turned, _, leave, p0 = chain
    moves, leaving = counts
    stride = padded(L)
    b, new, ahead, mass, ones = rows[0][0], rows[0][1, :stride], rows[0][2], rows[0][3], rows[0][6]
    places = rows[1]
    for j in range(stride):
        b[j] = 1
        ones[j] = 1
    for t in range(T - 1, -1, -1):
        here = t * stride
        share = ONE / scales[t]
        stay = p0 * e_null[t] * share
        e_now, now, null = e[here : here + stride], f[here : here + stride], g[here : here + stride]
        null_total, total, least = np.float32(0), np.float32(0), np.float32(0)
        for j in range(stride):
            ahead[j] = e_now[j] * b[j] * share
            e_now[j] = now[j] * b[j]
            new[j] = 0
        for j in range(L):
            null_total += null[j] * b[j]
            total += e_now[j]
            least = max(least, ahead[j])
        # They sum to 1 but for what negligible states did not pass on: all, if hardly any jump is possible.
        whole = ONE / max(null_total + total, TINY)
        e_null[t] = null_total * whole
        stay *= whole
        least *= whole
        for j in range(stride):
            e_now[j] *= whole
            ahead[j] *= whole
        if t == 0:
            break
        before, null_before = f[here - stride : here], g[here - stride : here]
        for j in range(stride):
            mass[j] = before[j] + null_before[j]
        # Backwards, because the jump is read from where it goes: at j the weight of k - j.
        spread(L, least * NEGLIGIBLE, ahead, ones, turned, places, new)
        count = 0
        for j in range(L):
            places[count] = j
            count += mass[j] > NEGLIGIBLE
        for n in range(count):
            j = places[n]
            value = mass[j] * leave[j]
            to = moves[j * stride : (j + 1) * stride]
            for k in range(stride):
                to[k] += value * ahead[k]
            leaving[j] += value * new[j]
        for j in range(stride):
            b[j] = new[j] * leave[j] + stay * b[j]


@borrowing_kernel
def prepare_chain(L, weights, p0, start, leave):
    """Fills start and leave of :func:`forward`'s chain from the weights of all jumps and first positions."""
    wide, _, starts, sums = weights
    middle = (len(wide) - 1) // 2
    start[:] = 0
    leave[:] = 0
    total = 0.0
    for j in range(L):
        total += starts[j]
    share = np.float32(1 / total)
    low, high = sums[middle - L + 1 :], sums[middle + 1 :]
    for j in range(L):
        start[j] = starts[j] * share
        leave[j] = (ONE - p0) / np.float32(max(high[L - 1 - j] - low[L - 1 - j], 1e-30))


@borrowing_kernel
def posteriors(T, L, e, e_null, direction, weights, work, counts):
    """Posteriors of one sentence pair, left in e and e_null; returns the log-likelihood.

    Args:
        e: float32 (T * stride,), e_null: float32 (T,), emission probabilities.
        weights: (jumps, the same backwards, start, sums of jumps): widened as far as the longest sentence of the
            block reaches; see :func:`widened`.
        work: (f, g float32 (T * stride,); rows as of :func:`forward`; scales float32 (T,); leaving float64 (L,);
            moves float32 (L * stride,)).
        counts: (jumps, jump shares, start, start shares) float64, widened likewise, added to. The shares are
            what the M-step divides by: with Z_j the sum of weights from j, the expected number of jumps from j,
            divided by Z_j, for every jump that was possible.
    """
    p0 = np.float32(direction[6][0])
    if len(direction[4]) == 0 or float(T) * L * L > MOST_STEPS:
        return lexical_posteriors(T, L, e, e_null, p0)
    wide, turned, starts, _ = weights
    f, g, rows, scales, leaving, moves = work
    stride = padded(L)
    start, leave = rows[0][4, :stride], rows[0][5, :stride]
    prepare_chain(L, weights, p0, start, leave)
    chain = (wide, turned, start, leave, p0)
    likelihood = forward(T, L, e, e_null, chain, f, g, scales, rows)
    leaving[:L] = 0.0
    moves[: L * stride] = 0
    backward(T, L, e, e_null, chain, f, g, scales, rows, (moves, leaving))
    jump_counts, jump_shares, start_counts, start_shares = counts
    middle = (len(wide) - 1) // 2
    b = rows[0][0]  # of the first target word, after the backward pass
    total = 0.0
    for j in range(L):
        total += starts[j]
        share = leaving[j] * leave[j] / (1 - p0)
        shares, found = jump_shares[middle - j :], jump_counts[middle - j :]
        from_here, shifted = moves[j * stride :], wide[middle - j :]
        for k in range(L):
            shares[k] += share
            found[k] += from_here[k] * shifted[k]
        start_counts[j] += (f[j] + g[j]) * b[j]
    for j in range(L):
        start_shares[j] += 1 / total
    return likelihood


@kernel
def widened(direction, most):
    """((jumps, the same backwards, start, sums of jumps), their counts) for sentences of at most ``most`` tokens.

    Element k of the sums, float64, is what the jumps before k sum to.
    """
    size = 2 * most + 1
    wide, starts = np.zeros(size, np.float32), np.zeros(most, np.float32)
    sums = np.zeros(size + 1)
    if len(direction[4]) > 0:
        widen(direction[4], -most, most, wide)
        widen(direction[5], 0, most - 1, starts)
        for k in range(size):
            sums[k + 1] = sums[k] + wide[k]
    counts = (np.zeros(size), np.zeros(size), np.zeros(most), np.zeros(most))
    return (wide, wide[::-1].copy(), starts, sums), counts


@borrowing_kernel
def fold_all(wide, most, counts):
    """Adds the widened counts of a block to its own."""
    fold(wide[0], -most, counts[0])
    fold(wide[1], -most, counts[1])
    fold(wide[2], 0, counts[2])
    fold(wide[3], 0, counts[3])
