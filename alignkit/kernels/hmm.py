"""Kernels of the hidden Markov aligners: states are source positions, emissions are target words.

Vogel, Ney and Tillmann (1996), with NULL as Och and Ney (2003) have it: a target word is NULL's with probability
p0 wherever the chain stands, and the chain then stays. A jump of d positions from source position l has
probability jumps[d] / (the sum of jumps over the positions there are).

Both directions of a text are worked in one pass over its pairs, because they share a table of counts and the
expected links. Tuples that recur:
    text = (x tokens int32, x offsets int64 (M + 1,), y tokens int32, y offsets int64 (M + 1,));
    pairs = (offsets int64 (M + 1,), ids int32 (P,), counts float32 (K,), links float32 (P,)): the (T, L) matrices
        of all sentence pairs, row by row, one after another, P elements in all; the word pair of each element;
        the number of each word pair; and the expected links, read and then overwritten;
    direction = (prior float32 (K,), totals float32 (V_x,), null float32 (V_y,), nulls float32 (N_y,),
        ratios float32 (V_x, F), jumps float32 (2 W + 1,), start float32 (W + 1,), numbers float64 (3,)):
        prior: the pseudo-count of each word pair; totals: of each source word, its count and its pseudo-counts;
        null: NULL's count of each target word, and pseudo-count; nulls: NULL's share in each target token, read
        and overwritten; ratios: the factor for one more link of a source word that has 0, 1, ... others; jumps,
        start: weights of jumps -W..W and of first positions 0..W, the ends standing for all beyond them (empty:
        every position alike, as in IBM Model 1); numbers: p0, the sum of NULL's counts, and 1 if a link's own
        expectation is taken out of the counts that judge it, else 0.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.chain import STEP, TINY, fold_all, posteriors, widened
from alignkit.kernels.jit import kernel


@kernel
def expected_fertility(place, strides, T, L, links, fertile):
    """fertile[l] = the sum of the links of state l of one sentence pair; strides as in :func:`emissions`."""
    for j in range(L):
        fertile[j] = 0
    for t in range(T):
        for j in range(L):
            fertile[j] += links[place + t * strides[0] + j * strides[1]]


@kernel
def emissions(place, strides, x, y, pairs, direction, fertile, nulls, e, e_null):
    """Emission probabilities of one sentence pair, each row divided by its largest; returns the log of those.

    e[t, l] = (count - own + prior) / (total - own), times the factor for one more link of x_l. "own" is the
    expected link itself, so that a pair of words is judged by the evidence of other places: the zero-order
    approximation of collapsed variational inference (Asuncion et al. 2009), to which the collapsed Gibbs
    sampler's rule is exactly the sampled counterpart.

    Args:
        place, strides: (t, l) is element place + t * strides[0] + l * strides[1] of ``pairs``.
        x, y: tokens of the pair, states and emissions.
        fertile: float32 (L,), expected links of each x_l.
        nulls: float32 (T,), NULL's shares so far.
        e (T, L), e_null (T,): float32, filled.
    """
    _, ids, counts, links = pairs
    prior, totals, null, _, ratios, _, _, numbers = direction
    own = np.float32(numbers[2])
    null_total = max(np.float32(numbers[1]), TINY)
    last = ratios.shape[1] - 1
    scale = 0.0
    for t in range(len(y)):
        p_null = max(null[y[t]] - own * nulls[t], np.float32(0)) / null_total
        largest = p_null
        for j in range(len(x)):
            k = place + t * strides[0] + j * strides[1]
            link = links[k]
            i = ids[k]
            excluded = own * link
            value = max(counts[i] - excluded, np.float32(0)) + prior[i]
            value /= max(totals[x[j]] - excluded, TINY)
            if last > 0:
                others = min(max(fertile[j] - link, np.float32(0)), np.float32(last) - np.float32(1e-3))
                whole = int(others)
                part = others - np.float32(whole)
                value *= (1 - part) * ratios[x[j], whole] + part * ratios[x[j], whole + 1]
            e[t, j] = value
            largest = max(largest, value)
        largest = max(largest, TINY)
        scale += math.log(largest)
        for j in range(len(x)):
            e[t, j] /= largest
        e_null[t] = p_null / largest
    return scale


@kernel
def mix(place, T, L, e_forward, e_reverse, shares, links):
    """links = the weighted sum of both directions' posteriors of one sentence pair."""
    for t in range(T):
        for j in range(L):
            value = 0.0
            if shares[0] > 0:
                value += shares[0] * e_forward[t, j]
            if shares[1] > 0:
                value += shares[1] * e_reverse[j, t]
            links[place + t * L + j] = value


