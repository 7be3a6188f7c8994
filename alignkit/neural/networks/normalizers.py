"""Normalizers of attention, which make weights of scores.

Softmax, the entmax family and sigmoids; hard attention, which looks at one position alone, and three ways to train
it.
Sparsemax and entmax are those of the ``entmax`` package of their authors (https://github.com/deep-spin/entmax).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from entmax import entmax15, entmax_bisect, sparsemax
from torch import Tensor, nn
from torch.nn.functional import one_hot


class Normalizer(nn.Module, ABC):
    """A normalizer; the scores of a row give the weights of that row.

    Args:
        heads: K, for parameters that each head has of its own.
        parameter: the number in the mechanism's name, if it takes one
            (:data:`alignkit.neural.networks.mechanisms.NORMALIZERS`).
    """

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__()
        self.parameter: Any = parameter

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

    @abstractmethod
    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor | None:
        """The derivatives in the scores from those in the weights, each (..., L); None if they are 0.

        The weights are those in evaluation mode. Saliency uses this in place of autograd.
        """


def without_padding(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The scores, minus infinity where padded."""
    return scores if mask is None else scores.masked_fill(~mask, float("-inf"))


class _Entmax(Normalizer):
    """A member of the entmax family, whose derivatives depend on alpha and the weights alone.

    Attributes:
        alpha: a number, or (K, 1, 1) with one for every head.
    """

    alpha: float | Tensor

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        # Each iteration halves the interval of the threshold, which is at most 1 wide.
        iterations = 50 if scores.dtype == torch.float64 else 26
        return entmax_bisect(without_padding(scores, mask), self.alpha, -1, iterations)

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor:
        """The Jacobian is diag(q) - q q' / sum(q) with q = p^(2 - alpha) on the support (Peters et al. 2019)."""
        q = torch.where(weights > 0, weights.clamp_min(torch.finfo(weights.dtype).tiny) ** (2 - self.alpha), 0.0)
        mean = (q * by_weight).sum(-1, keepdim=True) / q.sum(-1, keepdim=True)
        return q * (by_weight - mean)


class Softmax(_Entmax):
    """exp(a_l) / sum over k of exp(a_k)."""

    alpha = 1.0

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.softmax(without_padding(scores, mask), -1)


class Sparsemax(_Entmax):
    """The Euclidean projection of the scores onto the simplex (Martins and Astudillo 2016)."""

    alpha = 2.0

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return sparsemax(without_padding(scores, mask), -1)


class Entmax15(_Entmax):
    """Entmax with alpha = 1.5, exact by sorting (Peters et al. 2019)."""

    alpha = 1.5

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return entmax15(without_padding(scores, mask), -1)


class Entmax(_Entmax):
    """Entmax with a given alpha, by bisection (Peters et al. 2019): sparsemax at 2, softmax towards 1."""

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        self.alpha = self.parameter


class LearnedEntmax(_Entmax):
    """Entmax with an alpha between 1 and 2 that each head learns, from about 1.5 (Correia et al. 2019)."""

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        self.raw_alpha = nn.Parameter(torch.zeros(heads))

    @property
    def alpha(self) -> Tensor:  # type: ignore[override]
        # Not below 1.01, where the powers of 1 / (alpha - 1) leave float32's range.
        return 1.01 + 0.99 * torch.sigmoid(self.raw_alpha)[:, None, None]


class Sigmoid(Normalizer):
    """1 / (1 + exp(-a_l)), each weight by itself; rows do not sum to 1."""

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        found = torch.sigmoid(scores)
        return found if mask is None else found * mask

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor:
        return weights * (1 - weights) * by_weight


class HardNormalizer(Normalizer):
    """Weight 1 at one position and 0 elsewhere."""

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        scores = without_padding(scores, mask)
        return self.trained(scores) if self.training else _at(scores.argmax(-1), scores)

    def trained(self, scores: Tensor) -> Tensor:
        """The weights in training mode, of scores that are minus infinity where padded."""
        raise NotImplementedError

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> None:
        return None


def _at(places: Tensor, scores: Tensor) -> Tensor:
    """Weight 1 at the places (...), as (..., L)."""
    return one_hot(places, scores.shape[-1]).to(scores.dtype)


def _straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """The values of ``hard`` with the gradient of ``soft``."""
    return hard + (soft - soft.detach())


class StraightThrough(HardNormalizer):
    """The largest score forwards, softmax backwards (Bengio et al. 2013)."""

    def trained(self, scores: Tensor) -> Tensor:
        return _straight_through(_at(scores.argmax(-1), scores), torch.softmax(scores, -1))


class Gumbel(HardNormalizer):
    """Perturb and MAP: the largest score after Gumbel noise, which is a sample of softmax.

    The gradient is that of the softmax of the perturbed scores divided by the temperature, ``parameter``, straight
    through (Jang et al. 2017; for structures, Corro and Titov 2019).
    """

    def trained(self, scores: Tensor) -> Tensor:
        noise = -torch.empty_like(scores).exponential_().clamp_min_(torch.finfo(scores.dtype).tiny).log_()
        perturbed = (scores + noise) / self.parameter
        return _straight_through(_at(perturbed.argmax(-1), scores), torch.softmax(perturbed, -1))


class Reinforce(HardNormalizer):
    """Samples of softmax; its gradient, the score-function estimator, comes from :func:`score_function_loss`.

    Attributes:
        log_probability: (B, K, T), of the last samples, in training mode.
    """

    log_probability: Tensor | None = None

    def trained(self, scores: Tensor) -> Tensor:
        logs = torch.log_softmax(scores, -1)
        places = torch.multinomial(logs.detach().exp().flatten(0, -2), 1).view(logs.shape[:-1])
        self.log_probability = logs.gather(-1, places.unsqueeze(-1)).squeeze(-1)
        return _at(places, scores)


def samplers(network: nn.Module) -> Iterator[Reinforce]:
    """The normalizers of a network that need :func:`score_function_loss`."""
    return (module for module in network.modules() if isinstance(module, Reinforce))


def score_function_loss(network: nn.Module, losses: Tensor, places: Tensor) -> Tensor:
    """0, with the gradient of the score-function estimator (REINFORCE), to add to the mean of the losses.

    Its gradient is the mean of (loss_n - b_n) grad log p(z_n), where z_n is the position that was sampled for
    token n; the baseline b_n is the mean loss of the other tokens of the batch, which z_n does not reach, so that
    the estimate has no bias (Williams 1992; Xu et al. 2015).

    Args:
        network: one for which :func:`samplers` finds something, after the forward pass in training mode.
        losses: (N,), of the tokens whose attention was sampled, nats; each depends on its own sample only.
        places: int64 (N,), their indices in flattened (B, T) arrays.
    """
    values = losses.detach()
    advantage = values - (values.sum() - values) / max(len(values) - 1, 1)
    total = losses.new_zeros(())
    for sampler in samplers(network):
        if sampler.log_probability is None:  # uniform attention took its place
            continue
        logs = sampler.log_probability.sum(1).flatten()[places]
        total = total + (advantage * logs).mean()
        sampler.log_probability = None
    return total - total.detach()
