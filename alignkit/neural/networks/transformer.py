"""The transformer encoder-decoder (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.devices import to_device
from alignkit.neural.networks.attention import MultiHeadAttention, contexts_of_heads, of_heads, samplers
from alignkit.neural.networks.encoder_decoder import Decoded, Encoding, State, TranslationNetwork
from alignkit.neural.settings import Reading, TransformerSettings, parse_attention


def position_vectors(first: int, count: int, like: Tensor) -> Tensor:
    """(count, E): sinusoidal vectors of the positions from ``first`` on, to be added to states (..., E)."""
    places = torch.arange(first, first + count, device=like.device)
    size = like.shape[-1]
    rates = torch.arange(0, size, 2, device=like.device) * (-math.log(10000.0) / size)
    angles = places.unsqueeze(1) * rates.exp().unsqueeze(0)
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :size].to(like.dtype)


class SelfAttention(nn.Module):
    """Scaled dot-product attention of states over states of the same sequence, with several heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.maps = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Tensor, hidden: Tensor | None, cache: Tensor) -> tuple[Tensor, Tensor]:
        """New states of states x.

        Args:
            x: (N, T, E).
            hidden: True where a query must not look, broadcast to (N, K, T, S); None if it may look everywhere.
            cache: (N, S - T, 2 E), keys and values of the states before x.

        Returns:
            (N, T, E), and the cache of all states so far, (N, S, 2 E).
        """
        queries, fresh = self.maps(x).tensor_split([x.shape[2]], 2)
        cache = torch.cat([cache, fresh], 1)
        keys, values = cache.chunk(2, 2)
        q, k = of_heads(queries, self.heads), of_heads(keys, self.heads)
        scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = torch.softmax(scores, 3)
        return self.out(contexts_of_heads(weights, values)), cache


def residual_parts(settings: TransformerSettings, count: int) -> nn.ModuleList:
    """``norm`` and ``dropout`` of a layer's parts f, each of which adds dropout(f(norm(x))) to x."""
    size, rate = settings.embedding, settings.dropout
    parts = ({"norm": nn.LayerNorm(size), "dropout": nn.Dropout(rate)} for _ in range(count))
    return nn.ModuleList(nn.ModuleDict(part) for part in parts)


def feed_forward_network(settings: TransformerSettings) -> nn.Sequential:
    """The network of each layer that maps every state by itself."""
    size, hidden = settings.embedding, settings.hidden
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Dropout(settings.dropout), nn.Linear(hidden, size))


class TransformerEncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with its residual connection."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.attention = SelfAttention(settings.embedding, settings.heads)
        self.feed_forward = feed_forward_network(settings)
        self.residuals: Any = residual_parts(settings, 2)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        """New states (B, L, E) of states x; ``hidden`` as of :class:`SelfAttention`."""
        nothing = x.new_empty(len(x), 0, 2 * x.shape[2])
        to_itself, feed_forward = self.residuals
        x = x + to_itself["dropout"](self.attention(to_itself["norm"](x), hidden, nothing)[0])
        return x + feed_forward["dropout"](self.feed_forward(feed_forward["norm"](x)))


