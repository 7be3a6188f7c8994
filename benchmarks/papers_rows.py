"""The rows of the table of benchmarks/papers.py: the authors' figures, ours, and why they differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.metrics.intervals import mean_interval

SHORT = "our runs are not finished"


@dataclass(frozen=True)
class Cell:
    """A figure of ours: its value, and its interval over seeds, or else over sentences.

    Attributes:
        value: NaN if it was not measured.
        low, high: NaN if unknown.
        over: what the interval is over.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    over: str = ""

    @classmethod
    def of_seeds(cls, values: list[float]) -> Cell:
        known = np.array([value for value in values if value == value])
        if not len(known):
            return cls()
        if len(known) > 1 and np.ptp(known) == 0:
            return cls(float(known[0]))  # of what the seeds have in common
        low, high = mean_interval(known, 0, 1 if (known <= 1).all() else 100)  # shares, or BLEU
        return cls(float(known.mean()), low, high, f"{len(known)} seeds" if len(known) > 1 else "")

    def text(self, percent: bool = False) -> str:
        if self.value != self.value:
            return "not measured yet"
        shown = "{:.1f}" if percent else "{:.3f}"
        if self.low != self.low:
            return shown.format(self.value)
        over = f" ({self.over})" if self.over else ""
        return f"{shown} [{shown}, {shown}]".format(self.value, self.low, self.high) + over


@dataclass(frozen=True)
class Row:
    """A line of the table: the authors' figure, ours by their rules and by ours, and why they differ.

    Attributes:
        authors: their figure.
        theirs, ours: ours by their rules, and by ours.
        rule: by which ``theirs`` is measured.
        percent: whether it is shown with one decimal, as BLEU.
        measured: a measured cause of the difference, if there is one.
        unfinished: whether the runs that it is of still have steps to go.
        tokenised: ours by our rules on the tokenised, lower-cased text, of earlier runs.
        unlike: why the two are not like for like, if they are not.
    """

    name: str
    authors: float
    theirs: Cell
    ours: Cell
    rule: str
    percent: bool = False
    measured: str = ""
    unfinished: bool = False
    tokenised: float = np.nan
    unlike: str = ""

    def cause(self) -> str:
        """A measured cause of the difference, or "unexplained"."""
        cell = self.theirs
        if self.unlike or cell.value != cell.value:
            return self.unlike
        digits = 0.05 if self.percent else 0.0005
        if cell.low - digits <= self.authors <= cell.high + digits:
            if cell.high - cell.low > cell.value:
                return f"undecided: our interval over {cell.over} is wide"
            return f"none: within our interval over {cell.over}"
        if abs(cell.value - self.authors) < 2 * digits:
            return "none: the last digit"
        if self.measured:
            return self.measured
        return SHORT if self.unfinished else "unexplained"

    def cells(self) -> list[str]:
        shown = f"{self.authors:.1f}" if self.percent else f"{self.authors:.3f}"
        mine = self.ours.text(self.percent) if self.ours.value == self.ours.value else ""
        old = "" if self.tokenised != self.tokenised else Cell(self.tokenised).text(self.percent)
        return [self.name, shown, self.theirs.text(self.percent), mine, old, self.cause(), self.rule]


def seeds_apart(values: list[float]) -> float:
    """How far two seeds of a normal quantity differ at most in 95 % of cases, by Student; NaN of less than two."""
    known = np.array([value for value in values if value == value])
    low, high = mean_interval(known)
    return (high - low) / 2 * (2 * len(known)) ** 0.5


SST = {"A(alpha, beta_uf)": 0.198, "A(beta_px, beta_uf)": 0.336, "A(delta, beta_uf)": 0.224, "chance": 0.083}
SST |= {"xi*": 0.835, "xi": 0.782}
SST |= {"A(alpha, beta_uf) at step 500": 0.263, "A(alpha, beta_uf) at the end": 0.209}
SST |= {"A(beta_log, beta_uf) at step 500": 0.33, "A(beta_log, beta_uf) at the end": 0.23}
IMDB = {"A(alpha, beta_uf)": 0.526, "A(beta_px, beta_uf)": 0.816, "A(delta, beta_uf)": 0.616, "chance": 0.056}
IMDB |= {"xi*": 0.896, "xi": 0.868}


def classifier_rows(results: Path, name: str, figures: dict[str, float]) -> list[Row]:
    """The rows of a classification, from its committed result."""
    place = results / f"classification-{name}.json"
    if not place.exists():
        return [Row(f"{name}: {key}", value, Cell(), Cell(), "") for key, value in figures.items()]
    facts = json.loads(place.read_text())
    seeds = [facts["first"], *facts["by_seed"]] if "first" in facts else [facts]
    courses = {"A(alpha, beta_uf)": "uniform", "A(beta_px, beta_uf)": "proxy", "A(delta, beta_uf)": "saliency"}
    mine = {"A(beta_px, beta_uf)": "A(beta_uf, beta_px)"}
    rows = []
    for key, value in figures.items():
        one: Callable[[dict[str, Any]], float]
        other: Callable[[dict[str, Any]], float] | None = None
        if key in courses:
            course, quantity = courses[key], mine.get(key, key)

            def one(seed: dict[str, Any], course: str = course) -> float:
                points = seed["courses"].get(course)
                return max(point["agreement"] for point in points) if points else np.nan

            def other(seed: dict[str, Any], quantity: str = quantity) -> float:
                return next(row["agreement"] for row in seed["row"] if row["quantity"] == quantity)

            rule = "largest over the uniform run's steps"
        elif key == "chance":

            def one(seed: dict[str, Any]) -> float:
                return float(seed["row"][0]["chance"])

            rule = "expected value for a word drawn at random"
        elif key == "xi*":

            def one(seed: dict[str, Any]) -> float:
                return float(seed["best_accuracy"])

            rule = "best accuracy"
        elif " at " in key:
            quantity, _, at = key.partition(" at ")
            course = {"A(alpha, beta_uf)": "uniform", "A(beta_log, beta_uf)": "logistic"}[quantity]

            def one(seed: dict[str, Any], at: str = at, course: str = course) -> float:
                points = seed["courses"].get(course, [])
                steps = {point["step"]: point["agreement"] for point in points}
                return steps.get(max(steps) if at == "the end" else 500, np.nan) if steps else np.nan

            rule = "by the step of the uniform run"
            rule += "; printed as A(beta_px, beta_log)" if course == "logistic" else "; it rises and falls (A.7)"
        else:

            def one(seed: dict[str, Any]) -> float:
                xi = seed["row"][0]["xi"]
                return np.nan if xi is None else float(xi)

            rule = "accuracy of the second seed where its attention first agrees better than beta_uf"
        theirs = Cell.of_seeds([one(seed) for seed in seeds])
        own = Cell() if other is None else Cell.of_seeds([other(seed) for seed in seeds])
        steps = f"{facts['steps']} steps" if facts["steps"] != 4000 else ""
        text = facts["title"].partition(": ")[2]
        unlike = f"not like for like: {steps} instead of 4,000" if steps else ""
        if name == "imdb":
            unlike = f"not like for like: another text ({text}), {steps or '4,000 steps'}"
        rows.append(Row(f"{name}: {key}", value, theirs, own, rule, unlike=unlike))
    return rows
