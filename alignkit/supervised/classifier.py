"""A classifier of possible links: what it sees of them, and gradient-boosted trees (LightGBM, Ke et al. 2017).

There are two passes. The second also sees what the first says of each link and of those around it. It learns from
what trees say that have not seen the pair, as it will of other text (stacking, Wolpert 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import numpy as np

from alignkit.links.from_scores import are_linked
from alignkit.links.links import GoldLinks
from alignkit.scores import Scores, elements_at
from alignkit.support.packages import need
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

PASSES, ROUNDS = 2, 100
#: As few gold pairs as there may be have some thousand possible links: small trees, each of a part of them.
SETTINGS = {
    "objective": "binary",
    "num_leaves": 16,
    "learning_rate": 0.075,
    "min_data_in_leaf": 20,
    "min_data_per_group": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


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
        self._place(np.flatnonzero(alpha.values >= np.float32(LINKED)))
        beside = [(self.places + dt * self.L + ds)[self._has(dt, ds)] for dt, ds in AROUND]
        self._place(np.unique(np.concatenate([np.flatnonzero(alpha.values >= np.float32(LEAST)), *beside])))

    def _place(self, places: np.ndarray) -> None:
        self.places, (self.pair, self.t, self.s) = places, elements_at(self.alpha.shapes, places)
        self.T, self.L = self.alpha.shapes[self.pair].T.astype(np.int64)

    def _has(self, dt: int, ds: int) -> np.ndarray:
        """bool (K,): whether the pair has an element (t + dt, s + ds)."""
        t, s = self.t + dt, self.s + ds
        return (t >= 0) & (t < self.T) & (s >= 0) & (s < self.L)

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


@dataclass(frozen=True, eq=False)
class Trees:
    """What decides links.

    Attributes:
        passes: the trees of each pass, as LightGBM writes them.
        words: the frequencies of the words of both sides.
    """

    passes: tuple[str, ...]
    words: tuple[Frequencies, Frequencies]

    def probabilities(self, cells: Cells, threads: int = 1) -> Scores:
        """The probability of every link of the pairs; 0 for all but the possible ones."""
        seen = [cells.alpha]
        for trees in self.passes:
            seen.append(cells.scores(_predicted(trees, cells.features(self.words, seen), threads)))
        return seen[-1]

    @property
    def checksum(self) -> str:
        """SHA-256 of the trees, since LightGBM ends the process if they are damaged."""
        return sha256("".join(self.passes).encode()).hexdigest()


def grow_trees(
    cells: Cells, gold: GoldLinks, folds: np.ndarray, words: tuple[Frequencies, Frequencies]
) -> tuple[Trees, Scores]:
    """Trees that are grown on gold pairs. Possible gold links are neither right nor wrong.

    Args:
        cells: possible links of M pairs.
        gold: of the pairs.
        folds: int (M,), the fold of each.
        words: the frequencies of the words of both sides.

    Returns:
        the trees, and the probability of every link by trees of the other folds.
    """
    sure, possible = (are_linked(links, cells.alpha.shapes)[cells.places] for links in (gold.sure, gold.possible))
    known = sure | ~possible
    seen, passes = [cells.alpha], []
    for _ in range(PASSES):
        features = cells.features(words, seen)
        found = np.zeros(len(features))
        for fold in np.unique(folds):
            held = folds[cells.pair] == fold
            learned = known & ~held
            found[held] = _predicted(_trained(features[learned], sure[learned]), features[held])
        passes.append(_trained(features[known], sure[known]))
        seen.append(cells.scores(found))
    return Trees(tuple(passes), words), seen[-1]


def _trained(features: np.ndarray, sure: np.ndarray) -> str:
    import lightgbm

    quiet = {"verbosity": -1}
    data = lightgbm.Dataset(features, sure.astype(np.float32), categorical_feature=[0, 1], params=quiet)
    return str(lightgbm.train(SETTINGS, data, ROUNDS).model_to_string())


def _predicted(trees: str, features: np.ndarray, threads: int = 1) -> np.ndarray:
    if not len(features):
        return np.zeros(0)
    need("lightgbm")
    import lightgbm

    return np.asarray(lightgbm.Booster(model_str=trees).predict(features, num_threads=threads))
