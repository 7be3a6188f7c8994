"""NULL, the empty source word: its weight against the words of a sentence, and its translations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.classical.translation_table import normalise_rows
from alignkit.kernels.translation_table import UNSEEN as UNSEEN
from alignkit.scores import Scores


@dataclass(frozen=True)
class NullWord:
    """NULL in IBM Model 1.

    Attributes:
        present: whether source sentences have one.
        probability: p0, the probability that a target word comes from NULL; each of the L source positions has
            (1 - p0) / L. None: NULL is one of L + 1 words.
    """

    present: bool
    probability: float | None = None

    def weights(self, lengths: np.ndarray) -> np.ndarray:
        """float32 (M,): NULL's weight relative to that of one source position; 0 for an empty source.

        A pair with an empty source is ignored, by NULL too: it would have no place to come from.
        """
        if self.probability is None:
            return ((lengths > 0) & self.present).astype(np.float32)
        return (lengths * (self.probability / (1 - self.probability))).astype(np.float32)

    def normalisers(self, lengths: np.ndarray) -> np.ndarray:
        """float64 (M,): what a sum over source positions and NULL is divided by to be a probability."""
        normalisers = lengths / (1 - (self.probability or 0.0))
        return normalisers + self.weights(lengths) if self.probability is None else normalisers

    def shares(self, lengths: np.ndarray) -> np.ndarray:
        """float64 (M,): the probability that a target word comes from NULL; 1 for an empty source."""
        if not self.present:
            return np.zeros(len(lengths))
        share = 1 / (lengths + 1) if self.probability is None else self.probability
        return np.where(lengths == 0, 1.0, share)


def m_step_null(null: np.ndarray, sums: np.ndarray, alpha: float | None) -> np.ndarray:
    """NULL's row float32 (V_tgt,) after an M-step.

    Args:
        null: float32 (V_tgt,), the row that the E-step used.
        sums: float64 (V_tgt,), what its values are multiplied by to be expected counts.
        alpha: of the Dirichlet prior; None: maximum likelihood.
    """
    counts = (null * sums).astype(np.float32)
    seen = counts > 0  # a word that never occurs is no evidence for NULL either
    row = counts[seen]
    normalise_rows(np.array([0, len(row)]), row, alpha)
    out = np.zeros_like(counts)
    out[seen] = row
    return out


def mixture_log_probabilities(
    scores: Scores, null: np.ndarray | None = None, null_probability: float | None = None
) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, the sum over t of the logarithm of

        p0 Trans(y_t | NULL) + (1 - p0) / L * sum over l of beta[t, l]

    (Brown et al. 1993, equation 5, without its factor for the length), but at least ``UNSEEN``.

    Args:
        scores: beta of M pairs.
        null: float (N_tgt,), Trans(y_t | NULL) of every target token in text order; None without NULL.
        null_probability: as in :class:`NullWord`.
    """
    rows, widths = scores.shapes[:, 0].astype(np.int64), scores.shapes[:, 1].astype(np.int64)
    width = np.repeat(widths, rows)
    sums = np.zeros(len(width))
    filled = np.flatnonzero(width)
    if len(filled):
        starts = np.cumsum(width) - width
        sums[filled] = np.add.reduceat(scores.values, starts[filled], dtype=np.float64)
    share = NullWord(null is not None, null_probability).shares(width)
    values = (1 - share) / np.maximum(width, 1) * sums
    if null is not None:
        values = values + share * null
    logarithms = np.log(np.maximum(values, UNSEEN))
    return np.bincount(np.repeat(np.arange(len(rows)), rows), weights=logarithms, minlength=len(rows))
