"""The E-step of the hidden Markov aligners: states are source positions, emissions are target words.

Vogel, Ney and Tillmann (1996), with NULL as in Och and Ney (2003, section 2.1): a target word is NULL's with
probability p0, and the state keeps its source position. A jump of d positions from source position l has
probability transition[d] / (the sum of transition over the positions that the sentence has).

Both directions of a text are run in one pass over its pairs, because they share a table of counts and the expected
links. Of each pair first the word pairs of its elements are found, then emission probabilities, the posteriors of
each direction, and the links, which are the weighted sum of both. In the forward direction the states are the
source tokens x, and the target tokens y are emitted; in the reverse one it is the other way round. Matrices of one
sentence pair are flat, their rows padded with zeros to a multiple of ``VECTOR_WIDTH``; the reverse direction's are
transposed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.expected_links import CODE, SEGMENT_BITS, PairPlaces, pack_links, pair_starts, unpack_links
from alignkit.kernels.forward_backward import (
    PassSpace,
    TransitionCounts,
    Transitions,
    fold_counts,
    forward_backward,
    pass_space,
    widen_transitions,
)
from alignkit.kernels.hmm_rows import (
    ONE,
    TINY,
    ZERO,
    add_row,
    clear_end,
    clear_ends,
    emission_rows,
    padded,
    scale_row,
    sum_changes,
    sum_row,
)
from alignkit.kernels.intrinsics import VECTOR_WIDTH, part, prefetch
from alignkit.kernels.link_probabilities import pool_links


class TextArrays(NamedTuple):
    """A bitext of M sentence pairs."""

    x: np.ndarray  # int32 (N_x,), tokens
    x_offsets: np.ndarray  # int64 (M + 1,)
    y: np.ndarray  # int32 (N_y,)
    y_offsets: np.ndarray  # int64 (M + 1,)
    copies: np.ndarray  # float32 (M,), how often each pair is in the text


class Likeness(NamedTuple):
    """How alike the two tokens of each element of some matrices are, such as their embeddings."""

    levels: np.ndarray  # uint8, a level for each element; empty: nothing is known
    ratios: np.ndarray  # float32, how much likelier each level is where there is a link than where there is none


NO_LIKENESS = Likeness(np.empty(0, np.uint8), np.empty(0, np.float32))


class LinkArrays(NamedTuple):
    """The (T, L) matrices of all sentence pairs, row by row, one after another, P elements in all."""

    offsets: np.ndarray  # int64 (M + 1,), where each matrix starts
    places: PairPlaces  # of the K word pairs
    # float32 (K, 3), of each word pair its count, and its pseudo-counts in the forward and the reverse direction:
    # side by side, because nearly every look-up in this table is a cache miss. The E-step forms p(y|x) of them
    # (:func:`.hmm_rows.emission`); in a start from a fitted model, pseudo-counts are its p(y|x).
    pair_counts: np.ndarray
    # uint32 (P,), expected links and codes of word pairs (:mod:`.expected_links`). The E-step reads and then sets
    # the links; the last one leaves float32 numbers instead.
    elements: np.ndarray
    likeness: Likeness = NO_LIKENESS  # of each element


class OpinionPool(NamedTuple):
    """How the posteriors of both directions make one: by a linear or a logarithmic opinion pool (Genest and Zidek
    1986)."""

    forward: float  # its weight; a direction of weight 0 is not run
    reverse: float
    is_logarithmic: bool = False  # it is the mean of their log-odds, in the last E-step only


FORWARD, REVERSE, BOTH = OpinionPool(1.0, 0.0), OpinionPool(0.0, 1.0), OpinionPool(0.5, 0.5)


class EStepOptions(NamedTuple):
    """What an E-step does beside finding links."""

    is_last: bool  # the elements become float32 numbers, and transitions are not counted
    least_own: float  # the least link that is taken out of the counts that judge it
    counted: int  # transitions are counted in every so many pairs


class DirectionArrays(NamedTuple):
    """The parameters of one direction."""

    totals: np.ndarray  # float32 (V_x,), the sum of each word's counts and pseudo-counts
    null: np.ndarray  # float32 (V_y,), NULL's counts and pseudo-counts
    null_total: float  # float, their sum
    null_links: np.ndarray  # float32 (N_y,), NULL's posterior of each target token, read and then overwritten
    fertility: np.ndarray  # float32 (V_x, F), factors for one more link of a word with 0, 1, ...; F = 1: none
    transition: np.ndarray  # float32 (2 W + 1,), weights of jumps -W..W, the ends standing for all beyond them
    initial: np.ndarray  # float32 (W + 1,), of first positions 0..W; empty: all positions are equally likely
    final: np.ndarray  # float32 (W + 1,), of last positions, 0..W from the end; empty if the others are
    null_probability: float  # float, p0
    # float, 1 if a link's own expectation, and that of the same link in copies of its sentence pair, is taken out
    # of the counts that judge it, else 0.
    leave_one_out: float


class States(NamedTuple):
    """What the emissions of the states of one sentence depend on, float32 (N,) each.

    With w the whole number of links that a state is expected to have, or the largest that there is a factor for:
    the factor for one more link is interpolated between those of w - 1, w and w + 1 others.
    """

    totals: np.ndarray  # of their words
    beyond: np.ndarray  # expected number of links; then less w
    factors: np.ndarray  # for one more link if there are w others
    above: np.ndarray  # how much larger it is if there are w + 1
    below: np.ndarray  # how much smaller it is if there are w - 1


class PairMatrices(NamedTuple):
    """Matrices of one sentence pair of T and L tokens, float32 (T * padded L,)."""

    links: np.ndarray  # expected before this E-step
    forward: np.ndarray  # emission probabilities, and then posteriors, of the forward direction
    reverse: np.ndarray  # of the reverse one, transposed: (L * padded T,)
    counts: np.ndarray  # of the word pairs; work space
    backward: np.ndarray  # those of the reverse direction, not transposed; work space


class BlockSpace(NamedTuple):
    """Work space for a block of sentence pairs."""

    forward: tuple[Transitions, TransitionCounts]
    reverse: tuple[Transitions, TransitionCounts]
    source: States
    target: States
    matrices: PairMatrices
    passes: PassSpace
    starts: np.ndarray  # uint32 (N,), the first word pair of each source word
    numbers: np.ndarray  # uint32 (P,), the word pair of each element


@kernel
def pair_numbers(place, x, y, links, starts, numbers):
    """numbers uint32 (T * L,) = the word pairs of one sentence pair; their counts are prefetched.

    Args:
        place: of its first element in ``links``, :class:`LinkArrays`; x, y: its tokens.
        starts: uint32 (N,), work space.
    """
    _, places, _, elements, _ = links
    L, segment, is_coded = len(x), -1, len(places.offsets) > 0
    for t in range(len(y)):
        if y[t] >> SEGMENT_BITS != segment and is_coded:
            segment = y[t] >> SEGMENT_BITS
            pair_starts(x, segment, places, starts)
        start = place + t * L
        row, own = part(elements, start, start + L), part(numbers, t * L, (t + 1) * L)
        for j in range(L):
            own[j] = starts[j] + (row[j] & CODE) if is_coded else np.uint32(start + j)
            prefetch(links.pair_counts, 3 * np.int64(own[j]))


@allocating_kernel
def state_space(most):
    """:class:`States` for sentences of at most ``most`` tokens, a multiple of VECTOR_WIDTH."""
    rows = np.zeros((5, most), np.float32)
    return States(rows[0], rows[1], rows[2], rows[3], rows[4])


@kernel
def null_emissions(tokens, direction, copies, null_links):
    """NULL's probabilities of the tokens of one sentence, instead of its links float32 to them."""
    own = np.float32(direction.leave_one_out) * copies
    share = ONE / max(np.float32(direction.null_total), TINY)
    for t in range(len(tokens)):
        null_links[t] = max(direction.null[tokens[t]] - own * null_links[t], ZERO) * share


