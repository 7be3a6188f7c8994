"""Means with intervals, and Kendall's tau of sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from alignkit.experiments.statistics import averaged, sentence_taus
from alignkit.metrics.intervals import mean_interval
from alignkit.scores import Scores


def test_nan_is_left_out_of_a_mean():
    value, interval = averaged([1.0, math.nan, 3.0, 5.0])
    assert value == 3
    assert interval == mean_interval([1.0, 3.0, 5.0])
    assert math.isnan(averaged([math.nan])[0])


def test_taus_are_scipys():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 4, n).astype(np.float32), rng.random(n, np.float32)) for n in (9, 3, 5, 1)]
    pairs.append((np.ones(4, np.float32), rng.random(4, np.float32)))
    found = sentence_taus(
        *(Scores.from_matrices([row[None] for row in side]) for side in zip(*pairs, strict=True))
    )
    expected = [kendalltau(u, v).statistic for u, v in pairs[:3]]
    assert found == pytest.approx([*expected, math.nan, math.nan], nan_ok=True)
