"""The rows of the table of benchmarks/papers.py: the authors' figures, ours, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass

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
        return f"{shown} [{shown}, {shown}] ({self.over})".format(self.value, self.low, self.high)


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

    def cause(self) -> str:
        """A measured cause of the difference, or "unexplained"."""
        cell = self.theirs
        if cell.value != cell.value:
            return ""
        digits = 0.05 if self.percent else 0.0005
        if cell.low - digits <= self.authors <= cell.high + digits:
            return f"none: within our interval over {cell.over}"
        if self.measured:
            return self.measured
        return SHORT if self.unfinished else "unexplained"

    def cells(self) -> list[str]:
        shown = f"{self.authors:.1f}" if self.percent else f"{self.authors:.3f}"
        mine = self.ours.text(self.percent) if self.ours.value == self.ours.value else ""
        old = "" if self.tokenised != self.tokenised else Cell(self.tokenised).text(self.percent)
        return [self.name, shown, self.theirs.text(self.percent), mine, old, self.cause(), self.rule]
