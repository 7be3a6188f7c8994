"""Kernels that lay a text out for estimation: bags of words, the inverted index, and the rows of word pairs.

To an IBM model a sentence is a bag: each distinct word once, with its count. Words that repeat in a long line then
cost what the distinct words cost. An "entry" is an index into the E distinct words of all M sentences. Arrays come
in named tuples, which kernels unpack on their first lines.

A sum always runs over source words in order of their ids and over sentences in text order, whoever computes it, so
the result has the same bits however blocks are dealt to threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.intrinsics import prefetch


class Tokens(NamedTuple):
    """One side of a text: tokens int32 (N,), offsets int64 (M + 1,) where each sentence starts."""

    tokens: np.ndarray
    offsets: np.ndarray


class Bags(NamedTuple):
    """The distinct words of each sentence of one side of a text.

    words: int32 (E,), rising within a sentence. counts: (E,), uint16, or int32 where sentences are long. offsets:
    int64 (M + 1,).
    """

    words: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray


class InvertedIndex(NamedTuple):
    """The sentences that contain each word, in text order.

    starts: int64 (V + 1,), where each word's sentences start. sentences: int32 (E,). notes: (E,), the count of the
    word in that sentence, or the position int32 of an occurrence.
    """

    starts: np.ndarray
    sentences: np.ndarray
    notes: np.ndarray


class TableRows(NamedTuple):
    """A sparse (V_src, V_tgt) table, row by row (CSR).

    offsets: int64 (V_src + 1,). columns: int32 (K,), rising within a row. values: float32 (K,).
    """

    offsets: np.ndarray
    columns: np.ndarray
    values: np.ndarray


class RowRoom(NamedTuple):
    """Room for rows that :func:`collect_rows` finds.

    columns int32, values float32: with room for one more than V_tgt pairs, or than every pair of the largest row.
    sizes: int64 (V_src,), of the rows.
    """

    columns: np.ndarray
    values: np.ndarray
    sizes: np.ndarray


# How many sentences ahead memory is prefetched: far enough to hide a cache miss, near enough to be still there. A
# cache line holds 16 words.
AHEAD = np.uint64(16)
NEAR = np.uint64(8)
LINE = 16

# In inner loops ids and indices are unsigned: a signed one might be negative and count from the end, and the test
# for that costs a fifth of the time. Unsigned and signed integers must not be added: the sum is a float.
ID = np.uint32
PLACE = np.uint64
ONE = PLACE(1)


@kernel
def sort_ids(ids, low, high):
    """Sorts ids[low:high] in place: heapsort, with insertion sort where there is little."""
    size = high - low
    if size <= 32:
        for i in range(low + 1, high):
            item = ids[i]
            j = i - 1
            while j >= low and ids[j] > item:
                ids[j + 1] = ids[j]
                j -= 1
            ids[j + 1] = item
        return
    for step in range(size // 2 + size - 1):
        if step < size // 2:  # first make a heap, from its last parent to the root
            root, end = size // 2 - 1 - step, size
            item = ids[low + root]
        else:  # then the largest goes to the end, and the last takes its place
            root, end = 0, size - 1 - (step - size // 2)
            item = ids[low + end]
            ids[low + end] = ids[low]
        while 2 * root + 1 < end:
            child = 2 * root + 1
            child += child + 1 < end and ids[low + child + 1] > ids[low + child]
            if ids[low + child] <= item:
                break
            ids[low + root] = ids[low + child]
            root = child
        ids[low + root] = item


@kernel
def fill_bags(low, high, corpus, bags, sizes):
    """The bags of sentences low <= m < high, in order of ids, one after another without gaps.

    Args:
        corpus: Tokens.
        bags: Bags whose words and counts are filled from the offset of sentence ``low`` on, with the offsets of
            the tokens.
        sizes: int64 (M,), filled with the number of distinct words of each sentence.
    """
    tokens, offsets = corpus
    words, counts, _ = bags
    start = offsets[low]
    for m in range(low, high):
        size = offsets[m + 1] - offsets[m]
        for k in range(size):
            words[start + k] = tokens[offsets[m] + k]
        sort_ids(words, start, start + size)
        end = start
        for k in range(start, start + size):
            if end > start and words[end - 1] == words[k]:
                counts[end - 1] += 1
            else:
                words[end], counts[end] = words[k], 1
                end += 1
        sizes[m] = end - start
        start = end


@kernel
def fill_index(low, high, bags, places, index):
    """Counting sort of the entries of sentences low <= m < high by word.

    Args:
        bags: Bags, or the same with other notes than counts.
        places: int64 (V,), where the next sentence of each word goes; overwritten.
        index: InvertedIndex, whose sentences and notes are filled.
    """
    words, word_notes, offsets = bags
    _, sentences, notes = index
    for m in range(low, high):
        for k in range(offsets[m], offsets[m + 1]):
            place = places[words[k]]
            sentences[place] = m
            notes[place] = word_notes[k]
            places[words[k]] = place + 1


@kernel
def first_not_below(sorted_values, low, high, bound):
    """The first index in sorted_values[low:high] with a value >= bound."""
    while low < high:
        middle = (low + high) // 2
        if sorted_values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def first_positions(low, high, text, bags, room, first):
    """first[k] = the first position of entry k's word in its sentence, low <= m < high.

    Args:
        text: Tokens; bags: theirs, Bags.
        room: int32 (V,), work space.
        first: int32 (E,), filled.
    """
    tokens, offsets = text
    words, _, starts = bags
    for m in range(low, high):
        for k in range(offsets[m + 1] - 1, offsets[m] - 1, -1):  # the first is the last that is written
            room[ID(tokens[k])] = k - offsets[m]
        for k in range(starts[m], starts[m + 1]):
            first[k] = room[ID(words[k])]


@kernel
def look_ahead(j, end, sentences, offsets, words, values):
    """Prefetches the next sentences of a sweep over ``sentences``, which is at index j and ends at ``end``.

    j, end: uint64. words (E,), values (E,): two arrays of numbers for entries, with sentences at ``offsets``.
    """
    if j + AHEAD < end:
        prefetch(offsets, sentences[j + AHEAD])
    if j + NEAR < end:
        place = offsets[ID(sentences[j + NEAR])]
        prefetch(words, place)
        prefetch(words, place + LINE)
        prefetch(values, place)
        prefetch(values, place + LINE)


@kernel
def collect_rows(low, high, index, target, weights, sums, rows):
    """The rows low <= i < high, one after another, as far as there is room: columns, and the sums of weights.

    The value of a pair (i, o) is the sum over the sentences of i of n_i * weights[k], k the entry of o there.

    Args:
        index: InvertedIndex of the source bags.
        target: Bags.
        weights: float32 (E_tgt,), positive.
        sums: float64 (V_tgt,), zeros, left so.
        rows: RowRoom, filled from 0 on.

    Returns:
        the first row that was not done; the rows before it have filled in as many pairs as their sizes say.
    """
    starts, sentences, counts = index
    words, _, offsets = target
    columns, values, sizes = rows
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
            return i
        new = PLACE(filled)
        for j in range(first, end):
            look_ahead(j, end, sentences, offsets, words, weights)
            m = PLACE(sentences[j])
            n = np.float32(counts[j])
            for k in range(PLACE(offsets[m]), PLACE(offsets[m + ONE])):
                o = ID(words[k])
                columns[new] = o  # written over by the next, unless it is new
                new += PLACE(sums[o] == 0.0)
                sums[o] += n * weights[k]
        place = np.int64(new)
        size = place - filled
        if size * 16 > len(sums):  # a long row: reading it off the sums is quicker than sorting it
            place = filled
            for o in range(len(sums)):
                if sums[o] > 0.0:
                    columns[place] = o
                    place += 1
        else:
            sort_ids(columns, filled, place)
        for k in range(filled, place):
            values[k] = sums[ID(columns[k])]
            sums[ID(columns[k])] = 0.0
        sizes[i] = size
        filled = place
    return high
