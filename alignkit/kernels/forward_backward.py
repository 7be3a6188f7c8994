"""The forward-backward algorithm over the positions of one sentence (Rabiner 1989, sections III and V.A).

The hidden states of a target word are the source positions, and for each position NULL: a word of NULL's leaves
the position as it was (Och and Ney 2003, section 2.1). Probabilities are scaled to sum to 1 at each target word.
The position of the last target word is weighed by its distance from the end of the source sentence: a factor whose
mean is 1. The likelihood leaves it out, and so is that of a distribution over target sentences.

Matrices (T, L) are flat, their rows padded with zeros to ``stride``, a multiple of ``VECTOR_WIDTH``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.hmm_rows import (
    DENSE,
    NEGLIGIBLE,
    ONE,
    TINY,
    ZERO,
    add_moves,
    count_departures,
    depart,
    emit,
    list_above,
    meet,
    padded,
    scale_row,
    spread,
    step_back,
    sum_row,
)
from alignkit.kernels.intrinsics import part

# Logarithms are taken of products of several numbers above TINY, before the product leaves the range of float64.
# The numbers may be above 1: fertility and likeness are factors of the emissions.
SMALL_PRODUCT, LARGE_PRODUCT = 1e-250, 1e250
# A pair of sentences with more steps than this (T L L) is aligned without transitions: no other cost is quadratic.
# Two sentences of 2,048 tokens have as many; pairs of more elements than these are cut.
MOST_STEPS = float(2048**3)


class Transitions(NamedTuple):
    """One direction's transitions, for sentences of at most N tokens."""

    weights: np.ndarray  # float32 (2 N + 1,), of jumps -N..N; empty: all positions are equally likely
    reversed_weights: np.ndarray  # float32 (2 N + 1,), the same from N to -N
    initial: np.ndarray  # float32 (N,), weights of first positions
    final: np.ndarray  # float32 (N,), weights of last positions, counted from the end of the sentence
    sums: np.ndarray  # float64 (2 N + 2,), of the first 0, 1, ... weights
    null_probability: float  # float32, p0


class TransitionCounts(NamedTuple):
    """One direction's expected counts of transitions, float64, laid out as their weights.

    The M-step divides the numbers by their divisors: with Z_j the sum of the weights of all jumps from j, the
    expected number of jumps from j, divided by Z_j, summed over all j where the jump was possible.
    """

    jumps: np.ndarray
    jump_divisors: np.ndarray
    initial: np.ndarray
    initial_divisors: np.ndarray
    final: np.ndarray
    final_divisors: np.ndarray


class PassSpace(NamedTuple):
    """Work space of the two passes over a sentence pair of at most N tokens by side and P elements."""

    forward: np.ndarray  # float32 (P,), scaled forward probabilities of x_j
    null_forward: np.ndarray  # float32 (P,), of NULL at x_j
    scales: np.ndarray  # float32 (N,), what each row of them was divided by
    backward: np.ndarray  # float32 (N,), backward probabilities of one target word; in the end, of the first
    initial: np.ndarray  # float32 (N,), probabilities of first positions
    final: np.ndarray  # float32 (N,), factors of last positions, whose mean is 1
    leave: np.ndarray  # float32 (N,), (1 - p0) / the sum of the weights of all jumps from a position
    row: np.ndarray  # float32 (N,)
    mass: np.ndarray  # float32 (N,)
    leaving: np.ndarray  # float32 (N,)
    ahead: np.ndarray  # float32 (3 N,), backward messages to each position, between zeros
    moves: np.ndarray  # float32 (2 N,), at stride + d the expected number of jumps by d, divided by their weight
    departures: np.ndarray  # float32 (N,), the expected number of jumps from each position
    places: np.ndarray  # int32 (N,), a list of positions


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
    """Posteriors if all positions are equally likely: e and e_null are overwritten; returns the log-likelihood."""
    likelihood, product = 0.0, 1.0
    stride = padded(L)
    share = np.float32((1 - p0) / L)
    for t in range(T):
        row = part(e, t * stride, (t + 1) * stride)
        null = p0 * e_null[t]
        whole = max(null + share * sum_row(row), TINY)
        product *= whole
        if not SMALL_PRODUCT < product < LARGE_PRODUCT:
            likelihood += math.log(product)
            product = 1.0
        scale_row(row, share / whole, row)
        e_null[t] = null / whole
    return likelihood + math.log(product)


