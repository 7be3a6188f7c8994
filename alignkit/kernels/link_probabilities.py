"""Probabilities of links from the posteriors of both directions, and from the links beside them; links between
units, which are parts of words or several words, as links between words, and the reverse.

The posteriors f and r of a link are put together as a logarithmic opinion pool (Genest and Zidek 1986, section
3.3): the mean of their log-odds, weighted by what each direction explains. A matrix of such log-odds l becomes one
of probabilities q by

    logit q = INTERCEPT + SLOPE l + SAME_WORD s - SAME_STEP d - FLATTER min(l - UNLIKELY, 0)

and q = 0 where neither direction sees a link. n = 1 / (1 + exp(-l)) is what an element has without its neighbours,
0 where neither direction sees a link.

- s, for links of one word to two neighbouring ones: the direction in which the two words are states lets the one
  choose between them, so that the second has too little. For a neighbour in the same column (the same source word,
  and the target word before or after) it is n of the neighbour times 1 - o, where o is the largest n that the
  element's own target word has elsewhere, times the cohesion of the two neighbours
  (:mod:`alignkit.classical.hmm.link_probabilities`); likewise in the same row; and s is the largest of the four.
- d is the sum of n of (t - 1, j - 1) and (t + 1, j + 1): both directions have counted these already, as jumps
  of 1.

The weights were chosen on gold links: the proportions of SLOPE, SAME_WORD and SAME_STEP and the intercept for the
best links of probability 0.5 and more, the scale of all and FLATTER so that as many links are right as q says.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.hmm_rows import ONE, ZERO, padded

#: Posteriors are taken to lie in [LEAST, 1 - LEAST].
LEAST = np.float32(0.003)
#: The log-odds of LEAST: neither direction sees a link. Averages over views may be larger by rounding.
NO_LINK = np.float32(math.log(float(LEAST) / (1 - float(LEAST))))
HARDLY = NO_LINK + np.float32(1e-3)
INTERCEPT = np.float32(-0.1)
SLOPE = np.float32(0.66)
SAME_WORD = np.float32(2.2)
SAME_STEP = np.float32(0.66)
#: Below these log-odds the slope is smaller: people make links that a model finds most unlikely.
UNLIKELY, FLATTER = np.float32(-3), np.float32(0.4)


@kernel
def log_odds_of(probability):
    """log(p / (1 - p)) of a probability, moved into [LEAST, 1 - LEAST]."""
    if probability <= LEAST:
        return NO_LINK
    if probability >= ONE - LEAST:
        return -NO_LINK
    return np.float32(math.log(probability / (ONE - probability)))


@kernel
def chance_of(log_odds):
    """1 / (1 + exp(-l)) of log-odds; 0 if neither direction sees a link."""
    if log_odds <= HARDLY:
        return ZERO
    return np.float32(ONE / (ONE + math.exp(-log_odds)))


@kernel
def pool_links(T, L, forward_e, reverse_e, pool, links):
    """links = the weighted mean of both directions' posteriors of one sentence pair, or of their log-odds.

    Args:
        forward_e, reverse_e: their posteriors, in padded rows, the reverse one's transposed.
        pool: :class:`.hmm_e_step.OpinionPool`, whose weights sum to 1.
        links: float32 (T * L,), overwritten.
    """
    forward_share, reverse_share = np.float32(pool.forward), np.float32(pool.reverse)
    wide, high = padded(L), padded(T)
    for t in range(T):
        row, pooled = forward_e[t * wide : (t + 1) * wide], links[t * L : (t + 1) * L]
        for j in range(L):
            forward, reverse = row[j], reverse_e[j * high + t]
            if not pool.is_logarithmic:  # a direction of weight 0 was not run and has no posteriors
                by_forward = forward_share * forward if forward_share > 0 else ZERO
                pooled[j] = by_forward + (reverse_share * reverse if reverse_share > 0 else ZERO)
            elif forward <= LEAST and reverse <= LEAST:
                pooled[j] = NO_LINK
            else:
                pooled[j] = forward_share * log_odds_of(forward) + reverse_share * log_odds_of(reverse)


class JudgeSpace(NamedTuple):
    """Work space for matrices of at most some size."""

    near: np.ndarray  # float32 ((T + 2) * (L + 2),), probabilities with a border of zeros
    rows: np.ndarray  # float32 (2, T), the two largest of each row
    columns: np.ndarray  # float32 (2, L)


@kernel
def fill_space(T, L, links, space):
    """Fills a :class:`JudgeSpace` from the log-odds float32 (T * L,) of one sentence pair."""
    near, rows, columns = space
    wide = L + 2
    for place in range(wide):
        near[place] = ZERO
        near[(T + 1) * wide + place] = ZERO
    for j in range(L):
        columns[0, j] = ZERO
        columns[1, j] = ZERO
    for t in range(T):
        here, first, second = (t + 1) * wide, ZERO, ZERO
        near[here] = ZERO
        near[here + L + 1] = ZERO
        for j in range(L):
            value = chance_of(links[t * L + j])
            near[here + j + 1] = value
            first, second = max(first, value), max(second, min(first, value))
            columns[1, j] = max(columns[1, j], min(columns[0, j], value))
            columns[0, j] = max(columns[0, j], value)
        rows[0, t] = first
        rows[1, t] = second


@kernel
def judge_matrix(T, L, source, target, links, space):
    """Log-odds (T, L) of one sentence pair become probabilities, by the formula above.

    Args:
        source, target: float32 (L + 1,) and (T + 1,), their cohesion.
        links: float32 (T * L,), overwritten.
        space: :class:`JudgeSpace`.
    """
    fill_space(T, L, links, space)
    near, rows, columns = space
    wide = L + 2
    for t in range(T):
        above, here, below = t * wide, (t + 1) * wide, (t + 2) * wide
        for j in range(L):
            own, log_odds = near[here + j + 1], links[t * L + j]
            if own == ZERO:
                links[t * L + j] = ZERO
                continue
            in_row = rows[1, t] if own == rows[0, t] else rows[0, t]
            in_column = columns[1, j] if own == columns[0, j] else columns[0, j]
            across = max(near[here + j] * source[j], near[here + j + 2] * source[j + 1])
            along = max(near[above + j + 1] * target[t], near[below + j + 1] * target[t + 1])
            same_word = max(across * (ONE - in_column), along * (ONE - in_row))
            same_step = near[above + j] + near[below + j + 2]
            whole = INTERCEPT + SLOPE * log_odds + SAME_WORD * same_word - SAME_STEP * same_step
            whole -= FLATTER * min(log_odds - UNLIKELY, ZERO)
            links[t * L + j] = np.float32(ONE / (ONE + math.exp(-whole)))


@allocating_kernel
def judge_matrices(low, high, source_offsets, target_offsets, offsets, cohesion, links):
    """The log-odds of pairs low <= m < high become probabilities.

    Args:
        source_offsets, target_offsets: int64 (M + 1,), where each sentence starts in its side of the text.
        offsets: int64 (M + 1,), where each matrix starts in ``links``.
        cohesion: float32 (sum of L + 1,) and (sum of T + 1,), of the words of all pairs; element n is for
            the words n - 1 and n.
        links: float32, overwritten.
    """
    height, width, size = 1, 1, 1
    for m in range(low, high):
        T, L = target_offsets[m + 1] - target_offsets[m], source_offsets[m + 1] - source_offsets[m]
        height, width, size = max(height, T), max(width, L), max(size, (T + 2) * (L + 2))
    rows, columns = np.empty((2, height), np.float32), np.empty((2, width), np.float32)
    space = JudgeSpace(np.empty(size, np.float32), rows, columns)
    for m in range(low, high):
        t, j = target_offsets[m], source_offsets[m]
        T, L = target_offsets[m + 1] - t, source_offsets[m + 1] - j
        source, target = cohesion[0][j : j + L + 1], cohesion[1][t : t + T + 1]
        judge_matrix(T, L, source, target, links[offsets[m] : offsets[m + 1]], space)


#: Kinds of words beside numbers and directions.
CONTENT, MARK = 100, 101
#: A word is attached if that is so many times as likely as its likeliest link, or more.
LIKELY = np.float32(0.8)


class Side(NamedTuple):
    """One side of some sentence pairs."""

    offsets: np.ndarray  # int64 (M + 1,)
    # int8 (N,), of each token: CONTENT, MARK (no word at all), or else its number among the frequent words
    # (:func:`count_shared`) or the direction, 1 or -1, in which its partners are looked for (:func:`attach`).
    kinds: np.ndarray


class LinkValues(NamedTuple):
    """The probabilities of links of some sentence pairs."""

    values: np.ndarray  # float32 (P,)
    offsets: np.ndarray  # int64 (M + 1,)
    threshold: float  # the least of a link


@kernel
def share_a_partner(values, first, second, step, count, threshold):
    """True if two words, whose elements begin at ``first`` and at ``second``, have a partner in common."""
    for k in range(count):
        if values[first + k * step] >= threshold and values[second + k * step] >= threshold:
            return True
    return False


@kernel
def count_shared(low, high, own, other, links, are_rows, counts):
    """Counts how often frequent words share a partner with the word after and the word before them.

    Args:
        own, other: :class:`Side`; are_rows: whether the words of ``own`` are those of the rows.
        links: :class:`LinkValues`.
        counts: int64 (2, K), added to: for each of K frequent words how often it was the word after, or before,
            which is itself a content word.
    """
    for m in range(low, high):
        start, size = own.offsets[m], own.offsets[m + 1] - own.offsets[m]
        others = other.offsets[m + 1] - other.offsets[m]
        row, step = (others, 1) if are_rows else (1, size)
        place = links.offsets[m]
        for k in range(size):
            kind = own.kinds[start + k]
            if kind >= CONTENT:
                continue
            for which in range(2):
                q = k + 1 - 2 * which
                if 0 <= q < size and own.kinds[start + q] == CONTENT:
                    counts[which, kind] += share_a_partner(
                        links.values, place + k * row, place + q * row, step, others, links.threshold
                    )


@kernel
def attach_side(m, own, other, are_rows, links, linked, floor):
    """Attaches the words of one side of a pair."""
    start, size = own.offsets[m], own.offsets[m + 1] - own.offsets[m]
    first, others = other.offsets[m], other.offsets[m + 1] - other.offsets[m]
    row, step = (others, 1) if are_rows else (1, size)
    place, values = links.offsets[m], links.values
    for k in range(size):
        direction = own.kinds[start + k]
        beside = k + direction
        if linked[k] or direction >= CONTENT or not 0 <= beside < size:
            continue
        if own.kinds[start + beside] == MARK:
            continue
        likeliest = ZERO
        for o in range(others):
            likeliest = max(likeliest, abs(values[place + k * row + o * step]))
        for o in range(others):
            here, partner = place + k * row + o * step, values[place + beside * row + o * step]
            is_word = other.kinds[first + o] != MARK
            is_likely = values[here] > ZERO and values[here] >= LIKELY * likeliest
            if partner >= links.threshold and is_word and is_likely:
                values[here] = -(floor + (ONE - floor) * values[here])


@allocating_kernel
def attach(low, high, rows, columns, links, floor):
    """Gives words without a link that of the word beside them, in pairs low <= m < high.

    A word that has a direction takes the partners of the word next to it there, if these are words, that are about
    as likely as its likeliest link.

    Args:
        rows, columns: :class:`Side`; links: :class:`LinkValues`, changed.
        floor: float32, f: such a link gets the probability f + (1 - f) p, and a negative sign: other words shall
            not be attached by it.
    """
    most = 1
    for m in range(low, high):
        most = max(most, rows.offsets[m + 1] - rows.offsets[m], columns.offsets[m + 1] - columns.offsets[m])
    linked = np.empty((2, most), np.bool_)
    for m in range(low, high):
        T, L = rows.offsets[m + 1] - rows.offsets[m], columns.offsets[m + 1] - columns.offsets[m]
        linked[0, :T] = False
        linked[1, :L] = False
        for t in range(T):
            for j in range(L):
                if links.values[links.offsets[m] + t * L + j] >= links.threshold:
                    linked[0, t] = linked[1, j] = True
        attach_side(m, rows, columns, True, links, linked[0], floor)
        attach_side(m, columns, rows, False, links, linked[1], floor)


class UnitCounts(NamedTuple):
    """One side of a text: the number of units of each word, or of words of each unit."""

    counts: np.ndarray  # int64 (N,), at least 1
    offsets: np.ndarray  # int64 (M + 1,), where each sentence starts in ``counts``


@kernel
def merge_values(low, high, source, target, parts, wholes, unknown):
    """Gives each pair of wholes, in pairs low <= m < high, the value that its pairs of parts make.

    If ``unknown`` is None, values are log-odds of links between the units of words, and the probability of a pair
    of words is the sum over the source word's units of the mean over the target word's, at most 1. Else they are
    levels uint8 of words, and a pair of units has the mean of the levels that are known, rounded, or ``unknown``.

    Args:
        source, target: :class:`UnitCounts`, of the parts of each whole.
        parts: (values, offsets int64 (M + 1,)), of the pairs of parts, row by row.
        wholes: the same of the pairs of wholes; filled.
    """
    values, starts = parts
    merged, whole_starts = wholes
    for m in range(low, high):
        first, last = source.offsets[m], source.offsets[m + 1]
        row, place, width = starts[m], whole_starts[m], 0
        for s in range(first, last):
            width += source.counts[s]
        for t in range(target.offsets[m], target.offsets[m + 1]):
            count, column = target.counts[t], row
            share = ONE / np.float32(count)
            for s in range(first, last):
                chance, level, known = ZERO, 0, 0
                for u in range(count):
                    for k in range(source.counts[s]):
                        value = values[column + u * width + k]
                        if unknown is None:
                            chance += chance_of(value)
                        elif value != unknown:
                            level += value
                            known += 1
                if unknown is None:
                    merged[place] = log_odds_of(chance * share)
                else:
                    merged[place] = (2 * level + known) // (2 * known) if known else unknown
                column += source.counts[s]
                place += 1
            row += count * width


@kernel
def spread_values(low, high, source, target, wholes, parts):
    """Gives each pair of parts, in pairs low <= m < high, the value of their wholes: to units those of the words
    that they are parts of, or to words those of the units that have several.

    Args:
        source, target: :class:`UnitCounts`, of the parts of each whole.
        wholes: (values, offsets int64 (M + 1,)), of the pairs of wholes, row by row.
        parts: the same of the pairs of parts; filled.
    """
    values, whole_starts = wholes
    of_parts, starts = parts
    for m in range(low, high):
        first, last = source.offsets[m], source.offsets[m + 1]
        here, place = whole_starts[m], starts[m]
        for t in range(target.offsets[m], target.offsets[m + 1]):
            for _ in range(target.counts[t]):
                for s in range(first, last):
                    for _ in range(source.counts[s]):
                        of_parts[place] = values[here + s - first]
                        place += 1
            here += last - first
