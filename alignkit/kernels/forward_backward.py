"""Kernels of one hidden Markov chain over the positions of one sentence: forward, backward, expected jumps.

``direction``, its parameters, is described in :mod:`.hmm_e_step`. Matrices (T, L) are flat, their rows
padded with zeros to whole ``LANES``; ``stride`` is that length. Loops over positions take eight at once
(:mod:`.lanes`).
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.lanes import LANES, above, larger, largest, load, splat, store, total

# Smaller numbers would leave the range of float32 when multiplied.
TINY = np.float32(1e-30)
ONE = np.float32(1)
# Logarithms are taken of products of several numbers above TINY, before the product leaves the range of float64.
SMALL_PRODUCT = 1e-250
# A pair of sentences beyond this number of steps (T L L) is aligned without jumps: no other cost is quadratic.
MOST_STEPS = 4e9
# In a sentence of more than DENSE words, states with a smaller share of the probability, or of the largest
# backward message, pass nothing on: that saves time, and moves no AER in its second decimal. In a short one, loops
# of a fixed length are quicker than shorter ones whose end the processor cannot guess.
NEGLIGIBLE = np.float32(1e-5)
DENSE = 24
ZERO = np.float32(0)
ROWS = 11  # of work space for one sentence


@kernel
def padded(length):
    """The smallest multiple of LANES that is not below ``length``."""
    return (length + LANES - 1) // LANES * LANES


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
    likelihood, product = 0.0, 1.0
    stride = padded(L)
    share = np.float32((1 - p0) / L)
    p_null = np.float32(p0)
    for t in range(T):
        row = e[t * stride : (t + 1) * stride]
        sums = splat(ZERO)
        for j in range(0, stride, LANES):
            sums = sums + load(row, j)
        null = p_null * e_null[t]
        whole = max(null + share * total(sums), TINY)
        product *= whole
        if product < SMALL_PRODUCT:
            likelihood += math.log(product)
            product = 1.0
        factor = splat(share / whole)
        for j in range(0, stride, LANES):
            store(row, j, load(row, j) * factor)
        e_null[t] = null / whole
    return likelihood + math.log(product)


@kernel
def list_above(L, bound, values, places):
    """Fills ``places`` with the j < L whose value is above ``bound``, or all if L is small; returns how many.

    A list, because a test in the loops that follow would be guessed wrong by the processor too often.
    """
    if L <= DENSE:
        for j in range(L):
            places[j] = j
        return L
    count = 0
    for j in range(L):
        places[count] = j
        count += values[j] > bound
    return count


@kernel
def spread(values, places, weights, out):
    """out[k] = the sum over j in ``places`` of values[j] * weights[middle - j + k]."""
    k, size, middle = 0, len(out), (len(weights) - 1) // 2
    while k + 2 * LANES <= size:  # two at once, because an addition takes longer than what it waits for
        low, high = splat(ZERO), splat(ZERO)
        for n in range(len(places)):
            j = places[n]
            value, place = splat(values[j]), middle - j + k
            low = low + value * load(weights, place)
            high = high + value * load(weights, place + LANES)
        store(out, k, low)
        store(out, k + LANES, high)
        k += 2 * LANES
    if k < size:
        low = splat(ZERO)
        for n in range(len(places)):
            j = places[n]
            low = low + splat(values[j]) * load(weights, middle - j + k)
        store(out, k, low)


@kernel
def forward(T, L, e, e_null, chain, f, g, scales, rows):
    """Scaled forward probabilities of x_j (f) and of NULL at x_j (g), (T, L) each; returns the log-likelihood.

    Args:
        chain: (jumps float32, of -(L - 1)..L - 1 around the middle of the array; the same read backwards; start
            float32 (stride,), summing to 1; leave float32 (stride,): (1 - p0) / the sum of jumps from j; p0).
        scales: float32 (T,), filled: what each row was divided by.
        rows: (float32 (ROWS, stride or more), int32 (stride,)), work space; rows 4 and 5 hold start and leave.
    """
    jumps, _, start, leave, p0 = chain
    stride = padded(L)
    row, mass, leaving, places = rows[0][0, :stride], rows[0][1], rows[0][2], rows[1]
    likelihood, product = 0.0, 1.0
    for t in range(T):
        here = t * stride
        if t == 0:
            for j in range(0, stride, LANES):
                store(row, j, splat(ONE - p0) * load(start, j))
                store(mass, j, load(start, j))
        else:
            for j in range(0, stride, LANES):
                both = load(f, here - stride + j) + load(g, here - stride + j)
                store(mass, j, both)
                store(leaving, j, both * load(leave, j))
            count = list_above(L, NEGLIGIBLE, mass, places)
            spread(leaving, places[:count], jumps, row)
        sums = splat(ZERO)
        for j in range(0, stride, LANES):
            value = load(row, j) * load(e, here + j)
            store(row, j, value)
            sums = sums + value
        stay = p0 * e_null[t]
        whole = max(total(sums) + stay, TINY)  # what is before, and at the start, sums to 1
        scales[t] = whole
        product *= whole
        if product < SMALL_PRODUCT:
            likelihood += math.log(product)
            product = 1.0
        share = ONE / whole
        for j in range(0, stride, LANES):
            store(f, here + j, load(row, j) * splat(share))
            store(g, here + j, load(mass, j) * splat(stay * share))
    return likelihood + math.log(product)


@kernel
def add_moves(L, stride, values, places, ahead, moves):
    """moves[stride + d] += the sum over j in ``places`` of values[j] * ahead[j + d], for -stride <= d < stride.

    Args:
        ahead: float32 (3 stride,), with zeros before and after the numbers meant.
    """
    for d in range(0, 2 * stride, 2 * LANES):
        low, high = load(moves, d), load(moves, d + LANES)
        for n in range(len(places)):
            j = places[n]
            value = splat(values[j])
            low = low + value * load(ahead, d + j)
            high = high + value * load(ahead, d + j + LANES)
        store(moves, d, low)
        store(moves, d + LANES, high)


@kernel
def backward(T, L, e, e_null, chain, f, g, scales, rows, counts):
    """Turns f and g of :func:`forward` into posteriors, left in e and e_null, and adds to ``counts``.

    Args:
        rows: as of :func:`forward`; row 0 is left with the backward probabilities of the first target word.
        counts: (moves float32 (2 stride,): the expected number of moves by d, at stride + d, divided by their
            weights; leaving float32 (stride,): the expected number of jumps from each position).
    """
    _, turned, _, leave, p0 = chain
    moves, leaving = counts
    stride = padded(L)
    b, new, mass = rows[0][0], rows[0][1, :stride], rows[0][2]
    wide_ahead = rows[0][6:9].reshape(-1)[: 3 * stride]
    wide_ahead[:] = 0
    ahead = wide_ahead[stride:]
    places = rows[1]
    least = NEGLIGIBLE if L > DENSE else ZERO
    for j in range(stride):
        b[j] = 1
    for t in range(T - 1, -1, -1):
        here = t * stride
        share = ONE / scales[t]
        of_null, of_words, most = splat(ZERO), splat(ZERO), splat(ZERO)
        for j in range(0, stride, LANES):
            after = load(b, j)
            posterior = load(f, here + j) * after
            coming = load(e, here + j) * after * splat(share)
            of_null = of_null + load(g, here + j) * after
            of_words = of_words + posterior
            most = larger(most, coming)
            store(ahead, j, coming)
            store(e, here + j, posterior)
        # 1 but for what negligible states did not pass on: all of it, where jumps are next to impossible.
        null = total(of_null)
        whole = ONE / max(null + total(of_words), TINY)
        stay = p0 * e_null[t] * share * whole
        e_null[t] = null * whole
        for j in range(0, stride, LANES):
            store(e, here + j, load(e, here + j) * splat(whole))
            store(ahead, j, load(ahead, j) * splat(whole))
        if t == 0:
            break
        # Backwards, because the jump is read from where it goes: at j the weight of k - j.
        count = list_above(L, largest(most) * whole * NEGLIGIBLE, ahead, places)
        spread(ahead, places[:count], turned, new)
        for j in range(0, stride, LANES):
            before = load(f, here - stride + j) + load(g, here - stride + j)
            value, jump = above(before, splat(least), before * load(leave, j)), load(new, j)
            store(mass, j, value)
            store(leaving, j, load(leaving, j) + value * jump)
            store(b, j, jump * load(leave, j) + splat(stay) * load(b, j))
        count = list_above(L, ZERO, mass, places)
        add_moves(L, stride, mass, places[:count], wide_ahead, moves)


@kernel
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


@kernel
def posteriors(T, L, e, e_null, direction, weights, work, counts):
    """Posteriors of one sentence pair, left in e and e_null; returns the log-likelihood.

    Args:
        e: float32 (T * stride,), e_null: float32 (T,), emission probabilities.
        weights: (jumps, the same backwards, start, sums of jumps): widened as far as the longest sentence of the
            block reaches; see :func:`widened`.
        work: (f, g float32 (T * stride,); rows as of :func:`forward`; scales float32 (T,)).
        counts: (jumps, jump shares, start, start shares) float64, widened likewise, added to. The shares are
            what the M-step divides by: with Z_j the sum of weights from j, the expected number of jumps from j,
            divided by Z_j, for every jump that was possible.
    """
    p0 = np.float32(direction[6][0])
    if len(direction[4]) == 0 or float(T) * L * L > MOST_STEPS:
        return lexical_posteriors(T, L, e, e_null, p0)
    wide, turned, starts, _ = weights
    f, g, rows, scales = work
    stride = padded(L)
    start, leave = rows[0][4, :stride], rows[0][5, :stride]
    leaving, moves = rows[0][3, :stride], rows[0][9:11].reshape(-1)[: 2 * stride]
    prepare_chain(L, weights, p0, start, leave)
    chain = (wide, turned, start, leave, p0)
    likelihood = forward(T, L, e, e_null, chain, f, g, scales, rows)
    leaving[:] = 0
    moves[:] = 0
    backward(T, L, e, e_null, chain, f, g, scales, rows, (moves, leaving))
    jump_counts, jump_shares, start_counts, start_shares = counts
    middle = (len(wide) - 1) // 2
    b = rows[0][0]  # of the first target word, after the backward pass
    whole = 0.0
    for j in range(L):
        whole += starts[j]
        share = leaving[j] * leave[j] / (1 - p0)
        shares = jump_shares[middle - j :]
        for k in range(L):
            shares[k] += share
        start_counts[j] += (f[j] + g[j]) * b[j]
    found, weight = jump_counts[middle - L + 1 :], wide[middle - L + 1 :]
    for d in range(2 * L - 1):
        found[d] += moves[stride - L + 1 + d] * weight[d]
    for j in range(L):
        start_shares[j] += 1 / whole
    return likelihood


@allocating_kernel
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


@kernel
def fold_all(wide, most, counts):
    """Adds the widened counts of a block to its own."""
    fold(wide[0], -most, counts[0])
    fold(wide[1], -most, counts[1])
    fold(wide[2], 0, counts[2])
    fold(wide[3], 0, counts[3])
