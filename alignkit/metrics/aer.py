"""Precision, recall and alignment error rate against gold links (Och and Ney 2003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.links import GoldLinks, Links


@dataclass(frozen=True)
class Evaluation:
    """Fractions, NaN where nothing was there to divide by; ``links`` counts the hypothesis."""

    aer: float
    precision: float
    recall: float
    f1: float
    links: int


def evaluate(gold: GoldLinks, links: Links) -> Evaluation:
    """Scores links A against sure links S and possible links P (S is a subset of P).

    precision = |A & P| / |A|, recall = |A & S| / |S|, AER = 1 - (|A & S| + |A & P|) / (|A| + |S|).

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    if len(gold) != len(links):
        raise AlignkitError(f"gold has {len(gold)} sentence pairs, the alignment has {len(links)}")
    found, sure, possible = _keys(links), _keys(gold.sure), _keys(gold.possible)
    in_sure = len(np.intersect1d(found, sure))
    in_possible = len(np.intersect1d(found, np.union1d(sure, possible)))
    precision, recall = _ratio(in_possible, len(found)), _ratio(in_sure, len(sure))
    return Evaluation(
        aer=1 - _ratio(in_sure + in_possible, len(found) + len(sure)),
        precision=precision,
        recall=recall,
        f1=_ratio(2 * precision * recall, precision + recall),
        links=len(found),
    )


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else float("nan")


def _keys(links: Links) -> np.ndarray:
    """One structured key per link, so that sets of links compare as sets."""
    keys = np.empty(len(links.pairs), [("m", np.int64), ("s", np.int32), ("t", np.int32)])
    keys["m"] = links.sentences
    keys["s"], keys["t"] = links.pairs.T
    return keys
