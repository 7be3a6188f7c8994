"""Kernels of the diagonal-favouring model of Dyer, Chahuneau and Smith (2013).

Target position t of T prefers source position l of L (both from 1) with the weight exp(-tension |t/T - l/L|).
For t/T <= l/L that is exp(-tension l/L) exp(tension t/T), otherwise the inverse: a product of two numbers from
tables, so that a sweep costs hardly more than that of IBM Model 1 and calls no exponential.

Named tuples as in :mod:`.inverted_index`, but token by token: ``index`` has the position of each occurrence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.inverted_index import ID, PLACE, first_not_below, look_ahead
from alignkit.kernels.translation_table import UNSEEN

_HALF = np.uint64(32)


class TargetTokens(NamedTuple):
    """The target tokens int32 (N_tgt,), their offsets int64 (M + 1,), and the source lengths int64 (M,)."""

    tokens: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray


class Exponentials(NamedTuple):
    """exp(tension j/n), j = 1..n, of the lengths n that occur, and their inverses.

    starts: int64 (longest + 1,), where each length's numbers start. rise, fall: float32.
    """

    starts: np.ndarray
    rise: np.ndarray
    fall: np.ndarray


class Shapes(NamedTuple):
    """The S different (T, L): lengths int64 (S, 2), starts int64 (S + 1,) of each one's T target positions."""

    lengths: np.ndarray
    starts: np.ndarray


class PositionTotals(NamedTuple):
    """The sums of the weights of all source positions.

    starts: int64 (M,), where each pair's target positions start in ``totals``; -1 for a pair with an empty side.
    totals: float64, a number for each target position of each shape.
    """

    starts: np.ndarray
    totals: np.ndarray


class NullRow(NamedTuple):
    """Trans(o|NULL) float32 (V_tgt,) and p0. With unknown words (V_tgt + 1,), 0 for them."""

    values: np.ndarray
    probability: float


class Weights(NamedTuple):
    """float32 (N_tgt,) each: what values of each target token are multiplied by to be posteriors, and NULL's.

    On the way to them, sums over source positions of weight times value, and of the same times the distance.
    """

    pairs: np.ndarray
    null: np.ndarray


@kernel
def fill_exponentials(lengths, tension, exponentials):
    """Fills rise and fall of Exponentials for the ``lengths`` int64 (n,)."""
    starts, rise, fall = exponentials
    for n in lengths:
        for j in range(n):
            rise[starts[n] + j] = math.exp(tension * (j + 1) / n)
            fall[starts[n] + j] = math.exp(-tension * (j + 1) / n)


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
    """The sum of the weights of all source positions, and their mean distance, by shape and target position.

    shapes: Shapes. totals, distances: float64, filled; a number for each target position of each shape.
    """
    lengths, starts = shapes
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
            totals[starts[shape] + t - 1] = total
            distances[starts[shape] + t - 1] = moment / total


@kernel
def diagonal_posterior_weights(low, high, index, rows, text, exponentials, positions, null, weights, sums, dense):
    """What values are multiplied by to be posteriors, and the log-likelihood: sentences low <= m < high.

    A token y has the probability p = p0 null[y] + (1 - p0) z / total, where z is the sum over l of the weight of l
    times value[x_l, y]. They are multiplied by (1 - p0) / (total p), NULL's value by p0 / p.

    Args:
        rows: TableRows with every pair of the text.
        text: TargetTokens.
        positions: PositionTotals.
        null: NullRow.
        weights: Weights, filled.
        sums: float64 (M, 2), filled with log-likelihood and with the posterior distance |(t-1)/T - l/L|, summed
            over tokens.
        dense: float32 (V_tgt,), work space.
    """
    starts, sentences, source_positions = index
    row_offsets, columns, values = rows
    words, offsets, lengths = text
    first, rise, fall = exponentials
    shape_of, totals = positions
    null_values, null_probability = null
    z, moments = weights
    for k in range(offsets[low], offsets[high]):
        z[k], moments[k] = 0.0, 0.0
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
            sentence, s = sentences[j], source_positions[j] + 1
            T, L = offsets[sentence + 1] - offsets[sentence], lengths[sentence]
            start, table = PLACE(offsets[sentence]), PLACE(first[T])
            ratio, step = np.float32(s / L), np.float32(1.0 / T)
            split = s * T // L  # target positions with t/T <= l/L
            here = fall[first[L] + s - 1]
            for t in range(PLACE(split)):
                value = here * rise[table + t] * dense[ID(words[start + t])]
                z[start + t] += value
                moments[start + t] += value * abs(ratio - np.float32(t) * step)
            here = rise[first[L] + s - 1]
            for t in range(PLACE(split), PLACE(T)):
                value = here * fall[table + t] * dense[ID(words[start + t])]
                z[start + t] += value
                moments[start + t] += value * abs(ratio - np.float32(t) * step)
    for m in range(low, high):
        likelihood, distance = 0.0, 0.0
        for k in range(offsets[m], offsets[m + 1]):
            if shape_of[m] < 0:
                continue
            share = (1.0 - null_probability) / totals[shape_of[m] + k - offsets[m]]
            probability = null_probability * null_values[words[k]] + share * z[k]
            likelihood += math.log(probability)
            distance += share * moments[k] / probability
            z[k] = share / probability
            moments[k] = null_probability / probability
        sums[m, 0] = likelihood
        sums[m, 1] = distance


