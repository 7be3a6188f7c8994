"""When attention emerges on permutations, from starts that differ: what the experiments on that share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from alignkit.errors import AlignkitError
from alignkit.lab.experiments.ensemble import (
    MemberRun,
    Parameters,
    SequencePlan,
    copying_settings,
    initial_parameters,
    train_ensemble,
)
from alignkit.lab.experiments.protocol import Claim, averaged, claim
from alignkit.lab.experiments.sequences import FIRST, Sequences, known_words, left_uniform
from alignkit.support.stages import named_progress
from alignkit.types import Progress

QUERY = ("query", "query_bias")  #: the parameters of the attention
UNIT = "step at which attention emerges"


@dataclass(frozen=True)
class EmergenceSettings(SequencePlan):
    """The networks: small, so that every condition has many seeds.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks of each condition; a seed has the same initial weights in all of them.
        length: tokens of a sequence, and types of the permutations.
        learning_rate: larger than the paper's, since small networks learn little in its 300 steps otherwise.
        emerged: how many times the share of uniform attention counts as learned.
        pairs: on which known words are measured.
    """

    seeds: int = 16
    length: int = 12
    hidden: int = 64
    batch: int = 32
    learning_rate: float = 5e-3
    emerged: float = 2.0
    pairs: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds < 2:
            raise AlignkitError("seeds: intervals are over seeds, so that two are needed")


@dataclass(frozen=True, eq=False)
class Condition:
    """Networks of one condition: the starts of the main training, their known words, and their runs."""

    name: str
    dose: float
    known: np.ndarray
    runs: list[MemberRun]

    def emergence(self, settings: EmergenceSettings) -> np.ndarray:
        """float64 (seeds,): the step at which attention emerged; after the last one if it never did."""
        level = settings.emerged / (settings.length + 1)  # the end of the sentence is a token, too
        steps = np.array([left_uniform(run, level) for run in self.runs])
        return np.where(np.isnan(steps), settings.steps + settings.every, steps)

    def seeds(self, settings: EmergenceSettings) -> pd.DataFrame:
        """A row for each seed, called a run: its known words, and the step of emergence."""
        columns = {"known": self.known, "emerged": self.emergence(settings)}
        return pd.DataFrame({"condition": self.name, "run": range(len(self.runs)), **columns})

    def row(self, settings: EmergenceSettings) -> dict[str, object]:
        """Columns of a table."""
        steps = self.emergence(settings)
        value, (low, high) = averaged(steps)
        return {
            "condition": self.name,
            "runs": len(self.runs),
            "known": float(self.known.mean()),
            "learned": int((steps <= settings.steps).sum()),
            "emerged": value,
            "low": low,
            "high": high,
            "attention": float(np.mean([run.attention[-1] for run in self.runs])),
            "last accuracy": float(np.mean([run.accuracy[-1] for run in self.runs])),
        }


class Bench:
    """Trains the networks of one condition after another, for each from the initial weights of these seeds.

    Args:
        settings: of the networks.
        progress: told of all trainings.
        types: of the vocabulary.
        seeds: of the initial weights.
        parts: the number of trainings.
    """

    def __init__(
        self, settings: EmergenceSettings, progress: Progress, types: int, seeds: Sequence[int], parts: int
    ) -> None:
        self.settings, self.progress, self.seeds = settings, progress, seeds
        self.narrow = Sequences("permutation", settings.length, settings.length)
        self.shape = copying_settings(FIRST + types, settings.hidden)
        self.starts = [initial_parameters(self.shape, seed) for seed in seeds]
        self.done, self.total = 0, parts

    def train(
        self,
        starts: Sequence[Parameters],
        sequences: Sequences,
        steps: int,
        name: str,
        frozen: tuple[str, ...] = (),
    ) -> list[MemberRun]:
        if not steps:
            return []
        part = named_progress(self.progress, name, self.done, self.total)
        self.done += 1
        plan = replace(self.settings, steps=steps)
        if name.startswith("writing"):
            plan = replace(plan, solved=2.0)  # the dose is exact
        seeds = [1000 * (name.startswith("writing") + 1) + seed for seed in self.seeds]
        return train_ensemble(starts, seeds, sequences.draw, plan, part, frozen=frozen)

    def trained_uniformly(self, sequences: Sequences, steps: int) -> list[Parameters]:
        """The starts after training with uniform attention, which leaves the queries as they are."""
        without = [{name: x for name, x in start.items() if name not in QUERY} for start in self.starts]
        runs = self.train(without, sequences, steps, f"writing {steps}")
        written = [run.parameters for run in runs] or without
        return [
            part | {name: start[name] for name in QUERY} for part, start in zip(written, self.starts, strict=True)
        ]

    def condition(
        self, name: str, dose: float, starts: list[Parameters], frozen: tuple[str, ...] = ()
    ) -> Condition:
        runs = self.train(starts, self.narrow, self.settings.steps, name, frozen)
        generator = np.random.default_rng([self.settings.seeds, self.settings.length])
        pairs = self.narrow.bitext(generator, self.settings.pairs)
        return Condition(name, dose, known_words(self.narrow, starts, self.shape, pairs), runs)


def with_words_erased(start: Parameters, seed: int) -> Parameters:
    """The network (S = 1) after the words of its output layer have changed places at random."""
    words = np.random.default_rng([seed, 4]).permutation(start["output"].shape[-1] - FIRST)
    order = torch.from_numpy(np.concatenate([np.arange(FIRST), FIRST + words]))
    return start | {name: start[name][..., order] for name in ("output", "output_bias")}


def rank_slopes(doses: ArrayLike, steps: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of dose and step of emergence within each seed, float64 (seeds,).

    Args:
        doses: (D,), or (D, seeds).
        steps: (D, seeds).

    Returns:
        NaN for a seed whose steps are all the same.
    """
    given = np.broadcast_to(np.transpose(doses), steps.T.shape)
    found = [
        spearmanr(*pair).statistic if np.ptp(pair[1]) else np.nan for pair in zip(given, steps.T, strict=True)
    ]
    return np.array(found, np.float64)


def gap_claim(
    text: str, steps: Mapping[str, ArrayLike], one: str, other: str, last: int, above: float | None = None
) -> Claim:
    """A claim about how much earlier attention emerges in one condition than in another, within seeds.

    A seed where it emerges in neither says nothing. The claim is that the difference is below 0, or, if that is
    given, above ``above``.

    Args:
        text: of the claim.
        steps: of emergence by condition, each (seeds,).
        one, other: conditions.
        last: step of the training.
        above: the bound.
    """
    first, second = np.asarray(steps[one]), np.asarray(steps[other])
    gap = np.where(np.minimum(first, second) > last, np.nan, first - second)
    below = 0.0 if above is None else None
    return claim(text, f"{UNIT}, {one} minus {other}", *averaged(gap), above=above, below=below)