@kernel
def expect_numbers(T, L, elements, matrices, source, target):
    """Fills ``links`` of :class:`PairMatrices` and ``beyond`` of both sides' states from elements (T * L,)."""
    unpadded, wide = matrices.forward, padded(L)
    unpack_links(elements, unpadded.view(np.uint32)[: T * L])  # all at once: most rows are short
    source.beyond[:wide] = ZERO
    for t in range(T):
        row = part(matrices.links, t * wide, (t + 1) * wide)
        scale_row(part(unpadded, t * L, t * L + wide), ONE, row)
        clear_end(row, L)
    for t in range(T):
        row = part(matrices.links, t * wide, (t + 1) * wide)
        add_row(row, part(source.beyond, 0, wide))
        target.beyond[t] = sum_row(row)


@kernel
def prepare_states(tokens, direction, states):
    """Fills the :class:`States` of a sentence, of whose ``beyond`` are the expected numbers of links."""
    totals, beyond, factors, above, below = states
    fertility = direction.fertility
    most = fertility.shape[1] - 2
    for j in range(len(tokens)):
        i = np.uint32(tokens[j])
        totals[j] = direction.totals[i]
        factors[j], above[j], below[j] = ONE, ZERO, ZERO
        if most >= 0:
            # NaN cannot be an index.
            whole = np.uint32(min(beyond[j], np.float32(most))) if beyond[j] > ZERO else np.uint32(0)
            beyond[j] -= np.float32(whole)
            factors[j] = fertility[i, whole]
            above[j] = fertility[i, whole + np.uint32(1)] - factors[j]
            below[j] = factors[j] - fertility[i, whole - np.uint32(1)] if whole > 0 else ZERO
    end = padded(len(tokens))
    factors[len(tokens) : end], above[len(tokens) : end], below[len(tokens) : end] = ZERO, ZERO, ZERO


