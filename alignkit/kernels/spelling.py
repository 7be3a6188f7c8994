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
def similarities(low, high, offsets, columns, source, target, masks, found):
    """The similarity of every pair of source words low <= i < high with the target words of their rows.

    That is the length of their longest common subsequence, divided by that of the longer word; 0 for words that
    differ if one of them has fewer than three letters. Of longer words only the first 64 letters count.

    Args:
        offsets: int64 (V_src + 1,), columns: int32 (K,), the word pairs by source word.
        source, target: :class:`Letters`.
        masks: uint64 (A,), zeros, one for each letter of the alphabet; left so.
        found: float32, filled, for the pairs from offsets[low] on.
    """
    ids, starts = source
    target_ids, target_starts = target
    first = offsets[low]
    for i in range(low, high):
        word = ids[starts[i] : min(starts[i + 1], starts[i] + LONGEST)]
        for j in range(len(word)):
            masks[word[j]] |= np.uint64(1) << np.uint64(j)
        for k in range(offsets[i], offsets[i + 1]):
            o = columns[k]
            other = target_ids[target_starts[o] : min(target_starts[o + 1], target_starts[o] + LONGEST)]
            shorter, longer = min(len(word), len(other)), max(len(word), len(other))
            value = np.float32(0)
            if shorter == longer or shorter >= SHORTEST:
                common = common_subsequence(other, masks)
                if common == longer or shorter >= SHORTEST:
                    value = np.float32(common / max(longer, 1))
            found[k - first] = value
        for j in range(len(word)):
            masks[word[j]] = np.uint64(0)
