"""To which neighbour each word leans, from where it stands beside punctuation.

Articles, prepositions and conjunctions often begin a stretch between marks of punctuation, or a sentence, and
seldom end one; postpositions and particles do the opposite. A word that leans towards a neighbour shares its
partner with it more often than with the other one (:mod:`alignkit.kernels.link_probabilities`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from alignkit.classical.hmm.evidence import are_words
from alignkit.classical.hmm.parameters import taken
from alignkit.text.bitext import Bitext, Corpus

#: Pseudo-counts of a word's first places in stretches, and of its last ones.
PRIOR = 50


@dataclass(frozen=True, eq=False)
class Leanings:
    """How much each word leans towards the word after it.

    Attributes:
        source, target: float32 (V,): (f + 50) / (f + e + 100) of a word that is the first of f stretches, and the
            last of e.
    """

    source: np.ndarray
    target: np.ndarray

    def __post_init__(self) -> None:
        if not all(((side > 0) & (side < 1)).all() for side in (self.source, self.target)):
            raise ValueError("leanings must lie between 0 and 1")

    @classmethod
    def counted(cls, bitext: Bitext) -> Self:
        """Those of the words of a text, M pairs, in lower case if case is folded."""
        return cls(_leanings(bitext.source), _leanings(bitext.target))

    def taken(self, source: np.ndarray, target: np.ndarray) -> Leanings:
        """Those of other words: of each its number here, -1 if it is not known."""
        return Leanings(taken(self.source, source, 0.5), taken(self.target, target, 0.5))

    def bonds(self, bitext: Bitext) -> tuple[np.ndarray, np.ndarray]:
        """float32 (sum of L + 1,) and (sum of T + 1,), of the tokens of M pairs of these words: how closely
        neighbours belong together; element n is for the tokens n - 1 and n."""
        return _bonds(self.source[bitext.source.tokens]), _bonds(self.target[bitext.target.tokens])


def _leanings(side: Corpus) -> np.ndarray:
    """float32 (V,)."""
    are_marks, filled = ~are_words(side.vocabulary)[side.tokens], side.offsets[:-1] < side.offsets[1:]
    first, last = np.zeros((2, len(side.tokens)), bool)
    first[side.offsets[:-1][filled]] = last[side.offsets[1:][filled] - 1] = True
    first[1:] |= are_marks[:-1]
    last[:-1] |= are_marks[1:]
    firsts, lasts = (
        np.bincount(side.tokens[places & ~are_marks], minlength=len(side.vocabulary)) + PRIOR
        for places in (first, last)
    )
    return (firsts / (firsts + lasts)).astype(np.float32)


def _bonds(leanings: np.ndarray) -> np.ndarray:
    """float32 (N + 1,): the fourth root of 2 a times 2 (1 - b), where a is the leaning of a token and b that of
    the next one."""
    bonds = np.ones(len(leanings) + 1, np.float32)
    bonds[1:-1] = np.sqrt(np.sqrt(4 * leanings[:-1] * (1 - leanings[1:])))
    return bonds