@kernel
def emissions(T, L, numbers, pair_counts, likeness, owns, source, target, matrices):
    """Emission probabilities of one sentence pair in both directions.

    e[t, l] = (count - own + pseudo-count) / (total - own), times the factor for one more link of the state and the
    ratio of the likeness. "own" is the expected link itself, so that a pair of words is judged by the counts of
    other places: the zero-order approximation of collapsed variational inference (Asuncion et al. 2009), of which
    the collapsed Gibbs sampler's rule is exactly the sampled counterpart.

    Args:
        numbers: uint32 (T * L,), the word pair of each element; pair_counts: of :class:`.LinkArrays`.
        likeness: :class:`.Likeness` of the pair.
        owns: how much of a link's own expectation is taken out in each direction, and the least link for that.
        source, target: :class:`States` of both sides; matrices: :class:`PairMatrices`.
    """
    links, forward, transposed, counts, backward = matrices
    levels, ratios = likeness
    wide, high = padded(L), padded(T)
    for rows in (counts, forward, backward):
        clear_ends(T, wide, rows)
    clear_ends(L, high, transposed)
    for t in range(T):
        here, there, own_numbers = t * wide, (t + 1) * wide, part(numbers, t * L, (t + 1) * L)
        count, row, reverse = part(counts, here, there), part(forward, here, there), part(backward, here, there)
        for j in range(L):
            i = own_numbers[j]
            count[j], row[j], reverse[j] = pair_counts[i, 0], pair_counts[i, 1], pair_counts[i, 2]
    for t in range(T):
        here, there = t * wide, (t + 1) * wide
        row, reverse = part(forward, here, there), part(backward, here, there)
        link, count = part(links, here, there), part(counts, here, there)
        emission_rows(t, row, reverse, link, count, owns, source, target)
        if len(levels) > 0:
            for j in range(L):
                ratio = ratios[levels[t * L + j]]
                row[j] *= ratio
                reverse[j] *= ratio
        place = np.uint64(t)
        for j in range(L):
            transposed[place] = reverse[j]
            place += np.uint64(high)


@kernel
def mix_links(T, L, matrices, pool, elements):
    """Sets the links of one sentence pair to the weighted sum of both directions' posteriors; returns the sum of
    the absolute changes.

    Args:
        matrices: :class:`.PairMatrices`, with the links as they were; the forward direction's
            posteriors are overwritten.
        elements: uint32 (T * L,).
    """
    wide, high = padded(L), padded(T)
    links, e, reverse_e = matrices.links, matrices.forward, matrices.reverse
    forward, reverse = np.float32(pool.forward), np.float32(pool.reverse)
    change = 0.0
    for t in range(T):
        row, place = part(e, t * wide, (t + 1) * wide), np.uint64(t)
        for j in range(L):
            value = ZERO
            if forward > 0:
                value += forward * row[j]
            if reverse > 0:
                value += reverse * reverse_e[place]
            row[j] = value
            place += np.uint64(high)
    for t in range(T):  # by itself, as a vector is not read at once where single numbers have been written
        row = part(e, t * wide, (t + 1) * wide)
        change += sum_changes(row, part(links, t * wide, (t + 1) * wide))
        scale_row(row, ONE, part(e, t * L, t * L + wide))  # without padding: most rows are short
    pack_links(e.view(np.uint32)[: T * L], elements)
    return change