class TransformerDecoderLayer(nn.Module):
    """Self-attention, attention to the source and a feed-forward network, each with its residual connection."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        size = settings.embedding
        self.attention = SelfAttention(size, settings.heads)
        self.cross = MultiHeadAttention(parse_attention("network", settings.attention), size, size, settings.heads)
        self.out = nn.Linear(size, size)
        self.feed_forward = feed_forward_network(settings)
        self.residuals: Any = residual_parts(settings, 3)

    def forward(
        self, x: Tensor, encoding: Encoding, cache: Tensor, uniform: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """New states of states x (N, T, E) that follow those in the cache (N, S - T, 2 E).

        Returns:
            the states; the attention to the source (N, K, T, L); the cache of all states so far, (N, S, 2 E).
        """
        (rows, size), before = x.shape[1:], cache.shape[1]
        to_itself, to_source, feed_forward = self.residuals
        future = None
        if rows > 1:
            future = torch.ones(rows, before + rows, dtype=torch.bool, device=x.device).triu(before + 1)
        added, cache = self.attention(to_itself["norm"](x), future, cache)
        x = x + to_itself["dropout"](added)
        # The hypotheses of a sentence share its encoder states, like as many more target tokens.
        h, mask, s = encoding.h, encoding.mask, to_source["norm"](x).reshape(len(encoding.h), -1, size)
        weights = self.cross.head_weights(s, h, mask, uniform)
        context = contexts_of_heads(weights, self.cross.value(h)).reshape_as(x)
        x = x + to_source["dropout"](self.out(context))
        x = x + feed_forward["dropout"](self.feed_forward(feed_forward["norm"](x)))
        return x, weights.unflatten(2, (-1, rows)).transpose(1, 2).flatten(0, 1), cache


class Transformer(TranslationNetwork):
    """Encoder and decoder layers of self-attention, attention to the source and feed-forward networks.

    The attention to the source is that of the settings; self-attention is scaled dot-product attention. The
    decoder's state is the keys and values of each layer's self-attention so far, (S, N, 2 E). ``alpha`` is the
    mean over layers and heads unless a :class:`alignkit.neural.settings.Reading` says otherwise.
    """

    settings: TransformerSettings
    has_ov_circuits = True

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        size = settings.embedding
        self.embedding = nn.Embedding(settings.vocabulary, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = nn.ModuleList(TransformerEncoderLayer(settings) for _ in range(settings.layers))
        self.decoder = nn.ModuleList(TransformerDecoderLayer(settings) for _ in range(settings.layers))
        self.last_norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.output = nn.Linear(size, settings.vocabulary)
        if any(True for _ in samplers(self)):
            raise AlignkitError(
                "network: reinforce is for networks whose later tokens do not depend on what was sampled: "
                "not for the transformer"
            )

    def _embedded(self, tokens: Tensor, first: int, omega: Tensor | None = None) -> Tensor:
        """(N, T, E): tokens (T, N) with their positions, the first of which is ``first``."""
        x = self.embedding(tokens).transpose(0, 1) * self.settings.embedding**0.5
        if omega is not None:
            x = x * omega.t().unsqueeze(2)
        return self.dropout(x + position_vectors(first, len(tokens), x))

    def encode(self, source: Tensor, lengths: np.ndarray, omega: Tensor | None = None) -> Encoding:
        """As :meth:`TranslationNetwork.encode`."""
        length, size = source.shape
        x = self._embedded(source, 0, omega)
        mask = None
        if (lengths != length).any():
            mask = to_device(np.arange(length) < lengths[:, None], source.device)
        hidden = None if mask is None else ~mask[:, None, None]
        for layer in self.encoder if length else []:
            x = layer(x, hidden)
        start = tuple(x.new_empty(0, size, 2 * x.shape[2]) for _ in self.decoder)
        return Encoding(self.last_norms[0](x), start, mask)

    def ov_features(self, h: Tensor, reading: Reading) -> Tensor:
        """As :meth:`TranslationNetwork.ov_features`, after the last layer normalization."""
        decoder: list[Any] = list(self.decoder)
        chosen = [decoder[reading.layer - 1]] if reading.layer else decoder
        # What head k adds to a state that attends to h_l alone, (B, K, L, E) in each layer: its values through its
        # columns of W_O, whose bias belongs to no head.
        heads = self.settings.heads
        columns = [one.out.weight.t().unflatten(0, (heads, -1)) for one in chosen]
        values = [of_heads(one.cross.value(h), heads) @ own for one, own in zip(chosen, columns, strict=True)]
        layers = torch.stack(values, 1)
        added = layers[:, :, [reading.head - 1]] if reading.head else layers
        return self.last_norms[1](added.sum((1, 2)))

    def _decode(
        self, previous: Tensor, encoding: Encoding, state: State, uniform: bool
    ) -> tuple[Tensor, list[Tensor], State]:
        """The features (N, T, E), the attention of every layer (N, K, T, L), and the new state."""
        x = self._embedded(previous, len(state[0]))
        looked, caches = [], []
        for layer, cache in zip(self.decoder, state, strict=True):
            x, weights, now = layer(x, encoding, cache.transpose(0, 1), uniform)
            looked.append(weights)
            caches.append(now.transpose(0, 1))
        return self.last_norms[1](x), looked, tuple(caches)

    def decode(self, previous: Tensor, encoding: Encoding, state: State, uniform: bool = False) -> Decoded:
        features, weights, state = self._decode(previous, encoding, state, uniform)
        return Decoded(features, torch.stack([part.mean(1) for part in weights]).mean(0), state)

    def decode_with_maps(self, previous: Tensor, encoding: Encoding) -> tuple[Decoded, Tensor]:
        features, weights, state = self._decode(previous, encoding, encoding.start, False)
        maps = torch.stack(weights, 1)
        return Decoded(features, maps.mean((1, 2)), state), maps

    def attention_maps(self, encoding: Encoding, previous: Tensor) -> Tensor:
        return self.decode_with_maps(previous, encoding)[1]

    def lexical_features(self, encoding: Encoding, previous: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """As :meth:`TranslationNetwork.lexical_features`, of all encoder states at once."""
        size, length, width = encoding.h.shape
        start = tuple(state.repeat_interleave(length, 1) for state in encoding.start)
        one = Encoding(encoding.h.reshape(-1, 1, width), start, None)
        x = self.decode(previous.repeat_interleave(length, 1), one, one.start).features
        table = x.view(size, length, len(previous), -1).transpose(1, 2).flatten(0, 2)
        return lambda rows, columns: table[rows * length + columns % length]
