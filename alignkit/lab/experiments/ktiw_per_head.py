"""``ktiw-per-head``: lexical knowledge first, attention after, in a transformer, head by head.

The paper's thesis (Snell et al. 2021; experiment ``ktiw-drives-attention``) is about one attention. A transformer
has several per layer, each with a lexicon of its own: its OV circuit, the probability of y_t if the head saw h_l
alone. At every measured step, alpha of each head and the lexicon of each head (``ov``) are compared with beta of
IBM 1, and so are the mean of all alphas and the network's lexical probe beta. The half-way step of a curve is as
in ``ktiw-drives-attention``: where it first exceeds the mean of its start and its highest value. A head that never
agrees with IBM 1 by 0.05 more than at its start has learned something else, and has no half-way step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.lab.experiments import Claim, Figure, Result, claim
from alignkit.lab.experiments.ktiw_drives_attention import AgreementCurves
from alignkit.lab.experiments.networks import LEARNED, NetworkPlan, encode_plan, take_pairs, train_network
from alignkit.metrics.intervals import percentile_interval
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import Reading, RunSettings
from alignkit.support.stages import no_progress
from alignkit.types import Progress

MEAN = "all heads"  #: whose alpha is the mean of all, and whose lexicon is the probe beta


@dataclass(frozen=True)
class KtiwPerHeadSettings(NetworkPlan):
    """The transformer, its training, and the pairs to score.

    Attributes (others are those of :class:`NetworkPlan`; ``output`` is not used):
        warmup: 0, since fixed attention at the start would decide the question.
        layers, heads, embedding, hidden, dropout: of the transformer.
        rate_warmup: steps in which the learning rate rises.
        steps: of training, at most.
        scored: pairs of the held-out text that are scored; 0 for all.
        iterations: of IBM 1, without NULL.
    """

    least = NetworkPlan.least | dict.fromkeys(("dropout", "rate_warmup", "scored"), 0)
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
        network = {
            "architecture": "transformer",
            **{name: getattr(self, name) for name in ("layers", "heads", "embedding", "hidden", "dropout")},
        }
        training = {"rate_warmup": self.rate_warmup, "steps": self.steps, "word_dropout": 0.0}
        return super().settings().change(network=network, training=training)


QUICK = KtiwPerHeadSettings(pieces=1000, embedding=64, hidden=128, batch=16, epochs=8, rate_warmup=50, scored=40)


def run_ktiw_per_head(settings: KtiwPerHeadSettings, progress: Progress = no_progress) -> Result:
    """Trains a transformer, measures every head at its logged steps, and finds the half-way steps."""
    text = encode_plan(settings)
    pairs = take_pairs(text.valid, settings.scored)
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

    train_network(settings.settings(), text, progress, look, "cpu")
    raw, found = head_frame(curves, names), curves.half_ways()
    halves = HalfWays(names, found[:, : len(names)], found[:, len(names) :])
    table = halves.rows()
    remark = (
        f"{len(pairs)} held-out pairs; token accuracy at the last step {curves.accuracy[-1]:.3f}. A curve that "
        f"rises by less than {LEARNED} was not learned (half-way step inf)."
    )

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

    return Result(
        table,
        tuple(ktiw_per_head_claims(halves)),
        {"steps": raw, "halves": table},
        draw,
        (remark,),
    )


def head_frame(curves: AgreementCurves, names: Sequence[str]) -> pd.DataFrame:
    """A row per step and head: its two agreements with IBM 1, and the network's token accuracy."""
    shares = curves.shares()[0].reshape(len(curves.steps), 2, -1)
    parts: list[dict[str, Any]] = [
        {
            "step": step,
            "accuracy": round(accuracy, 4),
            "head": name,
            "A(alpha, ibm1.beta)": round(float(share[0, g]), 5),
            "A(lexicon, ibm1.beta)": round(float(share[1, g]), 5),
        }
        for step, accuracy, share in zip(curves.steps, curves.accuracy, shares, strict=True)
        for g, name in enumerate(names)
    ]
    return pd.DataFrame(parts)


@dataclass(frozen=True, eq=False)
class HalfWays:
    """The half-way steps of G heads; row 0 is of all pairs, the others are of resamples; infinite if not learned.

    Attributes:
        names: of the heads, the last being :data:`MEAN`.
        alpha, lexicon: (1 + resamples, G).
    """

    names: tuple[str, ...]
    alpha: np.ndarray
    lexicon: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """(1 + resamples, G): alpha's step over that of the head's own lexicon; NaN unless both were learned."""
        return self._over(self.lexicon)

    @property
    def over_probe(self) -> np.ndarray:
        """The same over the step of the lexical probe beta, the network's own lexicon."""
        return self._over(self.lexicon[:, -1:])

    def _over(self, steps: np.ndarray) -> np.ndarray:
        both = np.isfinite(self.alpha) & np.isfinite(steps) & (steps > 0)
        return np.divide(self.alpha, steps, out=np.full(self.alpha.shape, np.nan), where=both)

    def rows(self) -> pd.DataFrame:
        """A row per head: its half-way steps, and their ratios with 95 % intervals."""
        rows = []
        for g, name in enumerate(self.names):
            row: dict[str, Any] = {"head": name, "alpha": self.alpha[0, g], "lexicon": self.lexicon[0, g]}
            for label, ratios in (("alpha / lexicon", self.ratios), ("alpha / beta", self.over_probe)):
                low, high = percentile_interval(ratios[1:, g]) if np.isfinite(ratios[0, g]) else (np.nan, np.nan)
                row |= {label: ratios[0, g], f"{label} low": low, f"{label} high": high}
            rows.append(row)
        return pd.DataFrame(rows).round(3)


def ktiw_per_head_claims(halves: HalfWays) -> Iterator[Claim]:
    """The claims: of the mean of all heads, of each head, and of the heads' own lexicons."""
    probe, own = halves.over_probe, halves.ratios
    text = "In a transformer, too, lexical knowledge comes first, attention after"
    statistic = "half-way step of A(mean alpha, ibm1.beta) over that of A(beta, ibm1.beta)"
    yield claim(text, statistic, *_measured(probe[:, -1:], lambda part: part[:, 0]), above=1.0)
    each = probe[:, :-1][:, np.isfinite(probe[0, :-1])]
    statistic = (
        f"least of {each.shape[1]} heads: half-way step of A(head's alpha, ibm1.beta) over that of A(beta, "
        "ibm1.beta)"
    )
    text = "It comes before the attention of every head that learns to align"
    yield claim(text, statistic, *_measured(each, lambda part: part.min(1)), above=1.0)
    each = own[:, :-1][:, np.isfinite(own[0, :-1])]
    text = (
        "A head's own lexicon (OV circuit) comes before its attention, in more than half of the heads that "
        "learn both"
    )
    statistic = f"share of {each.shape[1]} heads whose alpha has the later half-way step"
    yield claim(text, statistic, *_measured(each, lambda part: (part > 1).mean(1)), above=0.5)


def _measured(ratios: np.ndarray, statistic: Any) -> tuple[float, tuple[float, float]]:
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
