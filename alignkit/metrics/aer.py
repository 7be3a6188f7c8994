"""Precision, recall and alignment error rate against gold links (Och and Ney 2003)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.errors import AlignkitError, counted
from alignkit.links.links import GoldLinks, Links, LinksLike, as_gold, as_links
from alignkit.metrics.intervals import ratio
from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.support.arrays import brief_repr


@dataclass(frozen=True)
class Evaluation:
    """The measures of one alignment, as fractions; NaN where the divisor is 0. ``links`` counts the hypothesis."""

    aer: float
    precision: float
    recall: float
    f1: float
    links: int


@dataclass(frozen=True, eq=False)
class LinkCounts:
    """Sufficient statistics of all measures, per sentence pair (or per class of links).

    Attributes:
        found, sure, possible: (M,), the numbers of links: of the hypothesis, sure ones, possible ones (the sure
            ones among them).
        in_sure, in_possible: (M,), the numbers of links of the hypothesis that are sure, or possible.
    """

    found: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    in_sure: np.ndarray
    in_possible: np.ndarray

    __repr__ = brief_repr

    def __len__(self) -> int:
        return len(self.found)

    def total(self) -> Evaluation:
        """The measures over all sentence pairs together."""
        return Evaluation(**AER.total(self))

    def each(self) -> list[Evaluation]:
        """The measures of every sentence pair by itself."""
        values = {name: column.tolist() for name, column in AER.values(self).items()}
        return [Evaluation(*row) for row in zip(*values.values(), strict=True)]

    def intervals(self, seed: int = 0) -> dict[str, tuple[float, float]]:
        """Measure -> (low, high): 95 % bootstrap percentile interval over sentence pairs.

        (NaN, NaN) with fewer than two pairs, or if the divisor of every resample is 0.
        """
        if len(self) < 2:
            return dict.fromkeys(("aer", "precision", "recall", "f1"), (float("nan"), float("nan")))
        return AER.intervals(self, MetricSettings(seed=seed))


def count_links(gold: GoldLinks, links: Links) -> LinkCounts:
    """Count links A against sure links S and possible links P, per sentence pair.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    return count_links_by(gold, links, lambda keys: keys["m"], len(gold))


def count_links_by(
    gold: GoldLinks, links: Links, find: Callable[[np.ndarray], np.ndarray], count: int
) -> LinkCounts:
    """Count links A against sure links S and possible links P, per group of links.

    Args:
        gold: S and P of M sentence pairs.
        links: A of the same.
        find: keys (K,) of :func:`link_keys` -> int (K,), the group of each link.
        count: the number of groups, the length of the counts.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    if len(gold) != len(links):
        raise AlignkitError(f"gold has {counted(len(gold), 'pair')}, the alignment has {len(links):,}")
    found, sure, possible = link_keys(links), link_keys(gold.sure), link_keys(gold.possible)
    possible = np.union1d(sure, possible)

    def per_group(keys: np.ndarray) -> np.ndarray:
        return np.bincount(find(keys), minlength=count).astype(np.int64)

    return LinkCounts(
        found=per_group(found),
        sure=per_group(sure),
        possible=per_group(possible),
        in_sure=per_group(np.intersect1d(found, sure, assume_unique=True)),
        in_possible=per_group(np.intersect1d(found, possible, assume_unique=True)),
    )


def evaluate(gold: GoldLinks | LinksLike, links: LinksLike) -> Evaluation:
    """Score links A against sure links S and possible links P (S is a subset of P).

    Either may be lists (see :func:`alignkit.links.links.as_links`), of gold links sure ones.

    precision = |A & P| / |A|, recall = |A & S| / |S|, AER = 1 - (|A & S| + |A & P|) / (|A| + |S|); F1 is the
    harmonic mean of precision and recall, 0 where both are.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    return count_links(as_gold(gold), as_links(links)).total()


def _values(sums: LinkCounts) -> dict[str, Any]:
    precision, recall = ratio(sums.in_possible, sums.found), ratio(sums.in_sure, sums.sure)
    both = precision + recall
    return {
        "aer": 1 - ratio(sums.in_sure + sums.in_possible, sums.found + sums.sure),
        "precision": precision,
        "recall": recall,
        "f1": np.where(both == 0, 0.0, ratio(2 * precision * recall, both)),
        "links": sums.found,
    }


def link_keys(links: Links) -> np.ndarray:
    """One structured key (m, s, t) per link, so that sets of links compare as sets."""
    keys = np.empty(len(links.pairs), [("m", np.int64), ("s", np.int32), ("t", np.int32)])
    keys["m"] = links.sentences
    keys["s"], keys["t"] = links.pairs.T
    return keys


AER = Metric(
    name="aer",
    symbol="AER",
    title="alignment error rate against gold links, in per cent",
    chance="",
    reference="gold",
    symmetric=False,
    share=True,
    count=lambda gold, links, settings: count_links(gold, links),
    values=_values,
    whole=("links",),
)
