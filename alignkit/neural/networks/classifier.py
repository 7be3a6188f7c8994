"""The classifier of section 2.4: a biLSTM, attention over its states, a linear layer and a sigmoid."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.batching import to_device
from alignkit.neural.checkpoints import network_with_weights
from alignkit.neural.classifier_settings import ClassifierSettings
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import uniform_weights
from alignkit.neural.networks.attention_building import new_text_attention


class Classifier(nn.Module):
    """p(y = 1 | x) = sigmoid(W · sum over l of alpha_l h_l + b)."""

    def __init__(self, settings: ClassifierSettings) -> None:
        super().__init__()
        if settings.vocabulary < 1:
            raise AlignkitError("a classifier needs the size of its vocabulary")
        self.settings = settings
        size, hidden = settings.embedding, settings.hidden
        self.embedding = nn.Embedding(settings.vocabulary, size)
        # Two LSTMs that each read in one direction, so that texts of different lengths need no packing, which
        # takes four times as long on a CPU as reversing the texts.
        self.forwards = nn.LSTM(size, hidden)
        self.backwards = nn.LSTM(size, hidden)
        self.attention = new_text_attention(settings.attention, 2 * hidden, settings.attention_hidden)
        self.output = nn.Linear(2 * hidden, 1)

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
        steps = np.arange(len(words))[:, None]
        real = steps < lengths
        # The indices that reverse each text but not its padding; they are their own inverse.
        turn = to_device(np.where(real, lengths - 1 - steps, steps), words.device)
        texts = torch.arange(words.shape[1], device=words.device).unsqueeze(0)
        one, _ = self.forwards(x)
        other, _ = self.backwards(x[turn, texts])
        h = torch.cat([one, other[turn, texts]], 2).transpose(0, 1)
        return h, to_device(real.T.copy(), words.device)

    def weights(self, h: Tensor, mask: Tensor) -> Tensor:
        """alpha (B, L); 0 at padding."""
        if self.attention is None:
            return uniform_weights(h, mask).squeeze(1)
        alpha: Tensor = self.attention(None, h, mask)[1]
        return alpha.squeeze(1)

    def judge(self, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B,), log p(y = 1) - log p(y = 0), and the attention alpha (B, L) that gives them."""
        alpha = self.weights(h, mask)
        context = torch.bmm(alpha.unsqueeze(1), h).squeeze(1)
        return self.output(context).squeeze(1), alpha

    def lexical_logits(self, h: Tensor) -> Tensor:
        """(B, L): the logit of each text if the classifier saw h_l alone, W · h_l + b."""
        logits: Tensor = self.output(h).squeeze(2)
        return logits

    def forward(self, words: Tensor, lengths: np.ndarray) -> Tensor:
        """(B,) logits of B texts; arguments as :meth:`encode`."""
        h, mask = self.encode(words, lengths)
        with one_thread(h.device):
            return self.judge(h, mask)[0]


def build_classifier(settings: ClassifierSettings, weights: object) -> Classifier:
    """A classifier of these settings and weights, in evaluation mode; raises as :func:`network_with_weights`."""
    return network_with_weights(lambda: Classifier(settings), weights)
