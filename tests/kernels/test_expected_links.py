"""Links and codes of word pairs in four bytes, beside what their description says."""

import numpy as np
import pytest
from planted import unpacked_links

from alignkit.kernels.expected_links import (
    UNIT,
    add_by_level,
    clear_links,
    set_links,
    whole_links,
)


def test_links_keep_twelve_bits_of_their_fraction_and_codes_are_left_alone():
    draw = np.random.default_rng(0)
    links = np.float32(2.0) ** draw.uniform(-14.9, 0, 20_000).astype(np.float32)
    codes = draw.integers(0, 1 << 16, len(links), np.uint32)
    elements = codes.copy()
    set_links(elements, links)
    found = unpacked_links(elements)
    assert np.abs(found / links - 1).max() <= 2.0**-13
    # Rounded to the nearest: what is left over is on either side.
    assert abs(float(np.mean(found / links - 1))) < 2.0**-16
    assert np.array_equal(elements & np.uint32(0xFFFF), codes)
    set_links(elements, found)
    assert np.array_equal(unpacked_links(elements), found)
    clear_links(elements)
    assert np.array_equal(elements, codes)


@pytest.mark.parametrize("exact", [0.0, 1.0, 0.5, 0.75, 0.5 + 2.0**-13, 2.0**-14])
def test_some_links_are_exact(exact):
    elements = np.array([7], np.uint32)
    set_links(elements, np.array([exact]))
    assert unpacked_links(elements).tolist() == [exact]


def every_link():
    """Elements with every link that there is, from none to 1."""
    elements = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return elements[unpacked_links(elements) <= 1]


def test_whole_links_are_the_links_exactly():
    elements = every_link()
    whole = np.empty(len(elements), np.int64)
    whole_links(elements, whole)
    assert unpacked_links(elements).max() == 1
    assert (whole[0], whole.max() * UNIT) == (0, 1)
    assert np.array_equal(whole * UNIT, unpacked_links(elements).astype(np.float64))


def test_links_are_summed_by_level():
    elements, sums = every_link(), np.zeros(4)
    levels = np.random.default_rng(1).integers(0, 3, len(elements)).astype(np.uint8)
    for _ in range(2):
        add_by_level(levels, elements, sums)
    expected = [2 * float(unpacked_links(elements[levels == n]).astype(np.float64).sum()) for n in range(4)]
    assert sums * UNIT == pytest.approx(expected, rel=1e-12)


def test_links_are_at_most_1():
    elements = np.zeros(3, np.uint32)
    set_links(elements, np.array([1.0, 1 + 2.0**-20, 1.9999]))
    assert unpacked_links(elements).tolist() == [1, 1, 1]


def test_very_small_links_are_none():
    elements = np.full(3, 9, np.uint32)
    set_links(elements, np.array([1e-10, 1e-30, 2.0**-16]))
    assert not unpacked_links(elements).any()
    assert elements.tolist() == [9, 9, 9]
