"""Functions of single rows in the kernels of the hidden Markov aligners.

They take eight positions at once (:mod:`.intrinsics`), and nothing else does: with plain loops in their place the
E-step takes a third longer, and `alignkit align` a tenth to a fifth. Rows are padded with zeros to a multiple of
``VECTOR_WIDTH``. Each function has a plain twin in tests/naive_hmm.py that gives the same bits.
Places are made unsigned where they are an index, as in :mod:`.inverted_index`.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.intrinsics import VECTOR_WIDTH, choose, larger, largest, smaller, splat, store, total
from alignkit.kernels.intrinsics import load_vector as load

# Smaller numbers would leave the range of float32 when multiplied.
TINY = np.float32(1e-30)
ONE = np.float32(1)
ZERO = np.float32(0)
# In a sentence of more than DENSE words, states with a smaller share of the probability, or of the largest
# backward message, pass nothing on: that saves time, and moves no AER in its second decimal. In a short one, loops
# of a fixed length are quicker than shorter ones whose end the processor cannot guess.
NEGLIGIBLE = np.float32(1e-5)
DENSE = 24
FERTILITIES = 9  # 0..7 and more
ONES_THEN_ZEROS = np.repeat(np.array([1, 0], np.float32), VECTOR_WIDTH)


@kernel
def padded(length):
    """The smallest multiple of VECTOR_WIDTH that is not below ``length``."""
    return (length + VECTOR_WIDTH - 1) // VECTOR_WIDTH * VECTOR_WIDTH


@kernel
def sum_row(row):
    """The sum of a padded row: of every eighth number, and then of those sums by halves."""
    sums = splat(ZERO)
    for j in range(0, len(row), VECTOR_WIDTH):
        sums = sums + load(row, j)
    return total(sums)


@kernel
def sum_changes(row, other):
    """The sum of the absolute differences of two padded rows, as :func:`sum_row`."""
    sums = splat(ZERO)
    for j in range(0, len(row), VECTOR_WIDTH):
        a, b = load(row, j), load(other, j)
        sums = sums + (larger(a, b) - smaller(a, b))
    return total(sums)


@kernel
def scale_row(row, factor, out):
    """out = row * factor."""
    factors = splat(factor)
    for j in range(0, len(out), VECTOR_WIDTH):
        store(out, j, load(row, j) * factors)


@kernel
def clear_end(row, size):
    """row[size:] = 0, of a row that is :func:`padded`."""
    last, nothing = len(row) - VECTOR_WIDTH, splat(ZERO)
    store(row, last, choose(load(ONES_THEN_ZEROS, len(row) - size), nothing, load(row, last), nothing))


@kernel
def clear_ends(number, stride, rows):
    """The last ``VECTOR_WIDTH`` numbers of each of ``number`` rows = 0, their padding among them."""
    for end in range(stride, (number + 1) * stride, stride):
        store(rows, end - VECTOR_WIDTH, splat(ZERO))


@kernel
def list_above(L, bound, values, places):
    """Fills ``places`` with the j < L whose value is above ``bound``, or all if L is small; returns their number.

    A list, because a test in the loops that follow would be mispredicted too often.
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
    while k + 2 * VECTOR_WIDTH <= size:  # two at once, because an addition takes longer than what it waits for
        low, high = splat(ZERO), splat(ZERO)
        for n in range(len(places)):
            j = places[n]
            value, place = splat(values[np.uint32(j)]), middle - j + k
            low = low + value * load(weights, place)
            high = high + value * load(weights, place + VECTOR_WIDTH)
        store(out, k, low)
        store(out, k + VECTOR_WIDTH, high)
        k += 2 * VECTOR_WIDTH
    if k < size:
        low = splat(ZERO)
        for n in range(len(places)):
            j = places[n]
            low = low + splat(values[np.uint32(j)]) * load(weights, middle - j + k)
        store(out, k, low)


@kernel
def depart(f_row, g_row, leave, mass, leaving):
    """mass = f_row + g_row, the probability of each position; leaving = mass * leave."""
    for j in range(0, len(f_row), VECTOR_WIDTH):
        both = load(f_row, j) + load(g_row, j)
        store(mass, j, both)
        store(leaving, j, both * load(leave, j))


@kernel
def emit(row, e_row):
    """row *= e_row; returns the sum of the row."""
    sums = splat(ZERO)
    for j in range(0, len(e_row), VECTOR_WIDTH):
        value = load(row, j) * load(e_row, j)
        store(row, j, value)
        sums = sums + value
    return total(sums)


@kernel
def meet(f_row, g_row, b, share, e_row, ahead):
    """The two passes meet at one target word: ahead = e_row * b * share, then e_row = f_row * b.

    Returns:
        (the sum of g_row * b, that of f_row * b, the largest of ``ahead``).
    """
    of_null, of_words, most = splat(ZERO), splat(ZERO), splat(ZERO)
    shares = splat(share)
    for j in range(0, len(e_row), VECTOR_WIDTH):
        after = load(b, j)
        posterior = load(f_row, j) * after
        coming = load(e_row, j) * after * shares
        of_null = of_null + load(g_row, j) * after
        of_words = of_words + posterior
        most = larger(most, coming)
        store(ahead, j, coming)
        store(e_row, j, posterior)
    return total(of_null), total(of_words), largest(most)


