"""``ktiw-drives-attention``: lexical knowledge first, attention after (thesis of Snell et al. 2021).

At every measured step tau, the network's attention alpha(tau) and lexical probe beta(tau) are compared with beta
of IBM 1, which has learned from co-occurrence alone: A(alpha(tau), ibm1.beta), A(beta(tau), ibm1.beta) and
A(alpha(tau), beta(tau)). If the network's knowledge of single words drives its attention, the second curve rises
before the first. The half-way step of a curve is the step at which it first exceeds the mean of its value before
training and its highest, interpolated between measured steps; its interval is a bootstrap over sentence pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, claim
from alignkit.lab.experiments.networks import (
    LEARNED,
    EncodedText,
    NetworkPlan,
    encode_plan,
    half_way,
    take_pairs,
    train_network,
)
from alignkit.metrics.agreement import count_agreement
from alignkit.metrics.intervals import bootstrap_ratio, ratio, resampled_sums
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.training.run_directory import load_network, open_run
from alignkit.scores import Scores
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

CURVES = (("alpha", "ibm1.beta"), ("beta", "ibm1.beta"), ("alpha", "beta"))


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

    least = NetworkPlan.least | {"scored": 0}
    warmup: int = 0
    run: str = ""
    scored: int = 300
    runs: int = 1
    iterations: int = 5


QUICK = KtiwSettings(epochs=10, scored=60)


@dataclass(eq=False)
class AgreementCurves:
    """C agreements of one training run at its K measured steps, counted per sentence pair for the bootstrap.

    Attributes:
        name: of the run.
        steps, accuracy: of each measurement; the token accuracy is of all held-out text.
        hits, expected: per step, (C, M) agreeing rows, and their number by chance.
        rows: (M,), rows of each pair.
    """

    name: str
    steps: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    hits: list[np.ndarray] = field(default_factory=list)
    expected: list[np.ndarray] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, network: NeuralAligner, pairs: Sequence[tuple[Scores, Scores]]) -> None:
        """Count the agreements of C pairs of scores at the step of a network."""
        counts = [count_agreement(u, v) for u, v in pairs]
        self.steps.append(network.step)
        self.accuracy.append(network.metrics.get("valid.accuracy", float("nan")))
        self.hits.append(np.stack([count.hits for count in counts]))
        self.expected.append(np.stack([count.expected for count in counts]))
        self.rows = counts[0].rows

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """The agreements and their chance levels, (K, C) each."""
        found, chance = (np.stack(counts).sum(2) / self.rows.sum() for counts in (self.hits, self.expected))
        return found, chance

    def half_ways(self) -> np.ndarray:
        """The half-way step of each curve, (1 + resamples, C): of all pairs, and of the bootstrap's resamples."""
        hits = np.stack(self.hits)  # (K, C, M)
        counts = np.concatenate([hits.reshape(-1, len(self.rows)), self.rows[None]]).T
        sums = np.concatenate([counts.sum(0)[None], resampled_sums(counts)])
        shares = (sums[:, :-1] / sums[:, -1:]).reshape(len(sums), *hits.shape[:2])
        return np.array([half_way(np.array(self.steps, np.float64), curves) for curves in shares])


