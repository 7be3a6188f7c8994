"""Top-5 % agreement (Snell et al. 2021, section 3.1): whether v ranks highly what u ranks first; and xi by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.kernels import metrics as kernels
from alignkit.metrics.intervals import RESAMPLES, ratio
from alignkit.metrics.protocol import PERCENT, Metric, MetricSettings, Percent, score_pair, top_share
from alignkit.scores import ScoresLike
from alignkit.support.arrays import brief_repr
from alignkit.support.threads import run_evenly, thread_count


@dataclass(frozen=True, eq=False)
class AgreementCounts:
    """Sufficient statistics of agreement, per sentence pair.

    Attributes:
        rows, hits, ties, expected: float64 (M,); rows compared, rows that agree, those of them that a tie decided,
            and the expected number of rows that agree with a place drawn at random.
    """

    rows: np.ndarray
    hits: np.ndarray
    ties: np.ndarray
    expected: np.ndarray

    __repr__ = brief_repr


@dataclass(frozen=True, eq=False)
class AgreementRows:
    """Agreement row by row; rows without columns are left out.

    Attributes:
        sentence: int64 (R,), the pair of each row.
        best: int64 (R,), u's first argmax.
        hits: bool (R,), whether v agrees; ties: whether it does because a tie decided so.
        expected: float64 (R,), the probability that it would agree with a place drawn at random.
    """

    sentence: np.ndarray
    best: np.ndarray
    hits: np.ndarray
    ties: np.ndarray
    expected: np.ndarray

    __repr__ = brief_repr


@dataclass(frozen=True)
class Agreement:
    """A(u, v) with what is needed to judge it; all shares are fractions of rows, NaN if there is none.

    Attributes:
        agreement: share of rows where v has u's first argmax among its top.
        chance: the exact expectation for a place drawn at random instead of u's.
        low, high: bootstrap percentile interval over sentence pairs.
        rows: rows compared.
        ties: share of rows that agree only because ties favour agreement.
    """

    agreement: float
    chance: float
    low: float
    high: float
    rows: int
    ties: float


def count_agreement(
    u: ScoresLike, v: ScoresLike, percent: Percent = PERCENT, threads: int | None = None
) -> AgreementCounts:
    """Count the agreement of v with u, sentence pair by sentence pair.

    A row agrees if fewer than percent/100 * L entries of v exceed v at the first argmax of u. It is not
    symmetric. Rows without columns are not compared.

    Args:
        u, v: scores of the same M pairs, with the same shapes (see :func:`alignkit.scores.as_scores`).
        percent: the top of a row.
        threads: all there are by default.

    Raises:
        AlignkitError: the shapes differ, or the percentage is not in (0, 100].
    """
    rows, pairs = agreement_rows(u, v, percent, threads), len(score_pair(u, v).shapes)
    ones = np.ones(len(rows.hits))
    return AgreementCounts(
        *(np.bincount(rows.sentence, each, pairs) for each in (ones, rows.hits, rows.ties, rows.expected))
    )


def agreement_rows(
    u: ScoresLike, v: ScoresLike, percent: Percent = PERCENT, threads: int | None = None
) -> AgreementRows:
    """The agreement of v with u, row by row.

    Args:
        u, v, percent, threads: as in :func:`count_agreement`.

    Raises:
        AlignkitError: as :func:`count_agreement`.
    """
    scores, share = score_pair(u, v), top_share(percent)
    rows = np.where(scores.shapes[:, 1] > 0, scores.shapes[:, 0], 0).astype(np.int64)
    first, total = np.cumsum(rows) - rows, int(rows.sum())
    found = tuple(np.empty(total, kind) for kind in (np.int64, np.bool_, np.bool_, np.float64))
    part, width = (share.numerator, share.denominator), int(scores.shapes[:, 1].max(initial=0)) + 1
    threads = thread_count(threads)
    run_evenly(
        lambda *span: kernels.list_agreement(*span, scores, part, np.empty(width, np.float32), first, found),
        scores.offsets + np.arange(len(scores.offsets)),
        threads,
    )
    return AgreementRows(np.repeat(np.arange(len(rows)), rows), *found)


def agreement(
    u: ScoresLike,
    v: ScoresLike,
    percent: Percent = PERCENT,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> Agreement:
    """A(u, v), the top-``percent`` agreement of v with u, with chance level, interval and ties.

    Args:
        u, v, percent, threads: as in :func:`count_agreement`.
        resamples: bootstrap resamples of the sentence pairs; 0 for no interval.
        seed: of the bootstrap.

    Raises:
        AlignkitError: as :func:`count_agreement`.
    """
    settings = MetricSettings(percent=percent, resamples=resamples, seed=seed, threads=threads)
    return Agreement(**AGREEMENT.measure(u, v, settings))


def contextualised(performance: Sequence[float], agreements: Sequence[float], level: float) -> float | None:
    """xi(u, v): the performance at the first logged step whose attention agrees with alpha more than ``level``.

    xi is the performance of a second network, of another seed, when its attention first agrees with the final
    attention of the first network better than another score does (Snell et al. 2021, section 3.1).
    A(alpha, beta) = 0.5 says little by itself. If the second network exceeds it only once its accuracy is 0.55 of
    a possible 0.6, then 0.5 is much: xi = 0.55, xi* = 0.6.

    Args:
        performance: p(tau) of another seed's run at its logged steps, rising; NaN where it was not measured.
        agreements: A(alpha, alpha(tau)) at the same steps (or another metric of the two).
        level: A(u, v), in the same measure.

    Returns:
        xi; None if no step's agreement exceeds the level ("not reached"), if the level is NaN, or if the
        performance of the step found was not measured.

    Raises:
        AlignkitError: the numbers of steps differ.
    """
    if len(performance) != len(agreements):
        raise AlignkitError(
            f"xi needs a performance per agreement: {len(performance)} and {len(agreements)} were given"
        )
    for value, agreement in zip(performance, agreements, strict=True):
        if agreement > level:
            return None if math.isnan(value) else value
    return None


def _values(sums: AgreementCounts) -> dict[str, Any]:
    return {
        "agreement": ratio(sums.hits, sums.rows),
        "chance": ratio(sums.expected, sums.rows),
        "rows": sums.rows,
        "ties": ratio(sums.ties, sums.rows),
    }


AGREEMENT = Metric(
    name="agreement",
    symbol="A",
    title="per cent of {rows} whose best source token by u is among the top {percent} % by v",
    chance="what a source token drawn at random would reach",
    reference="scores",
    symmetric=False,
    share=True,
    count=lambda u, v, settings: count_agreement(u, v, settings.percent, settings.threads),
    values=_values,
    whole=("rows",),
)
