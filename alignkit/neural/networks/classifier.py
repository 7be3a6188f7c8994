"""The classifier of section 2.4: a biLSTM, attention over its states, a linear layer and a sigmoid.

Other encoders may take the place of the biLSTM (:mod:`alignkit.neural.networks.text_encoders`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.batching import to_device
from alignkit.neural.checkpoints import network_with_weights
from alignkit.neural.classifier_settings import ClassifierSettings
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import ComposedAttention, uniform_weights
from alignkit.neural.networks.attention_building import new_text_attention
from alignkit.neural.networks.hierarchical import HierarchicalAttention, ends_sentence, sentence_numbers
from alignkit.neural.networks.text_encoders import TEXT_ENCODERS, TextEncoder


class Classifier(nn.Module):
    """p(y = 1 | x) = sigmoid(W · sum over l of alpha_l h_l + b)."""

    sentence_ends: Tensor  #: (V,) of a hierarchical classifier, 1 for the words that end a sentence

    def __init__(self, settings: ClassifierSettings) -> None:
        super().__init__()
        if settings.vocabulary < 1:
            raise AlignkitError("a classifier needs the size of its vocabulary")
        self.settings = settings
        self.embedding = nn.Embedding(settings.vocabulary, settings.embedding)
        self.encoder = new_text_encoder(settings)
        width = self.encoder.sizes[-1]
        self.attention = new_classifier_attention(settings, width)
        if settings.hierarchical:
            self.register_buffer("sentence_ends", torch.zeros(settings.vocabulary))
        self.output = nn.Linear(width, 1)

    def encode(self, words: Tensor, lengths: np.ndarray, omega: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode B texts.

        Args:
            words: int64 (L, B), padded at the end to the longest.
            lengths: int64 (B,), their lengths, all at least 1.
            omega: (L, B), factors of the words' embeddings; 1 if not given.

        Returns:
            h (B, L, D), arbitrary at padding; mask (B, L), True where there is a word; of a hierarchical
            classifier, the number of the word's sentence, counted from 1, and 0 at padding.
        """
        x = self.embedding(words)
        if omega is not None:
            x = x * omega.unsqueeze(2)
        h, mask = self.encode_from(0, x, lengths)
        return h, self.attended(words, mask)

    def attended(self, words: Tensor, mask: Tensor) -> Tensor:
        """The mask that :meth:`encode` returns, from one that is True where there is a word, (B, L)."""
        if self.settings.hierarchical:
            return sentence_numbers(self.sentence_ends[words.t()] > 0, mask)
        return mask

    def mark_sentence_ends(self, vocabulary: Iterable[str]) -> None:
        """Tell a hierarchical classifier which words of its vocabulary end a sentence; others need it not."""
        if self.settings.hierarchical:
            ends = torch.tensor([float(ends_sentence(word)) for word in vocabulary])
            self.sentence_ends.copy_(ends)

    def encode_from(self, layer: int, x: Tensor, lengths: np.ndarray) -> tuple[Tensor, Tensor]:
        """What :meth:`encode` returns, from the states (L, B, size) of a layer; 0 is that of the embeddings.

        The mask has no numbers of sentences, which :meth:`attended` gives to that of a hierarchical classifier.
        """
        h = self.encoder(x, lengths, layer).transpose(0, 1)
        mask = np.arange(len(x)) < lengths[:, None]
        return h, to_device(mask, x.device)

    def weights(self, h: Tensor, mask: Tensor) -> Tensor:
        """alpha (B, L); 0 at padding."""
        if self.attention is None:
            return uniform_weights(h, mask > 0).squeeze(1)
        alpha: Tensor = self.attention(None, h, mask)[1]
        return alpha.squeeze(1)

    def judge(self, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B,), log p(y = 1) - log p(y = 0), and the attention alpha (B, L) that gives them."""
        alpha = self.weights(h, mask)
        return self.judge_with(h, alpha), alpha

    def judge_with(self, h: Tensor, alpha: Tensor) -> Tensor:
        """Logits (B,) if the attention were alpha (B, L), 0 at padding; h as :meth:`encode` gives it."""
        context = torch.bmm(alpha.unsqueeze(1), h).squeeze(1)
        logits: Tensor = self.output(context).squeeze(1)
        return logits

    def lexical_logits(self, h: Tensor) -> Tensor:
        """(B, L): the logit of each text if the classifier saw h_l alone, W · h_l + b."""
        logits: Tensor = self.output(h).squeeze(2)
        return logits

    def forward(self, words: Tensor, lengths: np.ndarray) -> Tensor:
        """(B,) logits of B texts; arguments as :meth:`encode`."""
        h, mask = self.encode(words, lengths)
        with one_thread(h.device):
            return self.judge(h, mask)[0]


def new_classifier_attention(
    settings: ClassifierSettings, width: int
) -> ComposedAttention | HierarchicalAttention | None:
    """The attention of these settings over states of this size, with random weights; None if it is uniform."""
    parts = [
        new_text_attention(settings.attention, width, settings.attention_hidden)
        for _ in range(1 + settings.hierarchical)
    ]
    if settings.hierarchical and parts[0] is not None and parts[1] is not None:
        return HierarchicalAttention(parts[0], parts[1])
    return parts[0]


def new_text_encoder(settings: ClassifierSettings) -> TextEncoder:
    """The encoder of these settings, with random weights."""
    kind = TEXT_ENCODERS[settings.encoder]
    return kind(settings.embedding, settings.hidden, settings.layers)


def build_classifier(settings: ClassifierSettings, weights: object) -> Classifier:
    """A classifier of these settings and weights, in evaluation mode; raises as :func:`network_with_weights`."""
    return network_with_weights(lambda: Classifier(settings), weights)
