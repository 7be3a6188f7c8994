"""Normalizers of attention, which make weights of scores.

Softmax, the entmax family and sigmoids; hard attention, which looks at one position alone, and three ways to train
it; structured ones, where neighbours are fused (fusedmax), or chosen together by a chain of binary variables.
Sparsemax and entmax are those of the ``entmax`` package of their authors (https://github.com/deep-spin/entmax).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from entmax import entmax15, entmax_bisect, sparsemax
from torch import Tensor, nn
from torch.nn.functional import one_hot, softplus

from alignkit.kernels.total_variation import denoise_rows


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


class HardNormalizer(NormalizerWithDerivative):
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

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        assert parameter is not None
        self.temperature = parameter

    def trained(self, scores: Tensor) -> Tensor:
        noise = -torch.empty_like(scores).exponential_().clamp_min_(torch.finfo(scores.dtype).tiny).log_()
        perturbed = (scores + noise) / self.temperature
        return _straight_through(_at(perturbed.argmax(-1), scores), torch.softmax(perturbed, -1))


class Reinforce(HardNormalizer):
    """Samples of softmax; its gradient, the score-function estimator, comes from :func:`score_function_loss`.

    Attributes:
        log_probability: (B, K, T), of the last samples, in training mode.
    """

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        self.log_probability: Tensor | None = None

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


class TotalVariationProx(torch.autograd.Function):
    """The minimisers x of 1/2 |x - z|^2 + strength · sum |x_{l+1} - x_l| of every row, computed on the CPU.

    ``TotalVariationProx.apply(z (N, L), strength (), lengths int64 (N,))`` -> (N, L), 0 from each row's length on.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, strength: Tensor, lengths: np.ndarray) -> Tensor:
        values = z.detach().double().cpu().contiguous().numpy()
        found = np.zeros_like(values)
        denoise_rows(values, lengths, float(strength), found)
        # Neighbours of the same value form a group; what lies behind the end of a row is in groups of its own.
        steps = np.diff(found, axis=1)
        ends = np.arange(1, values.shape[1]) >= lengths[:, None]
        groups = np.zeros(found.shape, np.int64)
        np.cumsum((steps != 0) | ends, axis=1, out=groups[:, 1:])
        # A group's value falls with the strength where it lies above a neighbouring group, and rises below one.
        jumps = np.sign(np.where(ends, 0.0, steps))
        slopes = np.zeros_like(found)
        slopes[:, :-1] += jumps
        slopes[:, 1:] -= jumps
        real = np.arange(values.shape[1]) < lengths[:, None]
        saved = (torch.from_numpy(part).to(z.device) for part in (groups, slopes, real))
        ctx.save_for_backward(*saved)
        return torch.from_numpy(found).to(z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        groups, slopes, real = ctx.saved_tensors
        gradient = grads[0] * real
        sums = torch.zeros_like(gradient).scatter_add_(1, groups, gradient)
        sizes = torch.zeros_like(gradient).scatter_add_(1, groups, torch.ones_like(gradient))
        by_z = (sums / sizes.clamp_min(1)).gather(1, groups) * real
        return by_z, (by_z * slopes.to(by_z)).sum(), None


def _row_lengths(scores: Tensor, mask: Tensor | None) -> np.ndarray:
    """int64 (B K T,): the length of every row."""
    rows, length = scores.shape[:-1], scores.shape[-1]
    if mask is None:
        return np.full(rows.numel(), length, np.int64)
    counts = mask.sum(-1).expand(rows).reshape(-1)
    found: np.ndarray = counts.cpu().numpy().astype(np.int64)
    return found


def _denoised(scores: Tensor, strength: Tensor, mask: Tensor | None) -> Tensor:
    lengths = _row_lengths(scores, mask)
    found: Tensor = TotalVariationProx.apply(scores.flatten(0, -2), strength, lengths)
    return found.view_as(scores)


class Fusedmax(Normalizer):
    """The projection onto the simplex of the scores after total-variation denoising (Niculae and Blondel 2017).

    The two steps together minimise |p - a|^2 / 2 + strength · sum |p_{l+1} - p_l| over the simplex; neighbours
    tend to have equal weights.
    """

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        assert parameter is not None
        self.strength = parameter

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        strength = scores.new_tensor(self.strength, dtype=torch.float64)
        found: Tensor = sparsemax(without_padding(_denoised(scores, strength, mask), mask), -1)
        return found


class _Chain(Normalizer):
    """A chain of binary variables z_l of score sum a_l z_l + w sum [z_l = z_{l+1}]; w is learned, from 0.1."""

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        self.coupling = nn.Parameter(torch.tensor(0.1))


class ChainMarginals(_Chain):
    """p(z_l = 1) under p(z) ~ exp(score), by belief propagation with log-odds (Kim et al. 2017).

    Forwards and backwards along the chain the message about a neighbour with log-odds r is
    log((e^(r + w) + 1) / (e^r + e^w)); the marginals' log-odds are the scores plus both messages.
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        length = scores.shape[-1]
        real = None if mask is None else mask.expand_as(scores).to(scores.dtype)
        before, after = [torch.zeros_like(scores[..., 0])], [torch.zeros_like(scores[..., 0])]
        for place in range(length - 1):
            before.append(self._message(scores[..., place] + before[-1]))
        for place in range(length - 1, 0, -1):
            message = self._message(scores[..., place] + after[-1])
            after.append(message if real is None else message * real[..., place])  # padding has no say
        marginals = torch.sigmoid(scores + torch.stack(before, -1) + torch.stack(after[::-1], -1))
        return marginals if real is None else marginals * real

    def _message(self, odds: Tensor) -> Tensor:
        return softplus(odds + self.coupling) - softplus(odds - self.coupling) - self.coupling


class ChainSparseMap(_Chain):
    """The mean of z under the sparse distribution of SparseMAP, which maximises E[score] - |E[z]|^2 / 2.

    (Niculae et al. 2018.) On a chain, E[score] is largest, given the means m_l, if P(z_l = z_{l+1}) is
    1 - |m_l - m_{l+1}| for w > 0 and |m_l + m_{l+1} - 1| for w < 0. The first makes it total-variation denoising
    of the scores, cut to [0, 1]; the second as well, after every other variable is replaced by its complement.
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        odd = torch.arange(scores.shape[-1], device=scores.device) % 2 == 1
        turned = odd & (self.coupling < 0)
        means = _denoised(torch.where(turned, 1 - scores, scores), self.coupling.abs(), mask).clamp(0, 1)
        means = torch.where(turned, 1 - means, means)
        return means if mask is None else means * mask
