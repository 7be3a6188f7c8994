"""The M-step of the hidden Markov aligners: counts and pseudo-counts of word pairs, fertilities and back-off.

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
from alignkit.kernels.expected_links import UNIT, count_pairs, unpack_links
from alignkit.kernels.hmm_rows import FERTILITIES, ONE, ZERO, link_numbers, padded
from alignkit.kernels.intrinsics import VECTOR_WIDTH
from alignkit.kernels.inverted_index import ID, PLACE
from alignkit.kernels.inverted_index import ONE as ONE_PLACE

# Links less probable than this add nothing to fertilities: their products leave the range of float32, where a
# processor is slow.
SOME = np.float32(1e-3)


class PairPrior(NamedTuple):
    """The prior of all word pairs."""

    pseudo_count: np.float32  # of each pair
    factor: np.float32  # of the counts of pairs of a word and a token that is none, such as punctuation
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


@allocating_kernel
def update_counts(low, high, text, links, rows, background, prior, sums, pair_counts):
    """The counts and the prior's pseudo-counts of the word pairs of source words low <= i < high.

    Args:
        links: :class:`.hmm_e_step.LinkArrays`.
        rows: the values are the counts; filled.
        background: float32 (K,), counts to be added; empty if there are none.
        prior: :class:`PairPrior`.
        sums: int64 (K,), overwritten; they may lie in ``pair_counts``, where the pseudo-counts go.
        pair_counts: float32 (K, 3), see :class:`.hmm_e_step.LinkArrays`; filled.
    """
    row_offsets, columns, values = rows
    pseudo_count, factor, source_words, target_words = prior
    first, end = row_offsets[low], row_offsets[high]
    count_pairs((first, end), text, links, sums[first:end])
    for i in range(low, high):
        for k in range(row_offsets[i], row_offsets[i + 1]):
            weight = ONE if source_words[i] == target_words[columns[k]] else factor
            count = sums[k] * UNIT
            if len(background) > 0:
                count += background[k]
            values[k] = np.float32(count) * weight
            pair_counts[k, 0] = values[k]
            pair_counts[k, 1] = pseudo_count * weight
            pair_counts[k, 2] = pseudo_count * weight


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
        numbers: float32 (F * VECTOR_WIDTH,), work space.
    """
    stride = padded(len(words))
    for low in range(0, stride, VECTOR_WIDTH):
        link_numbers(links, number, stride, low, numbers)
        for j in range(low, min(low + VECTOR_WIDTH, len(words))):
            row = counts[words[j]]
            for n in range(FERTILITIES):
                row[n] += numbers[n * VECTOR_WIDTH + j - low]


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
    rows, transposed = np.zeros(size, np.float32), np.zeros(size, np.float32)
    bits = rows.view(np.uint32)
    numbers = np.empty(FERTILITIES * VECTOR_WIDTH, np.float32)
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
                transposed[j * tall + t] = link
        add_fertilities(x, rows, T, forward, numbers)
        add_fertilities(y, transposed, L, reverse, numbers)


class BackgroundClasses(NamedTuple):
    """What a fitted model counted between classes of words, for the classes of another text."""

    starts: np.ndarray  # int64 (A,), where the row of each source class of the text starts
    ends: np.ndarray  # int64 (A,), and where it ends
    columns: np.ndarray  # int32, target classes of the model
    values: np.ndarray  # float32, counts
    target_class: np.ndarray  # int32, the text's id of each target class of the model, -1 if it has none
    pairs: np.ndarray  # float32 (K,), which part of the counts in the rows is the model's; empty: none is


NO_BACKGROUND = BackgroundClasses(
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.int32),
    np.empty(0, np.float32),
    np.empty(0, np.int32),
    np.empty(0, np.float32),
)


@kernel
def add_back_off(low, high, classes, background, rows, sums, labels, pair_counts):
    """Adds pseudo-counts to word pairs from the counts of the other pairs of their classes.

    For source classes low <= a < high. With a, b the classes of i, o and others = count(a, b) - count(i, o):
    pair_counts[i, o][1] += others * source_factors[i][0] * target_factors[o][0], and column 2 likewise.

    Args:
        classes: :class:`BackOffClasses`.
        background: :class:`BackgroundClasses`, whose counts of pairs of classes are added to those of the text.
        rows: the values are the counts of the text, and of the background.
        sums: float64 (B,), zeros, left so; labels: uint32, as long as the rows of the largest class; work space.
        pair_counts: float32 (K, 3), see :class:`.hmm_e_step.LinkArrays`.
    """
    members, first, target_class, source_factors, target_factors = classes
    starts, ends, model_columns, model_counts, model_class, own = background
    offsets, columns, values = rows
    has_background = len(own) > 0
    for a in range(low, high):
        if has_background:
            for k in range(starts[a], ends[a]):
                b = model_class[model_columns[k]]
                if b >= 0:
                    sums[b] += model_counts[k]
        count = PLACE(0)
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(PLACE(offsets[i]), PLACE(offsets[i + 1])):
                b = ID(target_class[ID(columns[k])])
                labels[count] = b
                count += ONE_PLACE
                sums[b] += values[k] - own[k] if has_background else values[k]
        place = PLACE(0)
        for j in range(first[a], first[a + 1]):
            i = members[j]
            by_forward, by_reverse = source_factors[i, 0], source_factors[i, 1]
            for k in range(PLACE(offsets[i]), PLACE(offsets[i + 1])):
                o = ID(columns[k])
                others = np.float32(max(sums[labels[place]] - values[k], 0.0))
                place += ONE_PLACE
                pair_counts[k, 1] += others * by_forward * target_factors[o, 0]
                pair_counts[k, 2] += others * by_reverse * target_factors[o, 1]
        for k in range(place):
            sums[labels[k]] = 0.0
        if has_background:
            for k in range(starts[a], ends[a]):
                b = model_class[model_columns[k]]
                if b >= 0:
                    sums[b] = 0.0


@kernel
def background_values(low, high, spans, rows, target_ids, dense, values):
    """values float32 (K,) = the model's number for the word pairs of source words low <= i < high.

    Args:
        spans: :class:`.translation_table.RowSpans`, the model's row of each source word of the text.
        target_ids: int32 (V_tgt,), the model's id of each target word of the text, -1 if unknown.
        dense: float32, zeros, one for each target word of the model; left so.
    """
    starts, ends, model_columns, model_values = spans
    offsets, columns, _ = rows
    for i in range(low, high):
        for k in range(starts[i], ends[i]):
            dense[model_columns[k]] = model_values[k]
        for k in range(offsets[i], offsets[i + 1]):
            o = target_ids[columns[k]]
            values[k] = dense[o] if o >= 0 else ZERO
        for k in range(starts[i], ends[i]):
            dense[model_columns[k]] = ZERO
