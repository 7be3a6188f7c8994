"""The protocol of a metric: counts for each sentence pair, and the values that their sums give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, TypedDict

import numpy as np

from alignkit.errors import AlignkitError, abbreviated
from alignkit.kernels.metrics import ScorePair
from alignkit.metrics.intervals import RESAMPLES, percentile_interval, resampled_sums
from alignkit.scores import ScoresLike, as_scores
from alignkit.support.settings import check_values

#: A share in per cent; text and fractions are exact.
Percent = float | str | Fraction
PERCENT: Percent = 5  #: the top of a row


def top_share(percent: Percent) -> Fraction:
    """``percent`` as an exact fraction of a row; 2.1 means the decimal 2.1, not its binary neighbour.

    Raises:
        AlignkitError: not above 0 and at most 100; or a decimal number below 1, which is rather a share than a
            percentage: a Fraction or ``"1/20"`` may be so small.
    """
    text = str(percent)
    try:
        # As a Fraction, 1e999999999 would have a billion digits.
        tiny_or_huge = "/" not in text and not 1e-300 < float(text) <= 100
        share = Fraction(0) if tiny_or_huge else Fraction(text) / 100
    except (ValueError, ZeroDivisionError) as error:
        raise AlignkitError(f"{abbreviated(text)!r} is not a percentage") from error
    if not 0 < share <= 1:
        raise AlignkitError(f"the percentage must lie above 0 and at most 100, not {abbreviated(text)}")
    if share < Fraction(1, 100) and "/" not in text:
        given = f"{abbreviated(text)} is less than one per cent"
        raise AlignkitError(f"{given}; for 5 per cent give 5, for a twentieth of one per cent the fraction '1/20'")
    # A denominator of 10^9 times the longest row still fits int64, and rounds what a float adds to 100/3.
    return max(share.limit_denominator(10**9), Fraction(1, 10**9))


def as_number(percent: Percent) -> float:
    """``percent`` as a number: 0.5 for ``"1/2"``."""
    return float(Fraction(str(percent)))


@dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """Settings of all metrics.

    Attributes:
        percent: the top of a row for the agreement, in per cent.
        resamples: of the bootstrap; 0 for no interval.
        seed: of the bootstrap.
        threads: all there are by default; no result depends on it.

    Raises:
        AlignkitError: the percentage does not lie above 0 and at most at 100, the resamples are below 0, or the
            seed is below 0 or has more than 63 bits.
    """

    percent: Percent = PERCENT
    resamples: int = RESAMPLES
    seed: int = 0
    threads: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        top_share(self.percent)
        check_values(self, vars(self))
        if self.resamples < 0:
            raise AlignkitError(f"the number of resamples must be at least 0, not {self.resamples}")
        if not 0 <= self.seed < 1 << 63:
            raise AlignkitError(f"a seed must be at least 0 and below 2^63, not {self.seed}")

    def metric_options(self) -> dict[str, Any]:
        """The fields of this class alone, by name, for other settings that have them too."""
        return {each.name: getattr(self, each.name) for each in fields(MetricSettings)}


class MetricOptions(TypedDict, total=False):
    """The fields of :class:`MetricSettings`, as options of a function."""

    percent: Percent
    resamples: int
    seed: int
    threads: int | None


@dataclass(frozen=True)
class Metric:
    """A measure of M sentence pairs that is computed from sums over them.

    The counts of a text are a dataclass of float64 arrays (M,), its *sufficient statistics*: every value that is
    reported follows from their sums, so that a bootstrap only has to sum again.

    Attributes:
        name: in tables, in options, and in what ``values`` gives.
        symbol: in formulas, as ``A`` in A(u, v).
        title: says what the value is; ``{rows}`` stands for what it is the mean over, ``{percent}`` for the
            percentage of the settings.
        chance: says what the chance level is; empty if there is none.
        reference: what scores are compared with: other ``scores`` (u with v) or ``gold`` links.
        symmetric: whether u and v may change places.
        share: whether the value is a fraction, to be shown in per cent.
        count: (u, v, settings) -> the counts of each pair. For ``gold``, u are gold links and v links.
        values: the counts' sums, numbers or arrays of one shape -> name -> value or array; NaN where the
            divisor is 0. ``name`` comes first, then, if the metric has one, its ``chance`` level.
        whole: the names of values that are whole numbers.
    """

    name: str
    symbol: str
    title: str
    chance: str
    reference: Literal["scores", "gold"]
    symmetric: bool
    share: bool
    count: Callable[[Any, Any, MetricSettings], Any]
    values: Callable[[Any], Mapping[str, Any]]
    whole: tuple[str, ...]

    def total(self, counts: Any) -> dict[str, Any]:
        """The values over all sentence pairs together, as plain numbers."""
        sums = type(counts)(*(column.sum() for column in vars(counts).values()))
        return {k: int(v) if k in self.whole else float(v) for k, v in self.values(sums).items()}

    def draws(self, counts: Any, settings: MetricSettings) -> Mapping[str, np.ndarray]:
        """Name -> the values (B,) of each resample of the sentence pairs, which are the same for all counts."""
        drawn = resampled_sums(np.stack([*vars(counts).values()], axis=1), settings.seed, settings.resamples)
        return self.values(type(counts)(*drawn.T))

    def intervals(self, counts: Any, settings: MetricSettings) -> dict[str, tuple[float, float]]:
        """Name -> (low, high): 95 % bootstrap percentile intervals over sentence pairs of all values."""
        found = self.draws(counts, settings).items()
        return {name: percentile_interval(draws) for name, draws in found if name not in self.whole}

    def measure(self, u: Any, v: Any, settings: MetricSettings | None = None) -> dict[str, Any]:
        """The values over all sentence pairs with ``low`` and ``high``, the interval of the first of them.

        Raises:
            AlignkitError: u and v are not of the same sentence pairs.
        """
        settings = settings or MetricSettings()
        counts = self.count(u, v, settings)
        values = self.total(counts)
        low, high = self.intervals(counts, settings)[self.name]
        head = {name: values.pop(name) for name in (self.name, "chance") if name in values}
        return {**head, "low": low, "high": high, **values}

    def describe(self, settings: MetricSettings, rows: str = "target tokens") -> str:
        """The title with the settings' percentage and the rows."""
        return self.title.format(percent=settings.percent, rows=rows)

    def text(self, value: float) -> str:
        """A value for a table: per cent of a share, three decimals of another."""
        return f"{100 * value:.1f}" if self.share else f"{value:.3f}"


def score_pair(u: ScoresLike, v: ScoresLike) -> ScorePair:
    """Two sets of scores for a kernel; raises AlignkitError unless they have the same shapes."""
    u, v = as_scores(u), as_scores(v)
    if not np.array_equal(u.shapes, v.shapes):
        raise AlignkitError("the two scores are not of the same sentence pairs: their shapes differ")
    return ScorePair(u.values, v.values, u.shapes, u.offsets)
