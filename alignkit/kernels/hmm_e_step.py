"""Kernels of the hidden Markov aligners: states are source positions, emissions are target words.

Vogel, Ney and Tillmann (1996), with NULL as Och and Ney (2003) have it: a target word is NULL's with probability
p0 wherever the chain stands, and the chain then stays. A jump of d positions from source position l has
probability jumps[d] / (the sum of jumps over the positions there are).

Both directions of a text are worked in one pass over its pairs, because they share a table of counts and the
expected links. Tuples that recur:
    text = (x tokens int32, x offsets int64 (M + 1,), y tokens int32, y offsets int64 (M + 1,), copies float32
        (M,)): copies: how often each pair is in the text;
    pairs = (offsets int64 (M + 1,), ids int32 (P,), evidence float32 (K, 3), links float32 (P,)): the (T, L)
        matrices of all sentence pairs, row by row, one after another, P elements in all; the word pair of each
        element; the count of each word pair and its pseudo-counts in the forward and the reverse direction, side
        by side because a look-up in this table is a miss of the cache as a rule; and the expected links, read and
        then overwritten;
    direction = (totals float32 (V_x,), null float32 (V_y,), nulls float32 (N_y,), ratios float32 (V_x, F),
        jumps float32 (2 W + 1,), start float32 (W + 1,), numbers float64 (3,)):
        totals: of each source word, its count and its pseudo-counts; null: NULL's count of each target word, and
        pseudo-count; nulls: NULL's share in each target token, read and overwritten; ratios: the factor for one
        more link of a source word that has 0, 1, ... others; jumps, start: weights of jumps -W..W and of first
        positions 0..W, the ends standing for all beyond them (empty: every position alike, as in IBM Model 1);
        numbers: p0, the sum of NULL's counts, and 1 if a link's own expectation, and that of its like in copies of
        the pair, is taken out of the counts that judge it, else 0.
Matrices of one sentence pair are flat, their rows padded with zeros (:mod:`.chain`).
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import (
    ONE,
    ROWS,
    SMALL_PRODUCT,
    TINY,
    ZERO,
    fold_all,
    padded,
    posteriors,
    widened,
)
from alignkit.kernels.lanes import LANES, larger, largest, load, smaller, splat, store


@kernel
def gather(place, T, L, pairs, found, e_forward, e_reverse):
    """The evidence of one sentence pair, from where it lies scattered, laid out for both directions.

    Args:
        place: of its first element in ``pairs``.
        found: ((counts, links) as T rows, the same as L rows), flat with padded rows; filled.
        e_forward, e_reverse: filled with the pseudo-counts, as T rows and as L rows, and zeros.
    """
    _, ids, evidence, links = pairs
    (counts, old), (turned_counts, turned_old) = found
    wide, high = padded(L), padded(T)
    for t in range(T):
        start = place + t * L
        id_row, link_row = ids[start : start + L], links[start : start + L]
        row, count_row, old_row = (
            e_forward[t * wide : (t + 1) * wide],
            counts[t * wide : (t + 1) * wide],
            old[t * wide : (t + 1) * wide],
        )
        row[L:] = 0
        count_row[L:] = 0
        old_row[L:] = 0
        for j in range(L):
            i = np.uint32(id_row[j])
            count, link = evidence[i, 0], link_row[j]
            count_row[j] = count
            old_row[j] = link
            row[j] = evidence[i, 1]
            turned = j * high + t
            turned_counts[turned] = count
            turned_old[turned] = link
            e_reverse[turned] = evidence[i, 2]
    for j in range(L):
        for k in range(j * high + T, (j + 1) * high):
            turned_counts[k] = 0
            turned_old[k] = 0
            e_reverse[k] = 0


@kernel
def prepare_factors(x, fertile, ratios, none, one, places):
    """Fills none and one with each word's factors for one more link if it has 0 and 1 others, and ``places`` with
    the words that may have more, whose factors there are 1; returns how many they are."""
    count = 0
    for j in range(len(x)):
        i = np.uint32(x[j])
        places[count] = j
        if fertile[j] < ONE:
            none[j], one[j] = ratios[i, 0], ratios[i, 1]
        else:
            none[j] = one[j] = ONE
            count += 1
    for j in range(len(x), len(none)):
        none[j] = one[j] = ONE
    return count


@kernel
def factors_of_many(x, link_row, fertile, ratios, places, row):
    """Multiplies row[j] by the factor for one more link of x_j, between those for whole numbers of other links,
    for the j in ``places``: few words have more than one other link, and no others need look-ups."""
    most = np.float32(ratios.shape[1] - 1) - np.float32(1e-3)
    for n in range(len(places)):
        j = places[n]
        others = fertile[j] - link_row[j]
        if not others > ZERO:  # nor if it is no number, which would be no index
            others = ZERO
        others = min(others, most)
        whole = np.uint32(others)
        part = others - np.float32(whole)
        i = np.uint32(x[j])
        row[j] *= (ONE - part) * ratios[i, whole] + part * ratios[i, whole + np.uint32(1)]


@kernel
def judge(row, link_row, count_row, own, words):
    """row[j] = (count - own + prior) / (total - own), times the factor for one more link; the prior is in row.

    Args:
        own: what part of a link is its own evidence.
        words: (totals, fertile, none, one), as of :func:`emissions` and :func:`prepare_factors`.
    """
    totals, fertile, none, one = words
    nothing, tiny, whole = splat(ZERO), splat(TINY), splat(ONE)
    for j in range(0, len(row), LANES):
        link, without = load(link_row, j), load(none, j)
        excluded = splat(own) * link
        count = larger(load(count_row, j) - excluded, nothing) + load(row, j)
        others = smaller(larger(load(fertile, j) - link, nothing), whole)
        factor = without + others * (load(one, j) - without)
        store(row, j, count / larger(load(totals, j) - excluded, tiny) * factor)


@kernel
def emissions(x, y, found, direction, copies, rows, places, e, e_null):
    """Emission probabilities of one sentence pair, each row divided by its largest; returns the log of those.

    e[t, l] = (count - own + prior) / (total - own), times the factor for one more link of x_l. "own" is the
    expected link itself, so that a pair of words is judged by the evidence of other places: the zero-order
    approximation of collapsed variational inference (Asuncion et al. 2009), to which the collapsed Gibbs
    sampler's rule is exactly the sampled counterpart.

    Args:
        x, y: tokens of the pair, states and emissions.
        found: (counts, links) float32 (T * padded L,).
        copies: how often the pair is in the text, which is how often it counted.
        rows: float32 (4 or more, padded L), places: int32 (L,), work space.
        e: float32 (T * padded L,), the pseudo-counts, overwritten. e_null: float32 (T,), NULL's shares so far,
            overwritten.
    """
    counts, links = found
    all_totals, null, _, ratios, _, _, numbers = direction
    L, T, stride = len(x), len(y), padded(len(x))
    own = np.float32(numbers[2]) * copies
    null_share = ONE / max(np.float32(numbers[1]), TINY)
    totals, fertile, none, one = rows[0, :stride], rows[1, :stride], rows[2, :stride], rows[3, :stride]
    for j in range(stride):
        totals[j] = all_totals[x[j]] if j < L else ONE
    for j in range(0, stride, LANES):
        expected = splat(ZERO)
        for t in range(T):
            expected = expected + load(links, t * stride + j)
        store(fertile, j, expected)
        store(none, j, splat(ONE))
        store(one, j, splat(ONE))
    many = places[: prepare_factors(x, fertile, ratios, none, one, places) if ratios.shape[1] > 1 else 0]
    scale, product = 0.0, 1.0
    for t in range(T):
        here = t * stride
        row, link_row = e[here : here + stride], links[here : here + stride]
        judge(row, link_row, counts[here : here + stride], own, (totals, fertile, none, one))
        factors_of_many(x, link_row, fertile, ratios, many, row)
        p_null = max(null[y[t]] - own * e_null[t], ZERO) * null_share
        top = splat(max(p_null, TINY))
        for j in range(0, stride, LANES):
            top = larger(top, load(row, j))
        highest = largest(top)
        product *= highest
        if product < SMALL_PRODUCT or product > 1 / SMALL_PRODUCT:
            scale += math.log(product)
            product = 1.0
        share = ONE / highest
        for j in range(0, stride, LANES):
            store(row, j, load(row, j) * splat(share))
        e_null[t] = p_null * share
    return scale + math.log(product)


@kernel
def mix(T, L, e_forward, e_reverse, shares, links):
    """links = the weighted sum of both directions' posteriors of one sentence pair; returns by how much they
    change, in all."""
    forward, reverse = np.float32(shares[0]), np.float32(shares[1])
    wide, high = padded(L), padded(T)
    change = 0.0
    for t in range(T):
        row, old = e_forward[t * wide : (t + 1) * wide], links[t * L : (t + 1) * L]
        moved = ZERO
        for j in range(L):
            value = ZERO
            if shares[0] > 0:
                value += forward * row[j]
            if shares[1] > 0:
                value += reverse * e_reverse[j * high + t]
            moved += abs(value - old[j])
            old[j] = value
        change += moved
    return change


@kernel
def run_direction(words, found, direction, weights, e, work, counts):
    """Posteriors of one direction of one sentence pair, left in e and in the direction's NULL shares.

    Args:
        words: (x, y, where the nulls of y start, how often the pair is in the text).
        found, e: as of :func:`emissions`, which is to have the pseudo-counts in e.
        weights, counts: as :func:`.forward_backward.posteriors` takes them.
        work: (f, g, rows, scales) as that takes them.

    Returns:
        The log-likelihood.
    """
    x, y, first, copies = words
    nulls = direction[2][first : first + len(y)]
    likelihood = emissions(x, y, found, direction, copies, *work[2], e, nulls)
    return likelihood + posteriors(len(y), len(x), e, nulls, direction, weights, work, counts)


@kernel
def room(low, high, text):
    """(tokens of the longest sentence of a block and some more, elements of its largest padded matrix)."""
    _, x_offsets, _, y_offsets, _ = text
    most, size = 1, 1
    for m in range(low, high):
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L > 0 and T > 0:
            most = max(most, L, T)
            size = max(size, padded(L) * T, padded(T) * L)
    return padded(most) + LANES, size


@kernel
def expect_block(block, text, pairs, directions, shares, weights, work, counts, likelihood):
    """What :func:`expect_links` does, with room to work in: weights and counts widened as far as the longest
    sentence reaches; work = (space float32 (8, size), rows, scales)."""
    x_tokens, x_offsets, y_tokens, y_offsets, copies = text
    offsets, _, _, links = pairs
    space, rows, scales = work
    e_forward, e_reverse = space[0], space[1]
    found = ((space[2], space[3]), (space[4], space[5]))
    chain_work = (space[6], space[7], rows, scales)
    change = 0.0
    for m in range(block[0], block[1]):
        likelihood[m] = 0.0
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        gather(offsets[m], T, L, pairs, found, e_forward, e_reverse)
        if shares[0] > 0:
            words = (x, y, y_offsets[m], copies[m])
            likelihood[m] += run_direction(
                words, found[0], directions[0], weights[0], e_forward, chain_work, counts[0]
            )
        if shares[1] > 0:
            words = (y, x, x_offsets[m], copies[m])
            likelihood[m] += run_direction(
                words, found[1], directions[1], weights[1], e_reverse, chain_work, counts[1]
            )
        change += mix(T, L, e_forward, e_reverse, shares, links[offsets[m] : offsets[m + 1]])
    return change


@allocating_kernel
def expect_links(low, high, text, pairs, forward_direction, reverse_direction, shares, counts, likelihood):
    """The E-step of sentence pairs low <= m < high: expected links, NULL's shares, and jumps.

    Args:
        forward_direction: x are states, y are emitted; reverse_direction: the other way about.
        shares: float64 (2,), the weight of each direction's posteriors in the expected links; a direction of
            weight 0 is not run.
        counts: for each direction (jumps, jump shares, start, start shares) float64, added to, with sizes
            2 W + 1 and W + 1.
        likelihood: float64 (M,), filled: the sum of the log-likelihoods of the directions that ran.

    Returns:
        The sum of the absolute changes of the expected links.
    """
    most, size = room(low, high, text)
    first_wide, first_counts = widened(forward_direction, most)
    second_wide, second_counts = widened(reverse_direction, most)
    rows = (np.empty((ROWS, most), np.float32), np.empty(most, np.int32))
    work = (np.empty((8, size), np.float32), rows, np.empty(most, np.float32))
    weights, found = (first_wide, second_wide), (first_counts, second_counts)
    directions = (forward_direction, reverse_direction)
    change = expect_block((low, high), text, pairs, directions, shares, weights, work, found, likelihood)
    fold_all(first_counts, most, counts[0])
    fold_all(second_counts, most, counts[1])
    return change
