"""Curves of training: what is learned at the logged steps, and when a curve has come half-way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from alignkit.metrics.agreement import count_agreement
from alignkit.metrics.intervals import resampled_sums
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.training.trainer import AlignerT, Trainer
from alignkit.scores import Scores
from alignkit.types import Progress

LEARNED = 0.05  #: a curve that never exceeds its start by this has no half-way step


def follow(
    trainer: Trainer[Any, AlignerT], look: Callable[[AlignerT], None] | None, progress: Progress
) -> AlignerT:
    """Train to the end, and return the best network.

    Args:
        trainer: before its first step.
        look: called with the network as it is at every logged step, if it is given.
        progress: of the steps.
    """

    def measured(now: Trainer[Any, AlignerT], _: bool) -> None:
        if look is not None and now.step in now.task.logged_steps:
            look(now.snapshot())

    return trainer.run(measured, progress)


def half_way(steps: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The step at which each curve first exceeds the mean of its first and its largest value.

    Args:
        steps: (K,), rising, the first being the one before training.
        curves: (K, C).

    Returns:
        (C,), interpolated linearly between measured steps; infinite for a curve that was not learned.

    >>> half_way(np.array([0.0, 10.0, 20.0]), np.array([[0.1], [0.2], [0.7]])).round(2).tolist()
    [14.0]
    """
    found = np.full(curves.shape[1], np.inf)
    for c, curve in enumerate(curves.T):
        middle = (curve[0] + curve.max()) / 2
        over = np.flatnonzero(curve > middle)
        if len(over) and curve.max() - curve[0] >= LEARNED:
            k = over[0]
            share = (middle - curve[k - 1]) / (curve[k] - curve[k - 1])
            found[c] = steps[k - 1] + share * (steps[k] - steps[k - 1])
    return found


def half_way_rows(raw: pd.DataFrame, by: Sequence[str], curves: Sequence[str]) -> pd.DataFrame:
    """:func:`half_way` of each of the curves, a row per group.

    Args:
        raw: a row per group and step, with the columns of ``by``, ``step`` and the curves.
        by: the columns that name a group.
        curves: columns with values that rise.
    """
    rows = []
    for group, part in raw.groupby(list(by), sort=False):
        found = half_way(part["step"].to_numpy(np.float64), part[list(curves)].to_numpy())
        rows.append(dict(zip((*by, *curves), (*group, *found), strict=True)))
    return pd.DataFrame(rows)


@dataclass(eq=False)
class AgreementCurves:
    """C agreements of one training run at its K measured steps, counted per sentence pair for the bootstrap.

    Attributes:
        name: of the run.
        steps, accuracy: of each measurement; the token accuracy is of all held-out text.
        hits, expected: per step, (C, M) agreeing rows, and their number by chance.
        rows: (M,), rows of each pair.
    """

    name: str
    steps: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    hits: list[np.ndarray] = field(default_factory=list)
    expected: list[np.ndarray] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, network: NeuralAligner, pairs: Sequence[tuple[Scores, Scores]]) -> None:
        """Count the agreements of C pairs of scores at the step of a network."""
        counts = [count_agreement(u, v) for u, v in pairs]
        self.steps.append(network.step)
        self.accuracy.append(network.metrics.get("valid.accuracy", float("nan")))
        self.hits.append(np.stack([count.hits for count in counts]))
        self.expected.append(np.stack([count.expected for count in counts]))
        self.rows = counts[0].rows

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """The agreements and their chance levels, (K, C) each."""
        found, chance = (np.stack(counts).sum(2) / self.rows.sum() for counts in (self.hits, self.expected))
        return found, chance

    def half_ways(self) -> np.ndarray:
        """The half-way step of each curve, (1 + resamples, C): of all pairs, and of the bootstrap's resamples."""
        hits = np.stack(self.hits)  # (K, C, M)
        counts = np.concatenate([hits.reshape(-1, len(self.rows)), self.rows[None]]).T
        sums = np.concatenate([counts.sum(0)[None], resampled_sums(counts)])
        shares = (sums[:, :-1] / sums[:, -1:]).reshape(len(sums), *hits.shape[:2])
        return np.array([half_way(np.array(self.steps, np.float64), curves) for curves in shares])
