"""The expected link of an element of a text's matrices, and the code of its word pair, in four bytes.

While the aligners are estimated, an element is a uint32. Its lower half is the code (:mod:`.hmm_pairs`); its upper
half is the link as a floating-point number without a sign, of four bits for the exponent and twelve for the
fraction: above 2**-15 and up to 1, with a relative error of at most 2**-13. Smaller links are 0, as two in three
come to be, which saves time; larger ones are 1. After the last E-step the elements are float32 in the same place
(:func:`as_floats`).

Every link is a whole number of 2**-27, so that links are summed as whole numbers: exactly, and in any order. No
text has so many tokens that 64 bits would not do.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel

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


def as_floats(elements: np.ndarray) -> np.ndarray:
    """float32: what the last E-step left in the place of the elements."""
    return elements.view(np.float32)


def unpacked_links(elements: np.ndarray) -> np.ndarray:
    """float32: the expected links of elements uint32, a copy."""
    links = np.empty(len(elements), np.float32)
    unpack_links(elements, links.view(np.uint32))
    return links


def set_links(elements: np.ndarray, links: np.ndarray) -> None:
    """Sets the expected links of elements uint32 to float32 numbers; their codes stay."""
    pack_links(np.ascontiguousarray(links, np.float32).view(np.uint32), elements)


def clear_links(elements: np.ndarray) -> None:
    """Sets the expected links of elements uint32 to 0; their codes stay."""
    np.bitwise_and(elements, CODE, out=elements)
