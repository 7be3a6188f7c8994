"""The E-step of the hidden Markov aligners: states are source positions, emissions are target words.

Vogel, Ney and Tillmann (1996), with NULL as in Och and Ney (2003, section 2.1): a target word is NULL's with
probability p0, and then the position stays as it was. A jump of d positions from source position l has probability
transition[d] / (the sum of transition over the positions that the sentence has).

Both directions of a text are run in one pass over its pairs, because they share a table of counts and the expected
links. x are the words of the states, y the emitted ones. Matrices of one sentence pair are flat, their rows padded
with zeros to a multiple of ``LANES``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import (
    SMALL_PRODUCT,
    fold_counts,
    pass_space,
    posteriors,
    widen_transitions,
)
from alignkit.kernels.hmm_rows import (
    ONE,
    TINY,
    ZERO,
    add_row,
    emission_row,
    largest_of_row,
    padded,
    scale_row,
)
from alignkit.kernels.lanes import LANES


class TextArrays(NamedTuple):
    """A bitext of M sentence pairs."""

    x: Any  # int32 (N_x,), tokens
    x_offsets: Any  # int64 (M + 1,)
    y: Any  # int32 (N_y,)
    y_offsets: Any  # int64 (M + 1,)
    copies: Any  # float32 (M,), how often each pair is in the text


class LinkArrays(NamedTuple):
    """The (T, L) matrices of all sentence pairs, row by row, one after another, P elements in all."""

    offsets: Any  # int64 (M + 1,), where each matrix starts
    ids: Any  # int32 (P,), the word pair of each element, of K
    # float32 (K, 3), of each word pair its count, and its pseudo-counts in the forward and the reverse direction:
    # side by side, because nearly every look-up in this table is a cache miss.
    evidence: Any
    links: Any  # float32 (P,), expected links, read and then overwritten


class DirectionArrays(NamedTuple):
    """The parameters of one direction."""

    totals: Any  # float32 (V_x,), the sum of each word's counts and pseudo-counts
    null: Any  # float32 (V_y,), NULL's counts and pseudo-counts
    null_total: Any  # float, their sum
    null_links: Any  # float32 (N_y,), NULL's posterior of each target token, read and then overwritten
    fertility: Any  # float32 (V_x, F), the factor for one more link of a word with 0, 1, ... others; F = 1: none
    transition: Any  # float32 (2 W + 1,), weights of jumps -W..W, the ends standing for all beyond them
    initial: Any  # float32 (W + 1,), of first positions 0..W; both empty: all positions are equally likely
    null_probability: Any  # float, p0
    # float, 1 if a link's own expectation, and that of the same link in copies of its sentence pair, is taken out
    # of the counts that judge it, else 0.
    exclude: Any


class PairTokens(NamedTuple):
    """One sentence pair in one direction."""

    x: Any  # int32 (L,)
    y: Any  # int32 (T,)
    null_links: Any  # float32 (T,), of :class:`DirectionArrays`
    copies: Any  # float32, how often the pair is in the text


class PairMatrices(NamedTuple):
    """Matrices of one sentence pair in one direction, float32 (T * padded L,)."""

    counts: Any  # of the word pairs
    links: Any  # expected before this E-step
    e: Any  # pseudo-counts of the word pairs, which become emission probabilities, and then posteriors


class StateSpace(NamedTuple):
    """Work space for the states of one sentence, of at most N tokens."""

    totals: Any  # float32 (N,), of their words
    expected: Any  # float32 (N,), their expected number of links
    if_none: Any  # float32 (N,), the factor for one more link if there are no others
    if_one: Any  # float32 (N,), the same if there is one
    places: Any  # int32 (N,), a list of positions


class DirectionSpace(NamedTuple):
    """Work space of one direction for a block of sentence pairs."""

    matrices: Any  # PairMatrices
    transitions: Any  # Transitions
    counts: Any  # TransitionCounts


@kernel
def collect_evidence(place, T, L, pairs, forward, reverse):
    """Copies the scattered evidence of one sentence pair into the :class:`PairMatrices` of both directions.

    Args:
        place: of its first element in ``pairs``, :class:`LinkArrays`.
    """
    _, ids, evidence, links = pairs
    counts, old, e = forward
    turned_counts, turned_old, turned_e = reverse
    wide, high = padded(L), padded(T)
    for t in range(T):
        start, here, after = place + t * L, t * wide, (t + 1) * wide
        id_row, link_row = ids[start : start + L], links[start : start + L]
        count_row, old_row, e_row = counts[here:after], old[here:after], e[here:after]
        count_row[L:] = 0
        old_row[L:] = 0
        e_row[L:] = 0
        for j in range(L):
            i = np.uint32(id_row[j])
            count, link = evidence[i, 0], link_row[j]
            count_row[j] = count
            old_row[j] = link
            e_row[j] = evidence[i, 1]
            turned = j * high + t
            turned_counts[turned] = count
            turned_old[turned] = link
            turned_e[turned] = evidence[i, 2]
    for j in range(L):
        for k in range(j * high + T, (j + 1) * high):
            turned_counts[k] = 0
            turned_old[k] = 0
            turned_e[k] = 0


@kernel
def prepare_factors(x, fertility, states):
    """Fills the states' factors for one more link if they have 0 and 1 others; those of states that may have more
    are 1 for now: ``places`` lists them, and their number is returned."""
    _, expected, if_none, if_one, places = states
    count = 0
    for j in range(len(x)):
        i = np.uint32(x[j])
        places[count] = j
        if expected[j] < ONE:
            if_none[j], if_one[j] = fertility[i, 0], fertility[i, 1]
        else:
            count += 1
    return count


@kernel
def multiply_fertilities(x, links, fertility, expected, places, row):
    """Multiplies row[j] by the factor for one more link of x_j, interpolated between whole numbers of other links.

    Args:
        places: the positions j: few words have more than one other link, and no others need this look-up.
    """
    most = np.float32(fertility.shape[1] - 1) - np.float32(1e-3)
    for n in range(len(places)):
        j = places[n]
        others = expected[j] - links[j]
        if not others > ZERO:  # nor if it is not a number, which would be no index
            others = ZERO
        others = min(others, most)
        whole = np.uint32(others)
        part = others - np.float32(whole)
        i = np.uint32(x[j])
        row[j] *= (ONE - part) * fertility[i, whole] + part * fertility[i, whole + np.uint32(1)]


@kernel
def emissions(pair, matrices, direction, states):
    """Emission probabilities of one sentence pair, each row divided by its largest; returns the log of those.

    e[t, l] = (count - own + pseudo-count) / (total - own), times the factor for one more link of x_l. "own" is the
    expected link itself, so that a pair of words is judged by the evidence of other places: the zero-order
    approximation of collapsed variational inference (Asuncion et al. 2009), of which the collapsed Gibbs sampler's
    rule is exactly the sampled counterpart. NULL's probabilities replace its links in ``pair``.
    """
    x, y, null_links, copies = pair
    counts, links, e = matrices
    stride, fertility = padded(len(x)), direction.fertility
    own, null_share = np.float32(direction.exclude) * copies, ONE / max(np.float32(direction.null_total), TINY)
    totals, expected = states.totals[:stride], states.expected[:stride]
    if_none, if_one = states.if_none[:stride], states.if_one[:stride]
    for j in range(stride):
        totals[j] = direction.totals[x[j]] if j < len(x) else ONE
    expected[:] = ZERO
    if_none[:] = ONE
    if_one[:] = ONE
    for t in range(len(y)):
        add_row(links[t * stride : (t + 1) * stride], expected)
    places = states.places[: prepare_factors(x, fertility, states) if fertility.shape[1] > 1 else 0]
    scale, product = 0.0, 1.0
    for t in range(len(y)):
        here, after = t * stride, (t + 1) * stride
        row, link_row = e[here:after], links[here:after]
        emission_row(row, link_row, counts[here:after], own, (totals, expected, if_none, if_one))
        multiply_fertilities(x, link_row, fertility, expected, places, row)
        null = max(direction.null[y[t]] - own * null_links[t], ZERO) * null_share
        highest = largest_of_row(row, max(null, TINY))
        product *= highest
        if product < SMALL_PRODUCT or product > 1 / SMALL_PRODUCT:
            scale += math.log(product)
            product = 1.0
        share = ONE / highest
        scale_row(row, share, row)
        null_links[t] = null * share
    return scale + math.log(product)


@kernel
def mix_links(T, L, forward_e, reverse_e, shares, links):
    """links = the weighted sum of both directions' posteriors of one sentence pair; returns the sum of the
    absolute changes."""
    forward, reverse = np.float32(shares[0]), np.float32(shares[1])
    wide, high = padded(L), padded(T)
    change = 0.0
    for t in range(T):
        row, old = forward_e[t * wide : (t + 1) * wide], links[t * L : (t + 1) * L]
        moved = ZERO
        for j in range(L):
            value = ZERO
            if forward > 0:
                value += forward * row[j]
            if reverse > 0:
                value += reverse * reverse_e[j * high + t]
            moved += abs(value - old[j])
            old[j] = value
        change += moved
    return change


@kernel
def run_direction(pair, direction, space, states, passes):
    """Posteriors of one direction of a sentence pair, left in ``e`` and NULL's links; returns its log-likelihood.

    Args:
        pair: :class:`PairTokens`; direction: :class:`DirectionArrays`.
        space: :class:`DirectionSpace`; ``e`` has the pseudo-counts, and its counts are added to.
        states: :class:`StateSpace`; passes: :class:`.forward_backward.PassSpace`.
    """
    matrices, transitions, counts = space
    likelihood = emissions(pair, matrices, direction, states)
    T, L = len(pair.y), len(pair.x)
    return likelihood + posteriors(T, L, matrices.e, pair.null_links, transitions, passes, counts)


@kernel
def longest_pair(low, high, text):
    """(tokens of the longest sentence of a block and some more, elements of its largest padded matrix)."""
    _, x_offsets, _, y_offsets, _ = text
    most, size = 1, 1
    for m in range(low, high):
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L > 0 and T > 0:
            most = max(most, L, T)
            size = max(size, padded(L) * T, padded(T) * L)
    return padded(most) + LANES, size


@allocating_kernel
def state_space(most):
    """:class:`StateSpace` for sentences of at most ``most`` tokens, a multiple of LANES."""
    rows = np.empty((4, most), np.float32)
    return StateSpace(rows[0], rows[1], rows[2], rows[3], np.empty(most, np.int32))


@allocating_kernel
def direction_space(direction, most, size):
    """:class:`DirectionSpace` for sentences of at most ``most`` tokens and ``size`` elements, with zero counts."""
    matrices, p0 = np.empty((3, size), np.float32), direction.null_probability
    transitions, counts = widen_transitions(direction.transition, direction.initial, p0, most)
    return DirectionSpace(PairMatrices(matrices[0], matrices[1], matrices[2]), transitions, counts)


@kernel
def expect_block(block, text, pairs, directions, shares, spaces, likelihood):
    """What :func:`expect_links` does, in work space: the :class:`DirectionSpace` of both, states and passes."""
    x_tokens, x_offsets, y_tokens, y_offsets, copies = text
    offsets, _, _, links = pairs
    forward, reverse = directions
    forward_space, reverse_space, states, passes = spaces
    change = 0.0
    for m in range(block[0], block[1]):
        likelihood[m] = 0.0
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        collect_evidence(offsets[m], T, L, pairs, forward_space.matrices, reverse_space.matrices)
        if shares[0] > 0:
            pair = PairTokens(x, y, forward.null_links[y_offsets[m] : y_offsets[m + 1]], copies[m])
            likelihood[m] += run_direction(pair, forward, forward_space, states, passes)
        if shares[1] > 0:
            pair = PairTokens(y, x, reverse.null_links[x_offsets[m] : x_offsets[m + 1]], copies[m])
            likelihood[m] += run_direction(pair, reverse, reverse_space, states, passes)
        own_links = links[offsets[m] : offsets[m + 1]]
        change += mix_links(T, L, forward_space.matrices.e, reverse_space.matrices.e, shares, own_links)
    return change


@allocating_kernel
def expect_links(low, high, text, pairs, directions, shares, counts, likelihood):
    """The E-step of sentence pairs low <= m < high: expected links, NULL's links, and counts of transitions.

    Args:
        text: :class:`TextArrays`; pairs: :class:`LinkArrays`.
        directions: :class:`DirectionArrays`: of the forward one, in which x are the states, and of the reverse.
        shares: (float, float), the weight of each direction's posteriors in the expected links; a direction of
            weight 0 is not run.
        counts: :class:`.forward_backward.TransitionCounts` of both directions, of jumps -W..W; added to.
        likelihood: float64 (M,), filled: the sum of the log-likelihoods of the directions that ran.

    Returns:
        The sum of the absolute changes of the expected links.
    """
    most, size = longest_pair(low, high, text)
    forward, reverse = direction_space(directions[0], most, size), direction_space(directions[1], most, size)
    spaces = (forward, reverse, state_space(most), pass_space(most, size))
    change = expect_block((low, high), text, pairs, directions, shares, spaces, likelihood)
    fold_counts(forward.counts, most, counts[0])
    fold_counts(reverse.counts, most, counts[1])
    return change