@kernel
def forward_pass(T, L, e, e_null, transitions, space):
    """Fills the forward probabilities and scales of ``space``; returns the log-likelihood."""
    p0, initial, leave, stride = transitions.null_probability, space.initial, space.leave, padded(L)
    row, mass = part(space.row, 0, stride), part(space.mass, 0, stride)
    leaving, places = space.leaving, space.places
    likelihood, product = 0.0, 1.0
    for t in range(T):
        before, here, after = (t - 1) * stride, t * stride, (t + 1) * stride
        if t == 0:
            scale_row(initial, ONE - p0, row)
            scale_row(initial, ONE, mass)
        else:
            f_row, g_row = part(space.forward, before, here), part(space.null_forward, before, here)
            depart(f_row, g_row, leave, mass, leaving)
            count = list_above(L, NEGLIGIBLE, mass, places)
            spread(leaving, part(places, 0, count), transitions.weights, row)
        stay = p0 * e_null[t]
        whole = max(emit(row, part(e, here, after)) + stay, TINY)  # what is before, and at the start, sums to 1
        space.scales[t] = whole
        product *= whole
        if not SMALL_PRODUCT < product < LARGE_PRODUCT:
            likelihood += math.log(product)
            product = 1.0
        share = ONE / whole
        scale_row(row, share, part(space.forward, here, after))
        scale_row(mass, stay * share, part(space.null_forward, here, after))
    return likelihood + math.log(product)


@kernel
def backward_pass(T, L, e, e_null, transitions, space, is_counted):
    """Posteriors of the words and of NULL, left in e and e_null; adds to moves and departures of ``space`` if
    ``is_counted``."""
    p0, leave, stride, places = transitions.null_probability, space.leave, padded(L), space.places
    b, coming, mass = space.backward, part(space.row, 0, stride), space.mass
    wide_ahead = part(space.ahead, 0, 3 * stride)
    wide_ahead[:] = 0
    ahead = part(wide_ahead, stride, 2 * stride)
    least = NEGLIGIBLE if L > DENSE else ZERO
    scale_row(space.final, ONE, part(b, 0, stride))
    for t in range(T - 1, -1, -1):
        before, here, after = (t - 1) * stride, t * stride, (t + 1) * stride
        e_row, share = part(e, here, after), ONE / space.scales[t]
        f_row, g_row = part(space.forward, here, after), part(space.null_forward, here, after)
        null, words, most = meet(f_row, g_row, b, share, e_row, ahead)
        # Of the last word the mean of its positions' factors; of others 1 but for what negligible states did not
        # pass on: all of it, where jumps are next to impossible.
        whole = ONE / max(null + words, TINY)
        stay = p0 * e_null[t] * share * whole
        e_null[t] = null * whole
        scale_row(e_row, whole, e_row)
        scale_row(ahead, whole, ahead)
        if t == 0:
            break
        # Backwards, because the jump is read from where it goes: at j the weight of k - j.
        count = list_above(L, most * whole * NEGLIGIBLE, ahead, places)
        spread(ahead, part(places, 0, count), transitions.reversed_weights, coming)
        step_back(coming, leave, stay, b)
        if is_counted:
            f_row, g_row = part(space.forward, before, here), part(space.null_forward, before, here)
            count_departures(f_row, g_row, leave, coming, least, mass, space.departures)
            count = list_above(L, ZERO, mass, places)
            add_moves(stride, mass, part(places, 0, count), wide_ahead, space.moves)


@kernel
def prepare_sentence(L, transitions, initial, final, leave):
    """Fills initial, final and leave of :class:`PassSpace`, padded with zeros, for a sentence of L tokens."""
    weights, _, initial_weights, final_weights, sums, p0 = transitions
    middle = (len(weights) - 1) // 2
    initial[: padded(L)] = 0
    final[: padded(L)] = 0
    leave[: padded(L)] = 0
    whole, whole_final = 0.0, 0.0
    for j in range(L):
        whole += initial_weights[j]
        whole_final += final_weights[j]
    share, factor = np.float32(1 / whole), np.float32(L / whole_final)
    low, high = sums[middle - L + 1 :], sums[middle + 1 :]
    for j in range(L):
        initial[j] = initial_weights[j] * share
        final[j] = final_weights[L - 1 - j] * factor
        leave[j] = (ONE - p0) / np.float32(max(high[L - 1 - j] - low[L - 1 - j], 1e-30))


