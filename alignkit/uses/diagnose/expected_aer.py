"""Precision, recall and AER that can be expected of an alignment where there are no gold links.

What is known is how probable several views of the text find each link, each by itself, on average: the evidence.
From it follow

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

from alignkit.links.from_scores import link_places
from alignkit.links.links import Links
from alignkit.metrics.intervals import ratio
from alignkit.scores import Scores, elements_at

#: The views themselves make the links of at least this probability.
SUPPORTED = 0.5
#: Pairs of words with less evidence are not looked at one by one.
LEAST_EVIDENCE = 0.01
#: Where a text's words occur so often (geometric mean), its views are trusted fully; and the least that they are.
PLENTY, LEAST_TRUST = 16, 0.1
#: How far AER may lie from the estimate of a text that is trusted fully.
MARGIN = 0.05


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

    def possible(self, right: np.ndarray) -> np.ndarray:
        """The probability that a link is at least possible, from the probability that it is right."""
        return right + (1 - self.correlation) * right * (1 - right)

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
        chances: tuple[list[np.ndarray], list[np.ndarray]] = ([np.empty(0)], [np.empty(0)])
        for matrix in self.probabilities:
            missing = np.log1p(-np.minimum(matrix.astype(np.float64), 0.9999))
            for axis in (0, 1):
                chances[axis].append(np.exp(missing.sum(axis=axis)))
        return np.concatenate(chances[0]), np.concatenate(chances[1])

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
        left = calibration.unlinked * sum(float(chances.sum()) for chances in self.unlinked)
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

    def __len__(self) -> int:
        return len(self.found)

    def total(self) -> ExpectedEvaluation:
        """The measures over all sentence pairs together."""
        columns = (self.found, self.right, self.gold, self.possible, self.sure, self.in_sure)
        whole = ExpectedCounts(*(np.array([column.sum()]) for column in columns))
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
    count, sentences, places = len(links), links.sentences, evidence.places(links)
    right = calibration.right(evidence.probabilities.values[places])
    unanimous = evidence.sentences(np.flatnonzero(evidence.unanimous))
    return ExpectedCounts(
        found=np.diff(links.offsets),
        right=np.bincount(sentences, right, count),
        gold=_expected_gold(evidence, calibration),
        possible=np.bincount(sentences, calibration.possible(right), count),
        sure=np.bincount(unanimous, minlength=count).astype(np.float64),
        in_sure=np.bincount(sentences, right * evidence.unanimous[places], count),
    )


def _expected_gold(evidence: Evidence, calibration: Calibration) -> np.ndarray:
    """float64 (M,): the number of gold links of each pair, if all are sure; 0 if a side is blank."""
    scores, own = evidence.probabilities, evidence.own_links
    count, lengths = len(scores), scores.shapes.T[::-1].astype(np.int64)
    gold = np.bincount(evidence.sentences(own), calibration.right(scores.values[own]), count)
    for chances, length in zip(evidence.unlinked, lengths, strict=True):
        gold = gold + calibration.unlinked * np.bincount(np.repeat(np.arange(count), length), chances, count)
    return np.where(np.diff(scores.offsets) > 0, gold, 0)
