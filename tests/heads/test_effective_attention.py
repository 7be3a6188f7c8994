"""Effective attention, against the null space that SciPy finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

from alignkit.errors import AlignkitError
from alignkit.heads.self_attention import effective_attention

RNG = np.random.default_rng(2)


@pytest.mark.parametrize(("length", "size", "rank"), [(6, 3, 3), (6, 3, 2), (4, 8, 4), (9, 8, 1)])
def test_what_is_left_out_is_in_the_null_space(length, size, rank):
    weights = RNG.dirichlet(np.ones(length), 5)
    values = RNG.normal(size=(length, rank)) @ RNG.normal(size=(rank, size))
    found = effective_attention(weights, values)
    hidden = null_space(values.T, rcond=1e-6)  # (L, L - rank)
    assert found.hidden == hidden.shape[1] == length - rank
    np.testing.assert_allclose(found.weights, weights - weights @ hidden @ hidden.T, atol=1e-9)
    np.testing.assert_allclose(found.weights @ values, weights @ values, atol=1e-9)
    assert found.share == pytest.approx((found.weights**2).sum() / (weights**2).sum())
    assert (found.share < 1 - 1e-6) == (rank < length)


def test_bounds():
    assert effective_attention(np.ones((2, 3)), np.zeros((3, 4))).share == 0
    assert effective_attention(np.zeros((0, 0)), np.zeros((0, 4))).hidden == 0
    with pytest.raises(AlignkitError, match="weights of shape"):
        effective_attention(np.ones((2, 3)), np.ones((4, 4)))
