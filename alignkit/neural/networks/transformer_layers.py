"""Parts of transformers: positions, self-attention, residual connections, and encoder layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from alignkit.neural.networks.multihead import contexts_of_heads, of_heads, values_of_heads
from alignkit.neural.networks.transformer_settings import TransformerSettings


class PositionEncoding(nn.Module):
    """Where tokens stand, as vectors that are added to embeddings, or as numbers that are added to scores."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.kind, self.size, self.reach = settings.positions, settings.embedding, settings.reach
        if self.kind == "learned":
            self.table = nn.Embedding(settings.longest, self.size)
            nn.init.normal_(self.table.weight, std=1.0)
        elif self.kind == "relative":
            self.bias = nn.Parameter(torch.zeros(settings.heads, 2 * self.reach + 1))

    def vectors(self, first: int, count: int, like: Tensor) -> Tensor | None:
        """(count, E): the vectors of the positions from ``first`` on, or None."""
        places = torch.arange(first, first + count, device=like.device)
        if self.kind == "learned":
            found: Tensor = self.table(places.clamp_max(self.table.num_embeddings - 1))
            return found
        if self.kind == "relative":
            return None
        rates = torch.arange(0, self.size, 2, device=like.device) * (-math.log(10000.0) / self.size)
        angles = places.unsqueeze(1) * rates.exp().unsqueeze(0)
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, : self.size].to(like.dtype)

    def biases(self, first: int, rows: int, columns: int) -> Tensor | None:
        """(K, rows, columns): the numbers added to the scores of queries from position ``first`` on, or None."""
        if self.kind != "relative":
            return None
        device = self.bias.device
        own = torch.arange(first, first + rows, device=device).unsqueeze(1)
        distances = torch.arange(columns, device=device).unsqueeze(0) - own
        return self.bias[:, distances.clamp(-self.reach, self.reach) + self.reach]


class SelfAttention(nn.Module):
    """Scaled dot-product attention of states over states of the same sequence, with several heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.maps = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(
        self, x: Tensor, hidden: Tensor | None, biases: Tensor | None, cache: Tensor
    ) -> tuple[Tensor, ...]:
        """New states of states x.

        Args:
            x: (N, T, E).
            hidden: True where a query must not look, broadcast to (N, K, T, S); None if it may look everywhere.
            biases: (K, T, S), added to the scores, or None.
            cache: (N, S - T, 2 E), keys and values of the states before x.

        Returns:
            (N, T, E); the weights (N, K, T, S); and the cache of all states so far, (N, S, 2 E).
        """
        queries, fresh = self.maps(x).tensor_split([x.shape[2]], 2)
        cache = torch.cat([cache, fresh], 1)
        keys, values = cache.chunk(2, 2)
        q, k = of_heads(queries, self.heads), of_heads(keys, self.heads)
        scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
        if biases is not None:
            scores = scores + biases
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = torch.softmax(scores, 3)
        return self.out(contexts_of_heads(weights, values)), weights, cache


class ResidualConnection(nn.Module):
    """x + f(norm(x)), or norm(x + f(x)), with dropout of what f gives."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(settings.embedding)
        self.dropout = nn.Dropout(settings.dropout)
        self.first = settings.norm == "pre"

    def forward(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            return x + self.dropout(function(self.norm(x)))
        return self.norm(x + self.dropout(function(x)))


def feed_forward_network(settings: TransformerSettings) -> nn.Sequential:
    """The network of each layer that maps every state by itself."""
    size = settings.embedding
    parts = (
        nn.Linear(size, settings.hidden),
        nn.ReLU(),
        nn.Dropout(settings.dropout),
        nn.Linear(settings.hidden, size),
    )
    return nn.Sequential(*parts)


class SelfAttended(NamedTuple):
    """What an encoder layer gives.

    Attributes:
        x: (B, L, E), its states.
        weights: (B, K, L, L), its attention.
        values: (B, K, L, E), what head k adds to a state that attends to token l alone, W_O (W_V h_l + b_V).
    """

    x: Tensor
    weights: Tensor
    values: Tensor


class TransformerEncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with its residual connection."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings.embedding, settings.heads)
        self.feed_forward = feed_forward_network(settings)
        self.residuals = nn.ModuleList(ResidualConnection(settings) for _ in range(2))

    def forward(self, x: Tensor, hidden: Tensor | None, biases: Tensor | None, with_values: bool) -> SelfAttended:
        """New states (B, L, E) of states x, and the weights; the values are empty unless they are asked for."""
        seen: list[Tensor] = []

        def attended(x: Tensor) -> Tensor:
            nothing = x.new_empty(len(x), 0, 2 * x.shape[2])
            out, weights, cache = self.attention(x, hidden, biases, nothing)
            values = cache.chunk(2, 2)[1] if with_values else nothing[:, :, : x.shape[2]]
            seen.extend((weights, values_of_heads(self.attention.out, values, self.attention.heads)))
            return out

        x = self.residuals[0](x, attended)
        return SelfAttended(self.residuals[1](x, self.feed_forward), *seen)
