"""Attention with several heads (Vaswani et al. 2017), each with maps of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.networks.attention import Attention, uniform_weights
from alignkit.neural.networks.normalizers import Normalizer
from alignkit.neural.networks.score_functions import ScoreFunction


class MultiHeadAttention(Attention):
    """K heads: head k scores Q_k s_t against K_k h_l, and its context is the weighted mean of V_k h_l.

    The contexts of the heads, D/K numbers each, stand side by side.

    Args:
        state: H, the size of a decoder state.
        encoding: D, the size of an encoder state, a multiple of K (:func:`check_heads`).
        score: the score function of all heads, of states and encoder states of D/K numbers; None for uniform
            weights.
        normalizer: for K heads.
        heads: K.
    """

    def __init__(
        self, state: int, encoding: int, score: ScoreFunction | None, normalizer: Normalizer | None, heads: int
    ) -> None:
        super().__init__(state, encoding)
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, encoding) for size in (state, encoding, encoding))
        self.score, self.normalizer = score, normalizer

    def head_weights(self, s: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        if self.score is None or self.normalizer is None:
            return uniform_weights(h, mask).unsqueeze(1).expand(-1, self.heads, s.shape[1], -1)
        queries, keys = (of_heads(x, self.heads).flatten(0, 1) for x in (self.query(s), self.key(h)))
        repeated = None if mask is None else mask.repeat_interleave(self.heads, 0)
        weights: Tensor = self.normalizer(self.score(queries, keys, repeated).unflatten(0, (-1, self.heads)), mask)
        return weights

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = self.head_weights(s, h, mask)
        return contexts_of_heads(weights, self.value(h)), weights.mean(1)


def check_heads(size: int, heads: int) -> None:
    """Raise AlignkitError if states of this size cannot be divided among this number of heads."""
    if size % heads:
        raise AlignkitError(f"network: encoder states of {size} numbers cannot be divided among {heads} heads")


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
