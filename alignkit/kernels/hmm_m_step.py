"""The M-step of the hidden Markov aligners: expected links are summed into counts, fertilities and back-off.

Every sum has one owner and runs in text order, so the bits are the same for any number of threads. Arguments that
recur:
    text: :class:`.hmm_e_step.TextArrays`;
    offsets int64 (M + 1,), elements uint32 (P,): as in :class:`.hmm_e_step.LinkArrays`;
    rows: (offsets int64 (V_src + 1,), columns int32 (K,), values float32 (K,)), the word pairs of the text by
        source word, and their counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.hmm_rows import FERTILITIES, ONE, ZERO, link_numbers, padded
from alignkit.kernels.inverted_index import ID, PLACE
from alignkit.kernels.inverted_index import ONE as ONE_PLACE
from alignkit.kernels.lanes import LANES
from alignkit.kernels.packed_links import unpack_links

# Links less probable than this add nothing to fertilities: their products leave the range of float32, where a
# processor is slow.
SOME = np.float32(1e-3)


class PairPrior(NamedTuple):
    """The prior of all word pairs."""

    pseudo_count: np.float32  # of each pair
    factor: np.float32  # of the evidence for pairs of a word and a token that is none, such as punctuation
    source_words: np.ndarray  # bool (V_src,), whether each token is a word
    target_words: np.ndarray  # bool (V_tgt,)


class BackOffClasses(NamedTuple):
    """A way to class the words of both sides, and what their pairs get from the other pairs of their classes.

    The product of the factors of i and o, times the count of the other pairs of their classes, is the pseudo-count
    of (i, o) in the forward and in the reverse direction.
    """

    members: np.ndarray  # int32 (V_src,), source words in order of their class
    first: np.ndarray  # int64 (A + 1,), where each source class starts
    target_class: np.ndarray  # int32 (V_tgt,)
    source_factors: np.ndarray  # float32 (V_src, 2)
    target_factors: np.ndarray  # float32 (V_tgt, 2)


@kernel
def start_evidence(low, high, rows, sums, unit, known, prior, evidence):
    """The counts and the prior's pseudo-counts, for source words low <= i < high.

    Args:
        rows: the values are the counts; filled.
        sums: int64, counts of the rows' elements from that of ``low``, in units of ``unit``; they may lie in
            ``evidence``, where the pseudo-counts go.
        known: float32 (K,), counts to be added; empty if there are none.
        prior: :class:`PairPrior`.
        evidence: float32 (K, 3), see :class:`.hmm_e_step.LinkArrays`; filled.
    """
    row_offsets, columns, values = rows
    pseudo_count, factor, source_words, target_words = prior
    first = row_offsets[low]
    for i in range(low, high):
        for k in range(row_offsets[i], row_offsets[i + 1]):
            weight = ONE if source_words[i] == target_words[columns[k]] else factor
            count = sums[k - first] * unit
            if len(known) > 0:
                count += known[k]
            values[k] = np.float32(count) * weight
            evidence[k, 0] = values[k]
            evidence[k, 1] = pseudo_count * weight
            evidence[k, 2] = pseudo_count * weight


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
def add_fertilities(words, links, number, counts, numbers):
    """Adds to counts (V, F) the chances that each word of one sentence has 0, 1, ... links.

    Args:
        words: (N,); links: float32 (number * padded N,), the chances that they link to each of ``number`` others.
        numbers: float32 (F * LANES,), work space.
    """
    stride = padded(len(words))
    for low in range(0, stride, LANES):
        link_numbers(links, number, stride, low, numbers)
        for j in range(low, min(low + LANES, len(words))):
            row = counts[words[j]]
            for n in range(FERTILITIES):
                row[n] += numbers[n * LANES + j - low]


@allocating_kernel
def count_fertilities(low, high, text, offsets, elements, forward, reverse):
    """forward float64 (V_src, F)[i, n] += the expected number of occurrences of source word i that have n links
    (the last: at least n) in sentence pairs low <= m < high; reverse (V_tgt, F) likewise.

    The links of a word are treated as independent, so that their number is Poisson-binomial.
    """
    x_tokens, x_offsets, y_tokens, y_offsets, _ = text
    size = 0
    for m in range(low, high):
        L, T = x_offsets[m + 1] - x_offsets[m], y_offsets[m + 1] - y_offsets[m]
        size = max(size, T * padded(L), L * padded(T))
    rows, turned = np.zeros(size, np.float32), np.zeros(size, np.float32)
    bits = rows.view(np.uint32)
    numbers = np.empty(FERTILITIES * LANES, np.float32)
    for m in range(low, high):
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        L, T = len(x), len(y)
        wide, tall = padded(L), padded(T)
        for t in range(T):
            start, here = offsets[m] + t * L, t * wide
            unpack_links(elements[start : start + L], bits[here : here + L])
            for j in range(L):
                link = rows[here + j] if rows[here + j] > SOME else ZERO
                rows[here + j] = link
                turned[j * tall + t] = link
        add_fertilities(x, rows, T, forward, numbers)
        add_fertilities(y, turned, L, reverse, numbers)


@kernel
def share_class_counts(a, back_off, rows, sums, labels, evidence):
    """Adds to the pseudo-counts of the word pairs of source class a, and sets the sums that they had to zero.

    Args:
        sums: float64 (B,), the counts of the class with each target class.
        labels: uint32, the target class of each pair in the rows of the class's members.
        back_off, rows, evidence: as of :func:`add_back_off`.
    """
    members, first, _, source_factors, target_factors = back_off
    offsets, columns, values = rows
    place = PLACE(0)
    for j in range(first[a], first[a + 1]):
        i = members[j]
        by_forward, by_reverse = source_factors[i, 0], source_factors[i, 1]
        for k in range(PLACE(offsets[i]), PLACE(offsets[i + 1])):
            o = ID(columns[k])
            others = np.float32(max(sums[labels[place]] - values[k], 0.0))
            place += ONE_PLACE
            evidence[k, 1] += others * by_forward * target_factors[o, 0]
            evidence[k, 2] += others * by_reverse * target_factors[o, 1]
    for k in range(place):
        sums[labels[k]] = 0.0


@kernel
def add_back_off(low, high, back_off, rows, sums, labels, evidence):
    """Adds to the pseudo-counts of word pairs what the other pairs of their classes say.

    For source classes low <= a < high. With a, b the classes of i, o and others = count(a, b) - count(i, o):
    evidence[i, o][1] += others * source_factors[i][0] * target_factors[o][0], and evidence[i, o][2] likewise.

    Args:
        back_off: :class:`BackOffClasses`.
        sums: float64 (B,), zeros, left so; labels: uint32, as long as the rows of the largest class; work space.
        evidence: float32 (K, 3), see :class:`.hmm_e_step.LinkArrays`.
    """
    members, first, target_class, _, _ = back_off
    offsets, columns, values = rows
    for a in range(low, high):
        count = PLACE(0)
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(PLACE(offsets[i]), PLACE(offsets[i + 1])):
                b = ID(target_class[ID(columns[k])])
                labels[count] = b
                count += ONE_PLACE
                sums[b] += values[k]
        share_class_counts(a, back_off, rows, sums, labels, evidence)


@kernel
def fill_floor(low, high, text, floors, by_target, offsets, values):
    """Raises every element of the (T, L) matrices of pairs low <= m < high to at least its token's floor.

    Args:
        floors: float32, by source token, or by target token if ``by_target``.
        values: float32 (P,), the matrices.
    """
    _, source, _, target, _ = text
    for m in range(low, high):
        place = offsets[m]
        for t in range(target[m], target[m + 1]):
            for k in range(source[m], source[m + 1]):
                values[place] = max(values[place], floors[t if by_target else k])
                place += 1
