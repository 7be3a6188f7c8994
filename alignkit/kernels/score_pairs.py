"""Two sets of scores of the same sentence pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ScorePair(NamedTuple):
    """Matrices (T, L) of M sentence pairs by two aligners, one after another.

    Attributes:
        u, v: float32, the values of all matrices, row by row.
        shapes: int32 (M, 2), T and L.
        offsets: int64 (M + 1,), where each matrix begins.
    """

    u: np.ndarray
    v: np.ndarray
    shapes: np.ndarray
    offsets: np.ndarray
