"""The LSTM encoder-decoder of the paper (section 3.1 and DESIGN section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from alignkit.errors import AlignkitError
from alignkit.neural.checkpoints import checked_weights
from alignkit.neural.networks.attention import GeneralAttention, UniformAttention, uniform_weights
from alignkit.neural.settings import NetworkSettings

State = tuple[Tensor, Tensor]  #: h and c of the decoder, each (layers, B, H)


@dataclass(frozen=True, eq=False)
class Encoding:
    """What the decoder sees of B source sentences.

    Attributes:
        h: (B, L, D), the encoder's states; zeros where padded.
        start: h and c from which the decoder starts, each (layers, B, H).
        mask: (B, L), True where there is a token; None if nothing is padded.
    """

    h: Tensor
    start: State
    mask: Tensor | None


class EncoderDecoder(nn.Module):
    """p(y_t | y_<t, x) by one attention head over a (bi)directional LSTM encoder.

    Inside, LSTMs run time first, (L, B, .), which is what both oneDNN and cuDNN want.
    """

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        if settings.vocabulary < 1:
            raise AlignkitError("a network needs the size of its vocabulary")
        self.settings = settings
        size, hidden, encoding = settings.embedding, settings.hidden, settings.encoding
        # torch warns of a dropout between layers where there is only one layer
        between: dict[str, Any] = {"dropout": settings.dropout if settings.layers > 1 else 0.0}
        self.embedding = nn.Embedding(settings.vocabulary, size)
        self.encoder = nn.LSTM(size, hidden, settings.layers, bidirectional=settings.bidirectional, **between)
        self.decoder = nn.LSTM(size, hidden, settings.layers, **between)
        self.attention: nn.Module
        if settings.attention == "general":
            self.attention = GeneralAttention(hidden, encoding)
        else:
            self.attention = UniformAttention()
        self.context = nn.Linear(encoding, hidden)
        if settings.output == "hidden":
            self.combine = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, settings.vocabulary)

    def encode(self, source: Tensor, lengths: np.ndarray) -> Encoding:
        """Reads B sentences.

        Args:
            source: int64 (L, B), padded at the end to the longest.
            lengths: int64 (B,), their lengths, all at least 1.
        """
        x = self.embedding(source)
        if (lengths == len(source)).all():
            # Packing is exact but costs twice the time on a CPU; equal lengths need none.
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
        directions = 2 if self.settings.bidirectional else 1
        if directions == 1:
            return state
        return state.view(self.settings.layers, directions, *state.shape[1:]).mean(1)

    def states(self, previous: Tensor, start: State) -> tuple[Tensor, State]:
        """The decoder's states under teacher forcing.

        Its input is nothing but the previous token, so that one call runs over all of T.

        Args:
            previous: int64 (T, B), the token before each y_t (BOS first).
            start: where the decoder starts.

        Returns:
            s (B, T, H), and the last h and c.
        """
        s, state = self.decoder(self.embedding(previous), start)
        return s.transpose(0, 1), state

    def contexts(self, s: Tensor, encoding: Encoding, uniform: bool = False) -> Tensor:
        """c (B, T, H): the attention's mean of h, projected. Equation 1 of the paper.

        With ``uniform``, attention is 1/L even in a network that has learned another.
        """
        if uniform or self.settings.attention == "uniform":  # one context per sentence, whatever t
            mean = torch.bmm(uniform_weights(encoding.h, encoding.mask), encoding.h)
            return self.context(mean).expand(-1, s.shape[1], -1)
        return self.context(self.attention(s, encoding.h, encoding.mask)[0])

    def features(self, s: Tensor, c: Tensor) -> Tensor:
        """What the last layer multiplies, (..., H), from s and c (..., H) of one shape."""
        if self.settings.output == "sum":
            return s + c
        return torch.relu(self.combine(torch.cat([s, c], dim=-1)))

    def halves(self, s: Tensor, c: Tensor) -> State:
        """The parts of :meth:`features` that s and c give alone: features = act(part_s + part_c).

        s (..., H) and c (..., H) may differ in shape; ``act`` is :meth:`activate`.
        """
        if self.settings.output == "sum":
            return s, c
        hidden = self.settings.hidden
        weight = self.combine.weight
        return linear(s, weight[:, :hidden], self.combine.bias), linear(c, weight[:, hidden:])

    def activate(self, x: Tensor) -> Tensor:
        """The nonlinearity of :meth:`features`, in place."""
        return x if self.settings.output == "sum" else x.relu_()

    def forward(self, source: Tensor, lengths: np.ndarray, previous: Tensor, uniform: bool = False) -> Tensor:
        """Features (B, T, H) of every position under teacher forcing; logits are ``output`` of them."""
        encoding = self.encode(source, lengths)
        s, _ = self.states(previous, encoding.start)
        return self.features(s, self.contexts(s, encoding, uniform))


def parameters(network: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(p.numel() for p in network.parameters())


def build_encoder_decoder(settings: NetworkSettings, weights: object) -> EncoderDecoder:
    """A network of these settings and weights, in evaluation mode.

    Raises:
        RuntimeError: names or shapes of the weights do not fit the settings.
        ValueError: a weight is not finite float32.
    """
    with torch.device("meta"):  # no memory yet: the settings of a damaged file may ask for any amount
        network = EncoderDecoder(settings)
    network.load_state_dict(checked_weights(weights), assign=True)
    # Tensors that were read must be trainable parameters again, in one block for oneDNN and cuDNN.
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    return network.eval()
