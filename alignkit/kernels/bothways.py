"""Kernels that fit both directions of IBM Model 1 in one sweep over the text.

What the reverse direction needs of source word i and sentence m lies in the same places as what the forward
direction does, or beside i in the index, so a sweep comes to each sentence once for both.

Tuples of arrays are those of :mod:`alignkit.kernels.inverted_index`, but for:
    rows = (offsets int64 (V_src + 1,), columns int32 (K,), forward float32 (K,), reverse float32 (K,)): p(o|i) and
        p(i|o) of the pairs that meet;
    target = (words int32 (E_tgt, 3), entries float32 (E_tgt, 3), offsets int64 (M + 1,)): two views of the same
        memory, in which each entry of the target bags has side by side its word (words[k, 0]), how often it comes
        (entries[k, 1]) and what it is in the forward direction (entries[k, 2], called z[k]);
    flat: ``entries`` as float32 (3 E_tgt,), for :func:`look_ahead`;
    w float32 (E_src,): of each place of the index, what that source word in that sentence is in the reverse
        direction.

Sums run in the order of :mod:`.bags`: over words in order of their ids, over sentences in text order. So each
direction has the bits that it has when it is fitted alone.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.inverted_index import AHEAD, ID, LINE, NEAR, ONE, PLACE, first_not_below, sort_ids
from alignkit.kernels.machine import prefetch
from alignkit.kernels.translation_table import TINY, exp_digamma


@kernel
def look_ahead(j, end, sentences, target, flat):
    """As :func:`.bags.look_ahead`, for entries of three numbers."""
    _, _, offsets = target
    if j + AHEAD < end:
        prefetch(offsets, sentences[j + AHEAD])
    if j + NEAR < end:
        place = 3 * offsets[ID(sentences[j + NEAR])]
        prefetch(flat, place)
        prefetch(flat, place + LINE)
        prefetch(flat, place + 2 * LINE)
        prefetch(flat, place + 3 * LINE)


@kernel
def start_entries(low, high, bags, first, words, entries):
    """Fills ``words`` and ``entries`` of sentences low <= m < high where p(o|i) is alike for every pair.

    Args:
        bags: (words int32 (E_tgt,), counts float32 (E_tgt,), offsets int64 (M + 1,)).
        first: float32 (M,), one over the number of positions that a target word may come from.
    """
    bag_words, counts, offsets = bags
    for m in range(low, high):
        for k in range(offsets[m], offsets[m + 1]):
            words[k, 0] = bag_words[k]
            entries[k, 1] = counts[k]
            entries[k, 2] = first[m] * counts[k]


@kernel
def start_weights(low, high, index, first, w):
    """Fills w of source words low <= i < high likewise."""
    starts, sentences, counts = index
    for j in range(starts[low], starts[high]):
        w[j] = first[sentences[j]] * counts[j]


@kernel
def collect_rows(low, high, index, target, weights, sums, rows):
    """As :func:`.bags.collect_rows`, with both directions' sums.

    The reverse value of a pair (i, o) is the sum over the sentences of i of n_o * w[j], j the place in the index.

    Args:
        weights: (flat, w), positive.
        sums: float64 (V_tgt, 2), zeros, left so.
        rows: (columns int32, forward float32, reverse float32, sizes int64 (V_src,)), filled from 0 on.

    Returns:
        (the first row that was not done, how many pairs were filled in).
    """
    starts, sentences, counts = index
    words, entries, offsets = target
    flat, w = weights
    columns, forward, reverse, sizes = rows
    filled = 0
    for i in range(low, high):
        most = 0
        first, end = PLACE(starts[i]), PLACE(starts[i + 1])
        for j in range(first, end):
            m = PLACE(sentences[j])
            most += offsets[m + ONE] - offsets[m]
            if most >= len(sums):
                break
        if filled + min(most, len(sums)) >= len(columns):
            return i, filled
        new = PLACE(filled)
        for j in range(first, end):
            look_ahead(j, end, sentences, target, flat)
            m = PLACE(sentences[j])
            n, weight = counts[j], w[j]
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                o = ID(words[k, 0])
                columns[new] = o  # written over by the next, unless it is new
                new += PLACE(sums[o, 0] == 0.0)
                sums[o, 0] += n * entries[k, 2]
                sums[o, 1] += entries[k, 1] * weight
        place = np.int64(new)
        size = place - filled
        if size * 16 > len(sums):  # a long row: reading it off the sums is quicker than sorting it
            place = filled
            for o in range(len(sums)):
                if sums[o, 0] > 0.0:
                    columns[place] = o
                    place += 1
        else:
            sort_ids(columns, filled, place)
        for k in range(filled, place):
            o = ID(columns[k])
            forward[k] = sums[o, 0]
            reverse[k] = sums[o, 1]
            sums[o, 0] = 0.0
            sums[o, 1] = 0.0
        sizes[i] = size
        filled = place
    return high, filled


@kernel
def start_denominators(low, high, target, null, shares):
    """z[k] = NULL's part, as :func:`.lexical.start_denominators`."""
    words, entries, offsets = target
    for m in range(low, high):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            entries[k, 2] = shares[m] * null[ID(words[k, 0])]


