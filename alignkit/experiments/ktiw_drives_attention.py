"""``ktiw-drives-attention``: lexical knowledge first, attention after (thesis of Snell et al. 2021).

At every measured step tau, the network's attention alpha(tau) and lexical probe beta(tau) are compared with beta
of IBM 1, which has learned from co-occurrence alone: A(alpha(tau), ibm1.beta), A(beta(tau), ibm1.beta) and
A(alpha(tau), beta(tau)). If the network's knowledge of single words drives its attention, the second curve rises
before the first. The half-way step of a curve is the step at which it first exceeds the mean of its value before
training and its highest, interpolated between measured steps; its interval is a bootstrap over sentence pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from alignkit.analysis.networks import load_network, open_run
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.experiments.networks import (
    EncodedText,
    NetworkPlan,
    encode_plan,
    take_pairs,
    train_network,
)
from alignkit.experiments.protocol import Claim, Result, check_positive, claim
from alignkit.metrics.agreement import count_agreement
from alignkit.metrics.bootstrap import bootstrap_ratio, ratio, resampled_sums
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.training.trainer import Trainer
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.types import Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CURVES = (("alpha", "ibm1.beta"), ("beta", "ibm1.beta"), ("alpha", "beta"))
LEARNED = 0.05  #: a curve that never exceeds its start by this has no half-way step


@dataclass(frozen=True)
class KtiwSettings(NetworkPlan):
    """The training runs to measure, and the pairs to score.

    Attributes (others are those of :class:`NetworkPlan`):
        warmup: 0, since fixed attention at the start would decide the question.
        run: a run directory of ``alignkit train`` with checkpoints of its logged steps; if empty, networks are
            trained.
        scored: pairs of the held-out text that are scored; 0 for all.
        runs: networks that are trained, from seeds ``seed``, ``seed`` + 1 and so on.
        iterations: of IBM 1, without NULL.
    """

    warmup: int = 0
    run: str = ""
    scored: int = 300
    runs: int = 1
    iterations: int = 5

    def __post_init__(self) -> None:
        check_positive(self, "runs", "iterations")


QUICK = KtiwSettings(epochs=10, scored=60)


def run_ktiw_drives_attention(settings: KtiwSettings, progress: Progress = no_progress) -> Result:
    """Measures the agreements of all runs, and finds the half-way step of each curve."""
    import pandas as pd

    if settings.run:
        curves = [from_directory(settings, progress)]
    else:
        text = encode_plan(settings)
        seeds = range(settings.seed, settings.seed + settings.runs)
        curves = [from_training(replace(settings, seed=seed), text, progress) for seed in seeds]
    raw = pd.concat([one.frame() for one in curves], ignore_index=True)
    halves = pd.DataFrame([one.half_way_row() for one in curves])
    remarks = (
        f"{len(curves[0].rows)} held-out pairs. A curve that rises by less than {LEARNED} was not learned "
        "(half-way step inf); the first claim is about the runs that learned both.",
        "Half-way steps per run, with 95 % intervals of their ratio:\n" + halves.round(3).to_string(index=False),
    )
    return Result(
        raw.drop(columns="run").groupby("step", as_index=False).mean(),
        ktiw_drives_attention_claims(halves, pd.DataFrame([row for one in curves for row in one.gains()])),
        {"steps": raw.round(5), "halves": halves},
        lambda figure: _draw(figure, raw, halves),
        remarks,
    )


@dataclass(eq=False)
class AgreementCurves:
    """The agreements of one run at its measured steps, counted per sentence pair for the bootstrap.

    Attributes:
        name: of the run.
        steps, accuracy: of each measurement; the token accuracy is of all held-out text.
        hits, expected: per step, (3, M) agreeing rows of each curve, and their number by chance.
        rows: (M,), rows of each pair.
    """

    name: str
    steps: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    hits: list[np.ndarray] = field(default_factory=list)
    expected: list[np.ndarray] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, step: int, network: NeuralAligner, pairs: Bitext, ibm1: Scores) -> None:
        """Scores the pairs with the network as it is at this step."""
        scores = {kind: network.score(pairs, kind) for kind in ("alpha", "beta")} | {"ibm1.beta": ibm1}
        counts = [count_agreement(scores[u], scores[v]) for u, v in CURVES]
        self.steps.append(step)
        self.accuracy.append(network.metrics.get("valid.accuracy", float("nan")))
        self.hits.append(np.stack([count.hits for count in counts]))
        self.expected.append(np.stack([count.expected for count in counts]))
        self.rows = counts[0].rows

    def frame(self) -> pd.DataFrame:
        """A row per step: the accuracy, and the three agreements with their chance levels."""
        import pandas as pd

        columns: dict[str, object] = {"run": self.name, "step": self.steps, "accuracy": self.accuracy}
        hits, expected = (np.stack(counts).sum(2) / self.rows.sum() for counts in (self.hits, self.expected))
        for k, (u, v) in enumerate(CURVES):
            columns |= {f"A({u}, {v})": hits[:, k], f"chance ({u}, {v})": expected[:, k]}
        return pd.DataFrame(columns)

    def gains(self) -> list[dict[str, object]]:
        """A row per curve: agreement minus chance at the last step, and its interval over sentence pairs."""
        rows: list[dict[str, object]] = []
        for curve, excess in zip(CURVES, self.hits[-1] - self.expected[-1], strict=True):
            low, high = bootstrap_ratio(excess, self.rows)
            value = float(excess.sum() / self.rows.sum())
            rows.append({"run": self.name, "curve": curve, "gain": value, "low": low, "high": high})
        return rows

    def half_way_row(self) -> dict[str, object]:
        """The half-way steps of alpha and beta against IBM 1, and their ratio with its interval."""
        steps = np.array(self.steps, np.float64)
        hits = np.stack(self.hits)[:, :2].reshape(-1, len(self.rows))  # (2 steps, M)
        counts = np.concatenate([hits, self.rows[None]]).T
        sums = np.concatenate([counts.sum(0)[None], resampled_sums(counts)])  # the first is of all pairs
        agreements = (sums[:, :-1] / sums[:, -1:]).reshape(len(sums), len(steps), 2)
        found = np.array([half_way(steps, curves) for curves in agreements])
        # NaN where lexical knowledge was not learned; then, or in any such resample, so is the interval.
        ratios = ratio(found[:, 0], np.where(np.isfinite(found[:, 1]), found[:, 1], 0))
        low, high = np.quantile(ratios[1:], [0.025, 0.975])
        alpha, beta = found[0]
        return {"run": self.name, "alpha": alpha, "beta": beta, "ratio": ratios[0], "low": low, "high": high}


def half_way(steps: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The step at which each curve first exceeds the mean of its first and its largest value.

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


def from_training(settings: KtiwSettings, text: EncodedText, progress: Progress) -> AgreementCurves:
    """Trains a network and measures it at every logged step."""
    pairs = take_pairs(text.valid, settings.scored)
    ibm1 = fit_ibm1(text.training, iterations=settings.iterations, null=False).score(pairs, "beta")
    curves = AgreementCurves(f"seed {settings.seed}")

    def measured(now: Trainer[TranslationNetwork, NeuralAligner]) -> None:
        if now.step in now.plan.logged_steps:
            curves.add(now.step, now.snapshot(), pairs, ibm1)

    train_network(settings, text, progress, measured, "cpu")
    return curves


def from_directory(settings: KtiwSettings, progress: Progress) -> AgreementCurves:
    """Measures every checkpoint of a run directory.

    Raises:
        AlignkitError: it is not a run directory, or has fewer than three checkpoints.
    """
    found = open_run(settings.run)
    if len(found.checkpoints) < 3:
        raise AlignkitError(f"{settings.run} is not a run directory with checkpoints of its logged steps")
    pairs = take_pairs(found.valid, settings.scored)
    ibm1 = fit_ibm1(found.train, iterations=settings.iterations, null=False).score(pairs, "beta")
    curves = AgreementCurves("run")
    for place, (step, path) in enumerate(found.checkpoints.items()):
        curves.add(step, load_network(path), pairs, ibm1)
        progress(place + 1, len(found.checkpoints), f"step {step}")
    return curves


def ktiw_drives_attention_claims(halves: pd.DataFrame, gains: pd.DataFrame) -> tuple[Claim, ...]:
    """The claims, from the rows of :meth:`AgreementCurves.half_way_row` and :meth:`AgreementCurves.gains`."""
    both = halves[np.isfinite(halves.ratio)]
    # If the interval of one run is unknown, so is that of all.
    low, high = both.low.min(skipna=False), both.high.max(skipna=False)
    ends = {}
    for curve, part in gains.groupby("curve"):
        ends[curve] = part.gain.mean(), (part.low.min(), part.high.max())
    return (
        claim(
            "Lexical knowledge comes first, attention after",
            "half-way step of A(alpha, ibm1.beta) over that of A(beta, ibm1.beta), least of the runs",
            float(both.ratio.min()),
            (low, high),
            above=1.0,
        ),
        claim(
            "At the end attention agrees with IBM 1 above chance",
            "A(alpha, ibm1.beta) minus chance at the last step, mean; union of the runs' intervals",
            *ends["alpha", "ibm1.beta"],
            above=0.05,
        ),
        claim(
            "At the end lexical knowledge agrees with IBM 1 above chance",
            "A(beta, ibm1.beta) minus chance at the last step, mean; union of the runs' intervals",
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
