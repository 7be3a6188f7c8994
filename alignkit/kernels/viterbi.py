"""The likeliest alignment of a sentence under a hidden Markov aligner, by the Viterbi algorithm (Rabiner 1989)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import MOST_STEPS, prepare_sentence
from alignkit.kernels.hmm_e_step import collect_evidence, direction_space, longest_pair
from alignkit.kernels.hmm_emissions import PairMatrices, PairTokens, emissions, state_space
from alignkit.kernels.hmm_rows import ONE, TINY, padded


class ViterbiSpace(NamedTuple):
    """Work space for sentences of at most N tokens and P elements."""

    words: np.ndarray  # float32 (N,), probability of the best path that ends at each position as its word
    null: np.ndarray  # float32 (N,), as NULL
    best: np.ndarray  # float32 (N,), of the better of the two
    initial: np.ndarray  # float32 (N,), see :class:`.forward_backward.PassSpace`
    leave: np.ndarray  # float32 (N,)
    back: np.ndarray  # int32 (P,), where the best path to each position came from
    is_null: np.ndarray  # bool (P,), whether NULL is the better one


@kernel
def best_step(L, e_row, weights, space, back):
    """One step: the best probability of ending at each position as its word, from those of the target word before.

    Fills back int32 (L,): where the best path to each came from (the first of equals).
    """
    middle = (len(weights) - 1) // 2
    for k in range(L):
        found, place = np.float32(-1), 0
        shifted = weights[middle + k - (L - 1) :]
        for j in range(L):
            value = space.best[j] * space.leave[j] * shifted[L - 1 - j]
            if value > found:
                found, place = value, j
        space.words[k] = found * e_row[k]
        back[k] = place


@kernel
def viterbi(T, L, e, e_null, transitions, space, places):
    """places[t] = the source position of word t on the likeliest path, -1 for NULL.

    Args:
        e: float32 (T * stride,), e_null: float32 (T,), emission probabilities.
        transitions: :class:`.forward_backward.Transitions`; space: :class:`ViterbiSpace`, with initial and leave.
    """
    words, null, best, initial, _, back, is_null = space
    p0, stride = transitions.null_probability, padded(L)
    for t in range(T):
        e_row = e[t * stride : (t + 1) * stride]
        if t == 0:
            for j in range(L):
                words[j] = (ONE - p0) * initial[j] * e_row[j]
                null[j] = p0 * initial[j] * e_null[0]
        else:
            for j in range(L):
                null[j] = p0 * e_null[t] * best[j]
            best_step(L, e_row, transitions.weights, space, back[t * L : (t + 1) * L])
        largest = TINY
        for j in range(L):
            is_null[t * L + j] = null[j] > words[j]
            best[j] = max(null[j], words[j])
            largest = max(largest, best[j])
        for j in range(L):
            best[j] /= largest
    j = 0
    for k in range(1, L):
        if best[k] > best[j]:
            j = k
    for t in range(T - 1, -1, -1):
        if is_null[t * L + j]:
            places[t] = -1
        else:
            places[t] = j
            if t > 0:
                j = back[t * L + j]


@kernel
def best_words(T, L, e, e_null, p0, places):
    """The same if all positions are equally likely."""
    for t in range(T):
        row = e[t * padded(L) : (t + 1) * padded(L)]
        places[t] = -1
        largest = p0 * e_null[t]
        for j in range(L):
            value = (ONE - p0) / np.float32(L) * row[j]
            if value >= largest and value > 0 and (value > largest or places[t] < 0):
                largest, places[t] = value, j


@allocating_kernel
def decode_block(low, high, text, links, direction, positions):
    """Fills positions int32 (N_y,) for the target tokens of sentence pairs low <= m < high.

    Args:
        text, links: see :mod:`.hmm_e_step`; the forward evidence is used.
        direction: :class:`.hmm_emissions.DirectionArrays`.
    """
    x_tokens, x_offsets, y_tokens, y_offsets, copies = text
    most, size = longest_pair(low, high, text)
    (forward, transitions, _), states = direction_space(direction, most, size), state_space(most)
    matrices, rows = np.empty((3, size), np.float32), np.empty((5, most), np.float32)
    reverse = PairMatrices(matrices[0], matrices[1], matrices[2])
    back, is_null, numbers = np.empty(size, np.int32), np.empty(size, np.bool_), np.empty((2, most), np.uint32)
    space = ViterbiSpace(rows[0], rows[1], rows[2], rows[3], rows[4], back, is_null)
    for m in range(low, high):
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        out = positions[y_offsets[m] : y_offsets[m + 1]]
        out[:] = -1
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        collect_evidence(links.offsets[m], x, y, links, numbers, forward, reverse)
        e_null = direction.null_links[y_offsets[m] : y_offsets[m + 1]]
        emissions(PairTokens(x, y, e_null, copies[m]), forward, direction, states)
        if float(T) * L * L > MOST_STEPS:
            best_words(T, L, forward.e, e_null, transitions.null_probability, out)
            continue
        prepare_sentence(L, transitions, space.initial, space.leave)
        viterbi(T, L, forward.e, e_null, transitions, space, out)
