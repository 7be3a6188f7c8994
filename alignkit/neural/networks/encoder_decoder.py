"""The LSTM encoder-decoder of the paper (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import Attention, UniformAttention, new_attention
from alignkit.neural.networks.base import Decoded, Encoding, State, TranslationNetwork
from alignkit.neural.settings import LstmSettings


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
        self.context = nn.Linear(encoding, hidden)
        if settings.output == "hidden":
            self.combine = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, settings.vocabulary)

    @property
    def pinned(self) -> bool:
        return not self.attention.exact

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
            places = torch.arange(len(source), device=source.device)
            bounds = torch.from_numpy(lengths).to(source.device, non_blocking=True)
            mask = places.unsqueeze(0) < bounds.unsqueeze(1)
        return Encoding(out.transpose(0, 1), (self._start(h), self._start(c)), mask)

    def _start(self, state: Tensor) -> Tensor:
        """(layers, B, H) from the encoder's last states (layers * directions, B, H): directions averaged."""
        if not self.settings.bidirectional:
            return state
        return state.view(self.settings.layers, 2, *state.shape[1:]).mean(1)

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
        by_s, by_h = s.flatten(0, 1), self.context(encoding.h).flatten(0, 1)
        if self.settings.output == "sum":
            return lambda rows, columns: by_s[rows] + by_h[columns]
        hidden = self.settings.hidden
        by_s = linear(by_s, self.combine.weight[:, :hidden], self.combine.bias)
        by_h = linear(by_h, self.combine.weight[:, hidden:])
        return lambda rows, columns: (by_s[rows] + by_h[columns]).relu_()
