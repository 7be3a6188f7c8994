"""Kernels of the models whose parameters are a table of word pairs.

Named tuples as in :mod:`.inverted_index`, which also says why results do not depend on the number of threads.
``target`` is Bags of the target side, ``index`` the InvertedIndex of the source bags.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.inverted_index import ID, ONE, PLACE, first_not_below, look_ahead

# No parameter falls below this: it changes nothing that float32 can see, keeps denominators positive, and keeps
# arithmetic out of denormal numbers, which are many times slower.
TINY = np.float32(1e-30)
# The probability of a target word that neither a source word nor NULL explains: otherwise one unknown name would
# make every sentence impossible.
UNSEEN = 1e-9
TWO = PLACE(2)
SEARCHES = 16  # so many entries of a row are laid out in the time of one search in it
_HALF = np.uint64(32)


class RowSpans(NamedTuple):
    """Rows of a table for the words of a text, which may have other ids than the table's; unknown ones are empty.

    starts, ends: int64, of each word's row. columns: int32, rising within a row. values: of the columns.
    """

    starts: np.ndarray
    ends: np.ndarray
    columns: np.ndarray
    values: np.ndarray


class NullWord(NamedTuple):
    """NULL, the empty source word.

    values: float32 (V_tgt,), Trans(o|NULL), zeros without NULL; with unknown words (V_tgt + 1,), 0 for them.
    weights: float32 (M,), how probable NULL is relative to one source position of a pair; 0 for an empty source.
    """

    values: np.ndarray
    weights: np.ndarray


class Matrices(NamedTuple):
    """The (T, L) matrices of M pairs, one after another: values float32, offsets int64 (M + 1,)."""

    values: np.ndarray
    offsets: np.ndarray


@kernel
def posterior_weights(low, high, index, rows, target, null, normalisers, z, dense, log_probabilities):
    """What values are multiplied by to be posteriors, and the log-likelihood: sentences low <= m < high.

    For each entry k, a word o that is n times in sentence m, z[k] is at first the denominator of its posteriors,
    the sum of value[i, o] over source positions and NULL, and then n / z[k]. A word that nothing can explain (an
    empty source without NULL) is ignored.

    Args:
        rows: TableRows with every pair of the text.
        null: NullWord.
        normalisers: float64 (M,), what turns a denominator into a probability.
        z: float32 (E_tgt,), filled.
        dense: float32 (V_tgt,), work space.
        log_probabilities: float64 (M,), filled with the sum over entries of n log(z / normalisers_m).
    """
    starts, sentences, source_counts = index
    row_offsets, columns, values = rows
    words, counts, offsets = target
    null_values, null_weights = null
    for m in range(low, high):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            z[k] = null_weights[m] * null_values[ID(words[k])]
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            dense[ID(columns[k])] = values[k]
        end = PLACE(b)
        for j in range(PLACE(a), end):
            look_ahead(j, end, sentences, offsets, words, z)
            sentence = PLACE(sentences[j])
            n = np.float32(source_counts[j])
            for k in range(PLACE(offsets[sentence]), PLACE(offsets[sentence + ONE])):
                z[k] += n * dense[ID(words[k])]
    for m in range(low, high):
        total, tokens, product = 0.0, 0.0, 1.0
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            if z[k] > 0:
                # A logarithm for many words at once; no z is below TINY, so the product stays above 1e-240.
                if counts[k] == 1:
                    product *= z[k]
                else:
                    total += np.float32(counts[k]) * math.log(z[k])
                if product < 1e-200 or product > 1e200:
                    total += math.log(product)
                    product = 1.0
                tokens += counts[k]
                z[k] = np.float32(counts[k]) / z[k]
        if tokens > 0:
            total += math.log(product) - tokens * math.log(normalisers[m])
        log_probabilities[m] = total


@kernel
def expected_counts(low, high, index, rows, target, weights, sums):
    """values[i, o] *= sum over the sentences of i of n_i * weights[k], k the entry of o there.

    For rows low <= i < high. With weights of :func:`posterior_weights`, probabilities become expected counts.
    sums: float64 (V_tgt,), zeros, left so.
    """
    starts, sentences, counts = index
    row_offsets, columns, values = rows
    words, _, offsets = target
    for i in range(low, high):
        end = PLACE(starts[i + 1])
        for j in range(PLACE(starts[i]), end):
            look_ahead(j, end, sentences, offsets, words, weights)
            m = PLACE(sentences[j])
            n = np.float32(counts[j])
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                sums[ID(words[k])] += n * weights[k]
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            values[k] *= sums[ID(columns[k])]
            sums[ID(columns[k])] = 0.0


@kernel
def expected_null_counts(target, null, weights, sums):
    """sums[o] = the expected count of NULL and o, summed over the sentences in text order.

    Args:
        null: NullWord.
        weights: of :func:`posterior_weights`.
        sums: float64 (V_tgt,), zeros, filled.
    """
    words, _, offsets = target
    values, null_weights = null
    for m in range(len(offsets) - 1):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            sums[ID(words[k])] += null_weights[m] * weights[k]
    for o in range(len(sums)):
        sums[o] *= values[o]


@kernel
def divide_rows(low, high, row_offsets, values):
    """Divides the rows low <= i < high by their sums; no value falls below ``TINY``."""
    for i in range(low, high):
        start, end = PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])
        even, odd = 0.0, 0.0  # two sums, because an addition waits for the one before
        for k in range(start, end - (end - start) % TWO, TWO):
            even += values[k]
            odd += values[k + ONE]
        if (end - start) % TWO == ONE:
            even += values[end - ONE]
        total = even + odd
        for k in range(start, end):
            values[k] = max(np.float32(values[k] / total), TINY)


@kernel
def exp_digamma(x):
    """exp(digamma(x)) for x > 0, to 1e-11 or so.

    digamma's recurrence lifts x by 8, its asymptotic series (Abramowitz and Stegun 6.3.18) does the rest; the
    series' logarithm and the exponential cancel, and the eight fractions of the recurrence are added as one.
    """
    above, below = 0.0, 1.0
    y = x
    for _ in range(8):
        above = above * y + below
        below *= y
        y += 1.0
    w = 1.0 / (y * y)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w / 132))))
    return y * math.exp(-0.5 / y - series - above / below)


@kernel
def variational_bayes_rows(low, high, row_offsets, values, dirichlet):
    """Rows low <= i < high of counts c become exp(digamma(c + a)) / exp(digamma(sum of c + a)).

    The mean-field posterior under a symmetric Dirichlet prior over the words of the row, of concentration a,
    ``dirichlet`` (Johnson 2007); it sums to less than 1. No value falls below ``TINY``.
    """
    for i in range(low, high):
        total = 0.0
        for k in range(row_offsets[i], row_offsets[i + 1]):
            total += values[k] + dirichlet
        scale = 1.0 / exp_digamma(total) if total > 0.0 else 0.0
        for k in range(row_offsets[i], row_offsets[i + 1]):
            values[k] = max(np.float32(exp_digamma(values[k] + dirichlet) * scale), TINY)


@kernel
def search_rows(rows, ids, out):
    """out[i, j] = the value of column ids[j] in row i; left as it is if there is none, or ids[j] is negative.

    Args:
        rows: RowSpans.
        ids: int32 (J,).
        out: float32 (rows, J).
    """
    starts, ends, columns, values = rows
    for i in range(len(starts)):
        for j in range(len(ids)):
            place = first_not_below(columns, starts[i], ends[i], ids[j])
            if place < ends[i] and columns[place] == ids[j]:
                out[i, j] = values[place]


@kernel
def fill_scores(low, high, index, rows, target, lengths, there, out, dense):
    """out[m][t, l] = value[x_l, y_t], 0 for pairs the table lacks, for source words low <= i < high.

    Args:
        index: InvertedIndex of all source tokens, with their positions.
        rows: RowSpans, a row for each word of the index.
        target: Tokens.
        lengths: int64 (M,), source lengths.
        there: int32 (U,), the columns that occur in the target, rising.
        out: Matrices, zeros.
        dense: float32 (V_tgt + 1,), zeros, left so; an unknown target word has id V_tgt.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    tokens, offsets = target
    scores, score_offsets = out
    for i in range(low, high):
        start, end = row_starts[i], row_ends[i]
        wanted = 0
        for j in range(starts[i], starts[i + 1]):
            wanted += offsets[sentences[j] + 1] - offsets[sentences[j]]
        if SEARCHES * wanted < end - start:
            for j in range(starts[i], starts[i + 1]):
                m = sentences[j]
                place = score_offsets[m] + positions[j]
                for k in range(offsets[m], offsets[m + 1]):
                    entry = first_not_below(columns, start, end, tokens[k])
                    if entry < end and columns[entry] == tokens[k]:
                        scores[place] = values[entry]
                    place += lengths[m]
            continue
        # A row that is much longer than the text has words is laid out for these only.
        is_long = SEARCHES * len(there) < end - start
        if is_long:
            k = start
            for o in there:
                k = first_not_below(columns, k, end, o)
                if k < end and columns[k] == o:
                    dense[o] = values[k]
        else:
            for k in range(start, end):
                dense[columns[k]] = values[k]
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            place = score_offsets[m] + positions[j]
            for k in range(offsets[m], offsets[m + 1]):
                scores[place] = dense[tokens[k]]
                place += lengths[m]
        if is_long:
            for o in there:
                dense[o] = 0.0
        else:
            for k in range(start, end):
                dense[columns[k]] = 0.0


