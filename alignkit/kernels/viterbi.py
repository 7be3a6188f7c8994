"""The likeliest path of a hidden Markov aligner: kernels laid out as those of :mod:`.chain` and :mod:`.hmm`."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import MOST_STEPS, ONE, TINY, padded, prepare_chain, widened
from alignkit.kernels.hmm_e_step import emissions, gather, room


@kernel
def best_step(L, e_row, weights, leave, rows, back):
    """One step of the chain: rows[0], the best probability of ending at each position as x_j, from rows[2], that
    of the best state there before. Fills back int32 (L,): where the best path to each came from (the first of
    equals)."""
    jumps, middle = weights
    best, before = rows[0], rows[2]
    for k in range(L):
        found, place = np.float32(-1), 0
        shifted = jumps[middle + k - (L - 1) :]
        for j in range(L):
            value = before[j] * leave[j] * shifted[L - 1 - j]
            if value > found:
                found, place = value, j
        best[k] = found * e_row[k]
        back[k] = place


@kernel
def viterbi(T, L, e, e_null, chain, rows, back, is_null, places):
    """places[t] = the source position of word t on the likeliest path, -1 for NULL.

    Args:
        e: float32 (T * stride,), e_null: float32 (T,), emission probabilities.
        chain: (jumps, start, leave, p0) as of :func:`.forward_backward.forward`.
        rows: float32 (3, stride), work space.
        back: int32 (T * L,), is_null: bool (T * L,), work space.
    """
    jumps, start, leave, p0 = chain
    stride, middle = padded(L), (len(jumps) - 1) // 2
    best, null, both = rows[0], rows[1], rows[2]
    for t in range(T):
        e_row = e[t * stride : (t + 1) * stride]
        if t == 0:
            for j in range(L):
                best[j] = (ONE - p0) * start[j] * e_row[j]
                null[j] = p0 * start[j] * e_null[0]
        else:
            for j in range(L):
                null[j] = p0 * e_null[t] * both[j]
            best_step(L, e_row, (jumps, middle), leave, rows, back[t * L : (t + 1) * L])
        largest = TINY
        for j in range(L):
            is_null[t * L + j] = null[j] > best[j]
            both[j] = max(null[j], best[j])
            largest = max(largest, both[j])
        for j in range(L):
            both[j] /= largest
    j = 0
    for k in range(1, L):
        if both[k] > both[j]:
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
    """The same where every position is as likely."""
    for t in range(T):
        row = e[t * padded(L) : (t + 1) * padded(L)]
        places[t] = -1
        largest = p0 * e_null[t]
        for j in range(L):
            value = (ONE - p0) / np.float32(L) * row[j]
            if value >= largest and value > 0 and (value > largest or places[t] < 0):
                largest, places[t] = value, j


@allocating_kernel
def best_places(low, high, text, pairs, direction, places):
    """Fills places int32 (N_y,) for the target tokens of sentence pairs low <= m < high.

    text, pairs, direction: see :mod:`.hmm`; the forward evidence is used.
    """
    x_tokens, x_offsets, y_tokens, y_offsets, copies = text
    offsets = pairs[0]
    most, size = room(low, high, text)
    weights, _ = widened(direction, most)
    space, rows = np.empty((6, size), np.float32), np.empty((5, most), np.float32)
    back, is_null, own = np.empty(size, np.int32), np.empty(size, np.bool_), np.empty(most, np.int32)
    found = ((space[0], space[1]), (space[2], space[3]))
    p0 = np.float32(direction[6][0])
    for m in range(low, high):
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        out = places[y_offsets[m] : y_offsets[m + 1]]
        out[:] = -1
        if L == 0 or T == 0:
            continue
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        gather(offsets[m], T, L, pairs, found, space[4], space[5])
        e_null = direction[2][y_offsets[m] : y_offsets[m + 1]]
        emissions(x, y, found[0], direction, copies[m], rows, own, space[4], e_null)
        if float(T) * L * L > MOST_STEPS:
            best_words(T, L, space[4], e_null, p0, out)
            continue
        start, leave = rows[3, : padded(L)], rows[4, : padded(L)]
        prepare_chain(L, weights, p0, start, leave)
        viterbi(T, L, space[4], e_null, (weights[0], start, leave, p0), rows, back, is_null, out)
