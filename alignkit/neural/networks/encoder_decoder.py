"""Networks that translate: what each of them can do, and the LSTM encoder-decoder of the paper (section 3.1).

To add a network, write one file with a frozen dataclass of its settings and a subclass of
:class:`TranslationNetwork`, and one line in :data:`alignkit.neural.settings.NETWORKS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from alignkit.errors import AlignkitError
from alignkit.neural.devices import one_thread, to_device
from alignkit.neural.networks.attention import Attention, MultiHeadAttention, UniformAttention, new_attention
from alignkit.neural.settings import LstmSettings, NetworkSettings, Reading

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
    pinned = False

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
        alone = [Encoding(h, encoding.start, None) for h in encoding.h.split(1, 1)]
        seen = [self.decode(previous, one, one.start).features for one in alone]
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

    def forward(self, source: Tensor, lengths: np.ndarray, previous: Tensor) -> Tensor:
        """Features (B, T, F) of every position under teacher forcing; arguments as in the other methods."""
        encoding = self.encode(source, lengths)
        return self.decode(previous, encoding, encoding.start).features


class EncoderDecoder(TranslationNetwork):
    """One attention over a (bi)directional LSTM encoder.

    The decoder's state is h and c, each (layers, N, H). LSTMs run time first, (L, B, .), which is fastest in both
    oneDNN and cuDNN.
    """

    settings: LstmSettings

    def __init__(self, settings: LstmSettings) -> None:
        super().__init__(settings)
        size, hidden, encoding = settings.embedding, settings.hidden, settings.encoding
        # torch warns of dropout between layers if there is only one layer
        between: dict[str, Any] = {"dropout": settings.dropout if settings.layers > 1 else 0.0}
        self.embedding = nn.Embedding(settings.vocabulary, size)
        self.encoder = nn.LSTM(size, hidden, settings.layers, bidirectional=settings.bidirectional, **between)
        self.decoder = nn.LSTM(size, hidden, settings.layers, **between)
        self.attention: Attention = new_attention(settings.attention, hidden, encoding, settings.heads)
        self.pinned = not self.attention.exact
        self.context = nn.Linear(encoding, hidden)
        if settings.output == "hidden":
            self.combine = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, settings.vocabulary)

    def encode(self, source: Tensor, lengths: np.ndarray, omega: Tensor | None = None) -> Encoding:
        """As :meth:`TranslationNetwork.encode`; all states of an empty source are zeros."""
        if not len(source):
            start = self.output.weight.new_zeros(self.settings.layers, source.shape[1], self.settings.hidden)
            return Encoding(start.new_zeros(source.shape[1], 0, self.settings.encoding), (start, start), None)
        x = self.embedding(source)
        if omega is not None:
            x = x * omega.unsqueeze(2)
        if (lengths == len(source)).all():
            # Packing takes twice the time on a CPU; equal lengths need none.
            out, (h, c) = self.encoder(x)
            mask = None
        else:
            packed = pack_padded_sequence(x, torch.from_numpy(lengths), enforce_sorted=False)
            out, (h, c) = self.encoder(packed)
            out, _ = pad_packed_sequence(out, total_length=len(source))
            mask = to_device(np.arange(len(source)) < lengths[:, None], source.device)
        if self.settings.bidirectional:  # the last states (layers * 2, B, H) of the two directions are averaged
            h, c = (last.view(self.settings.layers, 2, *last.shape[1:]).mean(1) for last in (h, c))
        return Encoding(out.transpose(0, 1), (h, c), mask)

    def states(self, previous: Tensor, start: State) -> tuple[Tensor, State]:
        """The decoder's states s (N, T, H) for tokens (T, N), and its last h and c.

        The input of its LSTM is the previous token alone, so that one call computes all T states.
        """
        s, state = self.decoder(self.embedding(previous), start)
        return s.transpose(0, 1), state

    def decode(self, previous: Tensor, encoding: Encoding, state: State, uniform: bool = False) -> Decoded:
        s, state = self.states(previous, state)
        shape = s.shape[:2]
        # The K hypotheses of a sentence share its encoder states, like K times as many target tokens.
        s = s.reshape(len(encoding.h), -1, self.settings.hidden)
        attention = UniformAttention() if uniform else self.attention
        with one_thread(s.device):  # the last bits of small products depend on the threads
            mean, weights = attention(s, encoding.h, encoding.mask)
        features = self.features(s, self.context(mean).expand(-1, s.shape[1], -1))
        return Decoded(features.reshape(*shape, -1), weights.reshape(*shape, weights.shape[2]), state)

    def attention_weights(self, encoding: Encoding, previous: Tensor) -> Tensor:
        s, _ = self.states(previous, encoding.start)
        with one_thread(s.device):
            weights: Tensor = self.attention(s, encoding.h, encoding.mask)[1]
        return weights

    def attention_maps(self, encoding: Encoding, previous: Tensor) -> Tensor:
        s, _ = self.states(previous, encoding.start)
        return self.attention.head_weights(s, encoding.h, encoding.mask).unsqueeze(1)

    def features(self, s: Tensor, c: Tensor) -> Tensor:
        """The input of the output layer, (..., H), from s and the projected context c, both (..., H)."""
        if self.settings.output == "sum":
            return s + c
        return torch.relu(self.combine(torch.cat([s, c], dim=-1)))

    def lexical_features(self, encoding: Encoding, previous: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """As :meth:`TranslationNetwork.lexical_features`.

        The two halves of the hidden layer, which depend on t or l alone, are computed once per token.
        """
        s, _ = self.states(previous, encoding.start)
        seen = self.attention.value(encoding.h) if isinstance(self.attention, MultiHeadAttention) else encoding.h
        by_s, by_h = s.flatten(0, 1), self.context(seen).flatten(0, 1)
        if self.settings.output == "sum":
            return lambda rows, columns: by_s[rows] + by_h[columns]
        hidden = self.settings.hidden
        by_s = linear(by_s, self.combine.weight[:, :hidden], self.combine.bias)
        by_h = linear(by_h, self.combine.weight[:, hidden:])
        return lambda rows, columns: (by_s[rows] + by_h[columns]).relu_()
