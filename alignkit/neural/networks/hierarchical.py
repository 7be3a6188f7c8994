"""Hierarchical attention of a text (Yang et al. 2016): over the words of each sentence, then over sentences."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alignkit.neural.networks.attention import ComposedAttention

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
