"""How probable a target sentence is by a mixture of its source words: what IBM Model 1 says of a pair."""

from __future__ import annotations

import numpy as np

from alignkit.scores.scores import Scores

#: What a target word is given that no source word, and not NULL, has been seen with: else one unknown name would
#: make every sentence impossible.
UNSEEN = 1e-9


def mixture_log_probabilities(
    scores: Scores, null: np.ndarray | None = None, null_probability: float | None = None
) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, the sum over t of the logarithm of

        p0 Trans(y_t | NULL) + (1 - p0) / L * sum over l of beta[t, l]

    (Brown et al. 1993, equation 5, without its factor for the length), but at least ``UNSEEN``.

    Args:
        scores: beta of M pairs.
        null: float (N_tgt,), Trans(y_t | NULL) of every target token in text order; None without NULL.
        null_probability: p0; None: NULL is one of L + 1 words.
    """
    rows, widths = scores.shapes[:, 0].astype(np.int64), scores.shapes[:, 1].astype(np.int64)
    width = np.repeat(widths, rows)
    sums = np.zeros(len(width))
    filled = np.flatnonzero(width)
    if len(filled):
        starts = np.cumsum(width) - width
        sums[filled] = np.add.reduceat(scores.values, starts[filled], dtype=np.float64)
    if null is None:
        share: np.ndarray | float = 0.0
    else:
        share = 1 / (width + 1) if null_probability is None else null_probability
        share = np.where(width == 0, 1.0, share)
    values = (1 - share) / np.maximum(width, 1) * sums
    if null is not None:
        values = values + share * null
    logarithms = np.log(np.maximum(values, UNSEEN))
    return np.bincount(np.repeat(np.arange(len(rows)), rows), weights=logarithms, minlength=len(rows))


def null_shares(lengths: np.ndarray, null: bool, null_probability: float | None) -> np.ndarray:
    """float32 (M,): NULL's weight against that of one source position; 0 for a pair without source words.

    A pair without source words teaches nothing, NULL included: it has no place to come from.
    """
    if null_probability is None:
        return ((lengths > 0) & null).astype(np.float32)
    return (lengths * (null_probability / (1 - null_probability))).astype(np.float32)
