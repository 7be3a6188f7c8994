"""What every experiment of the papers gives: a table, a verdict for each claim, raw rows and a picture.

An experiment is a module of this package with

- ``Settings``: a frozen dataclass of numbers, strings and tuples of them; its defaults are the full size;
- ``QUICK``: a ``Settings`` that is done within 2 minutes on two cores;
- ``run(settings, progress) -> Result``: a plain function that a notebook can call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import AlignkitError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Progress = Callable[[int, int, str], None]  #: (done, total, message)


def no_progress(done: int, total: int, message: str = "") -> None:
    """Says nothing."""


class Verdict(StrEnum):
    """What an experiment says of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and what came of it.

    Attributes:
        text: the claim in words that need no paper at hand, with where it stands.
        statistic: what was measured, in words.
        value: the statistic.
        low, high: its interval; equal to ``value`` where it is exact.
        verdict: see :func:`judge`.
    """

    text: str
    statistic: str
    value: float
    low: float
    high: float
    verdict: Verdict


def check_positive(settings: Any, *names: str) -> None:
    """Raises AlignkitError if a setting, or a number in a tuple, is not above 0, or if a tuple is empty."""
    for name in names:
        value = getattr(settings, name)
        parts = value if isinstance(value, tuple) else (value,)
        if not parts:
            raise AlignkitError(f"{name} must not be empty")
        if not all(part > 0 for part in parts if not isinstance(part, str)):
            raise AlignkitError(f"{name} must be above 0, not {value}")


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    Attributes:
        table: what is printed; numbers already in the units that its columns name.
        claims: in the order of the paper.
        rows: raw rows by name, one tidy data frame each; enough to draw the picture again.
        draw: draws on an empty matplotlib figure.
        remarks: sentences that a reader needs beside the table, such as what was tried where a claim fails.
    """

    table: pd.DataFrame
    claims: tuple[Claim, ...]
    rows: Mapping[str, pd.DataFrame]
    draw: Callable[[Figure], None]
    remarks: tuple[str, ...] = field(default=())


def judge(low: float, high: float, *, above: float | None = None, below: float | None = None) -> Verdict:
    """Holds if the whole interval is above (below) the bound, fails if it is wholly on the other side.

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


def wilson(hits: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: of ``trials`` runs ``hits`` did it. (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    share, square = hits / trials, z * z / trials
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    # Exact where rounding would leave 1e-17 of it: "some do" is not shown by none of them.
    return (middle - half if hits else 0.0), (middle + half if hits < trials else 1.0)


# Student's t that 97.5 % stay below, for 1, 2, ... degrees of freedom.
_STUDENT = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452),
)


def mean_interval(values: Any) -> tuple[float, float]:
    """95 % interval of the mean of independent values (runs, sentences): Student's up to 30 of them, where a
    bootstrap would be too narrow, and the bootstrap's percentiles from there on.

    NaN with fewer than two, for one says nothing of how far another would be.
    """
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2:
        return math.nan, math.nan
    if len(sample) > len(_STUDENT) + 1:
        return bootstrap_mean(sample)
    half = _STUDENT[len(sample) - 2] * sample.std(ddof=1) / math.sqrt(len(sample))
    return float(sample.mean() - half), float(sample.mean() + half)


def bootstrap_mean(values: Any, seed: int = 0, resamples: int = 2000) -> tuple[float, float]:
    """95 % percentile interval of the mean of independent values; too narrow for a few, NaN for fewer than two."""
    sample = np.asarray(values, np.float64).ravel()
    if len(sample) < 2:
        return math.nan, math.nan
    draws = np.random.default_rng(seed).integers(0, len(sample), (resamples, len(sample)))
    low, high = np.quantile(sample[draws].mean(1), [0.025, 0.975])
    return float(low), float(high)


def share_difference(hits: int, trials: int, other_hits: int, other_trials: int) -> tuple[float, float, float]:
    """A share minus another one of independent runs, and its 95 % interval (Newcombe 1998, method 10)."""
    one, other = hits / trials, other_hits / other_trials
    low, high = wilson(hits, trials)
    other_low, other_high = wilson(other_hits, other_trials)
    gap = one - other
    return gap, gap - math.hypot(one - low, other_high - other), gap + math.hypot(high - one, other - other_low)
