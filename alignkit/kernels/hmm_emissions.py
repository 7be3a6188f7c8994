"""Emission probabilities of the hidden Markov aligners, for one sentence pair in both directions.

In the forward direction the states are the source tokens x, and the target tokens y are emitted; in the reverse
one it is the other way round. Matrices are flat, their rows padded with zeros to a multiple of ``LANES``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
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
    sum_row,
)
from alignkit.kernels.machine import part
from alignkit.kernels.packed_links import unpack_links


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
    reverse: np.ndarray  # of the reverse one, turned: (L * padded T,)
    counts: np.ndarray  # of the word pairs; work space
    backward: np.ndarray  # those of the reverse direction, not turned; work space


@allocating_kernel
def state_space(most):
    """:class:`States` for sentences of at most ``most`` tokens, a multiple of LANES."""
    rows = np.zeros((5, most), np.float32)
    return States(rows[0], rows[1], rows[2], rows[3], rows[4])


@kernel
def own_share(direction, copies):
    """How much of a link's own expectation is taken out of the counts that judge it."""
    return np.float32(direction.leave_one_out) * copies


@kernel
def null_emissions(tokens, direction, copies, null_links):
    """NULL's probabilities of the tokens of one sentence, instead of its links float32 to them."""
    own, share = own_share(direction, copies), ONE / max(np.float32(direction.null_total), TINY)
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
            # What is not a number would be no index.
            whole = np.uint32(min(beyond[j], np.float32(most))) if beyond[j] > ZERO else np.uint32(0)
            beyond[j] -= np.float32(whole)
            factors[j] = fertility[i, whole]
            above[j] = fertility[i, whole + np.uint32(1)] - factors[j]
            below[j] = factors[j] - fertility[i, whole - np.uint32(1)] if whole > 0 else ZERO
    end = padded(len(tokens))
    factors[len(tokens) : end], above[len(tokens) : end], below[len(tokens) : end] = ZERO, ZERO, ZERO


@kernel
def emissions(T, L, numbers, evidence, likeness, owns, source, target, matrices):
    """Emission probabilities of one sentence pair in both directions.

    e[t, l] = (count - own + pseudo-count) / (total - own), times the factor for one more link of the state and the
    ratio of the likeness. "own" is the expected link itself, so that a pair of words is judged by the evidence of
    other places: the zero-order approximation of collapsed variational inference (Asuncion et al. 2009), of which
    the collapsed Gibbs sampler's rule is exactly the sampled counterpart.

    Args:
        numbers: uint32 (T * L,), the word pair of each element; evidence: of :class:`.hmm_e_step.LinkArrays`.
        likeness: :class:`.hmm_e_step.Likeness` of the pair.
        owns: :func:`own_share` of both directions, and the least link that is taken out.
        source, target: :class:`States` of both sides; matrices: :class:`PairMatrices`.
    """
    links, forward, turned, counts, backward = matrices
    levels, ratios = likeness
    wide, high = padded(L), padded(T)
    for rows in (counts, forward, backward):
        clear_ends(T, wide, rows)
    clear_ends(L, high, turned)
    for t in range(T):
        here, there, own_numbers = t * wide, (t + 1) * wide, part(numbers, t * L, (t + 1) * L)
        count, row, reverse = part(counts, here, there), part(forward, here, there), part(backward, here, there)
        for j in range(L):
            i = own_numbers[j]
            count[j], row[j], reverse[j] = evidence[i, 0], evidence[i, 1], evidence[i, 2]
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
            turned[place] = reverse[j]
            place += np.uint64(high)
