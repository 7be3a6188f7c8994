"""The row for classification over several seeds, whose spread texts alone do not show; the paper averages five."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from alignkit.analysis.classification import Classification
from alignkit.errors import AlignkitError
from alignkit.metrics.intervals import mean_interval
from alignkit.metrics.registry import MAIN

if TYPE_CHECKING:
    import pandas as pd


def table_over_seeds(found: Sequence[Classification]) -> pd.DataFrame:
    """Each quantity's mean over seeds.

    Args:
        found: of the same texts, each from its own seed, in one order.

    Returns:
        columns quantity, seeds, agreement (mean), low and high (95 % interval over seeds, Student's; NaN for one
        seed), chance and tau (means), xi (mean of the seeds that reach it), reached (their number).
    """
    import pandas as pd

    tables = [each.row.set_index("quantity") for each in found]
    rows = []
    for quantity in tables[0].index:
        values = np.array([table.loc[quantity, MAIN.name] for table in tables], np.float64)
        low, high = mean_interval(values, 0, 1)
        xi = np.array([table.loc[quantity, "xi"] for table in tables], np.float64)
        reached = int((~np.isnan(xi)).sum())
        more = {
            name: float(np.mean([table.loc[quantity, name] for table in tables])) for name in ("chance", "tau")
        }
        share = float(np.nanmean(xi)) if reached else np.nan
        head = {"quantity": quantity, "seeds": len(tables), MAIN.name: float(values.mean())}
        rows.append({**head, "low": low, "high": high, **more, "xi": share, "reached": reached})
    return pd.DataFrame(rows)


def course_over_seeds(courses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean agreement at every logged step, with its 95 % interval over seeds: step, agreement, low, high.

    Raises:
        AlignkitError: the courses have different steps.
    """
    import pandas as pd

    values = _matrix(courses)
    spread = [mean_interval(column, 0, 1) for column in values.T]
    low, high = np.array(spread).T
    return pd.DataFrame({"step": courses[0]["step"], MAIN.name: values.mean(0), "low": low, "high": high})


def rise_and_fall_over_seeds(courses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Peak minus first and peak minus last of the course of each seed, at the step where the others peak (A.7).

    The other seeds choose the step, since the largest of many values lies above the last one by its choice alone.

    Args:
        courses: columns step and agreement, of at least two seeds.

    Returns:
        a row per seed: step, rise, fall.

    Raises:
        AlignkitError: there is only one course, or they have different steps.
    """
    import pandas as pd

    values = _matrix(courses)
    if len(values) < 2:
        raise AlignkitError("the peak of a course is chosen by other seeds: give the courses of at least two")
    steps, rows = courses[0]["step"].to_numpy(), []
    for seed, own in enumerate(values):
        place = int(np.argmax(np.delete(values, seed, 0).mean(0)))
        rows.append({"step": int(steps[place]), "rise": own[place] - own[0], "fall": own[place] - own[-1]})
    return pd.DataFrame(rows)


def _matrix(courses: Sequence[pd.DataFrame]) -> np.ndarray:
    """float64 (seeds, steps): the agreements."""
    if len({tuple(course["step"]) for course in courses}) != 1:
        raise AlignkitError("the courses of the seeds have different logged steps")
    return np.stack([course[MAIN.name].to_numpy(np.float64) for course in courses])
