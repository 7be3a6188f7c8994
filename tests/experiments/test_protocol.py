"""Verdicts and intervals of experiments, and the registry's settings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from alignkit.errors import AlignkitError
from alignkit.experiments import registry
from alignkit.experiments.protocol import Verdict, claim, judge
from alignkit.metrics.intervals import mean_interval, wilson


@pytest.mark.parametrize(
    ("low", "high", "bounds", "verdict"),
    [
        (0.3, 0.4, {"above": 0.2}, Verdict.HOLDS),
        (0.1, 0.4, {"above": 0.2}, Verdict.UNDECIDED),
        (0.1, 0.2, {"above": 0.2}, Verdict.FAILS),
        (0.1, 0.2, {"below": 0.3}, Verdict.HOLDS),
        (0.3, 0.4, {"below": 0.3}, Verdict.FAILS),
        (0.1, 0.4, {"above": 0.0, "below": 0.5}, Verdict.HOLDS),
        (0.6, 0.7, {"above": 0.0, "below": 0.5}, Verdict.FAILS),
        (math.nan, 0.7, {"above": 0.0}, Verdict.UNDECIDED),
    ],
)
def test_judge(low, high, bounds, verdict):
    assert judge(low, high, **bounds) is verdict


def test_an_exact_claim_is_judged_by_its_value():
    assert claim("x", "y", 1.0, above=0.5).verdict is Verdict.HOLDS
    assert claim("x", "y", 0.5, above=0.5).verdict is Verdict.FAILS


def test_none_and_all_are_exact_ends():
    """With 5, 14, 28 ... trials rounding once left 1e-17, and "some fail" held where none did."""
    for trials in range(1, 60):
        assert wilson(trials, trials)[1] == 1
        assert claim("some fail", "share", 0.0, wilson(0, trials), above=0.0).verdict is Verdict.UNDECIDED


def test_one_run_decides_nothing():
    assert claim("x", "y", 5.0, mean_interval([5.0]), above=1.0).verdict is Verdict.UNDECIDED
    assert claim("x", "y", 5.0, mean_interval([5.0, 5.1]), above=1.0).verdict is Verdict.HOLDS
    assert claim("x", "y", 5.0, mean_interval([5.0, 6.0]), above=1.0).verdict is Verdict.UNDECIDED


@dataclass(frozen=True)
class Settings:
    seeds: int = 20
    rate: float = 0.1
    name: str = "x"
    sizes: tuple[int, ...] = (1, 2)
    fast: bool = False


def test_settings_come_as_text(monkeypatch):
    import types

    module = types.SimpleNamespace(Settings=Settings, QUICK=Settings(seeds=2))
    monkeypatch.setattr(registry, "import_module", lambda name: module)
    monkeypatch.setattr(
        registry,
        "get_type_hints",
        lambda kind: {
            "seeds": int,
            "rate": float,
            "name": str,
            "sizes": tuple[int, ...],
            "fast": bool,
        },
    )
    experiment = registry.Experiment("toy", "nowhere", "a toy", "nobody")
    assert experiment.settings() == Settings()
    assert experiment.settings(quick=True).seeds == 2
    changes = {"seeds": "3", "rate": "0.5", "sizes": "4,5", "fast": "true"}
    assert experiment.settings(False, changes) == Settings(3, 0.5, "x", (4, 5), True)
    with pytest.raises(AlignkitError, match="no setting 'seed'"):
        experiment.settings(False, {"seed": "3"})
    with pytest.raises(AlignkitError, match="'x' is not int"):
        experiment.settings(False, {"seeds": "x"})


def test_unknown_experiment():
    with pytest.raises(AlignkitError, match="no experiment 'nothing'"):
        registry.find_experiment("nothing")
