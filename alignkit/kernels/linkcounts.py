"""Kernels that sum expected links into counts, and counts into back-off distributions.

A word owns its row, and sums run over its occurrences in text order: the same bits at any number of threads.
``matrices`` = (links float32 (P,), offsets int64 (M + 1,)): the (T, L) matrices, row by row, one after another;
``index`` = (starts int64 (V + 1,), sentences int32 (N,), positions int32 (N,)): where each word occurs;
``rows`` = (offsets int64 (V_src + 1,), columns int32 (K,), values float32 (K,)), as in :mod:`.lexical`.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.jit import kernel

# Links less probable than this add nothing to fertilities: most are nothing, and that saves nearly all time.
SOME = 1e-3


@kernel
def pair_ids(low, high, index, target, lengths, offsets, rows, places, ids):
    """ids int32 (P,): the place in ``rows`` of the word pair of every element of source words low <= i < high.

    Args:
        target: (tokens, offsets).
        lengths: int64 (M,), source lengths.
        offsets: int64 (M + 1,), of the matrices.
        rows: has every word pair of the text.
        places: int64 (V_tgt,), work space.
    """
    starts, sentences, positions = index
    tokens, token_offsets = target
    row_offsets, columns, _ = rows
    for i in range(low, high):
        for k in range(row_offsets[i], row_offsets[i + 1]):
            places[columns[k]] = k
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            place = offsets[m] + positions[j]
            for k in range(token_offsets[m], token_offsets[m + 1]):
                ids[place] = places[tokens[k]]
                place += lengths[m]


@kernel
def count_pairs(low, high, index, target, lengths, matrices, rows, sums):
    """values[i, o] = the sum of the links of i and o, for source words low <= i < high.

    Args:
        target: (tokens, offsets).
        lengths: int64 (M,), source lengths.
        sums: float64 (V_tgt,), zeros, left so.
    """
    starts, sentences, positions = index
    tokens, offsets = target
    links, matrix_offsets = matrices
    row_offsets, columns, values = rows
    for i in range(low, high):
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            place = matrix_offsets[m] + positions[j]
            for k in range(offsets[m], offsets[m + 1]):
                sums[tokens[k]] += links[place]
                place += lengths[m]
        for k in range(row_offsets[i], row_offsets[i + 1]):
            values[k] = sums[columns[k]]
            sums[columns[k]] = 0.0


@kernel
def count_fertilities(low, high, index, shapes, matrices, transposed, counts):
    """counts float64 (V, F)[i, n] = expected number of occurrences of i that have n links (the last: at least).

    The links of a word are taken for independent, so that their number is Poisson-binomial.

    Args:
        index: of the source words, or of the target words if ``transposed``.
        shapes: int32 (M, 2), T and L.
    """
    starts, sentences, positions = index
    links, offsets = matrices
    last = counts.shape[1] - 1
    chances = np.empty(last + 1)
    for i in range(low, high):
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            width = np.int64(shapes[m, 1])
            place, step, number = offsets[m] + positions[j], width, shapes[m, 0]
            if transposed:
                place, step, number = offsets[m] + positions[j] * width, np.int64(1), shapes[m, 1]
            chances[0] = 1.0
            most = 0  # more links than this there cannot be yet
            for _ in range(number):
                p = np.float64(links[place])
                place += step
                if p < SOME:
                    continue
                if most < last:
                    most += 1
                    chances[most] = 0.0
                if most == last:
                    chances[last] += chances[last - 1] * p
                for n in range(min(most, last - 1), 0, -1):
                    chances[n] = chances[n] * (1 - p) + chances[n - 1] * p
                chances[0] *= 1 - p
            for n in range(most + 1):
                counts[i, n] += chances[n]


@kernel
def add_back_off(low, high, classes, members, rows, sums, factors, evidence):
    """Adds to the pseudo-counts of word pairs what the other pairs of their classes say.

    For source classes low <= a < high. With a, b the classes of i, o and others = count(a, b) - count(i, o):
    evidence[i, o][1] += others * source[0][i] * target[0][o], and evidence[i, o][2] likewise.

    Args:
        classes: (first int64 (A + 1,), where each source class starts in ``members``; target int32 (V_tgt,), the
            class of each target word).
        members: int32 (V_src,), source words in order of their class.
        sums: float64 (B,), zeros, left so.
        factors: (source float32 (2, V_src), target float32 (2, V_tgt)).
        evidence: float32 (K, 3), see :mod:`.hmm`.
    """
    first, target_class = classes
    row_offsets, columns, values = rows
    source, target = factors
    for a in range(low, high):
        if first[a + 1] - first[a] == 0:
            continue
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(row_offsets[i], row_offsets[i + 1]):
                sums[target_class[columns[k]]] += values[k]
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(row_offsets[i], row_offsets[i + 1]):
                o = columns[k]
                others = max(sums[target_class[o]] - values[k], 0.0)
                evidence[k, 1] += others * source[0, i] * target[0, o]
                evidence[k, 2] += others * source[1, i] * target[1, o]
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(row_offsets[i], row_offsets[i + 1]):
                sums[target_class[columns[k]]] = 0.0


@kernel
def fill_floor(low, high, source, target, floors, by_target, values):
    """Raises every element of the (T, L) matrices of pairs low <= m < high to at least its token's floor.

    Args:
        source, target: offsets int64 (M + 1,) of the two sides.
        floors: float32, by source token, or by target token if ``by_target``.
        values: (float32 (P,), offsets int64 (M + 1,)).
    """
    flat, offsets = values
    for m in range(low, high):
        place = offsets[m]
        for t in range(target[m], target[m + 1]):
            for k in range(source[m], source[m + 1]):
                flat[place] = max(flat[place], floors[t if by_target else k])
                place += 1
