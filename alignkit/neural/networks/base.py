"""The interface of translation networks, which training, scoring and decoding use.

To add a network, write one file with a frozen dataclass of its settings and a subclass of
:class:`TranslationNetwork`, and one line in :data:`alignkit.neural.settings.NETWORKS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.settings import NetworkSettings, Reading
from alignkit.support.packages import imported

#: The state of a decoder between two tokens; dimension 1 of every tensor is that of the sentences.
State = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Encoding:
    """The encoder's output for B source sentences.

    Attributes:
        h: (B, L, D), the encoder's states; those at padding are arbitrary.
        start: the initial state of the decoder.
        mask: (B, L), True where there is a token; None if nothing is padded.
    """

    h: Tensor
    start: State
    mask: Tensor | None

    def only(self, place: int) -> Encoding:
        """This encoding with only one encoder state, the one at ``place``."""
        return Encoding(self.h[:, place : place + 1], self.start, None)


class Decoded(NamedTuple):
    """The decoder's output for T tokens of N hypotheses.

    Attributes:
        features: (N, T, F), the input of the output layer.
        weights: (N, T, L), the attention.
        state: the state after these tokens.
    """

    features: Tensor
    weights: Tensor
    state: State


class TranslationNetwork(nn.Module, ABC):
    """p(y_t | y_<t, x) by an encoder and a decoder that attends to it.

    A subclass takes its settings as only argument, draws its weights from torch's global generator, keeps all its
    tensors as parameters or persistent buffers, and sets ``output``.

    Attributes:
        settings: its settings.
        output: the last layer, which maps features (..., F) to logits (..., V).
        has_ov_circuits: True if it has :meth:`ov_features`.
        pinned: True if its gradients need one thread to have the same bits at any number of threads.
    """

    output: nn.Linear
    has_ov_circuits = False

    @property
    def pinned(self) -> bool:
        return False

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        if settings.vocabulary < 1:
            raise AlignkitError("a network needs the size of its vocabulary")
        self.settings = settings

    @abstractmethod
    def encode(self, source: Tensor, lengths: np.ndarray, omega: Tensor | None = None) -> Encoding:
        """Encode B sentences.

        Args:
            source: int64 (L, B), padded at the end to the longest; L may be 0 (in leave-one-out).
            lengths: int64 (B,), their lengths, in the host's memory.
            omega: (L, B), factors of the tokens' embeddings; 1 if not given.
        """

    @abstractmethod
    def decode(self, previous: Tensor, encoding: Encoding, state: State, uniform: bool = False) -> Decoded:
        """Decode T tokens of N = B·K hypotheses: T at once under teacher forcing, or T = 1 step by step.

        Args:
            previous: int64 (T, N), the tokens before each y_t; the K hypotheses of a sentence are adjacent.
            encoding: of the B sentences.
            state: ``encoding.start``, or the state after the tokens before these.
            uniform: use uniform attention, 1/L, in place of the learned one.
        """

    def attention_weights(self, encoding: Encoding, previous: Tensor) -> Tensor:
        """alpha (B, T, L) under teacher forcing, ``previous`` (T, B) as in :meth:`decode`."""
        return self.decode(previous, encoding, encoding.start).weights

    def attention_maps(self, encoding: Encoding, previous: Tensor) -> Tensor:
        """The weights of every layer and head, (B, layers, K, T, L); arguments as in :meth:`attention_weights`."""
        return self.attention_weights(encoding, previous)[:, None, None]

    def decode_with_maps(self, previous: Tensor, encoding: Encoding) -> tuple[Decoded, Tensor]:
        """:meth:`decode` from the start, and :meth:`attention_maps`, in one pass where the network can."""
        decoded = self.decode(previous, encoding, encoding.start)
        if self.settings.attention_layers == self.settings.heads == 1:
            return decoded, decoded.weights[:, None, None]
        return decoded, self.attention_maps(encoding, previous)

    def lexical_features(self, encoding: Encoding, previous: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """The features at y_t if the decoder saw only the encoder state h_l, under teacher forcing.

        Returns:
            a function that takes indices (N,) into flattened (B, T) and (B, L) arrays and returns features (N, F).
        """
        length = encoding.h.shape[1]
        seen = [self.decode(previous, encoding.only(place), encoding.start).features for place in range(length)]
        table = torch.stack(seen, 2).flatten(0, 2)
        return lambda rows, columns: table[rows * length + columns % length]

    def ov_features(self, h: Tensor, reading: Reading) -> Tensor:
        """What the output layer sees of encoder states through the OV circuits of attention heads, (B, L, F).

        Args:
            h: (B, L, D).
            reading: the layer and the head; 0 for the sum over them.

        Raises:
            AlignkitError: the network has no such circuits.
        """
        raise AlignkitError(f"a network of the architecture {self.settings.architecture} has no OV circuits")

    def forward(self, source: Tensor, lengths: np.ndarray, previous: Tensor, uniform: bool = False) -> Tensor:
        """Features (B, T, F) of every position under teacher forcing; arguments as in the other methods."""
        encoding = self.encode(source, lengths)
        return self.decode(previous, encoding, encoding.start, uniform).features


def new_network(settings: NetworkSettings) -> TranslationNetwork:
    """A network with random weights, drawn from torch's global generator."""
    return imported(settings.place)(settings)
