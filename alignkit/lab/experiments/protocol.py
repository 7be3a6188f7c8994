"""The protocol of an experiment: its result is a table, a verdict for each claim, raw rows and a picture.

An experiment is a module of this package with

- a frozen dataclass of settings, a subclass of :class:`ExperimentSettings` (numbers, strings and tuples of them),
  whose defaults are the paper's size, or that of the committed run;
- ``QUICK``: an instance of it with which the experiment takes less than 2 minutes on two cores;
- ``run_NAME(settings, progress) -> Result``, NAME being that of the module: a plain function that can also be
  called from a notebook;

and a line in :mod:`alignkit.lab.experiments.registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from alignkit.errors import AlignkitError
from alignkit.metrics.intervals import mean_interval, wilson

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:
    Figure = Any  # matplotlib is an extra


class Verdict(StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable at this size"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and its verdict.

    Attributes:
        text: the claim, understandable without the paper, with the section that makes it.
        statistic: what was measured, in words.
        value: the statistic.
        low, high: its interval; equal to ``value`` where it is exact.
        verdict: see :func:`judge`; none is given at a quick size.
    """

    text: str
    statistic: str
    value: float
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True)
class ExperimentSettings:
    """Settings of an experiment, whose numbers are above 0 and whose tuples are not empty.

    Attributes:
        least: the settings that may be 0 or empty, with the least value of each.
    """

    least: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        """Raises AlignkitError if a setting is too small."""
        for name, value in vars(self).items():
            parts = value if isinstance(value, tuple) else (value,)
            least = self.least.get(name)
            if not parts and least is None:
                raise AlignkitError(f"{name} must not be empty")
            if least is None and any(part <= 0 for part in parts if type(part) in (int, float)):
                raise AlignkitError(f"{name} must be above 0, not {value}")
            if least is not None and any(part < least for part in parts if type(part) in (int, float)):
                raise AlignkitError(f"{name} must be at least {least}, not {value}")


@dataclass(frozen=True)
class Result:
    """The result of an experiment.

    Attributes:
        table: what is printed; numbers are in the units that its columns name.
        claims: in the order of the paper.
        rows: raw rows by name, one tidy data frame each; enough to redraw the picture.
        draw: draws on an empty matplotlib figure.
        remarks: sentences that a reader needs beside the table, such as what was tried where a claim fails.
    """

    table: pd.DataFrame
    claims: tuple[Claim, ...]
    rows: Mapping[str, pd.DataFrame]
    draw: Callable[[Figure], None]
    remarks: tuple[str, ...] = field(default=())


def judge(low: float, high: float, *, above: float | None = None, below: float | None = None) -> Verdict:
    """The verdict on an interval: holds if all of it is above (below) the bound, fails if none of it is.

    With both bounds, the claim is that the value lies between them. NaN leaves it undecided.
    """
    if math.isnan(low) or math.isnan(high):
        return Verdict.UNDECIDED
    floor, ceiling = -math.inf if above is None else above, math.inf if below is None else below
    if low > floor and high < ceiling:
        return Verdict.HOLDS
    if high <= floor or low >= ceiling:
        return Verdict.FAILS
    return Verdict.UNDECIDED


def claim(
    text: str,
    statistic: str,
    value: float,
    interval: tuple[float, float] | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Claim:
    """A claim judged by its interval (``value`` itself if that is exact)."""
    low, high = (value, value) if interval is None else interval
    return Claim(text, statistic, value, low, high, judge(low, high, above=above, below=below))


def share_claim(
    text: str, statistic: str, count: int, total: int, *, above: float | None = None, below: float | None = None
) -> Claim:
    """A claim about a share, judged by Wilson's interval."""
    return claim(text, statistic, count / total, wilson(count, total), above=above, below=below)


def averaged(values: Any, least: float = -math.inf, most: float = math.inf) -> tuple[float, tuple[float, float]]:
    """The mean of independent values (runs, sentences) without NaN, and its 95 % interval within these bounds.

    >>> averaged([1.0, 2.0, 3.0, float("nan")])[0]
    2.0
    """
    sample = np.asarray(values, np.float64).ravel()
    sample = sample[~np.isnan(sample)]
    return float(sample.mean()) if len(sample) else float("nan"), mean_interval(sample, least, most)
