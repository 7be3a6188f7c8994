"""The forward-backward algorithm against a closed form."""

import math

import numpy as np
import pytest

from alignkit.kernels.forward_backward import forward_backward, pass_space, widen_transitions
from alignkit.kernels.hmm_rows import padded
from alignkit.kernels.intrinsics import VECTOR_WIDTH

L, T = 3, 2000


@pytest.mark.parametrize("width", [0, 2])  # without and with transitions
@pytest.mark.parametrize("emission", [0.2, 1.0, 3.0])  # evidence that is a factor of them makes some larger than 1
def test_likelihood_of_a_long_sentence_whose_words_are_all_as_likely(emission, width):
    """Whatever the path is, its words have probability emission^T, and the paths sum to 1."""
    weights = [np.ones(n * (width > 0), np.float32) for n in (2 * width + 1, width + 1, width + 1)]
    transitions, counts = widen_transitions(*weights, 0.25, T + VECTOR_WIDTH)
    rows = np.zeros((T, padded(L)), np.float32)
    rows[:, :L] = emission
    space = pass_space(padded(T) + VECTOR_WIDTH, rows.size)
    nulls = np.full(T, emission, np.float32)
    found = forward_backward(T, L, rows.ravel(), nulls, transitions, space, counts, False)
    assert found == pytest.approx(T * math.log(emission), rel=1e-5, abs=1e-2)
