"""Kernels of estimation in blocks of sentences: what one block adds to the rows of the whole text.

Named tuples as in :mod:`.inverted_index`; ``index`` and ``target`` are those of the block. Blocks come in text
order, and every sum continues from where the block before left it: the same sequence of additions, with the same
bits, as over the whole text at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.inverted_index import ID, ONE, PLACE, look_ahead, sort_ids

_HALF = np.uint64(32)


class RowColumns(NamedTuple):
    """The word pairs of a table without their values: offsets int64 (V_src + 1,), columns int32 (K,)."""

    offsets: np.ndarray
    columns: np.ndarray


class Words(NamedTuple):
    """One side of a text for :func:`sketch_pairs`.

    words: int32, of bags or tokens. offsets: int64 (M + 1,). seeds: uint64 (V,), random numbers for the words.
    """

    words: np.ndarray
    offsets: np.ndarray
    seeds: np.ndarray


@kernel
def add_expected_counts(low, high, index, rows, target, weights, sums):
    """counts[i, o] += sum over the sentences of i of n_i * weights[k], k the entry of o there; low <= i < high.

    Args:
        rows: TableRows with counts float64 (K,) for values.
        weights: float32 (E_tgt,).
        sums: float64 (V_tgt,), zeros, left so.
    """
    starts, sentences, numbers = index
    row_offsets, columns, counts = rows
    words, _, offsets = target
    for i in range(low, high):
        if starts[i] == starts[i + 1]:
            continue
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            sums[ID(columns[k])] = counts[k]
        end = PLACE(starts[i + 1])
        for j in range(PLACE(starts[i]), end):
            look_ahead(j, end, sentences, offsets, words, weights)
            m = PLACE(sentences[j])
            n = numbers[j]
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                sums[ID(words[k])] += n * weights[k]
        for k in range(PLACE(row_offsets[i]), PLACE(row_offsets[i + 1])):
            counts[k] = sums[ID(columns[k])]
            sums[ID(columns[k])] = 0.0


@kernel
def row_sizes(low, high, index, target, rows, stamp, sizes):
    """sizes[i] = how many words row i has with those that it meets in this block, for low <= i < high.

    Args:
        rows: RowColumns of the blocks before.
        stamp: int32 (V_tgt,), starts as -1.
    """
    starts, sentences, _ = index
    words, _, offsets = target
    row_offsets, columns = rows
    for i in range(low, high):
        size = row_offsets[i + 1] - row_offsets[i]
        if starts[i] < starts[i + 1]:
            for k in range(row_offsets[i], row_offsets[i + 1]):
                stamp[ID(columns[k])] = i
            end = PLACE(starts[i + 1])
            for j in range(PLACE(starts[i]), end):
                look_ahead(j, end, sentences, offsets, words, words)
                m = PLACE(sentences[j])
                for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                    o = ID(words[k])
                    size += stamp[o] != i
                    stamp[o] = i
        sizes[i] = size


@kernel
def merge_rows(low, high, index, target, rows, stamp, merged):
    """Fills ``merged``, RowColumns, with the rows low <= i < high, columns rising, with the new words in them.

    The other arguments are those of :func:`row_sizes`, whose sizes the new offsets are made of.
    """
    starts, sentences, _ = index
    words, _, offsets = target
    row_offsets, columns = rows
    new_offsets, out = merged
    for i in range(low, high):
        start, end = new_offsets[i], new_offsets[i + 1]
        last = row_offsets[i + 1] - 1
        size = end - start
        fresh = size - (row_offsets[i + 1] - row_offsets[i])
        place = start
        if fresh > 0:
            for k in range(row_offsets[i], row_offsets[i + 1]):
                stamp[ID(columns[k])] = i
            for j in range(PLACE(starts[i]), PLACE(starts[i + 1])):
                m = PLACE(sentences[j])
                for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                    o = ID(words[k])
                    if stamp[o] != i:
                        stamp[o] = i
                        out[place] = o
                        place += 1
        if size * 16 > len(stamp) and fresh * 16 > size:  # reading them off the stamps is quicker than sorting
            place = start
            for o in range(len(stamp)):
                if stamp[o] == i:
                    out[place] = o
                    place += 1
            continue
        # The new words stand first; they and the old ones are merged from the end, where nothing is lost.
        sort_ids(out, start, place)
        new = place - 1
        for k in range(end - 1, start - 1, -1):
            if last >= row_offsets[i] and (new < start or columns[last] > out[new]):
                out[k] = columns[last]
                last -= 1
            else:
                out[k] = out[new]
                new -= 1


@kernel
def sketch_pairs(source, target, smallest):
    """smallest[b] = the least hash of the word pairs that occur together and fall into bucket b, of 2**32.

    A pair that occurs again has the same hash, and changes nothing.

    Args:
        source, target: Words.
        smallest: uint32 (power of two,), starts as its largest number.
    """
    x, x_offsets, x_seeds = source
    y, y_offsets, y_seeds = target
    mask = np.uint64(len(smallest) - 1)
    for m in range(len(x_offsets) - 1):
        for j in range(PLACE(x_offsets[m]), PLACE(x_offsets[m + 1])):
            first = x_seeds[ID(x[j])]
            for k in range(PLACE(y_offsets[m]), PLACE(y_offsets[m + 1])):
                h = (first ^ y_seeds[ID(y[k])]) * np.uint64(0x9E3779B97F4A7C15)
                h ^= h >> _HALF
                h *= np.uint64(0xD6E8FEB86659FD93)
                bucket = h & mask
                smallest[bucket] = min(smallest[bucket], np.uint32(h >> _HALF))