@kernel
def expect_links(low, high, text, pairs, forward_direction, reverse_direction, shares, counts, likelihood):
    """The E-step of sentence pairs low <= m < high: expected links, NULL's shares, and jumps.

    Args:
        forward_direction: x are states, y are emitted; reverse_direction: the other way about.
        shares: float64 (2,), the weight of each direction's posteriors in the expected links; a direction of
            weight 0 is not run.
        counts: for each direction (jumps, jump shares, start, start shares) float64, added to, with sizes
            2 W + 1 and W + 1.
        likelihood: float64 (M,), filled: the sum of the log-likelihoods of the directions that ran.
    """
    x_tokens, x_offsets, y_tokens, y_offsets = text
    offsets, _, _, links = pairs
    most, size = 1, 0
    for m in range(low, high):
        most = max(most, x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m])
        size = max(size, offsets[m + 1] - offsets[m])
    most += STEP
    first_wide, first_counts = widened(forward_direction, most)
    second_wide, second_counts = widened(reverse_direction, most)
    rows, scales = np.empty((7, most), np.float32), np.empty(most, np.float32)
    leaving, fertile = np.empty(most, np.float64), np.empty(most, np.float32)
    null = (np.empty(most, np.float32), np.empty(most, np.float32))
    space = np.empty((4, size), np.float32)
    for m in range(low, high):
        likelihood[m] = 0.0
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        place = offsets[m]
        y_nulls = forward_direction[3][y_offsets[m] : y_offsets[m + 1]]
        x_nulls = reverse_direction[3][x_offsets[m] : x_offsets[m + 1]]
        # Both directions read the old links before either's posteriors replace them.
        e_forward, e_reverse = space[0, : T * L].reshape((T, L)), space[1, : T * L].reshape((L, T))
        if shares[0] > 0:
            expected_fertility(place, (L, 1), T, L, links, fertile)
            likelihood[m] += emissions(
                place, (L, 1), x, y, pairs, forward_direction, fertile, y_nulls, e_forward, null[0]
            )
        if shares[1] > 0:
            expected_fertility(place, (1, L), L, T, links, fertile)
            likelihood[m] += emissions(
                place, (1, L), y, x, pairs, reverse_direction, fertile, x_nulls, e_reverse, null[1]
            )
        if shares[0] > 0:
            work = (space[2, : T * L].reshape((T, L)), space[3, : T * L].reshape((T, L)), rows, scales, leaving)
            likelihood[m] += posteriors(
                T, L, e_forward, null[0], forward_direction, first_wide, work, first_counts
            )
            y_nulls[:] = null[0][:T]
        if shares[1] > 0:
            work = (space[2, : T * L].reshape((L, T)), space[3, : T * L].reshape((L, T)), rows, scales, leaving)
            likelihood[m] += posteriors(
                L, T, e_reverse, null[1], reverse_direction, second_wide, work, second_counts
            )
            x_nulls[:] = null[1][:L]
        mix(place, T, L, e_forward, e_reverse, shares, links)
    fold_all(first_counts, most, counts[0])
    fold_all(second_counts, most, counts[1])
