"""The classifier of section 2.4: a biLSTM, attention over its states, a linear layer and a sigmoid.

Other encoders may take the place of the biLSTM, and attention may be hierarchical. An encoder is a stack of
layers; the states of layer 0 are the embeddings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.batching import to_device
from alignkit.neural.checkpoints import network_with_weights
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import ComposedAttention, new_text_attention, uniform_weights
from alignkit.neural.networks.transformer import PositionEncoding, TransformerEncoderLayer
from alignkit.neural.settings import ClassifierSettings, TransformerSettings

#: A word that ends in one of these is the last of its sentence.
SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f", "\u0964")


def ends_sentence(word: str) -> bool:
    """Whether a word is the last of its sentence."""
    return word.endswith(SENTENCE_ENDS)


def sentence_numbers(ends: Tensor, mask: Tensor) -> Tensor:
    """int64 (B, L): the sentence of each word, counted from 1; 0 at padding.

    Args:
        ends: bool (B, L), the last words of sentences.
        mask: (B, L), True where there is a word.
    """
    before = torch.cumsum(ends.long(), 1) - ends.long()
    return (before + 1) * mask.long()


class HierarchicalAttention(nn.Module):
    """Attention over the words of each sentence, and over the sentences by the means that it gives.

    The weight of a word is its weight in its sentence times that of the sentence. There is no encoder of sentences
    between the two, so that the result remains a weighted mean of the words' states.

    Args:
        words: of words, without decoder states.
        sentences: of sentences, likewise.
    """

    def __init__(self, words: ComposedAttention, sentences: ComposedAttention) -> None:
        super().__init__()
        self.words, self.sentences = words, sentences

    def forward(self, s: None, h: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Contexts (B, 1, D) and weights (B, 1, L).

        Args:
            s: None: there are no decoder states.
            h: (B, L, D), the states of the words, arbitrary at padding.
            numbers: int64 (B, L), of :func:`sentence_numbers`; or bool, for texts of one sentence.
        """
        numbers = numbers.long()
        places = torch.arange(1, int(numbers.max()) + 1, device=h.device)
        members = numbers.unsqueeze(1) == places.unsqueeze(1)  # (B, N, L)
        exists = members.any(2)
        text, sentence = exists.nonzero(as_tuple=True)
        inside = members[text, sentence]  # (R, L), of the R sentences of all texts
        scores = self.words.score(s, h, numbers > 0)[text]  # (R, 1, L)
        within = self.words.normalizer(scores.unsqueeze(1), inside).squeeze(1)
        means = torch.bmm(within, h[text] * inside.unsqueeze(2)).squeeze(1)
        vectors = h.new_zeros(*exists.shape, h.shape[2]).index_put((text, sentence), means)
        _, among = self.sentences(None, vectors, exists)  # (B, 1, N)
        share = among.squeeze(1)[text, sentence].unsqueeze(1)
        weights = h.new_zeros(numbers.shape).index_add(0, text, share * within.squeeze(1)).unsqueeze(1)
        return torch.bmm(weights, h * (numbers > 0).unsqueeze(2)), weights


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

    def forward(self, x: Tensor, lengths: np.ndarray) -> Tensor:
        """The states of the last layer, (L, B, D), from the embeddings; arguments as :meth:`layer`."""
        for number in range(1, self.depth + 1):
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
        h = self.encoder(x, lengths).transpose(0, 1)
        mask = to_device(np.arange(len(words)) < lengths[:, None], x.device)
        if self.settings.hierarchical:
            return h, sentence_numbers(self.sentence_ends[words.t()] > 0, mask)
        return h, mask

    def mark_sentence_ends(self, vocabulary: Iterable[str]) -> None:
        """Tell a hierarchical classifier which words of its vocabulary end a sentence; others need it not."""
        if self.settings.hierarchical:
            ends = torch.tensor([float(ends_sentence(word)) for word in vocabulary])
            self.sentence_ends.copy_(ends)

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
