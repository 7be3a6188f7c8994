"""Alignment learned from gold links: a classifier of possible links, and an aligner whose links it decides.

What EM cannot know is convention: which words of a phrase are linked. A classifier of possible links learns it.
As few gold pairs teach it little, the aligner's own links count as much as :data:`OWN_LINKS` gold pairs: ten of
these change only links of which the classifier is quite sure.

The classifier is gradient-boosted trees (LightGBM, Ke et al. 2017), in two passes. The second also sees what the
first says of each link and of those around it. It learns from what trees say that have not seen the pair, as it
will of other text (stacking, Wolpert 1992).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple, Self

import numpy as np

from alignkit.aligner import Aligner, Around, load_nested, save_nested
from alignkit.classical.hmm.joint import JointHMM
from alignkit.errors import AlignkitError, counted
from alignkit.links.from_scores import are_linked, linked_above, links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import LinkCounts, count_links
from alignkit.scores import Scores, elements_at
from alignkit.support.files import loaded
from alignkit.support.packages import loaded_package
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.spellings import base_letters, folded
from alignkit.text.units import folded_counts
from alignkit.text.vocabulary import Vocabulary, unpack_vocabulary, vocabulary_arrays
from alignkit.types import PathLike

log = logging.getLogger(__name__)

KIND, VERSION = "alignkit.supervised", 2
SIDES = "source", "target"
FOLDS = 10
LEAST_PAIRS = 10  # fewer teach too little
#: So many gold pairs weigh as much as the aligner's own links. Of 5, 7, 10 and 20, this made links worse on none
#: of eight dev parts with 10 or 25 gold pairs, and by at most .1 points with 50.
OWN_LINKS = 7
#: In cross-validation, the classifier may be worse by this part of a standard error: what learns from all pairs is
#: better than those that are judged, each of which learned from a part.
TOLERATED = 0.5
#: Gold links with which no way agrees better, as an AER, are not of these pairs. Those of the next pair have AERs
#: of 65 to 69 in the sample.
FOREIGN = 0.6
BLOCK = 1_000  # sentence pairs whose links are decided at a time

#: Possible links have at least the first probability, or a neighbour with at least the second; links have that.
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
    """How often the words of one side occur in a text, case and marks folded.

    Attributes:
        vocabulary: V words that occur more than once, the most frequent first.
        counts: int64 (V,).
    """

    vocabulary: Vocabulary
    counts: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Those of a corpus."""
        counts = folded_counts(corpus).items()
        kept = sorted((pair for pair in counts if pair[1] > 1), key=lambda pair: (-pair[1], pair[0]))
        return cls(Vocabulary.from_tokens(word for word, _ in kept), np.array([n for _, n in kept], np.int64))

    def features(self, corpus: Corpus) -> list[np.ndarray]:
        """Of each token (N,): the rank of a frequent word, log frequency, length, whether it is punctuation."""
        words = [*map(folded, corpus.vocabulary)]
        ranks = np.array([self.vocabulary.ids.get(word, len(self.counts)) for word in words], np.int64)
        known = [
            np.minimum(ranks, FREQUENT),
            np.log(np.append(self.counts, 1)[ranks]),
            np.array([len(base_letters(word)) for word in words]),
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
        words_of = [np.array([*map(folded, side.vocabulary)], object) for side in (source, target)]
        x, y = (each[side.tokens[token]] for each, (side, *_, token) in zip(words_of, sides, strict=True))
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
    lightgbm = loaded_package("lightgbm")
    quiet = {"verbosity": -1}
    data = lightgbm.Dataset(features, sure.astype(np.float32), categorical_feature=[0, 1], params=quiet)
    return str(lightgbm.train(SETTINGS, data, ROUNDS).model_to_string())


def _predicted(trees: str, features: np.ndarray, threads: int = 1) -> np.ndarray:
    if not len(features):
        return np.zeros(0)
    lightgbm = loaded_package("lightgbm")
    return np.asarray(lightgbm.Booster(model_str=trees).predict(features, num_threads=threads))


@dataclass(frozen=True, eq=False, repr=False)
class SupervisedAligner(Around):
    """An aligner whose links a classifier decides.

    Attributes:
        inner: gives the probabilities that the classifier sees.
        trees: the classifier.
        weight: of the classifier; the rest is that of the links of ``inner``.
        threshold: links have at least this probability.
        threads: of both; no result depends on it.
    """

    inner: Aligner
    trees: Trees
    weight: float
    threshold: float = LINKED
    threads: int | None = None

    @property
    def name(self) -> str:
        """``supervised-`` and the name of the aligner within."""
        return f"supervised-{self.inner.name}"

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.inner.kinds

    @property
    def predicts(self) -> tuple[str, ...]:
        return self.inner.predicts

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha: the probability of every link by the classifier, and by the links of ``inner``; other kinds: the
        scores of ``inner``."""
        self.check_kind(kind)
        if kind != "alpha":
            return self.inner.score(bitext, kind)
        (alpha, links), parts = _judged(self.inner, bitext), [np.empty(0, np.float32)]
        for low in range(0, len(bitext), BLOCK):
            high = min(low + BLOCK, len(bitext))
            cells = Cells(bitext.block(low, high), alpha.block(low, high))
            by_trees = self.trees.probabilities(cells, thread_count(self.threads))
            parts.append(with_own_links(by_trees, links.block(low, high), self.weight).values)
        return Scores(np.concatenate(parts), alpha.offsets, alpha.shapes)

    def links_and_probabilities(self, bitext: Bitext) -> tuple[Links, np.ndarray]:
        """Links whose probability reaches the threshold, and their probabilities, float64 (K,)."""
        return linked_above(self.score(bitext), self.threshold, self.threads)

    def links(self, bitext: Bitext) -> Links:
        """Links whose probability reaches the threshold."""
        return self.links_and_probabilities(bitext)[0]

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        return self.inner.log_probabilities(bitext)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        return self.inner.reverse_log_probabilities(bitext)

    def save(self, path: PathLike) -> None:
        header = {
            "threshold": self.threshold,
            "weight": self.weight,
            "trees": self.trees.checksum,
            **self.about_text,
        }
        passes = enumerate(self.trees.passes)
        arrays = {f"trees{n}": np.frombuffer(trees.encode(), np.uint8) for n, trees in passes}
        for side, words in zip(SIDES, self.trees.words, strict=True):
            arrays |= vocabulary_arrays(side, words.vocabulary) | {f"{side}_counts": words.counts}
        save_nested(path, (KIND, VERSION), {"aligner": self.inner}, header, arrays)


def load_supervised(path: PathLike) -> SupervisedAligner:
    """Read what :meth:`SupervisedAligner.save` wrote; raises InputError if it is damaged or another file."""
    with loaded(path, KIND, VERSION) as (fields, header):
        (inner,) = load_nested(fields, header, "aligner")
        source, target = (
            Frequencies(unpack_vocabulary(fields, side), fields.get(f"{side}_counts", np.int64)) for side in SIDES
        )
        passes = tuple(fields.get(f"trees{n}", np.uint8).tobytes().decode() for n in range(PASSES))
        trees = Trees(passes, (source, target))
        if trees.checksum != header.text("trees"):
            raise AlignkitError("its trees are not those that were saved")
        return SupervisedAligner(inner, trees, header.number("weight", 0, 1), header.number("threshold", 0, 1))


def _judged(aligner: Aligner, bitext: Bitext) -> tuple[Scores, Links]:
    """The probability of every link, and the aligner's links; of the text that it was fitted on, those of the fit.

    The probabilities are without attachment: whether words are attached is what the classifier learns.
    """
    if not isinstance(aligner, JointHMM):
        return aligner.score(bitext, "alpha"), aligner.links(bitext)
    plain = aligner.without_attachment
    if aligner.has_fitted(bitext):
        return plain.fitted_probabilities, aligner.fitted_links
    alpha = plain.probabilities(bitext)
    return alpha, links_above(aligner.with_attachment(bitext, alpha), aligner.threshold)


def with_own_links(by_trees: Scores, links: Links, weight: float) -> Scores:
    """The mean of the classifier's probabilities, with this weight, and of the aligner's links."""
    own = (1 - weight) * are_linked(links, by_trees.shapes)
    return replace(by_trees, values=(weight * by_trees.values + own).astype(np.float32))


class PairErrors(NamedTuple):
    """Of M gold pairs: the wrong and missing links, and all that AER divides by."""

    errors: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, counts: LinkCounts) -> PairErrors:
        sizes = counts.found + counts.sure
        return cls(sizes - counts.in_sure - counts.in_possible, sizes)

    @property
    def aer(self) -> float:
        return float(self.errors.sum() / max(self.sizes.sum(), 1))

    def may_replace(self, other: PairErrors) -> bool:
        """True if the errors differ, and their rate here is not higher by ``TOLERATED`` standard errors of the
        difference."""
        gains = other.errors - other.aer * other.sizes - (self.errors - other.aer * self.sizes)
        return bool(gains.sum() > -TOLERATED * np.sqrt(len(gains) * gains.var(ddof=1)))


def annotated(gold: GoldLinks) -> np.ndarray:
    """int64: the pairs that have gold links.

    Raises:
        AlignkitError: fewer than ten have sure links; LightGBM is missing, or cannot be loaded.
    """
    loaded_package("lightgbm")
    known, sure = (np.flatnonzero(np.diff(links.offsets)) for links in (gold.possible, gold.sure))
    if len(sure) < LEAST_PAIRS:
        kind = "gold" if len(sure) == len(known) else "sure gold"
        problem = f"{kind} links of {counted(len(sure), 'pair')} are too few to learn from"
        raise AlignkitError(f"{problem}; give {LEAST_PAIRS} or more")
    return known


def with_gold(links: Links, probabilities: np.ndarray, gold: GoldLinks) -> tuple[Links, np.ndarray]:
    """Links and their probabilities, float64 (K,), with those of annotated pairs as in the gold: all sure links,
    with probability 1, and those possible ones that were found."""
    sentences, values = [], []
    for m in range(len(gold)):
        low, high = links.offsets[m : m + 2]
        found = dict(zip(map(tuple, links[m].tolist()), probabilities[low:high].tolist(), strict=True))
        if len(possible := gold.possible[m].tolist()):
            found = {link: found[link] for link in map(tuple, possible) if link in found}
            found |= {tuple(link): 1.0 for link in gold.sure[m].tolist()}
        sentences.append(sorted(found))
        values += [found[link] for link in sentences[-1]]
    rest = links.block(len(gold), len(links))
    joined = Links.concatenated([Links.from_lists(sentences), rest])
    return joined, np.concatenate([values, probabilities[links.offsets[len(gold)] :]])


def scores_with_gold(alpha: Scores, gold: GoldLinks) -> Scores:
    """Probabilities of every link, with those of annotated pairs as :func:`with_gold` has them: 1 for sure links,
    0 for what is not even possible."""
    shapes = alpha.shapes[: len(gold)]
    sure, possible = (are_linked(links, shapes) for links in (gold.sure, gold.possible))
    is_annotated = np.repeat(np.diff(gold.possible.offsets) > 0, shapes.prod(axis=1, dtype=np.int64))
    values = alpha.values.copy()
    values[: len(sure)][is_annotated & ~possible] = 0
    values[: len(sure)][sure] = 1
    return replace(alpha, values=values)


def fit_supervised(aligner: Aligner, bitext: Bitext, gold: GoldLinks, threads: int | None = None) -> Aligner:
    """The aligner with a classifier that has learned from gold links; or by itself, if that is better.

    What was chosen, and the error rates in cross-validation, are logged; so is a warning if the gold links seem to
    be of other pairs.

    Args:
        aligner: of whitespace words.
        bitext: M pairs; if the aligner was fitted, those that it was fitted on.
        gold: links of the first pairs. A pair without any counts as one that nobody has annotated.
        threads: all there are by default; no result depends on it.

    Raises:
        AlignkitError: as :func:`annotated`; or the aligner has no alpha scores.
    """
    aligner.check_kind("alpha")
    known = annotated(gold)
    gold, part, folds = gold.take(known), bitext.take(known), np.arange(len(known)) % FOLDS
    # The pairs of a text that was not fitted are judged by themselves.
    is_fitted = isinstance(aligner, JointHMM) and aligner.has_fitted(bitext)
    alpha, links = _judged(aligner, bitext if is_fitted else part)
    if is_fitted:
        alpha, links = Scores.from_matrices(alpha[m] for m in known.tolist()), links.take(known)
    words = Frequencies.of(bitext.source), Frequencies.of(bitext.target)
    trees, held_out = grow_trees(Cells(part, alpha), gold, folds, words)

    weight = len(known) / (len(known) + OWN_LINKS)
    new_links = links_above(with_own_links(held_out, links, weight), LINKED)
    own, new = (PairErrors.of(count_links(gold, each)) for each in (links, new_links))
    is_better = new.may_replace(own) and new.aer < FOREIGN
    what = (
        "%d gold pairs; AER in cross-validation: %.1f with the aligner's links, %.1f with a classifier; chosen: %s"
    )
    chosen = "a classifier" if is_better else "the aligner's links"
    chosen += " (the difference may be chance)" if is_better and new.aer > own.aer else ""
    log.info(what, len(known), 100 * own.aer, 100 * new.aer, chosen)
    if min(own.aer, new.aer) >= FOREIGN:
        log.warning("few gold links are as found; are they of the first pairs of this text?")
    return SupervisedAligner(aligner, trees, weight, threads=threads) if is_better else aligner
