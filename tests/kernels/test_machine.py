"""What Numba has no words for: each as NumPy has it."""

import numpy as np
import pytest

from alignkit.kernels.compile import kernel
from alignkit.kernels.machine import part, prefetch


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
