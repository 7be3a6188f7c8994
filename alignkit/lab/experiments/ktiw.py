"""``ktiw-drives-attention`` and ``ktiw-per-head``: lexical knowledge first, attention after.

``ktiw-drives-attention``: lexical knowledge first, attention after (thesis of Snell et al. 2021).

At every measured step tau, the network's attention alpha(tau) and lexical probe beta(tau) are compared with beta
of IBM 1, which has learned from co-occurrence alone: A(alpha(tau), ibm1.beta), A(beta(tau), ibm1.beta) and
A(alpha(tau), beta(tau)). If the network's knowledge of single words drives its attention, the second curve rises
before the first. The half-way step of a curve is the step at which it first exceeds the mean of its value before
training and its highest, interpolated between measured steps; its interval is a bootstrap over sentence pairs.

``ktiw-per-head``: lexical knowledge first, attention after, in a transformer, head by head.

The paper's thesis (Snell et al. 2021; experiment ``ktiw-drives-attention``) is about one attention. A transformer
has several per layer, each with a lexicon of its own: its OV circuit, the probability of y_t if the head saw h_l
alone. At every measured step, alpha of each head and the lexicon of each head (``ov``) are compared with beta of
IBM 1, and so are the mean of all alphas and the network's lexical probe beta. The half-way step of a curve is as
in ``ktiw-drives-attention``: where it first exceeds the mean of its start and its highest value. A head that never
agrees with IBM 1 by 0.05 more than at its start has learned something else, and has no half-way step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, claim, networks
from alignkit.metrics.agreement import count_agreement
from alignkit.metrics.intervals import bootstrap_ratio, percentile_interval, ratio, resampled_sums
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import Reading, RunSettings
from alignkit.neural.training.run_directory import load_network, open_run
from alignkit.scores import Scores
from alignkit.support.stages import no_progress
from alignkit.types import Progress

NOT_LEARNED = f"A curve that rises by less than {networks.LEARNED} was not learned (half-way step inf)"
CURVES = (("alpha", "ibm1.beta"), ("beta", "ibm1.beta"), ("alpha", "beta"))


@dataclass(frozen=True)
class KtiwSettings(networks.NetworkPlan):
    """The training runs to measure, and the pairs to score.

    Attributes (others are those of :class:`NetworkPlan`):
        warmup: 0, since fixed attention at the start would decide the question.
        run: a run directory of ``alignkit train`` with checkpoints of its logged steps; if empty, networks are
            trained.
        scored: pairs of the held-out text that are scored; 0 for all.
        runs: networks that are trained, from seeds ``seed``, ``seed`` + 1 and so on.
        iterations: of IBM 1, without NULL.
    """

    least = networks.NetworkPlan.least | {"scored": 0}
    size = ("runs", "scored")
    warmup: int = 0
    run: str = ""
    scored: int = 300
    runs: int = 1
    iterations: int = 5


QUICK_KTIW_DRIVES_ATTENTION = KtiwSettings(epochs=10, scored=60)


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
        hits, chance = (np.stack(counts).sum(2) / self.rows.sum() for counts in (self.hits, self.expected))
        return hits, chance

    def half_ways(self) -> np.ndarray:
        """The half-way step of each curve, (1 + resamples, C): of all pairs, and of the bootstrap's resamples."""
        hits = np.stack(self.hits)  # (K, C, M)
        counts = np.concatenate([hits.reshape(-1, len(self.rows)), self.rows[None]]).T
        sums = np.concatenate([counts.sum(0)[None], resampled_sums(counts)])
        shares = (sums[:, :-1] / sums[:, -1:]).reshape(len(sums), *hits.shape[:2])
        return np.array([networks.half_way(np.array(self.steps, np.float64), curves) for curves in shares])


