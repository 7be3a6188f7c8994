"""Words as runs of bytes, numbered in order of first appearance, in a vocabulary that grows."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.text import hash_bytes


@kernel
def rehash(letters, offsets, count, table):
    """Fills a new, larger ``table`` (all -1) with the first ``count`` words of (letters, offsets)."""
    mask = np.uint64(len(table) - 1)
    for known in range(count):
        slot = hash_bytes(letters, offsets[known], offsets[known + 1]) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = known


@kernel
def intern(text, bounds, letters, offsets, count, table, ids):
    """ids[v] = the number of each word of (text, bounds) in (letters, offsets), where new ones are put at the end.

    Args:
        text: uint8, words one after another; bounds: int64 (V + 1,), where each starts.
        letters: uint8, with room for all of ``text`` after the first offsets[count] bytes.
        offsets: int64, with room for V more.
        count: how many words are known.
        table: int32 (power of two,), open addressing, -1 where free; at least twice as long as count + V.
        ids: int32 (V,), filled.

    Returns:
        how many words are known now.
    """
    mask = np.uint64(len(table) - 1)
    for v in range(len(bounds) - 1):
        start, length = bounds[v], bounds[v + 1] - bounds[v]
        slot = hash_bytes(text, start, start + length) & mask
        while True:
            known = table[slot]
            if known < 0:
                place = offsets[count]
                for i in range(length):
                    letters[place + i] = text[start + i]
                offsets[count + 1] = place + length
                table[slot] = count
                known = count
                count += 1
                break
            place = offsets[known]
            same = offsets[known + 1] - place == length
            i = 0
            while same and i < length:
                same = letters[place + i] == text[start + i]
                i += 1
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        ids[v] = known
    return count
