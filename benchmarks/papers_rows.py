"""The rows of the table of benchmarks/papers.py: the authors' figures, ours, and why they differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.metrics.intervals import mean_interval

SHORT = "our runs are not finished"
#: An interval that is wider than this part of the authors' figure does not tell whether ours is the same.
WIDE = 0.2


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
        other_text: how their text is known to be another, which was not measured as a cause.
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
    other_text: str = ""

    def cause(self) -> str:
        """What is known of the difference: an interval that includes 0, a measured cause, or "unexplained"."""
        cell = self.theirs
        if self.unlike or cell.value != cell.value:
            return self.unlike
        digits = 0.05 if self.percent else 0.0005
        if cell.low - digits <= self.authors <= cell.high + digits:
            shown = "{:+.1f} [{:+.1f}, {:+.1f}]" if self.percent else "{:+.3f} [{:+.3f}, {:+.3f}]"
            difference = shown.format(*(each - self.authors for each in (cell.value, cell.low, cell.high)))
            verdict = "too wide to tell" if cell.high - cell.low > WIDE * self.authors else "consistent"
            return f"{verdict}: differs by {difference}"
        if abs(cell.value - self.authors) < 2 * digits:
            return "none: the last digit"
        if self.measured:
            return self.measured
        if self.unfinished:
            return SHORT
        return f"unexplained; {self.other_text}" if self.other_text else "unexplained"

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


#: what the authors' runs printed, by the names of :func:`classifier_figure`
SST = {"A(alpha, beta_uf)": 0.198, "A(beta_px, beta_uf)": 0.336, "A(delta, beta_uf)": 0.224, "chance": 0.083}
SST |= {"xi*": 0.835, "xi": 0.782}
SST |= {"A(alpha, beta_uf) at step 500": 0.263, "A(alpha, beta_uf) at the end": 0.209}
IMDB = {"A(alpha, beta_uf)": 0.526, "A(beta_px, beta_uf)": 0.816, "A(delta, beta_uf)": 0.616, "chance": 0.056}
IMDB |= {"xi*": 0.896, "xi": 0.868}
#: classification/calculate_corr.ipynb of github.com/Sea-Snell/AttentionDynamics, in the versions that read SMS
#: (where shares are multiples of 1/2,074) and SST, by the names of classification-NAME-authors.json
UNTURNED = {
    "sms": {
        "A(beta_uf, beta_log) at step 500": 0.325,
        "A(beta_uf, beta_log) at step 1500": 0.247,
        "A(beta_uf, beta_log) at step 3000": 0.242,
        "A(beta_uf, beta_log) at the end": 0.233,
        "A(alpha, beta_uf) at step 500": 0.009,
        "A(alpha, beta_uf) at the end": 0.017,
    },
    "sst2": {"A(beta_uf, beta_log) at step 3000": 0.116, "A(alpha, beta_uf) at step 3000": 0.045},
}
COURSES = {"A(alpha, beta_uf)": "uniform", "A(beta_px, beta_uf)": "proxy", "A(delta, beta_uf)": "saliency"}
#: of a classifier's figures
RULES = {
    "chance": "expected value for a word drawn at random",
    "xi*": "best accuracy",
    "xi": "accuracy of the second seed where its attention first agrees better than beta_uf",
}
#: what the authors' notebook says of their text; SST-2's test set has 1,821 sentences, and its dev set 872
OTHER_TEXT = "their text is another: its shares are multiples of 1/1,421"


def at_step(points: list[dict[str, Any]], at: str, column: str) -> float:
    """The column's value at "step N" or "the end" of a course; NaN if it has no such step."""
    steps = {point["step"]: point[column] for point in points}
    return float(steps.get(max(steps) if at == "the end" else int(at.split()[1]), np.nan)) if steps else np.nan


def classifier_figure(seed: dict[str, Any], key: str, largest: bool) -> float:
    """A figure of one seed of a classification; NaN if it was not measured.

    Args:
        seed: as ``records_of`` of benchmarks/classification.py writes it.
        key: of the dictionaries above.
        largest: A(u, beta_uf) is the largest over the uniform run's steps, as the authors take it.
    """
    if key == "chance":
        return float(seed["row"][0]["chance"])
    if key == "xi*":
        return float(seed["best_accuracy"])
    if key == "xi":
        xi = seed["row"][0]["xi"]
        return np.nan if xi is None else float(xi)
    quantity, _, at = key.partition(" at ")
    points = seed["courses"].get(COURSES[quantity], [])
    if at:
        return at_step(points, at, "agreement")
    if largest:
        return max((float(point["agreement"]) for point in points), default=np.nan)
    named = "A(beta_uf, beta_px)" if quantity == "A(beta_px, beta_uf)" else quantity
    return next(float(row["agreement"]) for row in seed["row"] if row["quantity"] == named)


def seeds_of(results: Path, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A committed classification and its seeds; empty if there is none."""
    place = results / f"classification-{name}.json"
    if not place.exists():
        return {}, []
    facts = json.loads(place.read_text())
    return facts, [facts["first"], *facts["by_seed"]]


def classifier_rows(results: Path, name: str, figures: dict[str, float]) -> list[Row]:
    """The rows of a classification, from its results: by the authors' conventions, if there; and ours."""
    facts, ours = seeds_of(results, name)
    _, theirs = seeds_of(results, f"{name}-authors")
    rows = []
    for key, value in figures.items():
        rule = RULES.get(key, "by the step of the uniform run; it rises and falls (A.7)")
        rule = "largest over the uniform run's steps" if key in COURSES else rule
        mine = Cell.of_seeds([classifier_figure(seed, key, largest=False) for seed in ours])
        like = Cell.of_seeds([classifier_figure(seed, key, largest=True) for seed in theirs or ours])
        steps = facts.get("steps", 4000)
        unlike = f"not like for like: {steps} steps instead of 4,000" if steps != 4000 else ""
        if name == "imdb" and facts:
            unlike = f"not like for like: another text, {steps} steps (classification-imdb.md)"
        if " at " in key and value > (most := figures[key.partition(" at ")[0]]):
            unlike = f"theirs is of other runs than their first row, whose largest is {most:.3f}"
        other = OTHER_TEXT if name == "sst2" else ""
        rows.append(Row(f"{name}: {key}", value, like, mine, rule, unlike=unlike, other_text=other))
    return rows


def unturned_rows(results: Path) -> list[Row]:
    """The rows of the authors' first runs, whose log-odds are not turned towards the label of a text."""
    rows = []
    for name, figures in UNTURNED.items():
        facts, _ = seeds_of(results, f"{name}-authors")
        for key, value in figures.items():
            quantity, _, at = key.partition(" at ")
            cells = {
                column: Cell.of_seeds([at_step(points, at, column) for points in facts.get("unturned", [])])
                for column in ("alpha", "log", "default")
            }
            regression = quantity == "A(beta_uf, beta_log)"
            like = cells["default" if regression else "alpha"]
            rule = "first runs; log-odds of the second label, whatever a text's label is"
            rule += "; scikit-learn's default penalty" if regression else ""
            cause = f"with the penalty of the best accuracy, {cells['log'].text()}" if regression and facts else ""
            other = OTHER_TEXT if name == "sst2" else ""
            rows.append(Row(f"{name}: {key}", value, like, Cell(), rule, measured=cause, other_text=other))
    return rows
