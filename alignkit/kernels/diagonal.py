"""Kernels of the diagonal-favouring model of Dyer, Chahuneau and Smith (2013).

Target position t of T prefers source position l of L (both from 1) with the weight exp(-tension |t/T - l/L|).
For t/T <= l/L that is exp(-tension l/L) exp(tension t/T), and the other way round beyond: products of two numbers
out of tables, so that a sweep costs hardly more than IBM Model 1's and calls no exponential.

``index``, ``rows`` and ``target`` are as in :mod:`.inverted_index`, but token by token: the index has an
occurrence's position int32 where the count would be, target = (tokens int32 (N_tgt,), offsets int64 (M + 1,)).
Further tuples:
    tables = (places int64 (longest + 1,), rise float32, fall float32): of a length n, rise[places[n] + j - 1] =
        exp(tension j/n) and fall its inverse, j = 1..n;
    shapes = (lengths int64 (S, 2), places int64 (S + 1,)): the S different (T, L), and where each one's T rows
        start in arrays with a number for each of its target positions.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.inverted_index import ID, PLACE, first_not_below, look_ahead

_HALF = np.uint64(32)


@kernel
def fill_tables(lengths, places, tension, rise, fall):
    """The tables of the ``lengths`` int64 (n,), at ``places``; rise and fall float32."""
    for n in lengths:
        for j in range(n):
            rise[places[n] + j] = math.exp(tension * (j + 1) / n)
            fall[places[n] + j] = math.exp(-tension * (j + 1) / n)


@kernel
def side_of_series(distance, count, length, tension):
    """(sum of e^(-tension d), sum of d e^(-tension d)) over d = distance + k / length, k = 0..count-1.

    Closed forms of the geometric and the arithmetico-geometric series; length * tension must be positive.
    """
    rest = -math.expm1(-tension / length)
    power = math.exp(-tension * count / length)
    sums = -math.expm1(-tension * count / length) / rest
    steps = ((1.0 - rest) * sums - count * power) / rest
    first = math.exp(-tension * distance)
    return first * sums, first * (distance * sums + steps / length)


@kernel
def normalisers(shapes, tension, totals, distances):
    """For each shape and target position the sum of the weights of all source positions, and their mean distance.

    totals, distances: float64, filled; a number for each target position of each shape.
    """
    lengths, places = shapes
    for shape in range(len(lengths)):
        T, L = lengths[shape, 0], lengths[shape, 1]
        for t in range(1, T + 1):
            left = t * L // T  # source positions with l/L <= t/T
            ratio = t / T
            total, moment = 0.0, 0.0
            if left > 0:
                total, moment = side_of_series(ratio - left / L, left, L, tension)
            if left < L:
                more, further = side_of_series((left + 1) / L - ratio, L - left, L, tension)
                total += more
                moment += further
            totals[places[shape] + t - 1] = total
            distances[places[shape] + t - 1] = moment / total


@kernel
def add_denominators(low, high, index, rows, target, lengths, tables, dense, z, moments):
    """z[k] += sum over l of weight * value[x_l, y_k], moments[k] the same times |(t-1)/T - l/L|, low <= m < high.

    ``lengths`` int64 (M,) of the source; ``dense`` float32 (V_tgt,) is work space. Weights are not normalised.
    """
    starts, sentences, positions = index
    row_offsets, columns, values = rows
    words, offsets = target
    places, rise, fall = tables
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
            m, s = sentences[j], positions[j] + 1
            T, L = offsets[m + 1] - offsets[m], lengths[m]
            start, table = PLACE(offsets[m]), PLACE(places[T])
            ratio, step = np.float32(s / L), np.float32(1.0 / T)
            split = s * T // L  # target positions with t/T <= l/L
            here = fall[places[L] + s - 1]
            for t in range(PLACE(split)):
                value = here * rise[table + t] * dense[ID(words[start + t])]
                z[start + t] += value
                moments[start + t] += value * abs(ratio - np.float32(t) * step)
            here = rise[places[L] + s - 1]
            for t in range(PLACE(split), PLACE(T)):
                value = here * fall[table + t] * dense[ID(words[start + t])]
                z[start + t] += value
                moments[start + t] += value * abs(ratio - np.float32(t) * step)


@kernel
def weigh(low, high, target, place_of, totals, null, null_probability, z, moments, sums):
    """Denominators to weights, for sentences low <= m < high.

    With p = p0 null[y] + (1 - p0) z / total, the probability of a token: z becomes (1 - p0) / (total p), what a
    pair's weight and value are multiplied by to be its posterior, and moments becomes p0 / p, the same for NULL.

    Args:
        place_of: int64 (M,), where the sentence's shape has its rows in ``totals``; -1 for a blank source.
        sums: float64 (M, 2), filled with log-likelihood and with the posterior distance, summed over tokens.
    """
    words, offsets = target
    for m in range(low, high):
        likelihood, distance = 0.0, 0.0
        for k in range(offsets[m], offsets[m + 1]):
            if place_of[m] < 0:
                z[k], moments[k] = 0.0, 0.0
                continue
            share = (1.0 - null_probability) / totals[place_of[m] + k - offsets[m]]
            probability = null_probability * null[words[k]] + share * z[k]
            likelihood += math.log(probability)
            distance += share * moments[k] / probability
            z[k] = share / probability
            moments[k] = null_probability / probability
        sums[m, 0] = likelihood
        sums[m, 1] = distance


@kernel
def add_weights(low, high, index, rows, target, lengths, tables, weights, sums):
    """values[i, o] *= sum over the occurrences of i and o together of their weight times ``weights`` of o's token.

    For rows low <= i < high; not normalised. ``sums`` float64 (V_tgt,) starts as zeros and is left so.
    """
    starts, sentences, positions = index
    row_offsets, columns, values = rows
    words, offsets = target
    places, rise, fall = tables
    for i in range(low, high):
        end = PLACE(starts[i + 1])
        for j in range(PLACE(starts[i]), end):
            look_ahead(j, end, sentences, offsets, words, weights)
            m, s = sentences[j], positions[j] + 1
            T, L = offsets[m + 1] - offsets[m], lengths[m]
            start, table = PLACE(offsets[m]), PLACE(places[T])
            split = s * T // L
            here = fall[places[L] + s - 1]
            for t in range(PLACE(split)):
                sums[ID(words[start + t])] += here * rise[table + t] * weights[start + t]
            here = rise[places[L] + s - 1]
            for t in range(PLACE(split), PLACE(T)):
                sums[ID(words[start + t])] += here * fall[table + t] * weights[start + t]
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            values[k] *= sums[ID(columns[k])]
            sums[ID(columns[k])] = 0.0


@kernel
def start_keys(low, high, target, place_of, totals, null_values, null_probability, keys):
    """NULL's keys (:func:`.translation_table.start_keys`) of the tokens of sentences low <= m < high,
    as weight times value.

    null_values: float32 (V_tgt + 1,), 0 for unknown words. The other arguments are as in :func:`weigh`.
    """
    words, offsets = target
    for m in range(low, high):
        for k in range(offsets[m], offsets[m + 1]):
            keys[k] = 0
            if place_of[m] >= 0:
                odds = null_probability / (1.0 - null_probability) * totals[place_of[m] + k - offsets[m]]
                keys[k] = np.uint64(np.float32(odds * null_values[words[k]]).view(np.uint32)) << _HALF


@kernel
def best_sources(low, high, index, rows, target, lengths, tables, dense, keys):
    """For each target token of sentences low <= m < high the largest key of all source positions and NULL.

    Args:
        rows: (starts int64, ends int64, columns, values), a row for each word of the index.
        dense: float32 (V_tgt + 1,), zeros, left so; an unknown target word has id V_tgt.
        keys: uint64 (N_tgt,), see :func:`start_keys`.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    words, offsets = target
    places, rise, fall = tables
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
            m, s = sentences[j], positions[j] + 1
            T, L = offsets[m + 1] - offsets[m], lengths[m]
            start, table, split = PLACE(offsets[m]), PLACE(places[T]), PLACE(s * T // L)
            position = np.uint64(~np.uint32(positions[j]))
            below, above = fall[places[L] + s - 1], rise[places[L] + s - 1]
            for t in range(PLACE(T)):
                weight = below * rise[table + t] if t < split else above * fall[table + t]
                value = np.float32(weight * dense[ID(words[start + t])])
                keys[start + t] = max(keys[start + t], np.uint64(value.view(np.uint32)) << _HALF | position)
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0.0


@kernel
def posteriors(low, high, target, lengths, tables, totals, null_values, null_probability, out, likelihood):
    """Lexical scores to posteriors, in place, for sentences low <= m < high.

    Args:
        totals: (place_of int64 (M,), totals float64), as in :func:`weigh`.
        null_values: float32 (V_tgt + 1,).
        out: (values float32, offsets int64 (M + 1,)), the (T, L) matrices. A row without evidence gets its prior.
        likelihood: (per sentence float64 (M,), floor): filled with log p(target | source), no token's probability
            below ``floor``.
    """
    words, offsets = target
    places, rise, fall = tables
    place_of, sums = totals
    scores, score_offsets = out
    for m in range(low, high):
        T, L = offsets[m + 1] - offsets[m], lengths[m]
        place, total = score_offsets[m], 0.0
        for t in range(T):
            null = null_probability * null_values[words[offsets[m] + t]]
            if L == 0:  # then all comes from NULL
                total += math.log(max(null / null_probability if null_probability > 0 else 0.0, likelihood[1]))
                continue
            share = (1.0 - null_probability) / sums[place_of[m] + t]
            up, down = rise[places[T] + t], fall[places[T] + t]
            probability = float(null)
            for pass_ in range(2):
                for s in range(L):
                    weight = up * fall[places[L] + s] if (t + 1) * L <= (s + 1) * T else down * rise[places[L] + s]
                    if pass_ == 0:
                        probability += share * weight * scores[place + s]
                    elif probability > 0.0:
                        scores[place + s] *= share * weight / probability
                    else:
                        scores[place + s] = share * weight
            total += math.log(max(probability, likelihood[1]))
            place += L
        likelihood[0][m] = total