@kernel
def count_departures(f_row, g_row, leave, coming, least, mass, departures):
    """mass = (f_row + g_row) * leave where f_row + g_row > least, else 0; departures += mass * coming."""
    bound, nothing = splat(least), splat(ZERO)
    for j in range(0, len(f_row), VECTOR_WIDTH):
        before = load(f_row, j) + load(g_row, j)
        value = choose(before, bound, before * load(leave, j), nothing)
        store(mass, j, value)
        store(departures, j, load(departures, j) + value * load(coming, j))


@kernel
def step_back(coming, leave, stay, b):
    """b = coming * leave + stay * b."""
    stays = splat(stay)
    for j in range(0, len(coming), VECTOR_WIDTH):
        store(b, j, load(coming, j) * load(leave, j) + stays * load(b, j))


@kernel
def add_moves(stride, values, places, ahead, moves):
    """moves[stride + d] += the sum over j in ``places`` of values[j] * ahead[j + d], for -stride <= d < stride.

    Args:
        ahead: float32 (3 stride,), with zeros before and after the numbers meant.
    """
    for d in range(0, 2 * stride, 2 * VECTOR_WIDTH):
        low, high = load(moves, d), load(moves, d + VECTOR_WIDTH)
        for n in range(len(places)):
            j = places[n]
            value = splat(values[np.uint32(j)])
            low = low + value * load(ahead, d + j)
            high = high + value * load(ahead, d + j + VECTOR_WIDTH)
        store(moves, d, low)
        store(moves, d + VECTOR_WIDTH, high)


@kernel
def emission(pseudo_count, link, count, own, total, beyond, factor, above, below):
    """Emission probabilities of eight elements; see :class:`.hmm_e_step.States`.

    Args:
        own: what the link may have counted for itself. Counts of a word with punctuation are a small part of their
            links, so that all of them may be less than that.
    """
    nothing = splat(ZERO)
    excluded = smaller(own, count)
    others = smaller(beyond - link, splat(ONE))
    fertility = factor + larger(others, nothing) * above + smaller(others, nothing) * below
    return (count - excluded + pseudo_count) / larger(total - excluded, splat(TINY)) * fertility


@kernel
def emission_rows(t, forward, reverse, links, counts, owns, source, target):
    """Emission probabilities of target token t in both directions, in the place of the pseudo-counts.

    Args:
        owns: float32, how much of a link is its own evidence, in each direction, and the least link for that.
        source, target: the :class:`.hmm_e_step.States` of both sides.
    """
    own, reverse_own, least = splat(owns[0]), splat(owns[1]), splat(owns[2])
    total, beyond, factor = splat(target.totals[t]), splat(target.beyond[t]), splat(target.factors[t])
    above, below = splat(target.above[t]), splat(target.below[t])
    for j in range(0, len(links), VECTOR_WIDTH):
        link, count, totals, others = (
            load(links, j),
            load(counts, j),
            load(source.totals, j),
            load(source.beyond, j),
        )
        factors, more, less = load(source.factors, j), load(source.above, j), load(source.below, j)
        own_link = larger(link, least)
        by_forward, by_reverse = own * own_link, reverse_own * own_link
        store(forward, j, emission(load(forward, j), link, count, by_forward, totals, others, factors, more, less))
        store(reverse, j, emission(load(reverse, j), link, count, by_reverse, total, beyond, factor, above, below))


@kernel
def add_row(row, out):
    """out += row."""
    for j in range(0, len(out), VECTOR_WIDTH):
        store(out, j, load(out, j) + load(row, j))


@kernel
def link_numbers(links, number, stride, place, numbers):
    """The chances that each of eight words has 0, 1, ... 7 and at least 8 links, as Poisson-binomials.

    Args:
        links: float32 (number * stride,), the chances of a link of the words at ``place``, ``place`` + 1, ... to
            each of ``number`` others.
        numbers: float32 (FERTILITIES * VECTOR_WIDTH,), filled.
    """
    n0 = splat(ONE)
    n1 = n2 = n3 = n4 = n5 = n6 = n7 = n8 = splat(ZERO)
    for k in range(number):
        p = load(links, k * stride + place)
        n8 = n8 + n7 * p
        n7 = n7 + (n6 - n7) * p
        n6 = n6 + (n5 - n6) * p
        n5 = n5 + (n4 - n5) * p
        n4 = n4 + (n3 - n4) * p
        n3 = n3 + (n2 - n3) * p
        n2 = n2 + (n1 - n2) * p
        n1 = n1 + (n0 - n1) * p
        n0 = n0 - n0 * p
    store(numbers, 0, n0)
    store(numbers, VECTOR_WIDTH, n1)
    store(numbers, 2 * VECTOR_WIDTH, n2)
    store(numbers, 3 * VECTOR_WIDTH, n3)
    store(numbers, 4 * VECTOR_WIDTH, n4)
    store(numbers, 5 * VECTOR_WIDTH, n5)
    store(numbers, 6 * VECTOR_WIDTH, n6)
    store(numbers, 7 * VECTOR_WIDTH, n7)
    store(numbers, 8 * VECTOR_WIDTH, n8)
