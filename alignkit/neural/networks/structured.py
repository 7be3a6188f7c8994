"""Structured normalizers: neighbours are fused (fusedmax), or chosen together by a chain of binary variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from entmax import sparsemax
from torch import Tensor, nn
from torch.nn.functional import softplus

from alignkit.kernels.total_variation import denoise_rows
from alignkit.neural.networks.normalizers import Normalizer, without_padding


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
