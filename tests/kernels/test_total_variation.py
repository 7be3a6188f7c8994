"""Total-variation denoising against its dual, a least-squares problem with bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from alignkit.kernels.total_variation import denoise_rows


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.3, 1.0, 4.0])
def test_rows_are_the_solutions_of_the_dual(strength):
    """x = v - D' u, where u, between plus and minus the strength, brings D' u closest to v."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 12, 200)
    values = rng.normal(size=(200, 11)) * rng.choice([0.3, 1.0, 5.0], (200, 1))
    values[::5] = np.round(values[::5])
    found = np.full_like(values, 7.0)
    denoise_rows(values, lengths, strength, found)
    for v, x, length in zip(values, found, lengths, strict=True):
        assert (x[length:] == 7.0).all()
        expected = v[:length]
        if length > 1 and strength:
            steps = np.diff(np.eye(length), axis=0)
            dual = lsq_linear(steps.T, v[:length], (-strength, strength), method="bvls")
            expected = v[:length] - steps.T @ dual.x
        np.testing.assert_allclose(x[:length], expected, atol=1e-9)
