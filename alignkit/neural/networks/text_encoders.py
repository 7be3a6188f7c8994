"""Encoders of texts: from embeddings x_l to states h_l, with recurrence and without.

An encoder is a stack of layers; the states of layer 0 are the embeddings. It can be run from any layer on, so that
what a layer holds can be exchanged (:mod:`alignkit.neural.networks.gates`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.batching import to_device
from alignkit.neural.networks.transformer_layers import PositionEncoding, TransformerEncoderLayer
from alignkit.neural.networks.transformer_settings import TransformerSettings

DROPOUT = 0.1  #: in self-attention's residual connections and feed-forward networks


class TextEncoder(nn.Module, ABC):
    """A stack of layers over the embeddings of a text.

    Attributes:
        sizes: the sizes of the states of each layer, beginning with that of the embeddings, layer 0.
    """

    sizes: tuple[int, ...]

    @abstractmethod
    def layer(self, number: int, x: Tensor, lengths: np.ndarray) -> Tensor:
        """The states of a layer, counted from 1, from those of the layer below.

        Args:
            number: of the layer.
            x: (L, B, sizes[number - 1]), arbitrary at padding, which is at the end.
            lengths: int64 (B,), all at least 1.

        Returns:
            (L, B, sizes[number]), arbitrary at padding.
        """

    @property
    def depth(self) -> int:
        """The number of layers above the embeddings."""
        return len(self.sizes) - 1

    def forward(self, x: Tensor, lengths: np.ndarray, start: int = 0) -> Tensor:
        """The states of the last layer, (L, B, D), from those of layer ``start``; arguments as :meth:`layer`."""
        for number in range(start + 1, self.depth + 1):
            x = self.layer(number, x, lengths)
        return x


class LSTMEncoder(TextEncoder):
    """Bidirectional LSTMs, one above the other.

    Args:
        embedding: size of an embedding.
        hidden: size of each direction.
        layers: their number.
    """

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.sizes = (embedding, *[2 * hidden] * layers)
        # Two LSTMs that each read in one direction, so that texts of different lengths need no packing, which
        # takes four times as long on a CPU as reversing the texts.
        pairs = [(nn.LSTM(size, hidden), nn.LSTM(size, hidden)) for size in self.sizes[:-1]]
        self.forwards = nn.ModuleList(one for one, _ in pairs)
        self.backwards = nn.ModuleList(other for _, other in pairs)

    def layer(self, number: int, x: Tensor, lengths: np.ndarray) -> Tensor:
        steps = np.arange(len(x))[:, None]
        # The indices that reverse each text but not its padding; they are their own inverse.
        turn = to_device(np.where(steps < lengths, lengths - 1 - steps, steps), x.device)
        texts = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        one, _ = self.forwards[number - 1](x)
        other, _ = self.backwards[number - 1](x[turn, texts])
        return torch.cat([one, other[turn, texts]], 2)


class WordEncoder(TextEncoder):
    """tanh(A x_l + a), each word by itself: the network without recurrence of Wiegreffe and Pinter (2019).

    Args:
        embedding: size of an embedding.
        hidden: half the size of a state, as of the LSTM's.
        layers: their number.
    """

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.sizes = (embedding, *[2 * hidden] * layers)
        self.maps = nn.ModuleList(nn.Linear(size, 2 * hidden) for size in self.sizes[:-1])

    def layer(self, number: int, x: Tensor, lengths: np.ndarray) -> Tensor:
        return torch.tanh(self.maps[number - 1](x))


class EmbeddingEncoder(TextEncoder):
    """The embeddings themselves, h_l = x_l; the other arguments are those of the other encoders."""

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.sizes = (embedding,)

    def layer(self, number: int, x: Tensor, lengths: np.ndarray) -> Tensor:
        raise AlignkitError("embeddings have no layers above them")


class SelfAttentionEncoder(TextEncoder):
    """Layers of a transformer's encoder (Vaswani et al. 2017), with layer normalization first and sinusoidal
    positions.

    The first layer maps embeddings to the size of a state before. There are four heads, or two if four cannot
    share a state.

    Args:
        embedding: size of an embedding.
        hidden: half the size of a state, as of the LSTM's.
        layers: their number.
    """

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        size = 2 * hidden
        self.sizes = (embedding, *[size] * layers)
        heads = 4 if size % 4 == 0 else 2
        settings = TransformerSettings(
            embedding=size, hidden=2 * size, heads=heads, layers=layers, dropout=DROPOUT
        )
        self.map = nn.Linear(embedding, size)
        self.positions = PositionEncoding(settings)
        self.layers = nn.ModuleList(TransformerEncoderLayer(settings) for _ in range(layers))
        self.last_norm = nn.LayerNorm(size)

    def layer(self, number: int, x: Tensor, lengths: np.ndarray) -> Tensor:
        if number == 1:
            x = self.map(x)
            vectors = self.positions.vectors(0, len(x), x)
            assert vectors is not None
            x = x + vectors.unsqueeze(1)
        hidden = to_device(np.arange(len(x)) >= lengths[:, None], x.device)[:, None, None]
        found: Tensor = self.layers[number - 1](x.transpose(0, 1), hidden, None, False).x
        return (self.last_norm(found) if number == len(self.layers) else found).transpose(0, 1)


#: name -> class, made of (embedding, hidden, layers)
TEXT_ENCODERS: dict[str, type[TextEncoder]] = {
    "lstm": LSTMEncoder,
    "self-attention": SelfAttentionEncoder,
    "words": WordEncoder,
    "embeddings": EmbeddingEncoder,
}
