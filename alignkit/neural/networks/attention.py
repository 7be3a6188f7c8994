"""Attention of the decoder's state s_t over the encoder's states h_l (paper, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from alignkit.neural.devices import one_thread
from alignkit.neural.networks.normalizers import Normalizer, NormalizerWithDerivative, Softmax, without_padding
from alignkit.neural.networks.score_functions import QueryScore, ScoreFunction


class Attention(nn.Module, ABC):
    """An attention, which gives decoder states their contexts and weights over encoder states.

    To add one that is not a score function and a normalizer (:mod:`alignkit.neural.networks.mechanisms`), write a
    subclass that takes ``state`` and ``encoding``, and a line in
    :data:`alignkit.neural.networks.registry.ATTENTIONS`. Saliency works with any of them, by autograd; with
    :class:`AttentionWithDerivatives` it is faster.

    Args:
        state: H, the size of a decoder state.
        encoding: D, the size of an encoder state.
    """

    #: whether gradients have the same bits at any number of threads; otherwise training computes them on one
    exact = False

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
            (B, T, L), 0 where padded; the means of the heads' if there are several.
        """

    def head_weights(self, s: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        """The weights of the K heads, (B, K, T, L); arguments as in :meth:`forward`."""
        return self(s, h, mask)[1].unsqueeze(1)


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


class _Softmax(torch.autograd.Function):
    """Softmax of the last dimension. The bits of torch's own gradient depend on the number of threads."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = torch.softmax(scores, -1)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        found: Tensor = weights * (grads[0] - (grads[0] * weights).sum(-1, keepdim=True))
        return found


def dot_product_attention(query: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Softmax attention by scores a_tl = query_t · h_l: contexts (B, T, D) and weights (B, T, L).

    Args:
        query: (B, T, D).
        h, mask: as in :meth:`Attention.forward`.
    """
    weights = _Softmax.apply(
        without_padding(torch.bmm(query, h.transpose(1, 2)), None if mask is None else mask.unsqueeze(1))
    )
    return torch.bmm(weights, h), weights


class ComposedAttention(Attention):
    """An attention whose scores a normalizer turns into weights.

    Args:
        score: the score function.
        normalizer: the normalizer.
    """

    def __init__(self, score: ScoreFunction, normalizer: Normalizer) -> None:
        super().__init__(0, 0)
        self.score, self.normalizer = score, normalizer

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`Attention.forward`; ``s`` may be None if the score function does without (T is then 1)."""
        weights = self.normalizer(self.score(s, h, mask).unsqueeze(1), mask).squeeze(1)
        return torch.bmm(weights, h), weights


class QueryAttention(ComposedAttention, AttentionWithDerivatives):
    """A composed attention whose derivatives are written out: a_tl = query_t · h_l with a query made from s_t."""

    score: QueryScore
    normalizer: NormalizerWithDerivative

    def __init__(self, score: QueryScore, normalizer: NormalizerWithDerivative) -> None:
        super().__init__(score, normalizer)
        self.exact = isinstance(normalizer, Softmax)

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.exact:
            return dot_product_attention(self.score.queries(s, h), h, mask)
        return super().forward(s, h, mask)

    def derivatives(
        self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor
    ) -> tuple[Tensor | None, tuple[StateGradient, ...]]:
        mean = StateGradient(weights, by_context)
        with one_thread(s.device):
            by_weight = torch.bmm(by_context, h.transpose(1, 2))
            # A dimension for the head, whose parameters the normalizer may have.
            by_score = self.normalizer.pull_back(weights.unsqueeze(1), by_weight.unsqueeze(1))
            if by_score is None:
                return None, (mean,)
            by_score = by_score.squeeze(1)
            by_query = torch.bmm(by_score, h)
        return self.score.pull_back(by_query), (mean, StateGradient(by_score, self.score.queries(s, h)))


class UniformAttention(AttentionWithDerivatives):
    """alpha = 1/L regardless of the states; the attention of the network that gives beta_uf."""

    exact = True

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