@kernel
def weigh(low, high, target, places, likelihood):
    """z[k] = n / z[k], and the forward likelihood, as :func:`.lexical.weigh`."""
    _, entries, offsets = target
    for m in range(low, high):
        total, tokens, product = 0.0, 0.0, 1.0
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            if entries[k, 2] > 0:
                if entries[k, 1] == 1:
                    product *= entries[k, 2]
                else:
                    total += entries[k, 1] * math.log(entries[k, 2])
                if product < 1e-200 or product > 1e200:
                    total += math.log(product)
                    product = 1.0
                tokens += entries[k, 1]
                entries[k, 2] = entries[k, 1] / entries[k, 2]
        if tokens > 0:
            total += math.log(product) - tokens * math.log(places[m])
        likelihood[m] = total


@kernel
def null_counts(target, shares, sums):
    """sums[o] += shares_m * z[k] over the entries k of o in text order; sums float64 (V_tgt,)."""
    words, entries, offsets = target
    for m in range(len(offsets) - 1):
        for k in range(PLACE(offsets[m]), PLACE(offsets[m + 1])):
            sums[ID(words[k, 0])] += shares[m] * entries[k, 2]


@kernel
def add_denominators(low, high, index, rows, target, null, flat, w, likelihood, dense):
    """The E-step of sentences low <= m < high.

    z[k] += sum over source words i of n_i * forward[i, words_k]; of each place j of the index, w[j] = n / (NULL's
    part + the sum over target words o of n_o * reverse[i, o]).

    Args:
        null: (NULL's row of the reverse direction float32 (V_src,), its shares float32 (M,)).
        likelihood: (products, sums) float64 (M,), ones and zeros at first: the reverse direction's likelihood of
            each sentence is the product times e to the sum.
        dense: float32 (V_tgt, 2), work space.
    """
    starts, sentences, counts = index
    row_offsets, columns, forward, reverse = rows
    words, entries, offsets = target
    null_row, shares = null
    products, logs = likelihood
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            o = ID(columns[k])
            dense[o, 0] = forward[k]
            dense[o, 1] = reverse[k]
        end = PLACE(b)
        for j in range(PLACE(a), end):
            look_ahead(j, end, sentences, target, flat)
            m = PLACE(sentences[j])
            n = counts[j]
            total = shares[m] * null_row[i]
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                o = ID(words[k, 0])
                entries[k, 2] += n * dense[o, 0]
                total += entries[k, 1] * dense[o, 1]
            w[j] = total
            if total > 0:
                if n == 1:
                    products[m] *= total
                else:
                    logs[m] += n * math.log(total)
                if products[m] < 1e-200 or products[m] > 1e200:
                    logs[m] += math.log(products[m])
                    products[m] = 1.0
                w[j] = n / total


@kernel
def add_weights(low, high, index, rows, target, weights, sums):
    """forward[i, o] *= sum over the sentences of i of n_i * z[k], reverse[i, o] *= the same of n_o * w[j].

    For rows low <= i < high; not normalised.

    Args:
        weights: (flat, w).
        sums: float64 (V_tgt, 2), zeros, left so.
    """
    starts, sentences, counts = index
    row_offsets, columns, forward, reverse = rows
    words, entries, offsets = target
    flat, w = weights
    for i in range(low, high):
        end = PLACE(starts[i + 1])
        for j in range(PLACE(starts[i]), end):
            look_ahead(j, end, sentences, target, flat)
            m = PLACE(sentences[j])
            n, weight = counts[j], w[j]
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                o = ID(words[k, 0])
                sums[o, 0] += n * entries[k, 2]
                sums[o, 1] += entries[k, 1] * weight
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            o = ID(columns[k])
            forward[k] *= sums[o, 0]
            reverse[k] *= sums[o, 1]
            sums[o, 0] = 0.0
            sums[o, 1] = 0.0


@kernel
def reverse_null_counts(low, high, index, shares, w, sums):
    """sums[i] = the sum over the sentences of i, in text order, of shares_m * w[j], for low <= i < high."""
    starts, sentences, _ = index
    for i in range(low, high):
        total = 0.0
        for j in range(PLACE(starts[i]), PLACE(starts[i + 1])):
            total += shares[ID(sentences[j])] * w[j]
        sums[i] = total


@kernel
def column_totals(low, high, columns, values, alpha, totals):
    """totals float64 (V_tgt,)[o] += values + alpha of the column, for target words low <= o < high."""
    for k in range(len(columns)):
        o = ID(columns[k])
        if low <= o < high:
            totals[o] += values[k] + alpha


@kernel
def divide_columns(low, high, columns, totals, values):
    """Divides the values of places low <= k < high by their column's total; none falls below ``TINY``."""
    for k in range(low, high):
        values[k] = max(np.float32(values[k] / totals[ID(columns[k])]), TINY)


@kernel
def bayes_columns(low, high, columns, totals, alpha, values):
    """As :func:`.lexical.bayes_table`, by columns: ``totals`` has alpha for every pair in it already."""
    for k in range(low, high):
        scale = 1.0 / exp_digamma(totals[ID(columns[k])])
        values[k] = max(np.float32(exp_digamma(values[k] + alpha) * scale), TINY)


@kernel
def transpose(rows, places, turned):
    """The rows of the reverse direction, from ``rows`` = (offsets, columns, values) sorted by column.

    Args:
        places: int64 (V_tgt,), where each column's values go; overwritten.
        turned: (columns int32 (K,), values float32 (K,)), filled.
    """
    offsets, columns, values = rows
    turned_columns, turned_values = turned
    for i in range(len(offsets) - 1):
        for k in range(offsets[i], offsets[i + 1]):
            place = places[columns[k]]
            places[columns[k]] = place + 1
            turned_columns[place] = i
            turned_values[place] = values[k]
