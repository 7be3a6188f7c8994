"""The expected link of each element of a text's (T, L) matrices, and the code of its word pair, in four bytes.

While the aligners are estimated, an element is a uint32. Its upper half is the link as a floating-point number
without a sign, of four bits for the exponent and twelve for the fraction: above 2**-15 and up to 1, with a
relative error of at most 2**-13. Smaller links, about two thirds, become 0, which saves time; larger ones
are 1. After the last E-step the elements are float32 numbers in the same place. Every link is a whole
number of 2**-27, so that links are summed as whole numbers: exactly, and in any order. No text has so many tokens
that 64 bits would not do.

Its lower half is the code. The word pairs of a text are numbered source word by source word, and by rising target
word within such a row. The number of an element is found from its two words and the code: its place in the row,
or, in a row of more than 65,536 pairs, its place among those pairs whose target words share all bits of their ids
but the last sixteen: a segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel

CODE_BITS = np.uint32(16)
CODE = np.uint32(0xFFFF)
FRACTION = np.uint32(11)  # bits of a float32's fraction that are left out
HALF = np.uint32(1 << 10)  # of the last bit that is not
LEAST = np.uint32((127 - 15) << 23)  # the bits of 2**-15 as float32
MOST = np.uint32(127 << 23)  # those of 1
NONE = np.uint32(0)
FRACTION_BITS, ONE = 12, 1 << 12  # of a link's fraction; its leading bit, which is not stored
UNIT = 2.0**-27  # that every link is a multiple of


@kernel
def unpack_links(elements, bits):
    """bits uint32 = the links of as many elements, as the bits of float32 numbers."""
    for j in range(len(bits)):
        link = elements[j] >> CODE_BITS
        bits[j] = (link << FRACTION) + LEAST if link > NONE else NONE


@kernel
def whole_links(elements, whole):
    """whole int64 = the links of as many elements in units of ``UNIT``."""
    for j in range(len(whole)):
        link = np.int64(elements[j] >> CODE_BITS)
        whole[j] = ((link & (ONE - 1)) + ONE) << (link >> FRACTION_BITS) if link > 0 else 0


@kernel
def add_by_level(levels, elements, sums):
    """sums float64[n] += the links of the elements of level n, in units of ``UNIT``.

    Args:
        levels: uint8, of as many elements.
    """
    for j in range(len(elements)):
        link = np.int64(elements[j] >> CODE_BITS)
        if link > 0:
            sums[levels[j]] += ((link & (ONE - 1)) + ONE) << (link >> FRACTION_BITS)


@kernel
def pack_links(bits, elements):
    """Sets the links of elements to float32 numbers from 0 to 1, given as their bits uint32; codes stay."""
    for j in range(len(elements)):
        rounded = min(bits[j], MOST) + HALF
        link = (rounded - LEAST) >> FRACTION if rounded >= LEAST else NONE
        elements[j] = (elements[j] & CODE) | (link << CODE_BITS)


def set_links(elements: np.ndarray, links: np.ndarray) -> None:
    """Sets the expected links of elements uint32 to float32 numbers; their codes stay."""
    pack_links(np.ascontiguousarray(links, np.float32).view(np.uint32), elements)


def clear_links(elements: np.ndarray) -> None:
    """Sets the expected links of elements uint32 to 0; their codes stay."""
    np.bitwise_and(elements, CODE, out=elements)


SEGMENT_BITS = 16


class PairPlaces(NamedTuple):
    """Where the word pairs are, of K in all; without rows, each element is a word pair of its own."""

    offsets: np.ndarray  # int64 (V_src + 1,), where each row starts
    long_rows: np.ndarray  # int32 (V_src,), the number of each row among the long ones, -1 if it is not
    segments: np.ndarray  # int64 (N, S), where each segment of each long row starts


#: Of matrices without codes.
NO_PLACES = PairPlaces(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 0), np.int64))


@kernel
def pair_starts(x, segment, places, starts):
    """starts[j] = the word pair of code 0, for each source word of a sentence and target words of a segment.

    Args:
        starts: uint32, filled.
    """
    offsets, long_rows, segments = places
    for j in range(len(x)):
        i = np.uint32(x[j])
        starts[j] = offsets[i] if long_rows[i] < 0 else segments[long_rows[i], segment]


@kernel
def fill_codes(low, high, index, text, matrices, columns, places, room):
    """Sets the elements of source words low <= i < high to their codes, without links.

    Args:
        index: (starts int64 (V_src + 1,), sentences int32 (N_src,), positions int32 (N_src,)), where each source
            word occurs in a block of sentence pairs.
        text: :class:`.hmm_e_step.TextArrays` of the block.
        matrices: (int64 (M + 1,), where the matrix of each of its pairs starts; uint32, their elements).
        columns: int32 (K,), the target word of each word pair.
        places: :class:`PairPlaces`.
        room: uint16 (V_tgt,), work space.
    """
    starts, sentences, positions = index
    _, source_offsets, tokens, token_offsets, _ = text
    offsets, long_rows, segments = places
    matrix_starts, elements = matrices
    for i in range(low, high):
        if starts[i] == starts[i + 1]:
            continue
        first, n = offsets[i], long_rows[i]
        for k in range(first, offsets[i + 1]):
            o = columns[k]
            room[o] = k - (first if n < 0 else segments[n, o >> SEGMENT_BITS])
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            place, length = matrix_starts[m] + positions[j], source_offsets[m + 1] - source_offsets[m]
            for k in range(token_offsets[m], token_offsets[m + 1]):
                elements[place] = room[tokens[k]]
                place += length


@allocating_kernel
def count_pairs(pairs, text, links, sums):
    """The sums of the expected links of some word pairs, over all sentence pairs.

    Each owner of some word pairs reads all elements: the text is in order, the sums are not, so this has the
    fewest cache misses.

    Args:
        pairs: (first, end): sums[k - first] is that of word pair k, for first <= k < end.
        text: :class:`.hmm_e_step.TextArrays`; links: :class:`.hmm_e_step.LinkArrays`.
        sums: int64 (end - first,), filled, in units of ``UNIT``.
    """
    x_tokens, x_offsets, y_tokens, y_offsets, _ = text
    offsets, places, _, elements, _ = links
    first, size, longest, most = np.uint64(pairs[0]), np.uint64(pairs[1] - pairs[0]), 0, 0
    sums[:] = 0
    for m in range(len(offsets) - 1):
        longest, most = max(longest, x_offsets[m + 1] - x_offsets[m]), max(most, offsets[m + 1] - offsets[m])
    starts, numbers = np.empty(longest, np.uint32), np.empty(most + 1, np.uint64)
    linked, whole = np.empty(most + 1, np.uint32), np.empty(most, np.int64)
    for m in range(len(offsets) - 1):
        x, y = x_tokens[x_offsets[m] : x_offsets[m + 1]], y_tokens[y_offsets[m] : y_offsets[m + 1]]
        place, L, segment, count = offsets[m], len(x), -1, np.uint64(0)
        for t in range(len(y)):
            if y[t] >> SEGMENT_BITS != segment:
                segment = y[t] >> SEGMENT_BITS
                pair_starts(x, segment, places, starts)
            row = elements[place : place + L]
            for j in range(L):
                # Written over by the next, unless there is a link. Unsigned: one below the first is very large.
                numbers[count] = np.uint64(starts[j] + (row[j] & CODE)) - first
                linked[count] = row[j]
                count += np.uint64(row[j] > CODE)
            place += L
        whole_links(linked[:count], whole[:count])
        for j in range(count):
            k = numbers[j]
            if k < size:
                sums[k] += whole[j]
