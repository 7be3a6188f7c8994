"""Aligners for machine.py, SIL's library of translation (``pip install sil-machine``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from alignkit.aligner import Aligner
from alignkit.classical.lexicon import lexicon_of
from alignkit.support.packages import MissingPackageError, is_here
from alignkit.text.bitext import Bitext


class SilAligner:
    """Any fitted or loaded aligner, with the methods of machine.py's ``WordAligner``.

    Args:
        aligner: of words; or of subwords, which are then made of them.

    Raises:
        MissingPackageError: machine.py is not installed.
    """

    def __init__(self, aligner: Aligner) -> None:
        if not is_here("machine"):
            raise MissingPackageError("machine.py is not installed: pip install sil-machine")
        self.aligner = aligner.on_words()

    def align(self, source_segment: Sequence[str], target_segment: Sequence[str]) -> Any:
        """The links of a sentence pair of words, a ``WordAlignmentMatrix``."""
        return self.align_batch([(source_segment, target_segment)])[0]

    def get_best_aligned_word_pairs(
        self, source_segment: Sequence[str], target_segment: Sequence[str]
    ) -> list[Any]:
        """The links of a pair, an ``AlignedWordPair`` each, with its probability as ``alignment_score``."""
        from machine.corpora import AlignedWordPair

        links, probabilities = self.aligner.links_and_probabilities(_bitext([(source_segment, target_segment)]))
        pairs = zip(links.pairs.tolist(), probabilities.tolist(), strict=True)
        return [AlignedWordPair(s, t, alignment_score=p) for (s, t), p in pairs]

    def align_batch(self, segments: Sequence[Sequence[Sequence[str]]]) -> list[Any]:
        """The links of each (source words, target words), a ``WordAlignmentMatrix`` each."""
        from machine.translation import WordAlignmentMatrix

        bitext = _bitext(segments)
        sizes = zip(bitext.source.lengths.tolist(), bitext.target.lengths.tolist(), strict=True)
        links = (pairs.tolist() for pairs in self.aligner.links(bitext))
        return [WordAlignmentMatrix.from_word_pairs(L, T, each) for (L, T), each in zip(sizes, links, strict=True)]

    @property
    def target_words(self) -> Sequence[str]:
        """The words whose numbers :meth:`get_translations` gives."""
        return lexicon_of(self.aligner).target.tokens

    def get_translations(self, source_word: str, threshold: float = 0) -> Iterator[tuple[int, float]]:
        """The number of each translation of a word and its probability, above a threshold, the likeliest first."""
        ids = lexicon_of(self.aligner).target.ids
        found = self.aligner.translations(source_word, None)
        return ((ids[word], p) for word, p in found if p > threshold)


def _bitext(segments: Sequence[Sequence[Sequence[str]]]) -> Bitext:
    return Bitext.from_sentences([pair[0] for pair in segments], [pair[1] for pair in segments])
