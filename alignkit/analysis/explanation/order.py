"""The order of words by attention, against that by gradient and by leave-one-out (Jain and Wallace 2019)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alignkit.analysis.explanation.rows import Row
from alignkit.analysis.explanation.subject import Subject
from alignkit.metrics.agreement import agreement
from alignkit.metrics.kendall import kendall
from alignkit.scores import Scores

#: kind of score -> what its size is called
SIZES = {"delta": "gradient", "loo": "leave-one-out"}


def order_rows(subject: Subject) -> list[Row]:
    """Kendall's tau-b and top-5 % agreement of attention with gradient and leave-one-out, and of these two."""
    return order_of({kind: subject.scores(kind) for kind in ("alpha", *SIZES)}, subject.settings.seed)


def order_of(scores: Mapping[str, Scores], seed: int) -> list[Row]:
    """The rows of :func:`order_rows`: means over the rows of all matrices, of which a text with a label has one.

    Args:
        scores: of kinds alpha, delta and loo, of the same texts or sentence pairs.
        seed: of the bootstrap.
    """
    alpha, sizes = scores["alpha"], {name: _size(scores[kind]) for kind, name in SIZES.items()}
    first, second = sizes
    rows = [row for name, size in sizes.items() for row in _pair(name, (alpha, "attention"), (size, name), seed)]
    return rows + _pair(f"{first} and {second}", (sizes[first], first), (sizes[second], second), seed)


def _pair(name: str, one: tuple[Scores, str], other: tuple[Scores, str], seed: int) -> list[Row]:
    """The rows of one pair of scores; each comes with what it is called."""
    (u, by), (v, reference) = one, other
    tau = kendall(u, v, seed=seed)
    meaning = f"Kendall's tau-b of the words' order by {by} and by the size of the {reference}"
    found = {"value": tau.tau, "low": tau.low, "high": tau.high, "n": tau.rows, "meaning": meaning}
    top = agreement(u, v, seed=seed)
    meaning = f"the first word by {by} is among the top 5 % by {reference}; by chance {top.chance:.3f}"
    best = {"value": top.agreement, "low": top.low, "high": top.high, "n": top.rows, "meaning": meaning}
    return [{"test": f"tau, {name}", **found}, {"test": f"top 5 %, {name}", **best}]


def _size(scores: Scores) -> Scores:
    return Scores(np.abs(scores.values), scores.offsets, scores.shapes)