@kernel
def diagonal_expected_counts(low, high, index, rows, text, exponentials, weights, sums):
    """values[i, o] *= sum over the occurrences of i and o together of their weight times ``weights`` of o's token.

    For rows low <= i < high of TableRows. With weights of :func:`diagonal_posterior_weights`, probabilities become
    expected counts. sums: float64 (V_tgt,), zeros, left so.
    """
    starts, sentences, positions = index
    row_offsets, columns, values = rows
    words, offsets, lengths = text
    first, rise, fall = exponentials
    for i in range(low, high):
        end = PLACE(starts[i + 1])
        for j in range(PLACE(starts[i]), end):
            look_ahead(j, end, sentences, offsets, words, weights)
            m, s = sentences[j], positions[j] + 1
            T, L = offsets[m + 1] - offsets[m], lengths[m]
            start, table = PLACE(offsets[m]), PLACE(first[T])
            split = s * T // L
            here = fall[first[L] + s - 1]
            for t in range(PLACE(split)):
                sums[ID(words[start + t])] += here * rise[table + t] * weights[start + t]
            here = rise[first[L] + s - 1]
            for t in range(PLACE(split), PLACE(T)):
                sums[ID(words[start + t])] += here * fall[table + t] * weights[start + t]
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            values[k] *= sums[ID(columns[k])]
            sums[ID(columns[k])] = 0.0


@kernel
def best_diagonal_sources(low, high, index, rows, text, exponentials, positions, null, keys, dense):
    """The key of the best of all source positions and NULL, for each target token of sentences low <= m < high.

    Args:
        rows: RowSpans, a row for each word of the index.
        positions: PositionTotals.
        null: NullRow.
        keys: uint64 (N_tgt,), filled; see :func:`.translation_table.best_sources`.
        dense: float32 (V_tgt + 1,), zeros, left so; an unknown target word has id V_tgt.
    """
    starts, sentences, source_positions = index
    row_starts, row_ends, columns, values = rows
    words, offsets, lengths = text
    first, rise, fall = exponentials
    shape_of, totals = positions
    null_values, null_probability = null
    for m in range(low, high):
        for k in range(offsets[m], offsets[m + 1]):
            keys[k] = 0
            if shape_of[m] >= 0:
                odds = null_probability / (1.0 - null_probability) * totals[shape_of[m] + k - offsets[m]]
                keys[k] = np.uint64(np.float32(odds * null_values[words[k]]).view(np.uint32)) << _HALF
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
            sentence, s = sentences[j], source_positions[j] + 1
            T, L = offsets[sentence + 1] - offsets[sentence], lengths[sentence]
            start, table, split = PLACE(offsets[sentence]), PLACE(first[T]), PLACE(s * T // L)
            position = np.uint64(~np.uint32(source_positions[j]))
            below, above = fall[first[L] + s - 1], rise[first[L] + s - 1]
            for t in range(PLACE(T)):
                weight = below * rise[table + t] if t < split else above * fall[table + t]
                value = np.float32(weight * dense[ID(words[start + t])])
                keys[start + t] = max(keys[start + t], np.uint64(value.view(np.uint32)) << _HALF | position)
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0.0


@kernel
def diagonal_posteriors(low, high, text, exponentials, positions, null, matrices, log_probabilities):
    """Lexical scores to posteriors, in place, for sentences low <= m < high.

    Args:
        positions: PositionTotals.
        null: NullRow.
        matrices: Matrices of lexical scores. A row without evidence gets the prior of its positions.
        log_probabilities: float64 (M,), filled with log p(target | source), no token's probability below UNSEEN.
    """
    words, offsets, lengths = text
    first, rise, fall = exponentials
    shape_of, sums = positions
    null_values, null_probability = null
    scores, score_offsets = matrices
    for m in range(low, high):
        T, L = offsets[m + 1] - offsets[m], lengths[m]
        place, total = score_offsets[m], 0.0
        for t in range(T):
            by_null = null_probability * null_values[words[offsets[m] + t]]
            if L == 0:  # then all comes from NULL
                total += math.log(max(by_null / null_probability if null_probability > 0 else 0.0, UNSEEN))
                continue
            share = (1.0 - null_probability) / sums[shape_of[m] + t]
            up, down = rise[first[T] + t], fall[first[T] + t]
            probability = float(by_null)
            for pass_ in range(2):
                for s in range(L):
                    weight = up * fall[first[L] + s] if (t + 1) * L <= (s + 1) * T else down * rise[first[L] + s]
                    if pass_ == 0:
                        probability += share * weight * scores[place + s]
                    elif probability > 0.0:
                        scores[place + s] *= share * weight / probability
                    else:
                        scores[place + s] = share * weight
            total += math.log(max(probability, UNSEEN))
            place += L
        log_probabilities[m] = total
