"""Attention of the decoder's state s_t over the encoder's states h_l (paper, section 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.mechanisms import NORMALIZERS, SCORE_FUNCTIONS, UNIFORM, Mechanism, parse_mechanism
from alignkit.neural.networks.normalizers import Normalizer, Softmax, without_padding
from alignkit.neural.networks.score_functions import QueryScore, ScoreFunction
from alignkit.support.packages import imported


class Attention(nn.Module, ABC):
    """An attention, which gives decoder states their contexts and weights over encoder states."""

    #: whether gradients have the same bits at any number of threads; otherwise training computes them on one
    exact = False

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
        return weights * (grads[0] - (grads[0] * weights).sum(-1, keepdim=True))


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
        super().__init__()
        self.score, self.normalizer = score, normalizer

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`Attention.forward`; ``s`` may be None if the score function does without (T is then 1)."""
        weights = self.normalizer(self.score(s, h, mask).unsqueeze(1), mask).squeeze(1)
        return torch.bmm(weights, h), weights


class QueryAttention(ComposedAttention):
    """A composed attention with a_tl = query_t · h_l, the query made from s_t.

    Its derivatives are written out, for saliency to use in place of autograd.
    """

    score: QueryScore
    normalizer: Normalizer

    def __init__(self, score: QueryScore, normalizer: Normalizer) -> None:
        super().__init__(score, normalizer)
        self.exact = isinstance(normalizer, Softmax)

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.exact:
            return dot_product_attention(self.score.queries(s, h), h, mask)
        return super().forward(s, h, mask)

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


class UniformAttention(Attention):
    """alpha = 1/L regardless of the states; the attention of the network that gives beta_uf."""

    exact = True

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = uniform_weights(h, mask)
        return torch.bmm(weights, h), weights.expand(-1, s.shape[1], -1)

    def derivatives(
        self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor
    ) -> tuple[Tensor | None, tuple[StateGradient, ...]]:
        """As :meth:`QueryAttention.derivatives`."""
        return None, (StateGradient(weights, by_context),)


def uniform_weights(h: Tensor, mask: Tensor | None) -> Tensor:
    """1/L where there is a token, (B, 1, L); arguments as :meth:`Attention.forward`."""
    batch, length = h.shape[:2]
    if mask is None:
        return h.new_full((batch, 1, length), 1.0 / max(length, 1))
    weights = mask.to(h.dtype)
    return (weights / weights.sum(1, keepdim=True)).unsqueeze(1)


class MultiHeadAttention(Attention):
    """K heads: head k scores Q_k s_t against K_k h_l, and its context is the weighted mean of V_k h_l.

    The contexts of the heads, D/K numbers each, stand side by side.

    Args:
        state: H, the size of a decoder state.
        encoding: D, the size of an encoder state, a multiple of K.
        score: the score function of all heads, of states and encoder states of D/K numbers; None for uniform
            weights.
        normalizer: for K heads.
        heads: K.
    """

    def __init__(
        self, state: int, encoding: int, score: ScoreFunction | None, normalizer: Normalizer | None, heads: int
    ) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, encoding) for size in (state, encoding, encoding))
        self.score, self.normalizer = score, normalizer

    def head_weights(self, s: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        if self.score is None or self.normalizer is None:
            return uniform_weights(h, mask).unsqueeze(1).expand(-1, self.heads, s.shape[1], -1)
        queries, keys = (of_heads(x, self.heads).flatten(0, 1) for x in (self.query(s), self.key(h)))
        repeated = None if mask is None else mask.repeat_interleave(self.heads, 0)
        return self.normalizer(self.score(queries, keys, repeated).unflatten(0, (-1, self.heads)), mask)

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = self.head_weights(s, h, mask)
        return contexts_of_heads(weights, self.value(h)), weights.mean(1)


def of_heads(x: Tensor, heads: int) -> Tensor:
    """(B, K, N, D/K): the parts of states (B, N, D) that belong to each head."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def values_of_heads(out: nn.Linear, values: Tensor, heads: int) -> Tensor:
    """(B, K, L, E): what head k adds if all of its weight is on l, its values through its columns of W_O.

    Args:
        out: the map W_O of the heads' contexts, D to E; its bias, which belongs to no head, is left out.
        values: (B, L, D), of all heads.
        heads: K.
    """
    columns = out.weight.t().unflatten(0, (heads, -1))
    return of_heads(values, heads) @ columns


def contexts_of_heads(weights: Tensor, values: Tensor) -> Tensor:
    """(B, T, D): the weighted means of values (B, L, D) with the weights (B, K, T, L), head by head."""
    heads = weights.shape[1]
    return torch.matmul(weights, of_heads(values, heads)).transpose(1, 2).flatten(2)


def new_attention(name: str, state: int, encoding: int, heads: int = 1) -> Attention:
    """An attention with random weights, drawn from torch's global generator.

    Args:
        name: ``uniform``, or of a mechanism.
        state: H, the size of a decoder state, and of hidden layers of the score function.
        encoding: D, the size of an encoder state.
        heads: K; from two on, each has maps of its own from states, encoder states and to contexts of D/K numbers.

    Raises:
        AlignkitError: there is no such attention, or the sizes do not fit it.
    """
    if name == UNIFORM:
        return UniformAttention()
    mechanism = parse_mechanism(name)
    if heads > 1:
        return new_attention_of_heads(name, state, encoding, heads)
    score = new_score_function(mechanism, state, encoding, state)
    normalizer = new_normalizer(mechanism, 1)
    if isinstance(score, QueryScore):
        return QueryAttention(score, normalizer)
    return ComposedAttention(score, normalizer)


def new_attention_of_heads(name: str, state: int, encoding: int, heads: int) -> MultiHeadAttention:
    """As :func:`new_attention`, with maps of its own also for a single head; ``uniform``, or a mechanism."""
    if encoding % heads:
        raise AlignkitError(f"network: encoder states of {encoding} numbers cannot be divided among {heads} heads")
    if name == UNIFORM:
        return MultiHeadAttention(state, encoding, None, None, heads)
    mechanism, size = parse_mechanism(name), encoding // heads
    score = new_score_function(mechanism, size, size, size)
    return MultiHeadAttention(state, encoding, score, new_normalizer(mechanism, heads), heads)


def new_text_attention(name: str, encoding: int, hidden: int) -> ComposedAttention | None:
    """The attention of a network without decoder states, of one head; None for uniform weights.

    Args:
        name: ``uniform``, or of a mechanism.
        encoding: D, the size of an encoder state.
        hidden: the size of hidden layers of the score function.

    Raises:
        AlignkitError: there is no such attention.
    """
    if name == UNIFORM:
        return None
    mechanism = parse_mechanism(name, "classifier")
    return ComposedAttention(new_score_function(mechanism, 0, encoding, hidden), new_normalizer(mechanism, 1))


def new_score_function(mechanism: Mechanism, state: int, encoding: int, hidden: int) -> ScoreFunction:
    """The mechanism's score function; the sizes as in :class:`ScoreFunction`."""
    return imported(SCORE_FUNCTIONS[mechanism.score])(state, encoding, hidden)


def new_normalizer(mechanism: Mechanism, heads: int) -> Normalizer:
    """The mechanism's normalizer for this number of heads."""
    return imported(NORMALIZERS[mechanism.normalizer].place)(heads, mechanism.parameter)
