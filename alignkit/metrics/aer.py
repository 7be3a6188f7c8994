"""Precision, recall and alignment error rate against gold links (Och and Ney 2003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.bootstrap import middle, resampled

MEASURES = ("aer", "precision", "recall", "f1")


@dataclass(frozen=True)
class Evaluation:
    """Fractions, NaN where nothing was there to divide by; ``links`` counts the hypothesis."""

    aer: float
    precision: float
    recall: float
    f1: float
    links: int


@dataclass(frozen=True, eq=False)
class LinkCounts:
    """What every measure is computed from, per sentence pair, so that a bootstrap only sums again.

    Attributes:
        found, sure, possible: int64 (M,), the numbers of links: of the hypothesis, sure ones, possible ones (the
            sure ones among them).
        in_sure, in_possible: int64 (M,), how many of the hypothesis are sure, or possible.
    """

    found: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    in_sure: np.ndarray
    in_possible: np.ndarray

    def __len__(self) -> int:
        return len(self.found)

    def total(self) -> Evaluation:
        """The measures over all sentence pairs together."""
        sums = (int(counts.sum()) for counts in (self.found, self.sure, self.in_sure, self.in_possible))
        return _evaluation(*sums)

    def each(self) -> list[Evaluation]:
        """The measures of every sentence pair by itself."""
        columns = (self.found, self.sure, self.in_sure, self.in_possible)
        return [_evaluation(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def intervals(self, seed: int = 0) -> dict[str, tuple[float, float]]:
        """Measure -> (low, high): 95 % bootstrap percentile interval over sentence pairs (Efron 1979).

        (NaN, NaN) with fewer than two pairs, which show no spread, or if no draw has anything to divide by.
        """
        if len(self) < 2:
            return dict.fromkeys(MEASURES, (float("nan"), float("nan")))
        error = resampled(self.in_sure + self.in_possible, self.found + self.sure, seed)
        precision = resampled(self.in_possible, self.found, seed)
        recall = resampled(self.in_sure, self.sure, seed)  # the same seed: the same draws of sentences
        both = precision + recall
        f1 = np.where(both == 0, 0.0, 2 * precision * recall / np.where(both == 0, 1.0, both))
        values = (1 - error, precision, recall, f1)
        return {name: middle(draws) for name, draws in zip(MEASURES, values, strict=True)}


def count_links(gold: GoldLinks, links: Links) -> LinkCounts:
    """Counts links A against sure links S and possible links P, per sentence pair.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    if len(gold) != len(links):
        raise AlignkitError(f"gold has {len(gold)} sentence pairs, the alignment has {len(links)}")
    found, sure, possible = _keys(links), _keys(gold.sure), _keys(gold.possible)
    possible = np.union1d(sure, possible)

    def per_pair(keys: np.ndarray) -> np.ndarray:
        return np.bincount(keys["m"], minlength=len(gold)).astype(np.int64)

    return LinkCounts(
        found=per_pair(found),
        sure=per_pair(sure),
        possible=per_pair(possible),
        in_sure=per_pair(np.intersect1d(found, sure, assume_unique=True)),
        in_possible=per_pair(np.intersect1d(found, possible, assume_unique=True)),
    )


def evaluate(gold: GoldLinks, links: Links) -> Evaluation:
    """Scores links A against sure links S and possible links P (S is a subset of P).

    precision = |A & P| / |A|, recall = |A & S| / |S|, AER = 1 - (|A & S| + |A & P|) / (|A| + |S|); F1 is the
    harmonic mean of precision and recall, 0 where both are.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    return count_links(gold, links).total()


def _evaluation(found: int, sure: int, in_sure: int, in_possible: int) -> Evaluation:
    precision, recall = _ratio(in_possible, found), _ratio(in_sure, sure)
    return Evaluation(
        aer=1 - _ratio(in_sure + in_possible, found + sure),
        precision=precision,
        recall=recall,
        # The limit; only where neither is undefined.
        f1=0.0 if precision == recall == 0 else _ratio(2 * precision * recall, precision + recall),
        links=found,
    )


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else float("nan")


def _keys(links: Links) -> np.ndarray:
    """One structured key per link, so that sets of links compare as sets."""
    keys = np.empty(len(links.pairs), [("m", np.int64), ("s", np.int32), ("t", np.int32)])
    keys["m"] = links.sentences
    keys["s"], keys["t"] = links.pairs.T
    return keys
