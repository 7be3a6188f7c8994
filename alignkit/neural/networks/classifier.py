"""The classifier of section 2.4: a biLSTM, attention over its states, a linear layer and a sigmoid.

Other encoders may take the place of the biLSTM.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.devices import one_thread, to_device
from alignkit.neural.networks.attention import ComposedAttention, score_and_normalizer, uniform_weights
from alignkit.neural.settings import ClassifierSettings, parse_attention


class LSTMEncoder(nn.Module):
    """Bidirectional LSTMs, one above the other.

    Args:
        embedding: size of an embedding.
        hidden: size of each direction.
        layers: their number.

    Attributes:
        width: D, the size of a state of the last layer.
    """

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.width = 2 * hidden
        # Two LSTMs that each read in one direction, so that texts of different lengths need no packing, which
        # takes four times as long on a CPU as reversing the texts.
        sizes = (embedding, *[2 * hidden] * (layers - 1))
        pairs = [(nn.LSTM(size, hidden), nn.LSTM(size, hidden)) for size in sizes]
        self.forwards = nn.ModuleList(one for one, _ in pairs)
        self.backwards = nn.ModuleList(other for _, other in pairs)

    def forward(self, x: Tensor, lengths: np.ndarray) -> Tensor:
        """The states of the last layer.

        Args:
            x: (L, B, size of an embedding), arbitrary at padding, which is at the end.
            lengths: int64 (B,), all at least 1.

        Returns:
            (L, B, D), arbitrary at padding.
        """
        steps = np.arange(len(x))[:, None]
        # The indices that reverse each text but not its padding; they are their own inverse.
        turn = to_device(np.where(steps < lengths, lengths - 1 - steps, steps), x.device)
        texts = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        for forward, backward in zip(self.forwards, self.backwards, strict=True):
            one, _ = forward(x)
            other, _ = backward(x[turn, texts])
            x = torch.cat([one, other[turn, texts]], 2)
        return x


class WordEncoder(nn.Module):
    """tanh(A x_l + a), each word by itself: the network without recurrence of Wiegreffe and Pinter (2019).

    Arguments as of :class:`LSTMEncoder`.
    """

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.width = 2 * hidden
        sizes = (embedding, *[2 * hidden] * (layers - 1))
        self.maps = nn.ModuleList(nn.Linear(size, 2 * hidden) for size in sizes)

    def forward(self, x: Tensor, lengths: np.ndarray) -> Tensor:
        for layer in self.maps:
            x = torch.tanh(layer(x))
        return x


class EmbeddingEncoder(nn.Module):
    """The embeddings themselves, h_l = x_l; arguments as of :class:`LSTMEncoder`."""

    def __init__(self, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.width = embedding

    def forward(self, x: Tensor, lengths: np.ndarray) -> Tensor:
        return x


ENCODERS = {"lstm": LSTMEncoder, "words": WordEncoder, "embeddings": EmbeddingEncoder}


class Classifier(nn.Module):
    """p(y = 1 | x) = sigmoid(W · sum over l of alpha_l h_l + b)."""

    pinned = True  #: its gradients need one thread to have the same bits at any number of threads

    def __init__(self, settings: ClassifierSettings) -> None:
        super().__init__()
        if settings.vocabulary < 1:
            raise AlignkitError("a classifier needs the size of its vocabulary")
        self.settings = settings
        self.embedding = nn.Embedding(settings.vocabulary, settings.embedding)
        encoder: Any = ENCODERS[settings.encoder](settings.embedding, settings.hidden, settings.layers)
        self.encoder, width = encoder, encoder.width
        self.attention: ComposedAttention | None = None
        mechanism = parse_attention("classifier", settings.attention)
        if mechanism is not None:  # without decoder states; otherwise uniform
            parts = score_and_normalizer(mechanism, 0, width, settings.attention_hidden)
            self.attention = ComposedAttention(*parts)
        self.output = nn.Linear(width, 1)

    def encode(self, words: Tensor, lengths: np.ndarray, omega: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode B texts.

        Args:
            words: int64 (L, B), padded at the end to the longest.
            lengths: int64 (B,), their lengths, all at least 1.
            omega: (L, B), factors of the words' embeddings; 1 if not given.

        Returns:
            h (B, L, D), arbitrary at padding; mask (B, L), True where there is a word.
        """
        x = self.embedding(words)
        if omega is not None:
            x = x * omega.unsqueeze(2)
        h = self.encoder(x, lengths).transpose(0, 1)
        return h, to_device(np.arange(len(words)) < lengths[:, None], x.device)

    def weights(self, h: Tensor, mask: Tensor) -> Tensor:
        """alpha (B, L); 0 at padding."""
        if self.attention is None:
            return uniform_weights(h, mask).squeeze(1)
        alpha: Tensor = self.attention(None, h, mask)[1]
        return alpha.squeeze(1)

    def judge(self, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B,), log p(y = 1) - log p(y = 0), and the attention alpha (B, L) that gives them."""
        alpha = self.weights(h, mask)
        return self.judge_with(h, alpha), alpha

    def judge_with(self, h: Tensor, alpha: Tensor) -> Tensor:
        """Logits (B,) if the attention were alpha (B, L), 0 at padding; h as :meth:`encode` gives it."""
        context = torch.bmm(alpha.unsqueeze(1), h).squeeze(1)
        return self.output(context).squeeze(1)

    def lexical_logits(self, h: Tensor) -> Tensor:
        """(B, L): the logit of each text if the classifier saw h_l alone, W · h_l + b."""
        return self.output(h).squeeze(2)

    def forward(self, words: Tensor, lengths: np.ndarray, alpha: Tensor | None = None) -> Tensor:
        """(B,) logits of B texts; arguments as :meth:`encode`, and another attention as :meth:`judge_with`."""
        h, mask = self.encode(words, lengths)
        with one_thread(h.device):
            return self.judge(h, mask)[0] if alpha is None else self.judge_with(h, alpha)
