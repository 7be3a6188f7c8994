"""Words without counterpart: what a translation leaves out and adds, from the probabilities of all links.

A word whose counterpart is missing is often linked to a word that has a partner already. So what counts is its
best hold on a word of the other side, where each of these divides itself among the words that it is linked with:

    hold = max over t of P(t, s)^2 / (sum over s' of P(t, s'))
    log-odds that s has no counterpart = BIAS - SLOPE * logit(hold)

and the same with the sides exchanged. Both numbers were chosen on development data with gold links, from which
words were deleted and to which words were added; benchmarks/omissions.py measures what is found on other data.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from alignkit.scores import Scores
from alignkit.support.settings import LEAST_GAP
from alignkit.text.vocabulary import is_punctuation

BIAS, SLOPE = -2.5, 0.75
_LEAST = 1e-3  # nothing is held less than this, or more than 1 less this
#: Neighbouring words with fewer :func:`letters` in all are no omission: articles, prepositions and the like.
FEWEST_LETTERS = 4


class Gap(NamedTuple):
    """The neighbouring words [start, end) of one side, which have no counterpart with this probability."""

    start: int
    end: int
    probability: float
    text: str


@dataclass(frozen=True)
class Coverage:
    """Which words of a sentence pair have no counterpart.

    Attributes:
        source, target: the words.
        source_probabilities, target_probabilities: of each, the probability that it has none.
    """

    source: Sequence[str]
    target: Sequence[str]
    source_probabilities: Sequence[float]
    target_probabilities: Sequence[float]

    def omissions(self, least: float = LEAST_GAP) -> list[Gap]:
        """The source words that the translation leaves out, each with at least this probability."""
        return gaps(self.source, self.source_probabilities, least)

    def additions(self, least: float = LEAST_GAP) -> list[Gap]:
        """The target words that the translation adds, each with at least this probability."""
        return gaps(self.target, self.target_probabilities, least)

    @cached_property
    def share(self) -> float:
        """The share of letters, of both sides, that is expected to belong to words without counterpart; NaN if
        there are none. Letters of scripts without case count twice, for their words are shorter."""
        sizes = [letters(word) for word in [*self.source, *self.target]]
        probabilities = [*self.source_probabilities, *self.target_probabilities]
        return float(np.average(probabilities, weights=sizes)) if any(sizes) else float("nan")

    def as_record(self, least: float = LEAST_GAP) -> dict[str, Any]:
        """All this for JSON."""
        found = {"omissions": self.omissions(least), "additions": self.additions(least)}
        return {
            "share": None if isnan(self.share) else round(self.share, 4),
            "source": list(self.source),
            "target": list(self.target),
            "source_probabilities": [round(p, 4) for p in self.source_probabilities],
            "target_probabilities": [round(p, 4) for p in self.target_probabilities],
            **{
                name: [{**gap._asdict(), "probability": round(gap.probability, 4)} for gap in each]
                for name, each in found.items()
            },
        }


def letters(word: str) -> int:
    """The number of letters and digits of a word, where those of scripts without case count twice."""
    return sum(1 + (unicodedata.category(each) == "Lo") for each in word if each.isalnum())


def gaps(words: Sequence[str], probabilities: Sequence[float], least: float) -> list[Gap]:
    """The longest stretches of words that have at least a probability each, with punctuation between them.

    Args:
        words: of one side.
        probabilities: of each word, that it has no counterpart.
        least: the least one.

    Returns:
        Those with at least :data:`FEWEST_LETTERS` letters, with the mean probability of their letters.
    """
    of_words = [n for n, word in enumerate(words) if not is_punctuation(word)]
    found = []
    for is_gap, group in groupby(of_words, key=lambda n: probabilities[n] >= least):
        places = list(group)
        sizes = [letters(words[n]) for n in places]
        if is_gap and sum(sizes) >= FEWEST_LETTERS:
            mean = float(np.average([probabilities[n] for n in places], weights=sizes))
            start, end = places[0], places[-1] + 1
            found.append(Gap(start, end, mean, " ".join(words[start:end])))
    return found


def without_counterpart(scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """float32 (N_src,) and (N_tgt,): the probability of each token that it has no counterpart.

    Args:
        scores: the probabilities of all links, (T, L) for each of M pairs.
    """
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for matrix in scores:
        links = matrix.astype(np.float64)
        for side, of_words in zip(sides, (links, links.T), strict=True):
            divided = of_words**2 / np.maximum(of_words.sum(1, keepdims=True), _LEAST)
            hold = np.clip(divided.max(axis=0, initial=0), _LEAST, 1 - _LEAST)
            side.append(1 / (1 + np.exp(-BIAS) * (hold / (1 - hold)) ** SLOPE))
    source, target = (np.concatenate([*side, np.empty(0)]).astype(np.float32) for side in sides)
    return source, target
