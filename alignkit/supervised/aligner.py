"""An aligner that learns from gold links of some sentence pairs which links an annotator makes.

What EM cannot know is convention: which words of a phrase are linked. A classifier of possible links learns it
(:mod:`alignkit.supervised.classifier`), and is used if cross-validation within the gold pairs shows that it errs
less than the aligner does. Where some gold links are only possible, so is another threshold.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alignkit.aligner import Aligner, Around, load_nested, save_nested
from alignkit.classical.hmm.joint import JointHMM
from alignkit.errors import AlignkitError, counted
from alignkit.links.from_scores import linked_above, links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import LinkCounts, count_links
from alignkit.scores import Scores
from alignkit.supervised.classifier import PASSES, Cells, Frequencies, Trees, grow_trees
from alignkit.support.files import loaded
from alignkit.support.packages import need
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import unpack_vocabulary, vocabulary_arrays
from alignkit.types import PathLike

log = logging.getLogger(__name__)

KIND, VERSION = "alignkit.supervised", 1
SIDES = "source", "target"
FOLDS = 10
LEAST_PAIRS = 10  # fewer say too little of what is better
#: A classifier must be better by so many standard errors: with ten pairs, chance gives that once in twenty times.
#: With more pairs than ``MANY`` they are fewer, in proportion: the classifier that learns from all pairs is better
#: than those that are judged, each of which learned from a part.
SURE, MANY = 1.8, 20
THRESHOLDS = np.arange(0.2, 0.81, 0.02)
#: Error rates are averaged over so many thresholds before the best is chosen: few pairs say little about one.
SMOOTHED = 5
BLOCK = 1_000  # sentence pairs whose links are decided at a time


@dataclass(frozen=True, eq=False, repr=False)
class SupervisedAligner(Around):
    """An aligner whose links a classifier decides.

    Attributes:
        inner: gives the probabilities that the classifier sees.
        trees: the classifier.
        threshold: links have at least this probability.
        threads: of both; no result depends on it.
    """

    inner: Aligner
    trees: Trees
    threshold: float
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
        """alpha: the probability of every link by the classifier; other kinds: the scores of ``inner``."""
        self.check_kind(kind)
        if kind != "alpha":
            return self.inner.score(bitext, kind)
        alpha, parts = _alpha(self.inner, bitext), [np.empty(0, np.float32)]
        for low in range(0, len(bitext), BLOCK):
            high = min(low + BLOCK, len(bitext))
            cells = Cells(bitext.block(low, high), alpha.block(low, high))
            parts.append(self.trees.probabilities(cells, thread_count(self.threads)).values)
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
        header = {"threshold": self.threshold, "trees": self.trees.checksum, **self.about_text}
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
        return SupervisedAligner(inner, trees, header.number("threshold", 0, 1))


def _alpha(aligner: Aligner, bitext: Bitext) -> Scores:
    """The probability of every link; of the text that an aligner was fitted on, that which the fit found. No words
    are attached: whether they are is what the classifier learns."""
    if isinstance(aligner, JointHMM):
        return aligner.unattached_probabilities(bitext)
    return aligner.score(bitext, "alpha")


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

    def beats(self, other: PairErrors) -> bool:
        """True if the error rate is lower by enough standard errors of the difference (``SURE``, ``MANY``)."""
        gains = other.errors - other.aer * other.sizes - (self.errors - other.aer * self.sizes)
        needed = SURE * min(1, MANY / len(gains))
        return bool(gains.sum() > needed * np.sqrt(len(gains) * gains.var(ddof=1)))


def annotated(gold: GoldLinks) -> np.ndarray:
    """int64: the pairs that have gold links.

    Raises:
        AlignkitError: there are fewer than ten; LightGBM is missing.
    """
    need("lightgbm")
    known = np.flatnonzero(np.diff(gold.possible.offsets))
    if len(known) < LEAST_PAIRS:
        problem = f"gold links of {counted(len(known), 'pair')} are too few to learn from"
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


def fit_supervised(aligner: Aligner, bitext: Bitext, gold: GoldLinks, threads: int | None = None) -> Aligner:
    """The aligner as it links best what gold links show: itself, or with a classifier; where some gold links are
    only possible, also with another threshold.

    What was chosen, and the error rates in cross-validation, are logged.

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
    if isinstance(aligner, JointHMM) and aligner.has_fitted(bitext):
        links, text, rows = aligner.fitted_links.take(known), bitext, known.tolist()
    else:  # each pair is judged by itself
        links, text, rows = aligner.links(part), part, list(range(len(known)))
    all_scores = _alpha(aligner, text)
    words = Frequencies.of(bitext.source), Frequencies.of(bitext.target)
    cells = Cells(part, Scores.from_matrices(all_scores[m] for m in rows))
    trees, held_out = grow_trees(cells, gold, folds, words)

    own, ways = PairErrors.of(count_links(gold, links)), {"a classifier": _best_threshold(gold, held_out, folds)}
    if isinstance(aligner, JointHMM) and len(gold.possible.pairs) > len(gold.sure.pairs):
        # Who calls some links only possible does not ask for them: fewer links may be better.
        fitted = aligner.fitted_probabilities if aligner.has_fitted(text) else aligner.probabilities(text)
        ways["another threshold"] = _best_threshold(gold, Scores.from_matrices(fitted[m] for m in rows), folds)
    better = [name for name in ways if ways[name][1].beats(own)]
    chosen = min(better, key=lambda name: ways[name][1].aer, default="")
    links_errors = {"the aligner's links": own, **{name: errors for name, (_, errors) in ways.items()}}
    rates = ", ".join(f"{100 * errors.aer:.1f} with {name}" for name, errors in links_errors.items())
    what = "%d gold pairs; AER in cross-validation: %s; chosen: %s"
    log.info(what, len(known), rates, chosen or "the aligner's links")
    if chosen == "another threshold":
        return aligner.with_threshold(ways[chosen][0])
    return SupervisedAligner(aligner, trees, ways[chosen][0], threads) if chosen else aligner


def _best_threshold(gold: GoldLinks, scores: Scores, folds: np.ndarray) -> tuple[float, PairErrors]:
    """The threshold with the lowest error rate, and each pair judged by the one that is best for other folds.

    Args:
        gold, scores: of M pairs.
        folds: int (M,), the fold of each.
    """
    judged = [PairErrors.of(count_links(gold, links_above(scores, threshold))) for threshold in THRESHOLDS]
    errors, sizes = (np.stack(rows) for rows in zip(*judged, strict=True))

    def best(pairs: np.ndarray) -> int:
        rates = errors[:, pairs].sum(axis=1) / np.maximum(sizes[:, pairs].sum(axis=1), 1)
        padded = np.pad(rates, SMOOTHED // 2, mode="edge")
        return int(np.convolve(padded, np.ones(SMOOTHED), "valid").argmin())

    chosen = np.array([best(folds != fold) for fold in range(FOLDS)])[folds]
    pairs = np.arange(len(folds))
    threshold = round(float(THRESHOLDS[best(folds >= 0)]), 2)
    return threshold, PairErrors(errors[chosen, pairs], sizes[chosen, pairs])
