"""Attention of the decoder's state s_t over the encoder's states h_l (paper, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from alignkit.neural.devices import one_thread
from alignkit.neural.networks.hard import samplers
from alignkit.neural.networks.normalizers import Normalizer, NormalizerWithDerivative, Softmax
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
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, h, weights)
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        query, h, weights = ctx.saved_tensors
        by_context, by_weight = grads
        if by_context is None:
            by_context = torch.zeros_like(query)
        with one_thread(query.device):
            total = torch.bmm(by_context, h.transpose(1, 2))
            if by_weight is not None:  # a loss of the weights themselves
                total += by_weight
            by_score = weights * (total - (total * weights).sum(2, keepdim=True))
            by_h = torch.bmm(by_score.transpose(1, 2), query).baddbmm_(weights.transpose(1, 2), by_context)
            return torch.bmm(by_score, h), by_h, None


def dot_product_attention(query: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Softmax attention by scores a_tl = query_t · h_l: contexts (B, T, D) and weights (B, T, L).

    Args:
        query: (B, T, D).
        h, mask: as in :meth:`Attention.forward`.
    """
    context, weights = _Attend.apply(query, h, mask)
    return context, weights


class _OnOneThread(torch.autograd.Function):
    """The outputs of a function of tensors, computed by one thread on a CPU, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
        with one_thread(tensors[0].device), torch.enable_grad():
            inputs = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
            outputs = function(*inputs)
        ctx.set_materialize_grads(False)
        ctx.inputs, ctx.outputs = inputs, outputs
        return tuple(output.detach() for output in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted = [tensor for tensor in ctx.inputs if tensor.requires_grad]
        known = [
            (output, by)
            for output, by in zip(ctx.outputs, grads, strict=True)
            if by is not None and output.requires_grad
        ]
        found: list[Tensor | None] = [None] * len(wanted)
        if known and wanted:
            with one_thread(ctx.inputs[0].device):
                outputs, by = zip(*known, strict=True)
                found = list(torch.autograd.grad(outputs, wanted, by, retain_graph=True, allow_unused=True))
        rest = iter(found)
        return (None, *(next(rest) if tensor.requires_grad else None for tensor in ctx.inputs))


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


def attend(attention: Attention, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """``attention(s, h, mask)`` by one thread on a CPU, also backwards, so that the bits do not depend on threads.

    That of samplers (:class:`alignkit.neural.networks.hard.Reinforce`), whose gradient has a path of its own, runs
    backwards on all threads.
    """
    if s.device.type != "cpu" or not torch.is_grad_enabled() or any(True for _ in samplers(attention)):
        with one_thread(s.device):
            found: tuple[Tensor, Tensor] = attention(s, h, mask)
        return found
    parameters = dict(attention.named_parameters())

    def function(s: Tensor, h: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
        return functional_call(attention, dict(zip(parameters, values, strict=True)), (s, h, mask))

    return _OnOneThread.apply(function, s, h, *parameters.values())


class QueryAttention(ComposedAttention, AttentionWithDerivatives):
    """A composed attention whose derivatives are written out: a_tl = query_t · h_l with a query made from s_t."""

    score: QueryScore
    normalizer: NormalizerWithDerivative

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if isinstance(self.normalizer, Softmax):
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
