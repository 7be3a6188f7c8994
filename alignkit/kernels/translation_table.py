"""Kernels of the models whose parameters are a table of word pairs.

``bags``, ``index``, ``rows`` and ``target`` are tuples of arrays as in :mod:`.inverted_index`, which says
too why results do not depend on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.inverted_index import ID, ONE, PLACE, first_not_below, look_ahead

# No parameter falls below this: it changes nothing that float32 can see, keeps denominators positive, and keeps
# arithmetic out of denormal numbers, which are many times slower.
TINY = np.float32(1e-30)
TWO = PLACE(2)
_HALF = np.uint64(32)


@kernel
def start_denominators(low, high, target, null, shares, z):
    """z[k] = shares_m * null[words_k] for the entries k of sentences low <= m < high.

    null: float32 (V_tgt,), zeros without NULL. shares: float32 (M,), NULL's weight against that of one source
    position, 0 for a pair without source words.
    """
    words, _, offsets = target
    for m in range(low, high):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            z[k] = shares[m] * null[ID(words[k])]


@kernel
def add_denominators(low, high, index, rows, target, z, dense):
    """z[k] += sum over source words i of n_i * value[i, words_k], for the entries k of sentences low <= m < high.

    Every pair of the text must be in ``rows``. ``dense`` float32 (V_tgt,) is work space.
    """
    starts, sentences, counts = index
    row_offsets, columns, values = rows
    words, _, offsets = target
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
            m = PLACE(sentences[j])
            n = counts[j]
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                z[k] += n * dense[ID(words[k])]


@kernel
def weigh(low, high, target, places, z, likelihood):
    """likelihood[m] = sum over entries of n log(z / places_m), then z becomes n / z, for low <= m < high.

    n is how often the word comes. places float64 (M,): z is the sum over source positions, NULL included, and
    places_m what it must be divided by to be a probability. A word that nothing can explain (an empty source
    without NULL) counts for nothing.
    """
    _, counts, offsets = target
    for m in range(low, high):
        total, tokens, product = 0.0, 0.0, 1.0
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            if z[k] > 0:
                # A logarithm for many words at once; no z is below TINY, so the product stays above 1e-240.
                if counts[k] == 1:
                    product *= z[k]
                else:
                    total += counts[k] * math.log(z[k])
                if product < 1e-200 or product > 1e200:
                    total += math.log(product)
                    product = 1.0
                tokens += counts[k]
                z[k] = counts[k] / z[k]
        if tokens > 0:
            total += math.log(product) - tokens * math.log(places[m])
        likelihood[m] = total


@kernel
def add_weights(low, high, index, rows, target, weights, sums):
    """values[i, o] *= sum over the sentences of i of n_i * weights[k], k the entry of o there.

    For rows low <= i < high; not normalised. ``sums`` float64 (V_tgt,) starts as zeros and is left so.
    """
    starts, sentences, counts = index
    row_offsets, columns, values = rows
    words, _, offsets = target
    for i in range(low, high):
        end = PLACE(starts[i + 1])
        for j in range(PLACE(starts[i]), end):
            look_ahead(j, end, sentences, offsets, words, weights)
            m = PLACE(sentences[j])
            n = counts[j]
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                sums[ID(words[k])] += n * weights[k]
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            values[k] *= sums[ID(columns[k])]
            sums[ID(columns[k])] = 0.0


@kernel
def null_counts(target, shares, weights, sums):
    """sums[o] += shares_m * weights[k] over the entries k of o in text order; sums float64 (V_tgt,)."""
    words, _, offsets = target
    for m in range(len(offsets) - 1):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            sums[ID(words[k])] += shares[m] * weights[k]


@kernel
def normalise_table(low, high, row_offsets, values):
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
def bayes_table(low, high, row_offsets, values, alpha):
    """Rows low <= i < high of counts c become exp(digamma(c + alpha)) / exp(digamma(sum of c + alpha)).

    The mean-field posterior under a symmetric Dirichlet prior over the words of the row (Johnson 2007); it sums
    to less than 1. No value falls below ``TINY``.
    """
    for i in range(low, high):
        total = 0.0
        for k in range(row_offsets[i], row_offsets[i + 1]):
            total += values[k] + alpha
        scale = 1.0 / exp_digamma(total) if total > 0.0 else 0.0
        for k in range(row_offsets[i], row_offsets[i + 1]):
            values[k] = max(np.float32(exp_digamma(values[k] + alpha) * scale), TINY)


@kernel
def search_rows(rows, ids, out):
    """out[i, j] = the value of column ids[j] in row i; left as it is if there is none, or ids[j] is negative.

    Args:
        rows: (starts int64, ends int64, columns, values), columns rising within a row.
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
def fill_scores(low, high, index, rows, target, lengths, out, dense):
    """out[m][t, l] = value[x_l, y_t], 0 for pairs the table lacks, for sentences low <= m < high.

    Args:
        index: as above, but of all source tokens, with their positions int32 where the counts would be.
        target: (tokens int32 (N_tgt,), offsets int64 (M + 1,)), token by token.
        rows: (starts int64, ends int64, columns, values), a row for each word of the index; an unknown word's
            row is empty.
        lengths: int64 (M,), source lengths.
        out: (values float32, offsets int64 (M + 1,)), the matrices one after another.
        dense: float32 (V_tgt + 1,), zeros, left so; an unknown target word has id V_tgt.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    tokens, offsets = target
    scores, score_offsets = out
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = values[k]
        for j in range(a, b):
            m = sentences[j]
            place = score_offsets[m] + positions[j]
            for k in range(offsets[m], offsets[m + 1]):
                scores[place] = dense[tokens[k]]
                place += lengths[m]
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0.0


@kernel
def normalise_scores(low, high, target, lengths, null_values, shares, out):
    """Divides each row by its sum plus shares_m * null_values[y_t]; a row without evidence becomes uniform.

    For sentences low <= m < high. null_values float32 (V_tgt + 1,), zeros without NULL; shares float32 (M,),
    NULL's weight against that of one source position. ``target`` and ``out`` as in :func:`fill_scores`.
    """
    tokens, offsets = target
    scores, score_offsets = out
    for m in range(low, high):
        place = score_offsets[m]
        for k in range(offsets[m], offsets[m + 1]):
            total = float(shares[m] * null_values[tokens[k]])
            for j in range(place, place + lengths[m]):
                total += scores[j]
            for j in range(place, place + lengths[m]):
                scores[j] = scores[j] / total if total > 0.0 else 1.0 / (lengths[m] + shares[m])
            place += lengths[m]


@kernel
def start_keys(low, high, target, null, shares, keys):
    """keys[k] = NULL's key, for the entries k of sentences low <= m < high; arguments as start_denominators.

    A key holds a value's 32 bits above the complement of the position it belongs to, 0 for NULL: as integers,
    keys are in the order of their values (none is negative), and of equals the leftmost is the largest.
    """
    words, _, offsets = target
    for m in range(low, high):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            value = np.float32(shares[m] * null[ID(words[k])])
            keys[k] = np.uint64(value.view(np.uint32)) << _HALF


@kernel
def best_sources(low, high, index, rows, target, keys, dense):
    """For each target entry of sentences low <= m < high the largest key of all source words and NULL.

    Args:
        index: as above, with the first position int32 of each word in its sentence where the counts would be.
        rows, dense: as in :func:`fill_scores`, the values' bits as uint32: one comparison of integers then finds
            the best value and the leftmost position, without a branch that cannot be foreseen.
        keys: uint64 (E_tgt,), see :func:`start_keys`.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    words, _, offsets = target
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
            m = PLACE(sentences[j])
            position = np.uint64(~np.uint32(positions[j]))
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                keys[k] = max(keys[k], np.uint64(dense[ID(words[k])]) << _HALF | position)
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0


@kernel
def place_of_key(key):
    """The position of a key, -1 for NULL's and where the value is 0."""
    position = np.uint32(key)
    if position == 0 or key >> _HALF == 0:
        return -1
    return np.int64(~position)


@kernel
def places_of_keys(low, high, keys, places):
    """places[k] = the position of keys[k], for low <= k < high."""
    for k in range(low, high):
        places[k] = place_of_key(keys[k])


@kernel
def token_places(low, high, bags, offsets, keys, places):
    """places[k] = the position of token k's key, for the tokens of sentences low <= m < high.

    Args:
        bags: (entries (N_tgt,), offsets int64 (M + 1,) of the bags); ``offsets`` are those of the tokens.
        keys: of the bags' entries.
        places: int32 (N_tgt,), filled.
    """
    entries, bag_offsets = bags
    for m in range(low, high):
        start = PLACE(bag_offsets[m])
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            places[k] = place_of_key(keys[start + ID(entries[k])])
