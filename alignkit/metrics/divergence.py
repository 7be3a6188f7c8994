"""The Jensen-Shannon divergence of two distributions, such as rows of attention."""

from __future__ import annotations

import numpy as np

LARGEST_DIVERGENCE = float(np.log(2))  #: that :func:`jensen_shannon` has, nats


def jensen_shannon(one: np.ndarray, other: np.ndarray) -> float:
    """The Jensen-Shannon divergence of two distributions (L,), nats; 0 if equal, log 2 if disjoint.

    Both sum to 1: otherwise the value means nothing.

    >>> round(jensen_shannon(np.array([0.5, 0.5]), np.array([1.0, 0.0])), 3)
    0.216
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(
        entropy_terms((one + other) / 2).sum() - (entropy_terms(one).sum() + entropy_terms(other).sum()) / 2
    )


def entropy_terms(p: np.ndarray) -> np.ndarray:
    """-p log p of every element, nats; 0 at 0."""
    return -p * np.log(np.where(p > 0, p, 1.0))
