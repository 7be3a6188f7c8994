"""What a classifier sees of the possible links of sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from alignkit.links.from_scores import are_linked
from alignkit.links.links import Links
from alignkit.scores import Scores, elements_at
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.units import lowercase_counts
from alignkit.text.vocabulary import Vocabulary

#: Possible links have at least this probability, or a neighbour with at least the second.
LEAST, LINKED = 0.01, 0.5
#: Words that are told apart; others are known by their frequency only.
FREQUENT = 60
#: Probabilities are cut to [SMALLEST, 1 - SMALLEST] before their log-odds are taken.
SMALLEST = 1e-5
AROUND = [(dt, ds) for dt in (-1, 0, 1) for ds in (-1, 0, 1) if dt or ds]
FARTHER = [(0, -2), (0, 2), (-2, 0), (2, 0)]


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often the words of one side occur in a text, in lower case.

    Attributes:
        vocabulary: V words that occur more than once, the most frequent first.
        counts: int64 (V,).
    """

    vocabulary: Vocabulary
    counts: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Those of a corpus."""
        counts = lowercase_counts(corpus).items()
        kept = sorted((pair for pair in counts if pair[1] > 1), key=lambda pair: (-pair[1], pair[0]))
        return cls(Vocabulary.from_tokens(word for word, _ in kept), np.array([n for _, n in kept], np.int64))

    def features(self, corpus: Corpus) -> list[np.ndarray]:
        """Of each token (N,): the rank of a frequent word, log frequency, length, whether it is punctuation."""
        words = [word.lower() for word in corpus.vocabulary]
        ranks = np.array([self.vocabulary.ids.get(word, len(self.counts)) for word in words], np.int64)
        known = [
            np.minimum(ranks, FREQUENT),
            np.log(np.append(self.counts, 1)[ranks]),
            np.array([len(word) for word in words]),
            np.array([not any(letter.isalnum() for letter in word) for word in words]),
        ]
        return [values[corpus.tokens].astype(np.float32) for values in known]


class Cells:
    """K possible links of M sentence pairs, which a classifier decides.

    Args:
        bitext: M pairs.
        alpha: the probability of every link of the pairs.

    Attributes:
        places: int64 (K,), rising: of each link in the flat values of the matrices.
        pair, t, s: int64 (K,): the pair of each, and the words within it.
    """

    def __init__(self, bitext: Bitext, alpha: Scores) -> None:
        self.bitext, self.alpha = bitext, alpha
        values, limits = alpha.values, [np.float32(bound) for bound in (LEAST, LINKED)]
        self._find(np.flatnonzero(values >= limits[1]))
        beside = [(self.places + dt * self.L + ds)[self._has(dt, ds)] for dt, ds in AROUND]
        self._find(np.unique(np.concatenate([np.flatnonzero(values >= limits[0]), *beside])))

    def _find(self, places: np.ndarray) -> None:
        self.places, (self.pair, self.t, self.s) = places, elements_at(self.alpha.shapes, places)
        self.T, self.L = self.alpha.shapes[self.pair].T.astype(np.int64)

    def _has(self, dt: int, ds: int) -> np.ndarray:
        """bool (K,): whether the pair has an element (t + dt, s + ds)."""
        t, s = self.t + dt, self.s + ds
        return (t >= 0) & (t < self.T) & (s >= 0) & (s < self.L)

    def among(self, links: Links) -> np.ndarray:
        """bool (K,): which of them are among the links of the pairs."""
        return are_linked(links, self.alpha.shapes)[self.places]

    def scores(self, values: np.ndarray) -> Scores:
        """Scores of all elements of the pairs: these at the possible links, 0 at others."""
        scores = Scores.zeros(self.alpha.shapes)
        scores.values[self.places] = values
        return scores

    def features(self, words: Sequence[Frequencies], probabilities: Sequence[Scores]) -> np.ndarray:
        """float32 (K, F): the features of each link; the first two are the ranks of frequent words.

        Args:
            words: of both sides.
            probabilities: of every link, by what has judged them so far.
        """
        source, target = self.bitext.source, self.bitext.target
        sides = (
            (source, words[0], self.s, self.L, source.offsets[self.pair] + self.s),
            (target, words[1], self.t, self.T, target.offsets[self.pair] + self.t),
        )
        folded = [np.array([word.lower() for word in side.vocabulary], object) for side in (source, target)]
        x, y = (each[side.tokens[token]] for each, (side, *_, token) in zip(folded, sides, strict=True))
        columns: list[np.ndarray] = [self.s / self.L - self.t / self.T, np.log(self.T), self.T / self.L, x == y]
        ranks = []
        for corpus, frequencies, position, length, token in sides:
            rank, frequency, *others = frequencies.features(corpus)
            ranks.append(rank[token])
            columns += [frequency[token], *(values[token] for values in others)]
            columns += [_beside(frequency, token, position, length, step) for step in (-1, 1)]
        for scores in probabilities:
            own = scores.values[self.places]
            columns.append(_log_odds(own))
            for dt, ds in AROUND + FARTHER:
                near, inside = np.zeros(len(own), np.float32), self._has(dt, ds)
                near[inside] = scores.values[(self.places + dt * self.L + ds)[inside]]
                columns.append(_log_odds(near))
            for corpus, _, position, length, token in sides:
                total = np.bincount(token, own, len(corpus.tokens))
                rival, distance = _best_other(own, token, self.s + self.t - position)
                columns += [_log_odds(rival), distance, total[token]]
                columns += [_beside(total, token, position, length, step) for step in (-1, 1)]
        return np.stack([*ranks, *columns], axis=1).astype(np.float32)


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    kept = np.clip(probabilities, SMALLEST, 1 - SMALLEST, dtype=np.float64)
    return np.log(kept / (1 - kept))


def _beside(
    values: np.ndarray, token: np.ndarray, position: np.ndarray, length: np.ndarray, step: int
) -> np.ndarray:
    """The values of the words beside these; -1 past the ends of the sentence."""
    inside = (position + step >= 0) & (position + step < length)
    found = np.full(len(token), -1.0)
    found[inside] = values[token[inside] + step]
    return found


def _best_other(values: np.ndarray, token: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best value of the token's other links, and how far its other end is from that of this one; 0 for none.

    Args:
        values, token, other: (K,), of each link its value, the token at one end, the position at the other.
    """
    best, distance = np.zeros(len(values), np.float32), np.zeros(len(values))
    order = np.lexsort((-values, token))
    starts = np.flatnonzero(np.diff(token[order], prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(order)))
    rival = np.where(np.arange(len(order)) == first, first + 1, first)
    known = rival < len(order)
    known[known] = token[order[rival[known]]] == token[order[known]]
    here, there = order[known], order[rival[known]]
    best[here], distance[here] = values[there], other[there] - other[here]
    return best, distance
