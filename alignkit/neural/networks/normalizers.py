"""Normalizers of attention, which make weights of scores: softmax, the entmax family and sigmoids.

Sparsemax and entmax are those of the ``entmax`` package of their authors (https://github.com/deep-spin/entmax).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from entmax import entmax15, entmax_bisect, sparsemax
from torch import Tensor, nn


class Normalizer(nn.Module, ABC):
    """A normalizer; the scores of a row give the weights of that row.

    Args:
        heads: K, for parameters that each head has of its own.
        parameter: the number in the mechanism's name, if it takes one
            (:data:`alignkit.neural.networks.mechanisms.NORMALIZERS`).
    """

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__()

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Weights of scores.

        Args:
            scores: (B, K, T, L); L may be 0.
            mask: (B, L), True where there is a token; None if nothing is padded.

        Returns:
            (B, K, T, L), 0 where padded.
        """
        if not scores.shape[-1]:
            return scores
        return self.weights(scores, None if mask is None else mask[:, None, None])

    @abstractmethod
    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """As :meth:`forward`, with L >= 1 and ``mask`` (B, 1, 1, L)."""


class NormalizerWithDerivative(Normalizer):
    """A normalizer whose derivative can be told from the weights, for saliency to use in place of autograd."""

    @abstractmethod
    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor | None:
        """The derivatives in the scores from those in the weights, each (..., L); None if they are 0.

        The weights are those in evaluation mode.
        """


def without_padding(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The scores, minus infinity where padded."""
    return scores if mask is None else scores.masked_fill(~mask, float("-inf"))


class _Entmax(NormalizerWithDerivative):
    """A member of the entmax family, whose derivatives depend on alpha and the weights alone."""

    @abstractmethod
    def alpha(self) -> float | Tensor:
        """alpha, or (K, 1, 1) with one for every head."""

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor:
        """The Jacobian is diag(q) - q q' / sum(q) with q = p^(2 - alpha) on the support (Peters et al. 2019)."""
        q = torch.where(weights > 0, weights.clamp_min(torch.finfo(weights.dtype).tiny) ** (2 - self.alpha()), 0.0)
        mean = (q * by_weight).sum(-1, keepdim=True) / q.sum(-1, keepdim=True)
        return q * (by_weight - mean)


class Softmax(_Entmax):
    """exp(a_l) / sum over k of exp(a_k)."""

    def alpha(self) -> float:
        return 1.0

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.softmax(without_padding(scores, mask), -1)


class Sparsemax(_Entmax):
    """The Euclidean projection of the scores onto the simplex (Martins and Astudillo 2016)."""

    def alpha(self) -> float:
        return 2.0

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        found: Tensor = sparsemax(without_padding(scores, mask), -1)
        return found


class Entmax15(_Entmax):
    """Entmax with alpha = 1.5, exact by sorting (Peters et al. 2019)."""

    def alpha(self) -> float:
        return 1.5

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        found: Tensor = entmax15(without_padding(scores, mask), -1)
        return found


class Entmax(_Entmax):
    """Entmax with a given alpha, by bisection (Peters et al. 2019): sparsemax at 2, softmax towards 1."""

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        assert parameter is not None
        self._alpha = parameter

    def alpha(self) -> float:
        return self._alpha

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return _bisected(scores, mask, self._alpha)


class LearnedEntmax(_Entmax):
    """Entmax with an alpha between 1 and 2 that each head learns, from about 1.5 (Correia et al. 2019)."""

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        self.raw_alpha = nn.Parameter(torch.zeros(heads))

    def alpha(self) -> Tensor:
        # Not below 1.01, where the powers of 1 / (alpha - 1) leave float32's range.
        return 1.01 + 0.99 * torch.sigmoid(self.raw_alpha)[:, None, None]

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return _bisected(scores, mask, self.alpha())


def _bisected(scores: Tensor, mask: Tensor | None, alpha: float | Tensor) -> Tensor:
    # Each iteration halves the interval of the threshold, which is at most 1 wide.
    iterations = 50 if scores.dtype == torch.float64 else 26
    found: Tensor = entmax_bisect(without_padding(scores, mask), alpha, -1, iterations)
    return found


class Sigmoid(NormalizerWithDerivative):
    """1 / (1 + exp(-a_l)), each weight by itself; rows do not sum to 1."""

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        found = torch.sigmoid(scores)
        return found if mask is None else found * mask

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor:
        return weights * (1 - weights) * by_weight
