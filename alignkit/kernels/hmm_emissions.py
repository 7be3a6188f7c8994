"""Emission probabilities of the hidden Markov aligners, for one sentence pair in one direction.

x are the words of the states, y the emitted ones. Matrices are flat, their rows padded with zeros to a multiple of
``LANES``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import SMALL_PRODUCT
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


class PairTokens(NamedTuple):
    """One sentence pair in one direction."""

    x: np.ndarray  # int32 (L,)
    y: np.ndarray  # int32 (T,)
    null_links: np.ndarray  # float32 (T,), of :class:`DirectionArrays`
    copies: float  # float32, how often the pair is in the text


class PairMatrices(NamedTuple):
    """Matrices of one sentence pair in one direction, float32 (T * padded L,)."""

    counts: np.ndarray  # of the word pairs
    links: np.ndarray  # expected before this E-step
    e: np.ndarray  # pseudo-counts of the word pairs, which become emission probabilities, and then posteriors


class StateSpace(NamedTuple):
    """Work space for the states of one sentence, of at most N tokens."""

    totals: np.ndarray  # float32 (N,), of their words
    expected: np.ndarray  # float32 (N,), their expected number of links
    if_none: np.ndarray  # float32 (N,), the factor for one more link if there are no others
    if_one: np.ndarray  # float32 (N,), the same if there is one
    places: np.ndarray  # int32 (N,), a list of positions


@allocating_kernel
def state_space(most):
    """:class:`StateSpace` for sentences of at most ``most`` tokens, a multiple of LANES."""
    rows = np.empty((4, most), np.float32)
    return StateSpace(rows[0], rows[1], rows[2], rows[3], np.empty(most, np.int32))


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
    own, null_share = (
        np.float32(direction.leave_one_out) * copies,
        ONE / max(np.float32(direction.null_total), TINY),
    )
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
        emission_row(row, link_row, counts[here:after], own, totals, expected, if_none, if_one)
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
