"""Attention of the decoder's state s_t over the encoder's states h_l (paper, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.devices import one_thread


class Attention(nn.Module, ABC):
    """An attention, which gives decoder states their contexts and weights over encoder states.

    To add one, write a subclass and a line in :data:`alignkit.neural.networks.registry.ATTENTIONS`. Saliency works
    with any of them, by autograd; with :class:`AttentionWithDerivatives` it is faster.

    Args:
        state: H, the size of a decoder state.
        encoding: D, the size of an encoder state.
    """

    def __init__(self, state: int, encoding: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The contexts that the decoder sees, and their weights. Each row t depends on s_t and h alone.

        Args:
            s: (B, T, H).
            h: (B, L, D).
            mask: (B, L), True where there is a token; None if nothing is padded.

        Returns:
            contexts (B, T, D), or (B, 1, D) if they are the same for all t: the weighted means of h; and weights
            (B, T, L), 0 where padded, whose gradient is not needed.
        """


class StateGradient(NamedTuple):
    """A term of the gradient of output t in h_l: weights[t, l] · directions[t].

    Attributes:
        weights: (B, T, L).
        directions: (B, T, D).
    """

    weights: Tensor
    directions: Tensor


class AttentionWithDerivatives(Attention):
    """An attention whose derivatives are written out, for saliency to use in place of autograd."""

    @abstractmethod
    def derivatives(
        self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor
    ) -> tuple[Tensor | None, tuple[StateGradient, ...]]:
        """The derivatives of T outputs in the states, given those in their contexts.

        Args:
            s, h: as in :meth:`forward`, nothing padded.
            weights: (B, T, L), from :meth:`forward`.
            by_context: (B, T, D), the derivative of output t in context t.

        Returns:
            the derivatives in s_t, (B, T, H), or None if they are 0; and the terms of those in h_l.
        """


class _Attend(torch.autograd.Function):
    """Weights and contexts of queries, computed by one thread on a CPU.

    The products are too small to gain from threads, and the way libraries divide such small work changes the last
    bits with the number of threads, on which training must not depend.
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
            by_score = _score_gradient(h, weights, grads[0])
            by_h = torch.bmm(by_score.transpose(1, 2), query).baddbmm_(weights.transpose(1, 2), grads[0])
            return torch.bmm(by_score, h), by_h, None


def _score_gradient(h: Tensor, weights: Tensor, by_context: Tensor) -> Tensor:
    """(B, T, L): the derivatives in the scores, of which softmax makes the weights."""
    by_weight = torch.bmm(by_context, h.transpose(1, 2))
    return weights * (by_weight - (by_weight * weights).sum(2, keepdim=True))


def dot_product_attention(query: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention by scores a_tl = query_t · h_l: contexts (B, T, D) and weights (B, T, L).

    Args:
        query: (B, T, D).
        h, mask: as in :meth:`Attention.forward`.
    """
    context, weights = _Attend.apply(query, h, mask)
    return context, weights


def weighted_mean(scores: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention by given scores (B, T, L): contexts and weights as :meth:`Attention.forward` returns them."""
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
    weights = torch.softmax(scores, dim=2)
    return torch.bmm(weights, h), weights


class QueryAttention(AttentionWithDerivatives):
    """a_tl = query_t · h_l with a query made from s_t; alpha = softmax over l."""

    @abstractmethod
    def queries(self, s: Tensor) -> Tensor:
        """Queries (B, T, D) of states (B, T, H)."""

    @abstractmethod
    def pull_back(self, by_query: Tensor) -> Tensor:
        """The derivatives in the states, (B, T, H), from those in the queries, (B, T, D)."""

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return dot_product_attention(self.queries(s), h, mask)

    def derivatives(
        self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor
    ) -> tuple[Tensor | None, tuple[StateGradient, ...]]:
        query = self.queries(s)
        with one_thread(s.device):
            by_score = _score_gradient(h, weights, by_context)
            by_query = torch.bmm(by_score, h)
        return self.pull_back(by_query), (StateGradient(weights, by_context), StateGradient(by_score, query))


class GeneralAttention(QueryAttention):
    """a_tl = h_l · (W s_t + b), the paper's; "general" in Luong et al. (2015), "bilinear" elsewhere."""

    def __init__(self, state: int, encoding: int) -> None:
        super().__init__(state, encoding)
        self.query = nn.Linear(state, encoding)

    def queries(self, s: Tensor) -> Tensor:
        queries: Tensor = self.query(s)
        return queries

    def pull_back(self, by_query: Tensor) -> Tensor:
        return by_query @ self.query.weight


class DotAttention(QueryAttention):
    """a_tl = h_l · s_t (Luong et al. 2015); the two directions of a bidirectional encoder's h_l are added."""

    def __init__(self, state: int, encoding: int) -> None:
        super().__init__(state, encoding)
        if encoding % state:
            raise AlignkitError(f"dot attention needs encoder states of {state} numbers, not {encoding}")
        self.directions = encoding // state

    def queries(self, s: Tensor) -> Tensor:
        return s.repeat(1, 1, self.directions)

    def pull_back(self, by_query: Tensor) -> Tensor:
        return by_query.unflatten(2, (self.directions, -1)).sum(2)


class UniformAttention(AttentionWithDerivatives):
    """alpha = 1/L regardless of the states; the attention of the network that gives beta_uf."""

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = uniform_weights(h, mask)
        return torch.bmm(weights, h), weights.expand(-1, s.shape[1], -1)

    def derivatives(
        self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor
    ) -> tuple[Tensor | None, tuple[StateGradient, ...]]:
        return None, (StateGradient(weights, by_context),)


def uniform_weights(h: Tensor, mask: Tensor | None) -> Tensor:
    """1/L where there is a token, (B, 1, L); arguments as :meth:`Attention.forward`."""
    batch, length = h.shape[:2]
    if mask is None:
        return h.new_full((batch, 1, length), 1.0 / max(length, 1))
    weights = mask.to(h.dtype)
    return (weights / weights.sum(1, keepdim=True)).unsqueeze(1)
