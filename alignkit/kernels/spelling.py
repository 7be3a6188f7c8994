"""The similarity of word pairs by their letters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel

# Letters beyond this are not compared: the sets of positions are bits of one integer.
LONGEST = 64
# Shorter words are alike by chance, unless they are identical.
SHORTEST = 3


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
def similarities(low, high, offsets, columns, source, target, masks, found):
    """The similarity of every pair of source words low <= i < high with the target words of their rows.

    Args:
        offsets: int64 (V_src + 1,), columns: int32 (K,), the word pairs by source word.
        source, target: :class:`Letters`.
        masks: uint64 (A,), zeros, one for each letter of the alphabet; left so.
        found: float32, filled, for the pairs from offsets[low] on.
    """
    ids, word_starts = source
    target_ids, target_starts = target
    first = offsets[low]
    for i in range(low, high):
        word = ids[word_starts[i] : min(word_starts[i + 1], word_starts[i] + LONGEST)]
        for j in range(len(word)):
            masks[word[j]] |= np.uint64(1) << np.uint64(j)
        for k in range(offsets[i], offsets[i + 1]):
            o = columns[k]
            other = target_ids[target_starts[o] : min(target_starts[o + 1], target_starts[o] + LONGEST)]
            found[k - first] = similarity(len(word), other, masks)
        for j in range(len(word)):
            masks[word[j]] = np.uint64(0)


@kernel
def matrix_similarities(low, high, text, source, target, masks, matrices):
    """The similarity of the words of every element of pairs low <= m < high that has a value below 0.

    Args:
        text: (source tokens int32, offsets int64 (M + 1,), and the same of the target), a bitext.
        source, target, masks: as of :func:`similarities`.
        matrices: (values float32, offsets int64 (M + 1,)), the (T, L) matrices row by row.
    """
    x_tokens, x_offsets, y_tokens, y_offsets = text
    values, starts = matrices
    ids, word_starts = source
    target_ids, target_starts = target
    for m in range(low, high):
        L = x_offsets[m + 1] - x_offsets[m]
        for s in range(x_offsets[m], x_offsets[m + 1]):
            i = x_tokens[s]
            word = ids[word_starts[i] : min(word_starts[i + 1], word_starts[i] + LONGEST)]
            for j in range(len(word)):
                masks[word[j]] |= np.uint64(1) << np.uint64(j)
            place = starts[m] + s - x_offsets[m]
            for t in range(y_offsets[m], y_offsets[m + 1]):
                if values[place] < 0:
                    o = y_tokens[t]
                    other = target_ids[target_starts[o] : min(target_starts[o + 1], target_starts[o] + LONGEST)]
                    values[place] = similarity(len(word), other, masks)
                place += L
            for j in range(len(word)):
                masks[word[j]] = np.uint64(0)
