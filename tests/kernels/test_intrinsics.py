"""What Numba has no words for: each as NumPy has it, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from alignkit.kernels.compile import kernel
from alignkit.kernels.intrinsics import (
    VECTOR_WIDTH,
    choose,
    larger,
    largest,
    load_vector,
    part,
    prefetch,
    smaller,
    splat,
    store,
    total,
)

NUMBERS = np.random.default_rng(0).normal(size=(2, 3 * VECTOR_WIDTH)).astype(np.float32)


@kernel
def arithmetic(a, b, out):
    for k, place in ((0, 0), (1, VECTOR_WIDTH + 3)):
        x, y = load_vector(a, place), load_vector(b, place)
        store(out, k * VECTOR_WIDTH, x * y + x / y - y)


@kernel
def choices(a, b, out):
    x, y = load_vector(a, 0), load_vector(b, 0)
    store(out, 0, larger(x, y))
    store(out, VECTOR_WIDTH, smaller(x, y))
    store(out, 2 * VECTOR_WIDTH, choose(x, splat(np.float32(0.25)), y, splat(np.float32(0))))


@kernel
def reductions(a):
    return total(load_vector(a, 1)), largest(load_vector(a, 1))


def test_arithmetic_has_the_bits_of_single_numbers():
    """No product and sum are made one rounding, which would differ between processors."""
    a, b = NUMBERS
    out = np.zeros(2 * VECTOR_WIDTH, np.float32)
    arithmetic(a, b, out)
    expected = [
        a[i : i + VECTOR_WIDTH] * b[i : i + VECTOR_WIDTH]
        + a[i : i + VECTOR_WIDTH] / b[i : i + VECTOR_WIDTH]
        - b[i : i + VECTOR_WIDTH]
        for i in (0, VECTOR_WIDTH + 3)
    ]
    assert np.array_equal(out, np.concatenate(expected))


def test_choices():
    a, b = NUMBERS
    out = np.zeros(3 * VECTOR_WIDTH, np.float32)
    choices(a, b, out)
    x, y = a[:VECTOR_WIDTH], b[:VECTOR_WIDTH]
    expected = np.maximum(x, y), np.minimum(x, y), np.where(x > np.float32(0.25), y, 0)
    assert np.array_equal(out, np.concatenate(expected))


def test_what_is_no_number_is_passed_over():
    a, b = np.full(VECTOR_WIDTH, np.nan, np.float32), np.ones(VECTOR_WIDTH, np.float32)
    out = np.zeros(3 * VECTOR_WIDTH, np.float32)
    choices(a, b, out)
    assert np.array_equal(out, [1] * 2 * VECTOR_WIDTH + [0] * VECTOR_WIDTH)


def test_reductions_add_halves():
    x = NUMBERS[0, 1 : 1 + VECTOR_WIDTH]
    halves = x[:4] + x[4:]
    quarters = halves[:2] + halves[2:]
    assert reductions(NUMBERS[0]) == (quarters[0] + quarters[1], x.max())


def test_other_arrays_are_refused():
    for wrong in (NUMBERS.astype(np.float64)[0], NUMBERS, NUMBERS[0, ::2]):
        with pytest.raises(TypingError, match="load"):
            reductions(wrong)


@kernel
def add_to_part(array, low, high, number):
    prefetch(array, len(array) + 1_000_000)  # outside, and harmless
    view = part(array, low, high)
    for j in range(len(view)):
        view[j] += number
    return len(part(view, len(view), len(view)))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize(("low", "high"), [(0, 9), (2, 5), (4, 4), (9, 9)])
def test_a_part_is_a_slice(dtype, low, high):
    array = np.arange(9, dtype=dtype)
    expected = array.copy()
    expected[low:high] += 7
    assert add_to_part(array, low, high, dtype(7)) == 0
    assert np.array_equal(array, expected)
