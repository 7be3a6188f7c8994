"""Effective attention (Brunner et al. 2020): the part of attention weights that changes what a head gives.

A head's output is A T, where A (rows, L) holds its weights and T (L, E) what each token would give alone. Whatever
of A lies in the left null space of T vanishes in the product, so that other weights have the same effect: where L
is larger than the rank of T, which is at most the size of a head, weights cannot be identified from the output.
The effective attention is A less that part. Its rows need not sum to 1. Imports no torch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.errors import AlignkitError


class EffectiveAttention(NamedTuple):
    """The part of attention weights that has an effect.

    Attributes:
        weights: float64 (rows, L).
        hidden: the dimension of the null space, L less the rank of the values; 0 if the weights are identifiable.
        share: the effective part's share of the squared norm of all weights, from 0 to 1.
    """

    weights: np.ndarray
    hidden: int
    share: float


def effective_attention(weights: np.ndarray, values: np.ndarray) -> EffectiveAttention:
    """The effective attention of a head.

    Args:
        weights: A, (rows, L).
        values: T, (L, E): the values W_V h_l through the head's columns of W_O.

    Raises:
        AlignkitError: the two do not have the same number L of tokens.
    """
    found, basis = np.asarray(weights, np.float64), np.asarray(values, np.float64)
    if found.ndim != 2 or basis.ndim != 2 or found.shape[1] != len(basis):
        raise AlignkitError(f"weights of shape {np.shape(weights)} and values of shape {np.shape(values)}")
    if not basis.size or not found.size:
        return EffectiveAttention(np.zeros_like(found), found.shape[1], 0.0)
    left, sizes, _ = np.linalg.svd(basis, full_matrices=False)
    # Values of float32 precision have singular values of about this size where there should be zeros.
    rank = int((sizes > sizes[0] * max(basis.shape) * np.finfo(np.float32).eps).sum())
    span = left[:, :rank]
    effective = (found @ span) @ span.T
    whole = float((found**2).sum())
    share = float((effective**2).sum()) / whole if whole else 0.0
    return EffectiveAttention(effective, found.shape[1] - rank, share)