@kernel
def count_transitions(T, L, transitions, space, counts):
    """Adds to ``counts`` what the two passes over a sentence pair left in ``space``."""
    weights, _, initial_weights, final_weights, _, p0 = transitions
    jumps, jump_divisors, initial, initial_divisors, final, final_divisors = counts
    stride, middle = padded(L), (len(weights) - 1) // 2
    whole, whole_final = 0.0, 0.0
    last = (T - 1) * stride
    f_row, g_row, ended = space.forward[last : last + L], space.null_forward[last : last + L], 0.0
    for j in range(L):
        whole += initial_weights[j]
        whole_final += final_weights[j]
        ended += (f_row[j] + g_row[j]) * space.final[j]
        share = space.departures[j] * space.leave[j] / (1 - p0)
        shares = part(jump_divisors, middle - j, middle - j + L)
        for k in range(L):
            shares[k] += share
        initial[j] += (space.forward[j] + space.null_forward[j]) * space.backward[j]
    own_jumps, moves, weight = jumps[middle - L + 1 :], space.moves[stride - L + 1 :], weights[middle - L + 1 :]
    for d in range(2 * L - 1):
        own_jumps[d] += moves[d] * weight[d]
    for j in range(L):
        initial_divisors[j] += 1 / whole
        final_divisors[j] += 1 / whole_final
        final[L - 1 - j] += (f_row[j] + g_row[j]) * space.final[j] / max(ended, TINY)


@kernel
def forward_backward(T, L, e, e_null, transitions, space, counts, is_counted):
    """Posteriors of one sentence pair; returns its log-likelihood.

    Args:
        e: float32 (T * stride,), e_null: float32 (T,), emission probabilities, overwritten by the posteriors.
        transitions: :class:`Transitions`.
        space: :class:`PassSpace`.
        counts: :class:`TransitionCounts`, as wide as the transitions; added to if ``is_counted``.
    """
    if len(transitions.weights) == 0 or float(T) * L * L > MOST_STEPS:
        return lexical_posteriors(T, L, e, e_null, transitions.null_probability)
    prepare_sentence(L, transitions, space.initial, space.final, space.leave)
    space.departures[: padded(L)] = 0
    space.moves[: 2 * padded(L)] = 0
    likelihood = forward_pass(T, L, e, e_null, transitions, space)
    backward_pass(T, L, e, e_null, transitions, space, is_counted)
    if is_counted:
        count_transitions(T, L, transitions, space, counts)
    return likelihood


@allocating_kernel
def widen_transitions(transition, initial, final, null_probability, most):
    """(:class:`Transitions` for sentences of at most ``most`` tokens, their :class:`TransitionCounts`, zeros).

    Args:
        transition: float32 (2 W + 1,), initial, final: float32 (W + 1,), weights, whose ends stand for all beyond
            them; empty: all positions are equally likely.
    """
    size = 2 * most + 1 if len(transition) > 0 else 0
    weights, sums = np.zeros(size, np.float32), np.zeros(size + 1)
    starts, ends = np.zeros(most, np.float32), np.zeros(most, np.float32)
    if size > 0:
        widen(transition, -most, most, weights)
        widen(initial, 0, most - 1, starts)
        widen(final, 0, most - 1, ends)
        for k in range(size):
            sums[k + 1] = sums[k] + weights[k]
    of_jumps, of_ends = np.zeros((2, size)), np.zeros((4, most))
    counts = TransitionCounts(of_jumps[0], of_jumps[1], of_ends[0], of_ends[1], of_ends[2], of_ends[3])
    return Transitions(weights, weights[::-1].copy(), starts, ends, sums, np.float32(null_probability)), counts


@kernel
def fold_counts(wide, most, counts):
    """Adds :class:`TransitionCounts` of sentences of at most ``most`` tokens to those of jumps -W..W and of first
    and last positions 0..W, whose ends stand for all beyond them; empty ``counts``: there are no transitions."""
    if len(counts.initial) > 0:
        fold(wide.jumps, -most, counts.jumps)
        fold(wide.jump_divisors, -most, counts.jump_divisors)
        fold(wide.initial, 0, counts.initial)
        fold(wide.initial_divisors, 0, counts.initial_divisors)
        fold(wide.final, 0, counts.final)
        fold(wide.final_divisors, 0, counts.final_divisors)


@allocating_kernel
def pass_space(most, size):
    """:class:`PassSpace` for ``size`` elements and at most ``most`` tokens, a multiple of VECTOR_WIDTH."""
    matrices, rows = np.empty((2, size), np.float32), np.empty((14, most), np.float32)
    scales, backward, initial, leave = rows[0], rows[1], rows[2], rows[3]
    row, mass, leaving, departures = rows[4], rows[5], rows[6], rows[7]
    ahead, moves, places = rows[8:11].reshape(-1), rows[11:13].reshape(-1), np.empty(most, np.int32)
    passes = matrices[0], matrices[1], scales, backward, initial, rows[13], leave
    return PassSpace(*passes, row, mass, leaving, ahead, moves, departures, places)