@kernel
def normalise_scores(low, high, target, lengths, null, out):
    """Divides each row by its sum, NULL's part included; a row without evidence becomes uniform.

    For sentences low <= m < high. null: NullWord. The other arguments as in :func:`fill_scores`.
    """
    tokens, offsets = target
    null_values, null_weights = null
    scores, score_offsets = out
    for m in range(low, high):
        place = score_offsets[m]
        for k in range(offsets[m], offsets[m + 1]):
            total = float(null_weights[m] * null_values[tokens[k]])
            for j in range(place, place + lengths[m]):
                total += scores[j]
            for j in range(place, place + lengths[m]):
                scores[j] = scores[j] / total if total > 0.0 else 1.0 / (lengths[m] + null_weights[m])
            place += lengths[m]


@kernel
def best_sources(low, high, index, rows, target, null, keys, dense):
    """The key of the best of all source words and NULL, for each target entry of sentences low <= m < high.

    A key holds a value's 32 bits above the complement of the position it belongs to, 0 for NULL: as integers,
    keys are in the order of their values (none is negative), and of equals the leftmost is the largest.

    Args:
        index: InvertedIndex of the source bags, with the first position of each word in its sentence.
        rows: as in :func:`fill_scores`, but with the values' bits as uint32: one comparison of integers then finds
            the best value and the leftmost position, without a branch that cannot be foreseen.
        null: NullWord.
        keys: uint64 (E_tgt,), filled.
        dense: uint32 (V_tgt + 1,), zeros, left so.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    words, _, offsets = target
    null_values, null_weights = null
    for m in range(low, high):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            value = np.float32(null_weights[m] * null_values[ID(words[k])])
            keys[k] = np.uint64(value.view(np.uint32)) << _HALF
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = values[k]
        end = PLACE(b)
        for j in range(PLACE(a), end):
            look_ahead(j, end, sentences, offsets, words, keys)
            sentence = PLACE(sentences[j])
            position = np.uint64(~np.uint32(positions[j]))
            for k in range(PLACE(offsets[sentence]), PLACE(offsets[sentence + ONE])):
                keys[k] = max(keys[k], np.uint64(dense[ID(words[k])]) << _HALF | position)
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0


@kernel
def position_of_key(key):
    """The position of a key, -1 for NULL's and where the value is 0."""
    position = np.uint32(key)
    if position == 0 or key >> _HALF == 0:
        return -1
    return np.int64(~position)


@kernel
def positions_of_keys(low, high, keys, positions):
    """positions[k] = the position of keys[k], for low <= k < high."""
    for k in range(low, high):
        positions[k] = position_of_key(keys[k])


@kernel
def token_positions(low, high, text, bags, keys, room, positions):
    """positions[k] = the position of token k's key, for the tokens of sentences low <= m < high.

    Args:
        text: Tokens; bags: theirs, Bags.
        keys: uint64 (E,), of the bags' entries.
        room: int32 (V,), work space.
        positions: int32 (N,), filled.
    """
    tokens, offsets = text
    words, _, starts = bags
    for m in range(low, high):
        for k in range(starts[m], starts[m + 1]):
            room[ID(words[k])] = position_of_key(keys[k])
        for k in range(offsets[m], offsets[m + 1]):
            positions[k] = room[ID(tokens[k])]
