"""``ktiw-drives-attention``: lexical knowledge first, attention after (thesis of Snell et al. 2021).

At every measured step tau the network's attention alpha(tau) and lexical probe beta(tau) are held against beta of
IBM 1, which knows nothing but co-occurrence: A(alpha(tau), ibm1.beta), A(beta(tau), ibm1.beta) and
A(alpha(tau), beta(tau)). If what the network knows of single words drives its attention, the second curve rises
before the first. A curve's half-way step is where it first passes the middle between its value before training
and its highest, interpolated between measured steps; its interval is a bootstrap over sentence pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.experiments.networks import NetworkPlan, train_network
from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.metrics.agreement import count_agreement
from alignkit.metrics.bootstrap import bootstrap_ratio
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.loading import load_aligner
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import TranslationTask
from alignkit.neural.training.translation_run import find_run
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CURVES = (("alpha", "ibm1.beta"), ("beta", "ibm1.beta"), ("alpha", "beta"))
RESAMPLES = 1000
LEARNED = 0.05  #: a curve that never rises so far above its start was not learned, and has no half-way step


@dataclass(frozen=True)
class KtiwSettings(NetworkPlan):
    """Which run is followed, and on which pairs.

    Attributes:
        warmup: 0: fixed attention at the start would decide the question beforehand.
        run: a run directory of ``alignkit train`` with checkpoints of its logged steps; empty to train.
        scored: pairs of the held-out text that are scored; 0 for all.
        runs: networks that are trained, from seeds ``seed``, ``seed`` + 1 and so on.
        iterations: of IBM 1, without NULL.
    """

    warmup: int = 0
    run: str = ""
    scored: int = 300
    runs: int = 1
    iterations: int = 5


QUICK = KtiwSettings(epochs=10, scored=60)


def run(settings: KtiwSettings | None = None, progress: Progress = no_progress) -> Result:
    """Follows the runs, and finds the half-way step of each curve."""
    import pandas as pd

    settings = settings or KtiwSettings()
    check_positive(settings, "runs", "iterations")
    if settings.run:
        counted = [_Counted("run")]
        _follow_directory(settings, counted[0], progress)
    else:
        counted = [_Counted(f"seed {settings.seed + k}") for k in range(settings.runs)]
        for k, one in enumerate(counted):
            _follow_training(replace(settings, seed=settings.seed + k), one, progress)
    raw = pd.concat([one.frame() for one in counted], ignore_index=True)
    halves = pd.concat([one.half_ways() for one in counted], ignore_index=True)
    both = halves[np.isfinite(halves.ratio)]
    # An interval that is not known in one run is not known of all of them.
    low = [float(x) for x in (both.ratio.min(), both.low.min(skipna=False), both.high.max(skipna=False))]
    remarks = (
        f"{counted[0].pairs} held-out pairs. A curve that rises by less than {LEARNED} was not learned (half-way "
        "step inf); the first claim is about the runs that learned both.",
        "Half-way steps per run, with 95 % intervals of their ratio:\n" + halves.round(3).to_string(index=False),
    )
    means = raw.drop(columns="run").groupby("step", as_index=False).mean()
    drawn = lambda figure: _draw(figure, raw, halves)  # noqa: E731
    return Result(means, _claims(counted, low), {"steps": raw.round(5), "halves": halves}, drawn, remarks)


class _Counted:
    """The hits of every measured step of a run, per sentence pair, so that a bootstrap only sums again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[int] = []
        self.extra: list[dict[str, float]] = []
        self.hits: list[np.ndarray] = []  # (3, M) per step
        self.expected: list[np.ndarray] = []
        self.rows = np.zeros(0)

    @property
    def pairs(self) -> int:
        """M."""
        return len(self.rows)

    def add(self, step: int, network: NeuralAligner, pairs: Bitext, ibm1: Scores) -> None:
        """Scores the pairs with the network as it is at this step."""
        scores = {kind: network.score(pairs, kind) for kind in network.kinds} | {"ibm1.beta": ibm1}
        counts = [count_agreement(scores[u], scores[v]) for u, v in CURVES]
        self.steps.append(step)
        self.rows = counts[0].rows
        self.hits.append(np.stack([count.hits for count in counts]))
        self.expected.append(np.stack([count.expected for count in counts]))
        self.extra.append({"accuracy": network.metrics.get("valid.accuracy", float("nan"))})

    def frame(self) -> pd.DataFrame:
        """A row per step: the three agreements with chance, and the accuracy on all held-out text."""
        import pandas as pd

        total = self.rows.sum()
        rows = []
        for step, hits, expected, extra in zip(self.steps, self.hits, self.expected, self.extra, strict=True):
            row: dict[str, float | str] = {"run": self.name, "step": step, **extra}
            for (u, v), hit, chance in zip(CURVES, hits.sum(1), expected.sum(1), strict=True):
                row |= {f"A({u}, {v})": hit / total, f"chance ({u}, {v})": chance / total}
            rows.append(row)
        return pd.DataFrame(rows)

    def gain(self, curve: int) -> tuple[float, float, float]:
        """Agreement minus chance at the last step, and its interval over sentence pairs."""
        excess = self.hits[-1][curve] - self.expected[-1][curve]
        return float(excess.sum() / self.rows.sum()), *bootstrap_ratio(excess, self.rows, 0, RESAMPLES)

    def half_ways(self) -> pd.DataFrame:
        """One row: half-way steps of alpha and beta against IBM 1, and their ratio with its interval."""
        import pandas as pd

        hits = np.stack(self.hits)[:, :2]  # (steps, 2, M)
        steps = np.array(self.steps, np.float64)
        found = half_way(steps, hits.sum(2) / self.rows.sum())
        rng = np.random.default_rng(0)
        ratios = []
        for _ in range(RESAMPLES):
            weight = np.bincount(rng.integers(0, self.pairs, self.pairs), minlength=self.pairs).astype(float)
            ratios.append(_ratio(half_way(steps, hits @ weight / (self.rows @ weight))))
        low, high = np.quantile(ratios, [0.025, 0.975])
        row = {"run": self.name, "alpha": found[0], "beta": found[1], "ratio": _ratio(found)}
        return pd.DataFrame([{**row, "low": low, "high": high}])


