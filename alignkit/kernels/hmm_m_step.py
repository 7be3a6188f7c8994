"""Kernels that sum expected links into counts, and counts into back-off distributions.

Every sum has one owner and runs in text order: the same bits at any number of threads.
``matrices`` = (links float32 (P,), offsets int64 (M + 1,)): the (T, L) matrices, row by row, one after another;
``index`` = (starts int64 (V + 1,), sentences int32 (N,), positions int32 (N,)): where each word occurs;
``rows`` = (offsets int64 (V_src + 1,), columns int32 (K,), values float32 (K,)), as in :mod:`.lexical`.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.forward_backward import ONE, ZERO, padded
from alignkit.kernels.lanes import LANES, above, load, splat, store

FERTILITIES = 9  # 0..7 and more
# Links less probable than this add nothing to fertilities: their products leave the range of float32, where a
# processor is slow.
SOME = np.float32(1e-3)


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
def count_pairs(low, high, ids, links, sums):
    """sums[k - low] += the links of all elements with id low <= k < high, in text order.

    Whoever owns some ids reads all of them: the text is in order, the sums are not, so that is what misses the
    cache least.

    Args:
        sums: float64 (high - low,).
    """
    size = high - low
    for place in range(len(ids)):
        k = np.int64(ids[place]) - low
        if 0 <= k < size:
            sums[k] += links[place]


@kernel
def start_evidence(low, high, row_offsets, sums, prior, values, evidence):
    """The counts and the same pseudo-count everywhere, for source words low <= i < high.

    Args:
        sums: float64, of the rows' elements from that of ``low``.
        values: float32 (K,), the counts; filled.
        evidence: float32 (K, 3), see :mod:`.hmm`; filled.
    """
    first = row_offsets[low]
    for k in range(first, row_offsets[high]):
        values[k] = sums[k - first]
        evidence[k, 0] = values[k]
        evidence[k, 1] = prior
        evidence[k, 2] = prior


@kernel
def row_sums(low, high, row_offsets, values, sums):
    """sums float64 (V_src,)[i] = the sum of the row, for source words low <= i < high."""
    for i in range(low, high):
        total = 0.0
        for k in range(row_offsets[i], row_offsets[i + 1]):
            total += values[k]
        sums[i] = total


@kernel
def column_sums(low, high, columns, values, sums):
    """sums float64 (V_tgt,)[o] += the values of the column, for target words low <= o < high."""
    for k in range(len(columns)):
        o = columns[k]
        if low <= o < high:
            sums[o] += values[k]


@kernel
def add_fertilities(words, links, number, counts, room):
    """Adds to counts (V, F) the chances that each word of one sentence has 0, 1, ... links.

    Args:
        words: (N,); links: float32 (number * padded N,), the chances that they link to each of ``number`` others.
        room: float32 (F * LANES,), work space.
    """
    stride = padded(len(words))
    one, some = splat(ONE), splat(SOME)
    for low in range(0, stride, LANES):
        n0 = one
        n1 = n2 = n3 = n4 = n5 = n6 = n7 = n8 = splat(ZERO)
        for k in range(number):
            p = load(links, k * stride + low)
            p = above(p, some, p)
            n8 = n8 + n7 * p
            n7 = n7 + (n6 - n7) * p
            n6 = n6 + (n5 - n6) * p
            n5 = n5 + (n4 - n5) * p
            n4 = n4 + (n3 - n4) * p
            n3 = n3 + (n2 - n3) * p
            n2 = n2 + (n1 - n2) * p
            n1 = n1 + (n0 - n1) * p
            n0 = n0 - n0 * p
        store(room, 0, n0)
        store(room, LANES, n1)
        store(room, 2 * LANES, n2)
        store(room, 3 * LANES, n3)
        store(room, 4 * LANES, n4)
        store(room, 5 * LANES, n5)
        store(room, 6 * LANES, n6)
        store(room, 7 * LANES, n7)
        store(room, 8 * LANES, n8)
        for j in range(low, min(low + LANES, len(words))):
            row = counts[words[j]]
            for n in range(FERTILITIES):
                row[n] += room[n * LANES + j - low]


@allocating_kernel
def count_fertilities(low, high, text, matrices, forward, reverse):
    """forward float64 (V_src, F)[i, n] += the expected number of occurrences of source word i that have n links
    (the last: at least n) in sentence pairs low <= m < high; reverse (V_tgt, F) likewise.

    The links of a word are taken for independent, so that their number is Poisson-binomial.

    Args:
        text: (source tokens, offsets, target tokens, offsets).
    """
    x_tokens, x_offsets, y_tokens, y_offsets = text
    links, offsets = matrices
    size = 0
    for m in range(low, high):
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        size = max(size, T * padded(L), L * padded(T))
    rows, turned = np.empty(size, np.float32), np.empty(size, np.float32)
    room = np.empty(FERTILITIES * LANES, np.float32)
    for m in range(low, high):
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        L, T = len(x), len(y)
        wide, tall = padded(L), padded(T)
        for t in range(T):
            row = links[offsets[m] + t * L : offsets[m] + (t + 1) * L]
            for j in range(L):
                rows[t * wide + j] = row[j]
                turned[j * tall + t] = row[j]
        add_fertilities(x, rows, T, forward, room)
        add_fertilities(y, turned, L, reverse, room)


@kernel
def add_back_off(low, high, classes, members, rows, work, factors, evidence):
    """Adds to the pseudo-counts of word pairs what the other pairs of their classes say.

    For source classes low <= a < high. With a, b the classes of i, o and others = count(a, b) - count(i, o):
    evidence[i, o][1] += others * source[i][0] * target[o][0], and evidence[i, o][2] likewise.

    Args:
        classes: (first int64 (A + 1,), where each source class starts in ``members``; target int32 (V_tgt,), the
            class of each target word).
        members: int32 (V_src,), source words in order of their class.
        work: (sums float64 (B,), zeros, left so; labels int32, as long as the rows of the largest class).
        factors: (source float32 (V_src, 2), target float32 (V_tgt, 2)).
        evidence: float32 (K, 3), see :mod:`.hmm`.
    """
    first, target_class = classes
    row_offsets, columns, values = rows
    source, target = factors
    sums, labels = work
    for a in range(low, high):
        count = 0
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(row_offsets[i], row_offsets[i + 1]):
                b = target_class[columns[k]]
                labels[count] = b
                count += 1
                sums[b] += values[k]
        place = 0
        for j in range(first[a], first[a + 1]):
            i = members[j]
            by_forward, by_reverse = source[i, 0], source[i, 1]
            for k in range(row_offsets[i], row_offsets[i + 1]):
                o = columns[k]
                others = np.float32(max(sums[labels[place]] - values[k], 0.0))
                place += 1
                evidence[k, 1] += others * by_forward * target[o, 0]
                evidence[k, 2] += others * by_reverse * target[o, 1]
        for k in range(count):
            sums[labels[k]] = 0.0


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
