"""Top-5 % agreement (Snell et al. 2021, section 3.1): does v rank highly what u ranks first?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.kernels import agreement as kernels
from alignkit.metrics.bootstrap import RESAMPLES, middle, resampled
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.scores.scores import Scores

PERCENT = 5


@dataclass(frozen=True, eq=False)
class AgreementCounts:
    """What agreement is computed from, per sentence pair, so that a bootstrap only sums again.

    Attributes:
        rows, hits, ties, expected: float64 (M,); rows compared, rows that agree, those of them that a tie decided,
            and how many would agree with a place drawn at random.
    """

    rows: np.ndarray
    hits: np.ndarray
    ties: np.ndarray
    expected: np.ndarray


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


def top_share(percent: float | str | Fraction) -> Fraction:
    """``percent`` as an exact fraction of a row; 0.1 means the decimal 0.1, not its binary neighbour.

    Raises:
        AlignkitError: not above 0 and at most 100.
    """
    try:
        share = Fraction(str(percent)) / 100
    except (ValueError, ZeroDivisionError) as error:
        raise AlignkitError(f"{percent!r} is not a percentage") from error
    if not 0 < share <= 1:
        raise AlignkitError(f"the percentage must lie above 0 and at most 100, not {percent}")
    # A denominator of 10^9 times the longest row still fits int64, and rounds what a float adds to 100/3.
    return max(share.limit_denominator(10**9), Fraction(1, 10**9))


def count_agreement(
    u: Scores, v: Scores, percent: float | str | Fraction = PERCENT, threads: int | None = None
) -> AgreementCounts:
    """Counts the agreement of v with u, sentence pair by sentence pair.

    A row agrees if fewer than percent/100 * L entries of v exceed v at the first argmax of u. It is not
    symmetric. Rows without columns are not compared.

    Args:
        u, v: scores of the same M pairs, with the same shapes.
        percent: what counts as the top of a row.
        threads: all there are by default.

    Raises:
        AlignkitError: the shapes differ, or the percentage is not in (0, 100].
    """
    if not np.array_equal(u.shapes, v.shapes):
        raise AlignkitError("the two scores are not of the same sentence pairs: their shapes differ")
    share = top_share(percent)
    counts = np.zeros((len(u), 4), np.float64)
    threads = thread_count(threads)
    widest = int(u.shapes[:, 1].max(initial=0)) + 1

    def count(low: int, high: int) -> None:
        work = np.empty(widest, np.float32)
        part = (share.numerator, share.denominator)
        kernels.count_agreement(low, high, u.values, v.values, u.shapes, u.offsets, part, work, counts)

    run_blocks(count, blocks(np.diff(u.offsets) + 1, threads), threads)
    return AgreementCounts(*(np.ascontiguousarray(column) for column in counts.T))


def agreement(
    u: Scores,
    v: Scores,
    percent: float | str | Fraction = PERCENT,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
) -> Agreement:
    """A(u, v), the top-``percent`` agreement of v with u, with chance level, interval and ties.

    Args:
        u, v, percent, threads: as in :func:`count_agreement`.
        resamples: bootstrap resamples of the sentence pairs.
        seed: of the bootstrap.

    Raises:
        AlignkitError: as :func:`count_agreement`.
    """
    counts = count_agreement(u, v, percent, threads)
    rows = counts.rows.sum()
    if rows == 0:
        return Agreement(np.nan, np.nan, np.nan, np.nan, 0, np.nan)
    low, high = middle(resampled(counts.hits, counts.rows, seed, resamples))
    return Agreement(
        agreement=float(counts.hits.sum() / rows),
        chance=float(counts.expected.sum() / rows),
        low=low,
        high=high,
        rows=int(rows),
        ties=float(counts.ties.sum() / rows),
    )