def run_ktiw_drives_attention(settings: KtiwSettings, progress: Progress = no_progress) -> Result:
    """Measures the agreements of all runs, and finds the half-way step of each curve."""
    if settings.run:
        curves = [from_directory(settings, progress)]
    else:
        text = encode_plan(settings)
        seeds = range(settings.seed, settings.seed + settings.runs)
        curves = [from_training(replace(settings, seed=seed), text, progress) for seed in seeds]
    raw = pd.concat(map(frame_of, curves), ignore_index=True)
    halves = pd.DataFrame(map(half_way_row, curves))
    gains = pd.DataFrame([row for one in curves for row in gains_of(one)])
    remarks = (
        f"{len(curves[0].rows)} held-out pairs. A curve that rises by less than {LEARNED} was not learned "
        "(half-way step inf); the first claim is about the runs that learned both.",
        "Half-way steps per run, with 95 % intervals of their ratio:\n" + halves.round(3).to_string(index=False),
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, (u, v) in enumerate(CURVES):
            for place, (_, part) in enumerate(raw.groupby("run")):
                label = f"A({u}, {v})" if place == 0 else None
                axes.plot(part.step + 1, part[f"A({u}, {v})"], color=f"C{number}", marker=".", label=label)
        axes.plot(raw.step + 1, raw["chance (alpha, ibm1.beta)"], "k:", lw=0.8, label="chance (first curve)")
        for number, kind in enumerate(("alpha", "beta")):
            for step in halves[kind][np.isfinite(halves[kind])]:
                axes.axvline(step + 1, color=f"C{number}", lw=0.8, ls="--")
        axes.set(xscale="log", ylim=(0, 1), xlabel="training step + 1 (dashed: half-way steps)")
        axes.set_ylabel("top-5 % agreement")
        axes.legend()

    return Result(
        raw.drop(columns="run").groupby("step", as_index=False).mean(),
        tuple(ktiw_drives_attention_claims(halves, gains)),
        {"steps": raw.round(5), "halves": halves},
        draw,
        remarks,
    )


def scored(network: NeuralAligner, pairs: Bitext, ibm1: Scores) -> list[tuple[Scores, Scores]]:
    """The scores of :data:`CURVES`."""
    scores = {kind: network.score(pairs, kind) for kind in ("alpha", "beta")} | {"ibm1.beta": ibm1}
    return [(scores[u], scores[v]) for u, v in CURVES]


def frame_of(curves: AgreementCurves) -> pd.DataFrame:
    """A row per step: the accuracy, and the three agreements with their chance levels."""
    columns: dict[str, object] = {"run": curves.name, "step": curves.steps, "accuracy": curves.accuracy}
    hits, expected = curves.shares()
    for k, (u, v) in enumerate(CURVES):
        columns |= {f"A({u}, {v})": hits[:, k], f"chance ({u}, {v})": expected[:, k]}
    return pd.DataFrame(columns)


def gains_of(curves: AgreementCurves) -> list[dict[str, object]]:
    """A row per curve: agreement minus chance at the last step, and its interval over sentence pairs."""
    rows: list[dict[str, object]] = []
    for curve, excess in zip(CURVES, curves.hits[-1] - curves.expected[-1], strict=True):
        low, high = bootstrap_ratio(excess, curves.rows)
        value = float(excess.sum() / curves.rows.sum())
        rows.append({"run": curves.name, "curve": curve, "gain": value, "low": low, "high": high})
    return rows


def half_way_row(curves: AgreementCurves) -> dict[str, object]:
    """The half-way steps of alpha and beta against IBM 1, and their ratio with its interval."""
    found = curves.half_ways()[:, :2]
    # NaN where lexical knowledge was not learned; then, or in any such resample, so is the interval.
    ratios = ratio(found[:, 0], np.where(np.isfinite(found[:, 1]), found[:, 1], 0))
    low, high = np.quantile(ratios[1:], [0.025, 0.975])
    alpha, beta = found[0]
    return {"run": curves.name, "alpha": alpha, "beta": beta, "ratio": ratios[0], "low": low, "high": high}


def from_training(settings: KtiwSettings, text: EncodedText, progress: Progress) -> AgreementCurves:
    """Trains a network and measures it at every logged step."""
    pairs = take_pairs(text.valid, settings.scored)
    ibm1 = fit_ibm1(text.training, iterations=settings.iterations, null=False).score(pairs, "beta")
    curves = AgreementCurves(f"seed {settings.seed}")

    def look(network: NeuralAligner) -> None:
        curves.add(network, scored(network, pairs, ibm1))

    train_network(settings.settings(), text, progress, look, "cpu")
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
        network = load_network(path)
        curves.add(network, scored(network, pairs, ibm1))
        progress(place + 1, len(found.checkpoints), f"step {step}")
    return curves


def ktiw_drives_attention_claims(halves: pd.DataFrame, gains: pd.DataFrame) -> Iterator[Claim]:
    """The claims, from the rows of :func:`half_way_row` and :func:`gains_of`."""
    both = halves[np.isfinite(halves.ratio)]
    # If the interval of one run is unknown, so is that of all.
    interval = both.low.min(skipna=False), both.high.max(skipna=False)
    statistic = "half-way step of A(alpha, ibm1.beta) over that of A(beta, ibm1.beta), least of the runs"
    text = "Lexical knowledge comes first, attention after"
    yield claim(text, statistic, float(both.ratio.min()), interval, above=1.0)
    for kind, name in (("alpha", "attention"), ("beta", "lexical knowledge")):
        part = gains[gains.curve == (kind, "ibm1.beta")]
        text = f"At the end {name} agrees with IBM 1 above chance"
        statistic = f"A({kind}, ibm1.beta) minus chance at the last step, mean; union of the runs' intervals"
        yield claim(text, statistic, part.gain.mean(), (part.low.min(), part.high.max()), above=0.05)
