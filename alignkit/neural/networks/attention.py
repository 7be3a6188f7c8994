"""Attention: how much the decoder's state s_t looks at each encoder state h_l (paper, section 3.1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from alignkit.neural.devices import one_thread


class _Attend(torch.autograd.Function):
    """Weights and contexts of general attention, with one thread on a CPU.

    Its products are small, so threads would gain nothing; and the libraries' ways to share such small work give
    other last bits with another number of threads, on which training must not depend.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        with one_thread(query.device):
            scores = torch.bmm(query, h.transpose(1, 2))
            if mask is not None:
                scores = scores.masked_fill_(~mask.unsqueeze(1), float("-inf"))
            weights = torch.softmax(scores, dim=2)
            context = torch.bmm(weights, h)
        ctx.mark_non_differentiable(weights)
        ctx.save_for_backward(query, h, weights)
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, h, weights = ctx.saved_tensors
        with one_thread(query.device):
            by_weight = torch.bmm(grads[0], h.transpose(1, 2))
            by_score = weights * (by_weight - (by_weight * weights).sum(2, keepdim=True))
            by_h = torch.bmm(by_score.transpose(1, 2), query).baddbmm_(weights.transpose(1, 2), grads[0])
            return torch.bmm(by_score, h), by_h, None


def attend(query: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Contexts (B, T, D) and weights (B, T, L) of queries (B, T, D) over h (B, L, D)."""
    context, weights = _Attend.apply(query, h, mask)
    return context, weights


class GeneralAttention(nn.Module):
    """a_tl = h_l · (W s_t + b), alpha = softmax over l."""

    def __init__(self, hidden: int, encoding: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, encoding)

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the decoder sees, and how it looks.

        Args:
            s: (B, T, H).
            h: (B, L, D).
            mask: (B, L), True where there is a token; None says that nothing is padded.

        Returns:
            contexts (B, T, D), the means of h by the weights; weights (B, T, L), through which no gradient flows.
        """
        return attend(self.query(s), h, mask)


class UniformAttention(nn.Module):
    """alpha = 1/L whatever the states are: the network that beta_uf comes from."""

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`GeneralAttention.forward`; every row t of a pair is the same."""
        weights = uniform_weights(h, mask)
        steps = s.shape[1]
        return torch.bmm(weights, h).expand(-1, steps, -1), weights.expand(-1, steps, -1)


def uniform_weights(h: Tensor, mask: Tensor | None) -> Tensor:
    """1/L where there is a token, (B, 1, L); arguments as :meth:`GeneralAttention.forward`."""
    batch, length = h.shape[:2]
    if mask is None:
        return h.new_full((batch, 1, length), 1.0 / length)
    weights = mask.to(h.dtype)
    return (weights / weights.sum(1, keepdim=True)).unsqueeze(1)
