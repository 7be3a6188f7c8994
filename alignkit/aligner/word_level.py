"""An aligner that works on tokens of its own, as an aligner of whitespace words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.aligner.alignment import target_log_probabilities
from alignkit.aligner.protocol import Aligner, HasTokenizer, check_kind
from alignkit.representation import brief_repr
from alignkit.scores.scores import Scores
from alignkit.scores.word_groups import merge_subwords
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import Tokenizer, encode_bitext
from alignkit.types import PathLike


@dataclass(frozen=True, eq=False)
class WordLevel:
    """An aligner of whitespace words around one of subwords, or of words with BOS and EOS.

    Attributes:
        inner: the aligner, of bitexts that ``tokens`` encoded.
        tokens: the tokenizer of the inner aligner.
    """

    inner: Aligner
    tokens: Tokenizer

    __repr__ = brief_repr

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kinds(self) -> tuple[str, ...]:
        """``alpha`` if the inner aligner has it: other scores of subwords have no sum that is one of words."""
        return ("alpha",) if "alpha" in self.inner.kinds else ()

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha of words: summed over the subwords of the source word, averaged over those of the target word.

        What a row lacks to 1 is the weight of BOS and EOS.

        Raises:
            AlignkitError: another kind.
        """
        check_kind(self, kind)
        source, target = _lines(bitext.source), _lines(bitext.target)
        encoded = encode_bitext(self.tokens, source, target)
        sides = (source, list(encoded.source)), (target, list(encoded.target))
        return merge_subwords(self.inner.score(encoded, kind), self.tokens, *sides)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, natural logarithm.

        Raises:
            AlignkitError: the inner aligner gives no probability of a sentence.
        """
        encoded = encode_bitext(self.tokens, _lines(bitext.source), _lines(bitext.target))
        return target_log_probabilities(self.inner, encoded)

    def save(self, path: PathLike) -> None:
        """Write the inner aligner."""
        self.inner.save(path)


def on_words(aligner: Aligner) -> Aligner:
    """The aligner, made one of whitespace words if it works on other tokens."""
    return WordLevel(aligner, aligner.tokenizer) if isinstance(aligner, HasTokenizer) else aligner


def _lines(corpus: Corpus) -> Sequence[str]:
    return [" ".join(corpus.words(m)) for m in range(len(corpus))]