def half_way_row(curves: AgreementCurves) -> dict[str, object]:
    """The half-way steps of alpha and beta against IBM 1, and their ratio with its interval."""
    steps = curves.half_ways()[:, :2]
    # NaN where lexical knowledge was not learned; then, or in any such resample, so is the interval.
    ratios = ratio(steps[:, 0], np.where(np.isfinite(steps[:, 1]), steps[:, 1], 0))
    low, high = np.quantile(ratios[1:], [0.025, 0.975])
    alpha, beta = steps[0]
    return {"run": curves.name, "alpha": alpha, "beta": beta, "ratio": ratios[0], "low": low, "high": high}


def gains_of(curves: AgreementCurves) -> list[dict[str, object]]:
    """A row per curve: agreement minus chance at the last step, and its interval over sentence pairs."""
    rows: list[dict[str, object]] = []
    for curve, excess in zip(CURVES, curves.hits[-1] - curves.expected[-1], strict=True):
        low, high = bootstrap_ratio(excess, curves.rows)
        value = float(excess.sum() / curves.rows.sum())
        rows.append({"run": curves.name, "curve": curve, "gain": value, "low": low, "high": high})
    return rows


def run_ktiw_drives_attention(settings: KtiwSettings, progress: Progress = no_progress) -> Result:
    """Measures the agreements of all runs, and finds the half-way step of each curve.

    Raises:
        AlignkitError: ``run`` is not a run directory, or has fewer than three checkpoints.
    """
    if settings.run:
        run = open_run(settings.run)
        if len(run.checkpoints) < 3:
            raise AlignkitError(f"{settings.run} is not a run directory with checkpoints of its logged steps")
        train, valid = run.train, run.valid
    else:
        text = networks.encode_plan(settings)
        train, valid = text.training, text.valid
    pairs = networks.take_pairs(valid, settings.scored)
    ibm1 = fit_ibm1(train, iterations=settings.iterations, null=False).score(pairs, "beta")
    curves: list[AgreementCurves] = []

    def look(network: NeuralAligner) -> None:
        scores = {kind: network.score(pairs, kind) for kind in ("alpha", "beta")} | {"ibm1.beta": ibm1}
        curves[-1].add(network, [(scores[u], scores[v]) for u, v in CURVES])

    if settings.run:
        curves.append(AgreementCurves("run"))
        for place, (step, path) in enumerate(run.checkpoints.items()):
            look(load_network(path))
            progress(place + 1, len(run.checkpoints), f"step {step}")
    else:
        for seed in range(settings.seed, settings.seed + settings.runs):
            curves.append(AgreementCurves(f"seed {seed}"))
            networks.train_network(replace(settings, seed=seed).settings(), text, progress, look, "cpu")
    frames = []
    for one in curves:
        columns: dict[str, Any] = {"run": one.name, "step": one.steps, "accuracy": one.accuracy}
        shares, chance = one.shares()
        for k, (u, v) in enumerate(CURVES):
            columns |= {f"A({u}, {v})": shares[:, k], f"chance ({u}, {v})": chance[:, k]}
        frames.append(pd.DataFrame(columns))
    raw = pd.concat(frames, ignore_index=True)
    halves = pd.DataFrame(map(half_way_row, curves))
    gains = pd.DataFrame([row for one in curves for row in gains_of(one)])
    remarks = (
        f"{len(pairs)} held-out pairs. {NOT_LEARNED}; the first claim is about the runs that learned both.",
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

    table = raw.drop(columns="run").groupby("step", as_index=False).mean()
    claims = tuple(ktiw_drives_attention_claims(halves, gains))
    return Result(table, claims, {"steps": raw.round(5), "halves": halves}, draw, remarks)


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


MEAN = "all heads"  #: whose alpha is the mean of all, and whose lexicon is the probe beta


@dataclass(frozen=True)
class KtiwPerHeadSettings(networks.NetworkPlan):
    """The transformer, its training, and the pairs to score.

    Attributes (others are those of :class:`NetworkPlan`; ``output`` is not used):
        warmup: 0, since fixed attention at the start would decide the question.
        layers, heads, embedding, hidden, dropout: of the transformer.
        rate_warmup: steps in which the learning rate rises.
        steps: of training, at most.
        scored: pairs of the held-out text that are scored; 0 for all.
        iterations: of IBM 1, without NULL.
    """

    least = networks.NetworkPlan.least | dict.fromkeys(("dropout", "rate_warmup", "scored"), 0)
    size = ("pieces", "layers", "heads", "embedding", "batch", "steps", "scored")
    warmup: int = 0
    pieces: int = 2000
    batch: int = 32
    epochs: int = 20
    learning_rate: float = 1e-3
    layers: int = 2
    heads: int = 4
    embedding: int = 128
    hidden: int = 256
    dropout: float = 0.1
    rate_warmup: int = 200
    steps: int = 3000
    scored: int = 100
    iterations: int = 5

    def settings(self) -> RunSettings:
        """As :meth:`NetworkPlan.settings`, of a transformer."""
        network = {name: getattr(self, name) for name in ("layers", "heads", "embedding", "hidden", "dropout")}
        network["architecture"] = "transformer"
        training = {"rate_warmup": self.rate_warmup, "steps": self.steps, "word_dropout": 0.0}
        return super().settings().change(network=network, training=training)


QUICK_KTIW_PER_HEAD = KtiwPerHeadSettings(
    pieces=1000, embedding=64, hidden=128, batch=16, epochs=8, rate_warmup=50, scored=40
)


def step_ratios(alpha: np.ndarray, lexicon: np.ndarray) -> np.ndarray:
    """The half-way steps of alpha (1 + resamples, G) over those of a lexicon; NaN unless both were learned."""
    both = np.isfinite(alpha) & np.isfinite(lexicon) & (lexicon > 0)
    return np.divide(alpha, lexicon, out=np.full(alpha.shape, np.nan), where=both)


def head_half_ways(names: Sequence[str], halves: np.ndarray) -> pd.DataFrame:
    """A row per head: its half-way steps, and alpha's over those of its lexicon and of beta, with 95 % intervals.

    Args:
        names: of G heads, the last being :data:`MEAN`, whose lexicon is the network's lexical probe beta.
        halves: (1 + resamples, 2 G), half-way steps of alpha and of the lexicon of each; row 0 is of all pairs.
    """
    alpha, lexicon = np.hsplit(halves, 2)
    compared = {
        "alpha / lexicon": step_ratios(alpha, lexicon),
        "alpha / beta": step_ratios(alpha, lexicon[:, -1:]),
    }
    rows = []
    for g, name in enumerate(names):
        row: dict[str, Any] = {"head": name, "alpha": alpha[0, g], "lexicon": lexicon[0, g]}
        for label, ratios in compared.items():
            low, high = percentile_interval(ratios[1:, g]) if np.isfinite(ratios[0, g]) else (np.nan, np.nan)
            row |= {label: ratios[0, g], f"{label} low": low, f"{label} high": high}
        rows.append(row)
    return pd.DataFrame(rows).round(3)


def run_ktiw_per_head(settings: KtiwPerHeadSettings, progress: Progress = no_progress) -> Result:
    """Trains a transformer, measures every head at its logged steps, and finds the half-way steps."""
    text = networks.encode_plan(settings)
    pairs = networks.take_pairs(text.valid, settings.scored)
    ibm1 = fit_ibm1(text.training, iterations=settings.iterations, null=False).score(pairs, "beta")
    layers, heads = range(1, settings.layers + 1), range(1, settings.heads + 1)
    readings = [Reading(layer, head) for layer in layers for head in heads]
    names = (*(f"{reading.layer}.{reading.head}" for reading in readings), MEAN)
    curves = AgreementCurves("run")

    def look(network: NeuralAligner) -> None:
        heads = [network.with_reading(reading) for reading in readings]
        alphas, lexicons = ([one.score(pairs, kind) for one in heads] for kind in ("alpha", "ov"))
        alphas.append(network.score(pairs, "alpha"))
        lexicons.append(network.score(pairs, "beta"))
        curves.add(network, [(scores, ibm1) for scores in (*alphas, *lexicons)])

    networks.train_network(settings.settings(), text, progress, look, "cpu")
    shares = curves.shares()[0].reshape(len(curves.steps), 2, -1)
    measured = pd.DataFrame({"step": curves.steps, "accuracy": curves.accuracy}).round({"accuracy": 4})
    raw = measured.merge(pd.Series(names, name="head"), how="cross")
    for row, kind in enumerate(("alpha", "lexicon")):
        raw[f"A({kind}, ibm1.beta)"] = shares[:, row].ravel().round(5)
    halves = curves.half_ways()
    table = head_half_ways(names, halves)
    accuracy = f"token accuracy at the last step {curves.accuracy[-1]:.3f}"
    remark = f"{len(pairs)} held-out pairs; {accuracy}. {NOT_LEARNED}."

    def draw(figure: Figure) -> None:
        """Both curves of every head, a panel each."""
        names = list(dict.fromkeys(raw["head"]))
        columns = min(len(names), 5)
        axes = figure.subplots(-(-len(names) // columns), columns, sharex=True, sharey=True, squeeze=False)
        for axis in axes.flat[len(names) :]:
            axis.set_axis_off()
        for axis, name in zip(axes.flat, names, strict=False):
            part = raw[raw["head"] == name]
            for number, kind in enumerate(("alpha", "lexicon")):
                axis.plot(part.step + 1, part[f"A({kind}, ibm1.beta)"], color=f"C{number}", marker=".", label=kind)
            axis.set(title=name, xscale="log", ylim=(0, 1))
        axes[0, 0].legend()
        axes[-1, 0].set_xlabel("training step + 1")
        axes[0, 0].set_ylabel("agreement with ibm1.beta")

    return Result(table, tuple(ktiw_per_head_claims(halves)), {"steps": raw, "halves": table}, draw, (remark,))


def head_statistic(ratios: np.ndarray, statistic: Any) -> tuple[float, tuple[float, float]]:
    """A statistic of ratios (1 + resamples, heads), and its 95 % interval, over resamples that have all heads.

    The interval is unknown if more than one resample in twenty lacks a head, whose curve then does not rise for
    certain; without heads there is no value either.
    """
    unknown = float("nan"), float("nan")
    if not ratios.shape[1]:
        return float("nan"), unknown
    value = float(statistic(ratios[:1])[0])
    whole = ratios[1:][np.isfinite(ratios[1:]).all(1)]
    enough = len(whole) >= 0.95 * (len(ratios) - 1)
    return value, percentile_interval(statistic(whole)) if enough else unknown


def ktiw_per_head_claims(halves: np.ndarray) -> Iterator[Claim]:
    """The claims, from half-way steps: of the mean of all heads, of each head, and of the heads' own lexicons."""
    alpha, lexicon = np.hsplit(halves, 2)
    probe, own = step_ratios(alpha, lexicon[:, -1:]), step_ratios(alpha, lexicon)
    text = "In a transformer, too, lexical knowledge comes first, attention after"
    statistic = "half-way step of A(mean alpha, ibm1.beta) over that of A(beta, ibm1.beta)"
    yield claim(text, statistic, *head_statistic(probe[:, -1:], lambda part: part[:, 0]), above=1.0)
    each = probe[:, :-1][:, np.isfinite(probe[0, :-1])]
    over = "half-way step of A(head's alpha, ibm1.beta) over that of A(beta, ibm1.beta)"
    statistic = f"least of {each.shape[1]} heads: {over}"
    text = "It comes before the attention of every head that learns to align"
    yield claim(text, statistic, *head_statistic(each, lambda part: part.min(1)), above=1.0)
    each = own[:, :-1][:, np.isfinite(own[0, :-1])]
    most = "in more than half of the heads that learn both"
    text = f"A head's own lexicon (OV circuit) comes before its attention, {most}"
    statistic = f"share of {each.shape[1]} heads whose alpha has the later half-way step"
    yield claim(text, statistic, *head_statistic(each, lambda part: (part > 1).mean(1)), above=0.5)
