"""What views of a text say of its links, and which precision, recall and AER to expect without gold links.

A joint model is fitted to each view (:mod:`alignkit.classical.hmm.views`), and votes on every pair of words. The
views see different units of the same words, so their errors are less alike than those of the two directions of one
model. How probable they find each link, each by itself, on average, is the evidence. From it follow

- **the number of right links** among those proposed: the odds that one is right are those of the evidence times a
  factor, whoever proposes it. The mean of the views is too modest: most errors are made by few of them;
- **the number of gold links**: the right ones among the links that the views make themselves, and a share of the
  tokens that these leave without a link, because people link most of them to something all the same;
- AER as of Och and Ney (2003), with these numbers in the place of those counted.

Annotators do not agree on what to link, so AER depends on who made the gold links. It is expected for two kinds of
them. If **all are sure**, they are as described above. If some are **sure and others only possible**, a link is
sure where all views find it, and possible where at least one of two annotators would make it: with probability
q + (1 - r) q (1 - q), if each makes it with probability q and r is the correlation between them.

Views of a text whose words are seldom repeated agree in their errors: the trust in them grows with the mean
logarithm of how often a token's word occurs.

The numbers of :data:`CALIBRATION` were chosen on development data; benchmarks/diagnose.py measures how far
off the estimate is on other data, with numbers that were chosen without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from alignkit.classical.hmm.inference import posteriors
from alignkit.classical.hmm.joint import BidirectionalHMM, fit_view, progress_of_view, settings_of_view
from alignkit.classical.hmm.link_probabilities import Attachment, PhraseEdges, chances, into_probabilities, raised
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import VIEWS, View, ViewedText, trained_views, training_pairs
from alignkit.embeddings.levels import Embeddings, known_levels
from alignkit.errors import AlignkitError
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE
from alignkit.links.from_scores import link_places
from alignkit.links.links import Links
from alignkit.metrics.intervals import ratio
from alignkit.scores import Scores, elements_at, flat_offsets
from alignkit.support.arrays import brief_repr
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

#: A view votes for a link of at least these log-odds, or a direction of this probability.
VOTE, LIKELY = np.float32(0), np.float32(0.5)
#: The views that vote: without that of collocations, which the numbers of the estimates were chosen without.
VOTERS = tuple(view for view in VIEWS if not view.joined)
_BLOCK = 10_000  # sentence pairs whose directions are compared at a time
#: The views themselves make the links of at least this probability.
SUPPORTED = 0.5
#: Pairs of words with less evidence are not looked at one by one.
LEAST_EVIDENCE = 0.01
#: Where a text's words occur so often (geometric mean), its views are trusted fully; and the least that they are.
PLENTY, LEAST_TRUST = 16, 0.1
#: How far AER may lie from the estimate of a text that is trusted fully.
MARGIN = 0.05


@dataclass(frozen=True, eq=False)
class ViewVotes:
    """What the views of a text say about the links of its first pairs.

    Attributes:
        pairs: int64 (M,), which pairs of the text they are, rising: very long ones are left out.
        bitext: these M pairs.
        probabilities: (T, L) of each, those of the links of all views together.
        support: (T, L) of each, the mean of the probabilities that each view alone gives its links, without the
            links beside them, but for attachment (:mod:`alignkit.classical.hmm.link_probabilities`). Views of
            subwords count for as much in all as the others, whose errors are alike.
        votes: uint8, of each element of the matrices, how many views find it likelier than not.
        views: how many there are.
        agreement_of_directions: F1 of the links of both directions of the model of words, NaN without any.
    """

    pairs: np.ndarray
    bitext: Bitext
    probabilities: Scores
    support: Scores
    votes: np.ndarray
    views: int
    agreement_of_directions: float

    __repr__ = brief_repr

    @property
    def unanimous(self) -> np.ndarray:
        """bool, of each element: whether all views vote for it."""
        return self.votes == self.views

    @property
    def agreement_of_views(self) -> float:
        """F1 of the links of two views, pooled over all pairs of views; NaN with fewer than two, or no links.

        Twice the links that the views of each pair share, summed over pairs, over all links of each pair, likewise
        summed: views with more links weigh more than in a mean of the pairs' own F1.
        """
        votes = self.votes.astype(np.int64)
        total = int(votes.sum())
        if self.views < 2 or total == 0:
            return float("nan")
        return float((votes * (votes - 1)).sum() / (total * (self.views - 1)))


def vote(
    bitext: Bitext,
    count: int | None = None,
    *,
    views: tuple[View, ...] = VOTERS,
    embeddings: Embeddings | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ViewVotes:
    """Fit a joint model to each view of a text, and count its votes for the links of the first pairs.

    Args:
        bitext: the text that is learned from.
        count: how many of its pairs are wanted, if there are so many; all of them by default.
        views: those with subwords are left out where the text is too small for them.
        embeddings: of words, which all views take as evidence.
        threads: all there are by default; no result depends on it.
        progress: called with (done, total, message) after each iteration.

    Raises:
        AlignkitError: all of these pairs have more than ``LARGEST_PAIR`` elements
            (:mod:`alignkit.classical.hmm.views`).
    """
    count = len(bitext) if count is None else min(count, len(bitext))
    text, chosen = training_pairs(bitext, keep_blank=True)
    pairs = np.arange(count) if chosen is None else np.flatnonzero(chosen[:count])
    if count and not len(pairs):
        raise AlignkitError("the sentence pairs are too long; split their lines into sentences")
    head = text.block(0, len(pairs))
    total, support = Scores.zeros(head.shapes), Scores.zeros(head.shapes)
    votes = np.zeros(len(total.values), np.uint8)
    views, agreement = trained_views(views, text), float("nan")
    # The same settings whatever the size of the text: the estimates' numbers were chosen with them.
    settings = replace(JOINT_SETTINGS, least_own=0.0)
    plans = [settings_of_view(settings, view) for view in views]
    levels = known_levels(embeddings, text, thread_count(threads), progress)
    kinds = [bool(view.subwords) for view in views]
    attachment = cohesion = None
    for n, view in enumerate(views):
        report = progress_of_view(progress, n, plans, f"view {n + 1}")
        viewed = ViewedText(view, text)
        alike = None if levels is None else viewed.levels(levels, thread_count(threads))
        model, log_odds = fit_view(viewed, plans[n], thread_count(threads), report, levels=alike)
        own_text = ViewedText(view, head)
        shapes = own_text.bitext.shapes
        offsets = flat_offsets(shapes)
        own = own_text.of_words(Scores(log_odds.values[: offsets[-1]], offsets, shapes), thread_count(threads))
        total.values[:] += own.values / np.float32(len(views))
        support.values[:] += chances(own.values) / np.float32(len(set(kinds)) * kinds.count(kinds[n]))
        votes += own.values >= VOTE
        if n == 0:
            words = own_text.bitext
            agreement = agreement_of_directions(model, words, threads)
        if n == 0 and view.has_words:
            phrase_edges = PhraseEdges.of_text(viewed.bitext)
            cohesion = phrase_edges.cohesion(words)
            # This overwrites what is not needed any more.
            found = into_probabilities(log_odds, threads, phrase_edges.cohesion(viewed.bitext))
            attachment = Attachment.of_links(viewed.bitext, found, thread_count(threads))
    probabilities = into_probabilities(total, threads, cohesion)
    if attachment is not None:
        attached = attachment.apply(words, probabilities, thread_count(threads))
        support.values[attached] = raised(support.values[attached])
    return ViewVotes(pairs, head, probabilities, support, votes, len(views), agreement)


def agreement_of_directions(model: BidirectionalHMM, bitext: Bitext, threads: int | None = None) -> float:
    """F1 of the links that each direction of a joint model finds likelier than not; NaN without any.

    Args:
        model: of both directions.
        bitext: M pairs of its units.
        threads: all there are by default.
    """
    both, alone = 0, 0
    for low in range(0, len(bitext), _BLOCK):
        block = bitext.block(low, min(low + _BLOCK, len(bitext)))
        scores = (posteriors(block, model, direction, threads)[0] for direction in (FORWARD, REVERSE))
        forward, reverse = (each.values >= LIKELY for each in scores)
        both += int((forward & reverse).sum())
        alone += int(forward.sum()) + int(reverse.sum())
    return 2 * both / alone if alone else float("nan")


@dataclass(frozen=True)
class Calibration:
    """The numbers that turn evidence into expected counts.

    Attributes:
        shift: the logarithm of the factor: a proposed link is right with probability
            sigmoid(trust * (shift + logit(p))), where the evidence p is kept within [0.01, 0.99].
        unlinked: the number of gold links for each token that the views leave without a link.
        correlation: r of two annotators, for possible links.
        trust: in the evidence, less than 1 where the words of a text are seldom repeated: its views share errors.
    """

    shift: float
    unlinked: float
    correlation: float
    trust: float = 1.0

    def right(self, evidence: np.ndarray) -> np.ndarray:
        """float64: the probability that a link is right, for each element of the evidence."""
        return 1 / (1 + np.exp(-self.trust * (self.shift + evidence_logits(evidence))))

    def of_text(self, repetition: float) -> Calibration:
        """These numbers for a text whose tokens have this mean logarithm of how often their word occurs."""
        trust = float(np.clip((repetition / np.log(PLENTY)) ** 2, LEAST_TRUST, 1))
        return replace(self, trust=trust, unlinked=self.unlinked / trust**0.5)

    def interval(self, aer: float) -> tuple[float, float]:
        """Where the true AER lies in nine of ten cases, given the estimate.

        This holds for links made from evidence that the views have, too; for others in about half of the cases.
        """
        margin = MARGIN / self.trust
        return max(aer - margin, 0.0), min(aer + margin, 1.0)


CALIBRATION = Calibration(shift=1.0, unlinked=0.72, correlation=0.5)


def evidence_logits(evidence: np.ndarray) -> np.ndarray:
    """float64: log(p / (1 - p)) of evidence p, which is kept within [0.01, 0.99]."""
    kept = np.clip(evidence.astype(np.float64), LEAST_EVIDENCE, 1 - LEAST_EVIDENCE)
    return np.log(kept / (1 - kept))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the views say of all links of M sentence pairs.

    Attributes:
        probabilities: (T, L) of each pair, the mean of the probabilities that the views give by themselves.
        unanimous: bool, of each element of the matrices, whether all views find the link likelier than not.
    """

    probabilities: Scores
    unanimous: np.ndarray

    def __post_init__(self) -> None:
        if len(self.unanimous) != len(self.probabilities.values):
            raise ValueError("the evidence is not of one text")

    @cached_property
    def unlinked(self) -> tuple[np.ndarray, np.ndarray]:
        """float64 (N_src,) and (N_tgt,): the probability that a token has no link, were its links independent."""
        alone: tuple[list[np.ndarray], list[np.ndarray]] = ([np.empty(0)], [np.empty(0)])
        for matrix in self.probabilities:
            missing = np.log1p(-np.minimum(matrix.astype(np.float64), 0.9999))
            for axis in (0, 1):
                alone[axis].append(np.exp(missing.sum(axis=axis)))
        return np.concatenate(alone[0]), np.concatenate(alone[1])

    @cached_property
    def left_alone(self) -> np.ndarray:
        """float64 (M,): how many tokens of each pair are likely to have no link; 0 if a side is blank."""
        shapes = self.probabilities.shapes
        numbers, found = np.arange(len(shapes)), np.zeros(len(shapes))
        for alone, lengths in zip(self.unlinked, shapes.T[::-1].astype(np.int64), strict=True):
            found += np.bincount(np.repeat(numbers, lengths), alone, len(shapes))
        return np.where(shapes.all(axis=1), found, 0)

    @cached_property
    def own_links(self) -> np.ndarray:
        """int64 (K,): the places of the views' own links in ``probabilities.values``."""
        return np.flatnonzero(self.probabilities.values >= SUPPORTED)

    def sentences(self, places: np.ndarray) -> np.ndarray:
        """int64 (K,): the sentence pair of each place in ``probabilities.values``."""
        return np.searchsorted(self.probabilities.offsets, places, side="right") - 1

    def places(self, links: Links) -> np.ndarray:
        """int64 (K,): the place of each link in ``probabilities.values``.

        Raises:
            AlignkitError: the links are not of these sentence pairs.
        """
        return link_places(links, self.probabilities.shapes)

    def likely_links(self, calibration: Calibration) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of words that may be gold links.

        Returns:
            (their keys, as of :func:`alignkit.metrics.aer.link_keys`; float64 (K,), the expected number of gold
            links of each). The gold links of tokens that the views leave alone may be any of those that they do
            not make, in proportion to their evidence.
        """
        scores = self.probabilities
        places = np.flatnonzero(scores.values >= np.float32(LEAST_EVIDENCE))
        keys = np.empty(len(places), [("m", np.int64), ("s", np.int32), ("t", np.int32)])
        keys["m"], keys["t"], keys["s"] = elements_at(scores.shapes, places)
        values = scores.values[places]
        is_own, weights = values >= SUPPORTED, values.astype(np.float64)
        left = calibration.unlinked * float(self.left_alone.sum())
        weights[~is_own] *= left / max(float(weights[~is_own].sum()), 1e-30)
        weights[is_own] = calibration.right(values[is_own])
        return keys, weights


@dataclass(frozen=True)
class ExpectedEvaluation:
    """Measures that can be expected, as fractions; NaN where the divisor is 0.

    Attributes:
        precision, recall, aer: against gold links that are all sure.
        aer_with_possible: against gold links of which some are sure and others possible.
        links: the number of links proposed.
        gold: the number of gold links expected, all sure.
    """

    precision: float
    recall: float
    aer: float
    aer_with_possible: float
    links: int
    gold: float


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected numbers per sentence pair (or per class of links), from which all measures follow.

    Attributes:
        found: int64 (M,), links proposed.
        right: float64 (M,), how many of them are right.
        gold: (M,), gold links, if all are sure.
        possible: (M,), links proposed that are at least possible.
        sure, in_sure: (M,), sure links if others are only possible, and how many of them are proposed.
    """

    found: np.ndarray
    right: np.ndarray
    gold: np.ndarray
    possible: np.ndarray
    sure: np.ndarray
    in_sure: np.ndarray

    def total(self) -> ExpectedEvaluation:
        """The measures over all sentence pairs together."""
        whole = ExpectedCounts(*(np.array([column.sum()]) for column in vars(self).values()))
        values = {name: float(column[0]) for name, column in whole.measures().items()}
        return ExpectedEvaluation(**values, links=int(whole.found[0]), gold=float(whole.gold[0]))

    def measures(self) -> dict[str, np.ndarray]:
        """float64 (M,): precision, recall and both AER of each pair or class, NaN where not defined."""
        both = self.found + self.gold
        return {
            "precision": ratio(self.right, self.found),
            "recall": np.minimum(ratio(self.right, self.gold), 1),
            "aer": np.maximum(1 - ratio(2 * self.right, both), 0),
            "aer_with_possible": 1 - ratio(self.in_sure + self.possible, self.found + self.sure),
        }


def expected_link_counts(
    links: Links, evidence: Evidence, calibration: Calibration = CALIBRATION
) -> ExpectedCounts:
    """The numbers that can be expected for each sentence pair.

    Args:
        links: proposed ones, of M pairs.
        evidence: of the same.
        calibration: how to read the evidence.

    Raises:
        AlignkitError: the links are not of these sentence pairs.
    """
    scores, count, sentences, places = evidence.probabilities, len(links), links.sentences, evidence.places(links)
    right, own = calibration.right(scores.values[places]), evidence.own_links
    unanimous = evidence.sentences(np.flatnonzero(evidence.unanimous))
    gold = np.bincount(evidence.sentences(own), calibration.right(scores.values[own]), count)
    return ExpectedCounts(
        found=np.diff(links.offsets),
        right=np.bincount(sentences, right, count),
        gold=gold + calibration.unlinked * evidence.left_alone,
        # Of two annotators, at least one makes the link.
        possible=np.bincount(sentences, right + (1 - calibration.correlation) * right * (1 - right), count),
        sure=np.bincount(unanimous, minlength=count).astype(np.float64),
        in_sure=np.bincount(sentences, right * evidence.unanimous[places], count),
    )
