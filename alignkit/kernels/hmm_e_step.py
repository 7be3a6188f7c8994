"""The E-step of the hidden Markov aligners: states are source positions, emissions are target words.

Vogel, Ney and Tillmann (1996), with NULL as in Och and Ney (2003, section 2.1): a target word is NULL's with
probability p0, and then the position stays as it was. A jump of d positions from source position l has probability
transition[d] / (the sum of transition over the positions that the sentence has).

Both directions of a text are run in one pass over its pairs, because they share a table of counts and the expected
links. x are the words of the states, y the emitted ones. Matrices of one sentence pair are flat, their rows padded
with zeros to a multiple of ``LANES``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import (
    PassSpace,
    TransitionCounts,
    Transitions,
    fold_counts,
    forward_backward,
    pass_space,
    widen_transitions,
)
from alignkit.kernels.hmm_emissions import (
    PairMatrices,
    States,
    emissions,
    expect_numbers,
    null_emissions,
    own_share,
    prepare_states,
    state_space,
)
from alignkit.kernels.hmm_pairs import SEGMENT_BITS, PairPlaces, pair_starts
from alignkit.kernels.hmm_rows import ZERO, padded
from alignkit.kernels.lanes import LANES
from alignkit.kernels.machine import part, prefetch
from alignkit.kernels.mixed_links import finish_links, mix_links
from alignkit.kernels.packed_links import CODE


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
    # side by side, because nearly every look-up in this table is a cache miss.
    evidence: np.ndarray
    # uint32 (P,), expected links and codes of word pairs (:mod:`.packed_links`). The E-step reads and then sets
    # the links; the last one leaves float32 numbers instead.
    elements: np.ndarray
    likeness: Likeness = NO_LIKENESS  # of each element


class Shares(NamedTuple):
    """How the posteriors of both directions make one matrix."""

    forward: float  # its weight; a direction of weight 0 is not run
    reverse: float
    as_log_odds: bool = False  # in the last E-step: whether it is the mean of log-odds (:mod:`.link_odds`)
    is_last: bool = False  # whether the elements become float32 numbers, and transitions are not counted
    least_own: float = 0.0  # in the last E-step: the least link that is taken out of the counts that judge it
    counted: int = 1  # before: transitions are counted in every so many pairs


FORWARD, REVERSE, BOTH = Shares(1.0, 0.0), Shares(0.0, 1.0), Shares(0.5, 0.5)


class DirectionSpace(NamedTuple):
    """Work space of one direction for a block of sentence pairs."""

    transitions: Transitions
    counts: TransitionCounts


class NumberSpace(NamedTuple):
    """Work space for finding the word pairs of one sentence pair of at most N tokens by side and P elements."""

    starts: np.ndarray  # uint32 (N,), where those of each source word start
    numbers: np.ndarray  # uint32 (P,), the word pair of each element


class BlockSpace(NamedTuple):
    """Work space for a block of sentence pairs."""

    forward: DirectionSpace
    reverse: DirectionSpace
    source: States
    target: States
    matrices: PairMatrices
    passes: PassSpace
    numbers: NumberSpace


@kernel
def row_numbers(start, row, links, starts, numbers):
    """Fills ``numbers`` with the word pairs of one row of a matrix; their evidence is prefetched.

    Args:
        start: where the row starts; row: its elements.
        links: :class:`LinkArrays`.
        starts: uint32, the :func:`.hmm_pairs.pair_starts` of the row's target word.
    """
    is_known = len(links.places.offsets) > 0
    for j in range(len(row)):
        numbers[j] = starts[j] + (row[j] & CODE) if is_known else np.uint32(start + j)
        prefetch(links.evidence, 3 * np.int64(numbers[j]))


@kernel
def pair_numbers(place, x, y, links, starts, numbers):
    """numbers uint32 (T * L,) = the word pairs of one sentence pair; their evidence is prefetched.

    Args:
        place: of its first element in ``links``, :class:`LinkArrays`; x, y: its tokens.
        starts: uint32 (N,), work space.
    """
    _, places, _, elements, _ = links
    L, segment = len(x), -1
    for t in range(len(y)):
        if y[t] >> SEGMENT_BITS != segment and len(places.offsets) > 0:
            segment = y[t] >> SEGMENT_BITS
            pair_starts(x, segment, places, starts)
        row = part(elements, place + t * L, place + (t + 1) * L)
        row_numbers(place + t * L, row, links, starts, part(numbers, t * L, (t + 1) * L))


@kernel
def run_direction(T, L, e, tokens, null_links, copies, direction, space, passes, is_counted):
    """Posteriors of one direction of a sentence pair, left in ``e`` and NULL's links; returns its log-likelihood.

    Args:
        e: float32 (T * padded L,), emission probabilities.
        tokens, null_links, copies: the emitted tokens (T,), NULL's links to them, and how often the pair is there.
        direction: :class:`.hmm_emissions.DirectionArrays`.
        space: :class:`DirectionSpace`, whose counts are added to if ``is_counted``.
        passes: :class:`.forward_backward.PassSpace`.
    """
    null_emissions(tokens, direction, copies, null_links)
    return forward_backward(T, L, e, null_links, space.transitions, passes, space.counts, is_counted)


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
def direction_space(direction, most):
    """:class:`DirectionSpace` for sentences of at most ``most`` tokens, with zero counts."""
    weights, p0 = (direction.transition, direction.initial, direction.final), direction.null_probability
    transitions, counts = widen_transitions(*weights, p0, most)
    return DirectionSpace(transitions, counts)


@kernel
def expect_block(low, high, text, links, directions, shares, space, likelihood):
    """What :func:`expect_links` does, in a :class:`BlockSpace`, whose counts are added to."""
    x_tokens, x_offsets, y_tokens, y_offsets, copies = text
    offsets, _, _, elements, likeness = links
    forward, reverse = directions
    forward_space, reverse_space, source, target, matrices, passes, numbers = space
    e, turned_e = matrices.forward, matrices.reverse
    change = 0.0
    for m in range(low, high):
        likelihood[m] = 0.0
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        own_elements = elements[offsets[m] : offsets[m + 1]]
        own_levels = likeness.levels[offsets[m] : offsets[m + 1]]  # empty if there are none at all
        pair_numbers(offsets[m], x, y, links, numbers.starts, numbers.numbers)
        expect_numbers(T, L, own_elements, matrices, source, target)
        prepare_states(x, forward, source)
        prepare_states(y, reverse, target)
        least = np.float32(shares.least_own) if shares.is_last else ZERO
        owns = own_share(forward, copies[m]), own_share(reverse, copies[m]), least
        own_likeness = Likeness(own_levels, likeness.ratios)
        emissions(T, L, numbers.numbers, links.evidence, own_likeness, owns, source, target, matrices)
        is_counted = not shares.is_last and m % shares.counted == 0
        if shares.forward > 0:
            nulls = forward.null_links[y_offsets[m] : y_offsets[m + 1]]
            likelihood[m] += run_direction(
                T, L, e, y, nulls, copies[m], forward, forward_space, passes, is_counted
            )
        if shares.reverse > 0:
            nulls = reverse.null_links[x_offsets[m] : x_offsets[m + 1]]
            likelihood[m] += run_direction(
                L, T, turned_e, x, nulls, copies[m], reverse, reverse_space, passes, is_counted
            )
        if shares.is_last:
            finish_links(T, L, e, turned_e, shares, own_elements.view(np.float32))
        else:
            change += mix_links(T, L, matrices, shares, own_elements)
    return change


@allocating_kernel
def expect_links(low, high, text, links, directions, shares, likelihood, counts):
    """The E-step of sentence pairs low <= m < high: expected links, NULL's links, and counts of transitions.

    Args:
        text: :class:`TextArrays`; links: :class:`LinkArrays`.
        directions: :class:`.hmm_emissions.DirectionArrays` of the forward one, in which x are the states, and
            of the reverse.
        shares: :class:`Shares`, of each direction's posteriors in the expected links.
        likelihood: float64 (M,), filled: the sum of the log-likelihoods of the directions that ran.
        counts: the :class:`.forward_backward.TransitionCounts` of both directions, laid out as their
            transition, initial and final weights; added to.

    Returns:
        the sum of the absolute changes of the expected links; 0 in the last E-step.
    """
    most, size = longest_pair(low, high, text)
    forward, reverse = directions
    spaces = direction_space(forward, most), direction_space(reverse, most)
    numbers = NumberSpace(np.empty(most, np.uint32), np.empty(size, np.uint32))
    parts = np.empty((5, size), np.float32)
    matrices = PairMatrices(parts[0], parts[1], parts[2], parts[3], parts[4])
    space = BlockSpace(*spaces, state_space(most), state_space(most), matrices, pass_space(most, size), numbers)
    change = expect_block(low, high, text, links, directions, shares, space, likelihood)
    forward_counts, reverse_counts = counts
    fold_counts(space.forward.counts, most, forward_counts)
    fold_counts(space.reverse.counts, most, reverse_counts)
    return change
