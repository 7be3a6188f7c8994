"""The row of `alignkit classify` over several seeds: means, intervals, and a peak that other seeds choose."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from alignkit.errors import AlignkitError

CLAIMS = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "classification_claims.py"))
course_over_seeds, table_over_seeds = CLAIMS["course_over_seeds"], CLAIMS["table_over_seeds"]
rise_and_fall_over_seeds = CLAIMS["rise_and_fall_over_seeds"]


def row(agreement: float, xi: float) -> SimpleNamespace:
    values = {"quantity": ["q"], "agreement": [agreement], "chance": [0.1], "tau": [0.2], "xi": [xi]}
    return SimpleNamespace(row=pd.DataFrame(values))


def course(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"step": [0, 10, 50], "agreement": values})


def test_means_and_students_intervals() -> None:
    (only,) = table_over_seeds([row(0.2, 0.5), row(0.3, np.nan), row(0.4, 0.7)]).itertuples()
    assert (only.agreement, only.xi, only.reached, only.seeds) == (pytest.approx(0.3), pytest.approx(0.6), 2, 3)
    half = t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    assert (only.low, only.high) == (pytest.approx(0.3 - half), pytest.approx(0.3 + half))
    whole = course_over_seeds([course(0, 0.2, 0.1), course(0.1, 0.4, 0.1)])
    assert whole.agreement.tolist() == pytest.approx([0.05, 0.3, 0.1])
    assert np.isnan(table_over_seeds([row(0.2, 0.5)]).low[0])


def test_other_seeds_choose_the_peak() -> None:
    found = rise_and_fall_over_seeds([course(0.1, 0.5, 0.2), course(0.1, 0.4, 0.3), course(0.1, 0.3, 0.6)])
    assert found.step.tolist() == [50, 10, 10]  # (0.35, 0.45), (0.4, 0.4): the first of equals, (0.45, 0.25)
    assert found.rise.tolist() == pytest.approx([0.1, 0.3, 0.2])
    assert found.fall.tolist() == pytest.approx([0.0, 0.1, -0.3])
    # Of noise without a peak, the fall is not above 0 by choice alone.
    rng = np.random.default_rng(0)
    noise = [pd.DataFrame({"step": range(20), "agreement": rng.random(20)}) for _ in range(200)]
    assert abs(rise_and_fall_over_seeds(noise).fall.mean()) < 0.1


def test_what_it_refuses() -> None:
    with pytest.raises(AlignkitError, match="at least two"):
        rise_and_fall_over_seeds([course(0, 1, 2)])
    with pytest.raises(AlignkitError, match="different logged steps"):
        course_over_seeds([course(0, 1, 2), course(0, 1, 2)[:2]])