@kernel
def run_direction(T, L, e, tokens, null_links, copies, direction, space, passes, is_counted):
    """Posteriors of one direction of a sentence pair, left in ``e`` and NULL's links; returns its log-likelihood.

    Args:
        e: float32 (T * padded L,), emission probabilities.
        tokens, null_links, copies: the emitted tokens (T,), NULL's links to them, and how often the pair is there.
        direction: :class:`.DirectionArrays`.
        space: (its transitions, their counts, which are added to if ``is_counted``).
        passes: :class:`.forward_backward.PassSpace`.
    """
    transitions, counts = space
    null_emissions(tokens, direction, copies, null_links)
    return forward_backward(T, L, e, null_links, transitions, passes, counts, is_counted)


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
    return padded(most) + VECTOR_WIDTH, size


@kernel
def expect_block(low, high, text, links, directions, pool, options, space, likelihood):
    """What :func:`expect_links` does, in a :class:`BlockSpace`, whose counts are added to."""
    x_tokens, x_offsets, y_tokens, y_offsets, copies = text
    offsets, _, _, elements, likeness = links
    forward, reverse = directions
    forward_space, reverse_space, source, target, matrices, passes, starts, numbers = space
    e, transposed_e = matrices.forward, matrices.reverse
    change = 0.0
    for m in range(low, high):
        likelihood[m] = 0.0
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        own_elements = elements[offsets[m] : offsets[m + 1]]
        own_levels = likeness.levels[offsets[m] : offsets[m + 1]]  # empty if there are none at all
        pair_numbers(offsets[m], x, y, links, starts, numbers)
        expect_numbers(T, L, own_elements, matrices, source, target)
        prepare_states(x, forward, source)
        prepare_states(y, reverse, target)
        own, reverse_own = (np.float32(forward.leave_one_out), np.float32(reverse.leave_one_out))
        owns = own * copies[m], reverse_own * copies[m], np.float32(options.least_own)
        own_likeness = Likeness(own_levels, likeness.ratios)
        emissions(T, L, numbers, links.pair_counts, own_likeness, owns, source, target, matrices)
        is_counted = not options.is_last and m % options.counted == 0
        if pool.forward > 0:
            nulls = forward.null_links[y_offsets[m] : y_offsets[m + 1]]
            likelihood[m] += run_direction(
                T, L, e, y, nulls, copies[m], forward, forward_space, passes, is_counted
            )
        if pool.reverse > 0:
            nulls = reverse.null_links[x_offsets[m] : x_offsets[m + 1]]
            likelihood[m] += run_direction(
                L, T, transposed_e, x, nulls, copies[m], reverse, reverse_space, passes, is_counted
            )
        if options.is_last:
            pool_links(T, L, e, transposed_e, pool, own_elements.view(np.float32))
        else:
            change += mix_links(T, L, matrices, pool, own_elements)
    return change


@allocating_kernel
def block_space(directions, most, size):
    """:class:`BlockSpace` for sentence pairs of at most ``most`` tokens by side and ``size`` padded elements."""
    forward, reverse = directions
    parts = np.empty((5, size), np.float32)
    return BlockSpace(
        widen_transitions(forward.transition, forward.initial, forward.final, forward.null_probability, most),
        widen_transitions(reverse.transition, reverse.initial, reverse.final, reverse.null_probability, most),
        state_space(most),
        state_space(most),
        PairMatrices(parts[0], parts[1], parts[2], parts[3], parts[4]),
        pass_space(most, size),
        np.empty(most, np.uint32),
        np.empty(size, np.uint32),
    )


@allocating_kernel
def expect_links(low, high, text, links, directions, pool, options, likelihood, counts):
    """The E-step of sentence pairs low <= m < high: expected links, NULL's links, and counts of transitions.

    Args:
        text: :class:`TextArrays`; links: :class:`LinkArrays`.
        directions: :class:`.DirectionArrays` of the forward one, in which x are the states, and
            of the reverse.
        pool: :class:`OpinionPool` of both directions' posteriors, which makes the expected links.
        options: :class:`EStepOptions`.
        likelihood: float64 (M,), filled: the sum of the log-likelihoods of the directions that ran.
        counts: the :class:`.forward_backward.TransitionCounts` of both directions, laid out as their
            transition, initial and final weights; added to.

    Returns:
        the sum of the absolute changes of the expected links; 0 in the last E-step.
    """
    most, size = longest_pair(low, high, text)
    forward_counts, reverse_counts = counts
    space = block_space(directions, most, size)
    change = expect_block(low, high, text, links, directions, pool, options, space, likelihood)
    fold_counts(space.forward[1], most, forward_counts)
    fold_counts(space.reverse[1], most, reverse_counts)
    return change
