"""Hard attention: all weight on the position of the largest score, and three ways to train that.

In evaluation mode all three take the largest score, and the true derivative of the weights in the scores is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from alignkit.neural.networks.normalizers import NormalizerWithDerivative, without_padding


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
