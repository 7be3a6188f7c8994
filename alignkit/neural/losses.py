"""Losses over a large vocabulary, whose gradients are computed together with their values.

The (N, V) logits are by far the largest array of a step. Turning them into their own gradient in place takes as
few passes over them as possible, where autograd would keep a second and a third array of that size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class TokenLoss(torch.autograd.Function):
    """Mean of -log softmax(W x + b)[y] over N tokens, in nats.

    ``TokenLoss.apply(x (N, H), weight (V, H), bias (V,), y int64 (N,), smoothing)`` -> scalar. With label
    smoothing, each target has the probability 1 - smoothing, and all V tokens share the rest (Szegedy et al.
    2016).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
        logits = torch.addmm(bias, x, weight.t())
        even = torch.logsumexp(logits, 1) - logits.mean(1) if smoothing else None
        torch.softmax(logits, 1, out=logits)
        # A probability that underflows to 0 counts as the smallest float32 number; the gradient is still right.
        loss = -logits.gather(1, y.unsqueeze(1)).clamp_min_(torch.finfo(logits.dtype).tiny).log_().mean()
        # d loss / d logits = (softmax - target distribution) / N
        rows = torch.arange(len(y), device=y.device)
        logits[rows, y] -= 1.0 - smoothing
        if even is not None:
            loss = (1 - smoothing) * loss + smoothing * even.mean()
            logits -= smoothing / logits.shape[1]
        logits /= max(len(y), 1)
        ctx.save_for_backward(logits.mm(weight), logits.t().mm(x), logits.sum(0))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient.mul_(grads[0]) for gradient in ctx.saved_tensors), None, None)


class BagLoss(torch.autograd.Function):
    """Mean of -log softmax(W x_m)[y] over all (m, y) in the bags, in nats: the loss of the proxy.

    ``BagLoss.apply(x (B, K), weight (V, K), rows int64 (N,), y int64 (N,))``: token n belongs to bag rows[n].
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, rows: Tensor, y: Tensor) -> Tensor:
        logits = x.mm(weight.t())
        count = max(len(y), 1)
        right = logits[rows, y].sum()
        lengths = torch.bincount(rows, minlength=len(x)).to(x.dtype)
        loss = (torch.logsumexp(logits, 1).dot(lengths) - right) / count
        # d loss / d logits[m] = (T_m softmax - counts of the words in bag m) / N
        torch.softmax(logits, 1, out=logits)
        logits *= (lengths / count).unsqueeze(1)
        ones = torch.full_like(y, -1.0 / count, dtype=x.dtype)
        logits.view(-1).index_add_(0, rows * len(weight) + y, ones)
        ctx.save_for_backward(logits.mm(weight), logits.t().mm(x))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient.mul_(grads[0]) for gradient in ctx.saved_tensors), None, None)
