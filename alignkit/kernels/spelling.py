"""Word pairs compared by their letters: longest common subsequences, and edits as of transliterations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel

# Letters beyond this are not compared: the sets of positions are bits of one integer.
LONGEST = 64
# Shorter words are alike by chance, unless they are identical.
SHORTEST = 3
#: Words of a lower similarity than this say nothing: so much any two words have in common by chance.
ALIKE, SPAN = np.float32(0.6), np.float32(1 - 0.6)
#: Shorter words are alike by chance; words that are seen more often need no help, nor do those of which one is
#: seen this many times as often as the other.
SHORTEST_WORD, RARE, IMBALANCE = 3, 10, 16
#: The logarithm of how much likelier than chance a transliteration must be: at least this, and 1 for each letter
#: of the longer word. Then it counts half as much as an identical word.
LEAST_RATIO = 8.0
#: Pairs about which this or less is known get nothing.
UNSURE = 0.05


class Letters(NamedTuple):
    """The letters of V words."""

    ids: np.ndarray  # int32, of an alphabet that both sides of a text share
    offsets: np.ndarray  # int64 (V + 1,), where each word starts


@kernel
def common_subsequence(word, masks):
    """The length of the longest common subsequence of two words (Hyyro 2004, algorithm by Crochemore et al. 2001).

    Args:
        word: int32, letters of the second word.
        masks: uint64 (A,), for each letter the positions in the first word that have it, as bits.
    """
    unmatched = ~np.uint64(0)
    for k in range(len(word)):
        matches = unmatched & masks[word[k]]
        unmatched = (unmatched + matches) | (unmatched - matches)
    length = 0
    matched = ~unmatched
    while matched:
        matched &= matched - np.uint64(1)
        length += 1
    return length


@kernel
def similarity(length, other, masks):
    """The length of the longest common subsequence of two words, divided by that of the longer word; 0 for words
    that differ if one of them has fewer than three letters.

    Args:
        length: letters of the first word, at most 64; other: int32, letters of the second, likewise.
        masks: of the first word, see :func:`common_subsequence`.
    """
    shorter, longer = min(length, len(other)), max(length, len(other))
    if shorter < longer and shorter < SHORTEST:
        return np.float32(0)
    common = common_subsequence(other, masks)
    if common < longer and shorter < SHORTEST:
        return np.float32(0)
    return np.float32(common / max(longer, 1))


@kernel
def similarities(low, high, offsets, columns, source, target, masks, values):
    """The similarity of every pair of source words low <= i < high with the target words of their rows.

    Args:
        offsets: int64 (V_src + 1,), columns: int32 (K,), the word pairs by source word.
        source, target: :class:`Letters`.
        masks: uint64 (A,), zeros, one for each letter of the alphabet; left so.
        values: float32 (K,), filled.
    """
    ids, word_starts = source
    target_ids, target_starts = target
    for i in range(low, high):
        word = ids[word_starts[i] : min(word_starts[i + 1], word_starts[i] + LONGEST)]
        for j in range(len(word)):
            masks[word[j]] |= np.uint64(1) << np.uint64(j)
        for k in range(offsets[i], offsets[i + 1]):
            o = columns[k]
            other = target_ids[target_starts[o] : min(target_starts[o + 1], target_starts[o] + LONGEST)]
            values[k] = similarity(len(word), other, masks)
        for j in range(len(word)):
            masks[word[j]] = np.uint64(0)


#: Longer words are left out.
LONGEST_WORD = 32
#: Word pairs of a smaller probability, such as long words of rare letters, teach nothing: it may be rounded to 0.
LEAST_LIKELIHOOD = 1e-290


class SpelledWords(NamedTuple):
    """The words of both sides of a text."""

    source: Letters
    target: Letters
    chances: np.ndarray  # float64 (2, A), of a letter of an independent word of either side


class Edits(NamedTuple):
    """Probabilities or expected counts of edits; A letters of an alphabet that both languages share."""

    substituted: np.ndarray  # float64 (A, A), of a letter of the first word by one of the second
    deleted: np.ndarray  # float64 (A,), letters of the first word
    inserted: np.ndarray  # float64 (A,), letters of the second


@kernel
def forward_sums(x, y, edits, sums):
    """Fills sums[i, j] with the probability of the first i letters of ``x`` and the first j of ``y``, summed over
    all sequences of edits; returns that of both words.

    Args:
        x, y: int32, letters; edits: :class:`Edits`.
        sums: float64, larger than both words.
    """
    substituted, deleted, inserted = edits
    sums[0, 0] = 1.0
    for j in range(len(y)):
        sums[0, j + 1] = sums[0, j] * inserted[y[j]]
    for i in range(len(x)):
        a = x[i]
        sums[i + 1, 0] = sums[i, 0] * deleted[a]
        for j in range(len(y)):
            b = y[j]
            sums[i + 1, j + 1] = (
                sums[i, j] * substituted[a, b] + sums[i, j + 1] * deleted[a] + sums[i + 1, j] * inserted[b]
            )
    return sums[len(x), len(y)]


@kernel
def backward_sums(x, y, edits, sums):
    """Fills sums[i, j] with the probability of the letters of ``x`` from i on and of ``y`` from j on."""
    substituted, deleted, inserted = edits
    n, m = len(x), len(y)
    sums[n, m] = 1.0
    for j in range(m - 1, -1, -1):
        sums[n, j] = sums[n, j + 1] * inserted[y[j]]
    for i in range(n - 1, -1, -1):
        a = x[i]
        sums[i, m] = sums[i + 1, m] * deleted[a]
        for j in range(m - 1, -1, -1):
            b = y[j]
            sums[i, j] = (
                sums[i + 1, j + 1] * substituted[a, b] + sums[i + 1, j] * deleted[a] + sums[i, j + 1] * inserted[b]
            )


@kernel
def expected_edits(pairs, words, share, edits, tables, counts):
    """Adds the expected edits of word pairs, each a transliteration or else two independent words, to ``counts``.

    Args:
        pairs: int64 (N, 2), words; of at least one letter and at most ``LONGEST_WORD``.
        words: :class:`SpelledWords`.
        share: probability that a pair is a transliteration.
        edits: :class:`Edits`, probabilities.
        tables: float64 (2, W, W), W > LONGEST_WORD; overwritten.
        counts: :class:`Edits`.

    Returns:
        the expected number of transliterations.
    """
    source, target, chances = words
    substituted, deleted, inserted = edits
    total = 0.0
    for p in range(len(pairs)):
        i, o = pairs[p, 0], pairs[p, 1]
        x = source.ids[source.offsets[i] : source.offsets[i + 1]]
        y = target.ids[target.offsets[o] : target.offsets[o + 1]]
        likelihood = forward_sums(x, y, edits, tables[0])
        if likelihood < LEAST_LIKELIHOOD:
            continue
        independent = 1.0
        for a in x:
            independent *= chances[0, a]
        for b in y:
            independent *= chances[1, b]
        posterior = share * likelihood / (share * likelihood + (1 - share) * independent)
        total += posterior
        backward_sums(x, y, edits, tables[1])
        scale = posterior / likelihood
        before, after = tables[0], tables[1]
        for j in range(len(x) + 1):
            for k in range(len(y) + 1):
                reached = scale * before[j, k]
                if j < len(x) and k < len(y):
                    a, b = x[j], y[k]
                    counts.substituted[a, b] += reached * substituted[a, b] * after[j + 1, k + 1]
                if j < len(x):
                    counts.deleted[x[j]] += reached * deleted[x[j]] * after[j + 1, k]
                if k < len(y):
                    counts.inserted[y[k]] += reached * inserted[y[k]] * after[j, k + 1]
    return total


@kernel
def log_ratio(x, y, chances, edits, table):
    """The logarithm of how much likelier two words, int32 letters, are as a transliteration than as independent.

    Args:
        chances: of :class:`SpelledWords`; edits: :class:`Edits`; table: float64 (W, W), overwritten.
    """
    value = math.log(forward_sums(x, y, edits, table))
    for a in x:
        value -= math.log(chances[0, a])
    for b in y:
        value -= math.log(chances[1, b])
    return value


@kernel
def log_ratios(low, high, pairs, words, edits, table, ratios):
    """How much likelier pairs low <= p < high are as transliterations than as independent words, as logarithms.

    Args:
        pairs, words, edits: as of :func:`expected_edits`.
        table: float64 (W, W), overwritten.
        ratios: float64 (N,), filled.
    """
    source, target, chances = words
    for p in range(low, high):
        i, o = pairs[p, 0], pairs[p, 1]
        x = source.ids[source.offsets[i] : source.offsets[i + 1]]
        y = target.ids[target.offsets[o] : target.offsets[o + 1]]
        ratios[p] = log_ratio(x, y, chances, edits, table)
