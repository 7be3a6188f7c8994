"""The agreement of every pair of score sets, as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from alignkit.metrics.agreement import PERCENT, agreement
from alignkit.scores.scores import Scores

if TYPE_CHECKING:
    from fractions import Fraction

    import pandas as pd

COLUMNS = ("u", "v", "agreement", "chance", "low", "high", "rows", "ties")


def agreement_table(
    scores: Mapping[str, Scores],
    percent: float | str | Fraction = PERCENT,
    *,
    seed: int = 0,
    threads: int | None = None,
) -> pd.DataFrame:
    """A(u, v) for every ordered pair of different score sets.

    Args:
        scores: name (as ``ibm1.beta``) -> scores, all of the same sentence pairs.
        percent, seed, threads: as in :func:`alignkit.metrics.agreement.agreement`.

    Returns:
        one row per (u, v) with the columns ``COLUMNS``; shares are fractions.
    """
    import pandas as pd

    rows = []
    for u, u_scores in scores.items():
        for v, v_scores in scores.items():
            if u != v:
                result = agreement(u_scores, v_scores, percent, seed=seed, threads=threads)
                rows.append({"u": u, "v": v, **dataclasses.asdict(result)})
    return pd.DataFrame(rows, columns=list(COLUMNS))
