"""Erasure of attention, word by word, until the decision flips (Serrano and Smith 2019)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alignkit.analysis.explanation.decisions import erased_until_flip
from alignkit.analysis.explanation.rows import Row, mean_row
from alignkit.analysis.explanation.subject import Subject


def erasure_rows(subject: Subject) -> list[Row]:
    """The share of words erased by attention, gradient, their product and at random until the decision flips."""
    rng = np.random.default_rng([subject.settings.seed, 1])
    decided, gradient = subject.decisions, subject.scores("delta")
    orders: dict[str, Callable[[int], np.ndarray]] = {
        "attention": lambda m: np.argsort(-decided[m].alpha, kind="stable"),
        "gradient": lambda m: np.argsort(-np.abs(gradient[m][0]), kind="stable"),
        "attention x gradient": lambda m: np.argsort(-decided[m].alpha * np.abs(gradient[m][0]), kind="stable"),
        "random": lambda m: rng.permutation(len(decided[m].alpha)),
    }
    shares = {
        name: [erased_until_flip(one, of(m)) for m, one in enumerate(decided)] for name, of in orders.items()
    }
    never = np.isnan(np.array(list(shares.values()))).any(axis=0)
    rows = []
    for name, found in shares.items():
        meaning = f"share of words erased by {name} until the decision flips, where all orders flip it"
        rows.append(mean_row(f"erased, {name}", np.where(never, np.nan, found), meaning))
        rows.append(mean_row(f"flips, {name}", ~np.isnan(found), "share of decisions that flip at all"))
    return rows