def half_way(steps: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The step at which each curve first passes the middle between its first value and its largest.

    Args:
        steps: (K,), rising, the first being the one before training.
        curves: (K, C).

    Returns:
        (C,), interpolated linearly between measured steps; infinite for a curve that was not learned.
    """
    found = np.full(curves.shape[1], np.inf)
    for c, curve in enumerate(curves.T):
        middle = (curve[0] + curve.max()) / 2
        over = np.flatnonzero(curve > middle)
        if len(over) and curve.max() - curve[0] >= LEARNED:
            k = over[0]
            share = (middle - curve[k - 1]) / (curve[k] - curve[k - 1])
            found[c] = steps[k - 1] + share * (steps[k] - steps[k - 1])
    return found


def _ratio(steps: np.ndarray) -> float:
    """Attention's half-way step over lexical knowledge's; NaN if the latter was not learned."""
    return float(steps[0] / steps[1]) if np.isfinite(steps[1]) else float("nan")


def _follow_training(settings: KtiwSettings, counted: _Counted, progress: Progress) -> None:
    """Trains a network and counts at every measured step."""
    prepared: dict[str, tuple[Bitext, Scores]] = {}

    def measured(now: Trainer[TranslationNetwork, NeuralAligner]) -> None:
        if now.step not in now.plan.logged_steps:
            return
        assert isinstance(now.task, TranslationTask)
        if not prepared:
            pairs = _some(now.task.valid, settings.scored)
            prepared["it"] = (
                pairs,
                fit_ibm1(now.task.bitext, iterations=settings.iterations, null=False).score(pairs, "beta"),
            )
        counted.add(now.step, now.snapshot(), *prepared["it"])

    train_network(settings, progress, measured, "cpu")


def _follow_directory(settings: KtiwSettings, counted: _Counted, progress: Progress) -> None:
    """Counts at every checkpoint of a run directory."""
    found = find_run(settings.run)
    steps: Iterator[int] = iter(found.checkpoints) if found is not None else iter(())
    known = list(steps)
    if found is None or len(known) < 3:
        raise AlignkitError(f"{settings.run} is not a run directory with checkpoints of its logged steps")
    pairs = _some(found.valid, settings.scored)
    ibm1 = fit_ibm1(found.train, iterations=settings.iterations, null=False).score(pairs, "beta")
    for place, step in enumerate(known):
        network = load_aligner(found.checkpoints[step])
        if not isinstance(network, NeuralAligner):
            raise AlignkitError(f"{found.checkpoints[step]} is not a network")
        counted.add(step, network, pairs, ibm1)
        progress(place + 1, len(known), f"step {step}")


def _some(pairs: Bitext, number: int) -> Bitext:
    return pairs.take(np.arange(min(number or len(pairs), len(pairs))))


def _claims(counted: list[_Counted], ratio: list[float]) -> tuple[Claim, ...]:
    ends = {}
    for curve, pair in enumerate(CURVES):
        values, lows, highs = np.array([one.gain(curve) for one in counted]).T
        ends[pair] = float(values.mean()), (float(lows.min()), float(highs.max()))
    return (
        claim(
            "Lexical knowledge comes first, attention after",
            "half-way step of A(alpha, ibm1.beta) over that of A(beta, ibm1.beta): least of the runs",
            ratio[0],
            (ratio[1], ratio[2]),
            above=1.0,
        ),
        claim(
            "At the end attention agrees with IBM 1 above chance",
            "A(alpha, ibm1.beta) minus chance at the last step, mean; all runs' intervals taken together",
            *ends["alpha", "ibm1.beta"],
            above=0.05,
        ),
        claim(
            "At the end lexical knowledge agrees with IBM 1 above chance",
            "A(beta, ibm1.beta) minus chance at the last step, mean; all runs' intervals taken together",
            *ends["beta", "ibm1.beta"],
            above=0.05,
        ),
    )


def _draw(figure: Figure, raw: pd.DataFrame, halves: pd.DataFrame) -> None:
    axes = figure.subplots()
    for number, (u, v) in enumerate(CURVES):
        for place, (_, part) in enumerate(raw.groupby("run")):
            label = f"A({u}, {v})" if place == 0 else None
            axes.plot(part.step + 1, part[f"A({u}, {v})"], color=f"C{number}", marker=".", label=label)
    axes.plot(raw.step + 1, raw["chance (alpha, ibm1.beta)"], "k:", lw=0.8, label="chance (first curve)")
    for number, kind in enumerate(("alpha", "beta")):
        for step in halves[kind][np.isfinite(halves[kind])]:
            axes.axvline(step + 1, color=f"C{number}", lw=0.8, ls="--")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel("training step + 1 (dashed: half-way steps)")
    axes.set_ylabel("top-5 % agreement")
    axes.legend()
