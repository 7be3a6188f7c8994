"""``deceptive-attention`` (slides "Understanding Attention Training via Output Relevance").

Network P is trained as usual. Network Q is trained to give P's predictions with attention far from P's:

    minimise mean over sentences of TVD(y_P, y_Q) - lambda KL(alpha_P || alpha_Q),

TVD being the total variation distance, |p_P - p_Q| for two classes. If ordinary training made attention follow
influence because prediction needs that, Q could not have both. The claim is that it can: low loss does not require
such attention; ordinary training arrives at it because it starts from uniform attention and follows relevance.

How similar are similar predictions? The yardstick is P with a new attention, trained on as usual (:data:`ANEW`):
like Q it has P's other weights. Attention is held against that of ordinary networks of other seeds
(:data:`OTHER`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import (
    ClassifierPlan,
    Split,
    classifier_settings,
    read_split,
    sentence_taus,
    train_in_memory,
)
from alignkit.lab.explain.decisions import jensen_shannon
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.training.classification import adversarial_loss, copy_but_attention, label_loss
from alignkit.scores import Scores
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress

OTHER = "other seed"  #: an ordinary network of another seed, compared with P as a Q is
ANEW = "new attention"  #: P with an attention that is initialised anew, trained on as usual
HARMLESS = 0.03  #: an accuracy that is lower by up to this is unharmed


@dataclass(frozen=True)
class DeceptiveAttentionSettings(ClassifierPlan):
    """The settings of the classifiers, and of Q.

    Attributes (others are those of :class:`ClassifierPlan`):
        weights: lambda, rising; the first, 0, makes Q a plain copy.
        copy_epochs: epochs of Q, which learns from P's outputs on the training text.
        fresh: initialise all of Q anew, not only its attention. TVD alone is a poor teacher of a fresh network
            (its gradient vanishes where a prediction is confident and wrong); and Q would never leave P's own
            attention, which is a stationary point of KL.
    """

    least = ClassifierPlan.least | {"weights": 0}
    weights: tuple[float, ...] = (0.0, 0.001, 0.002, 0.004, 0.007, 0.01, 0.03)
    copy_epochs: int = 6
    fresh: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds < 2:
            raise AlignkitError("seeds: two are needed, since networks of other seeds are the yardstick")
        if len(self.weights) < 2:
            raise AlignkitError("weights: a plain copy's lambda (0) and at least one more are needed")


QUICK = DeceptiveAttentionSettings(
    embedding=32, hidden=24, epochs=8, copy_epochs=6, held=90, seeds=2, weights=(0.0, 0.03, 0.1)
)


def run_deceptive_attention(settings: DeceptiveAttentionSettings, progress: Progress = no_progress) -> Result:
    """Trains P, and a Q for every lambda, for every seed; compares them on held-out sentences."""
    split = read_split(settings)
    parts = settings.seeds * (2 + len(settings.weights))
    trained = []
    for seed in range(settings.seeds):
        usual = classifier_settings(settings, split, seed, settings.epochs)
        trained.append(train_in_memory(split, usual, named_progress(progress, "P", seed, parts)))
    own = [_measure(P, split) for P in trained]
    frames = [_compare("P", seed, split, own[seed], own[seed]) for seed in range(settings.seeds)]
    for seed, other in permutations(range(settings.seeds), 2):
        frames.append(_compare(OTHER, seed, split, own[other], own[seed]))
    for seed, P in enumerate(trained):
        teacher = classifier_logits(P, split.training), classifier_scores(P, split.training, "alpha")
        copying = classifier_settings(settings, split, seed + 1000, settings.copy_epochs)
        objectives = {f"{weight:g}": adversarial_loss(*teacher, weight) for weight in settings.weights}
        for number, (name, loss) in enumerate(({ANEW: label_loss} | objectives).items()):
            place = settings.seeds + seed * (1 + len(settings.weights)) + number
            part = named_progress(progress, name, place, parts)
            prepare = None if settings.fresh and loss is not label_loss else copy_but_attention(P)
            Q = train_in_memory(split, copying, part, prepare=prepare, loss=loss)
            frames.append(_compare(name, seed, split, _measure(Q, split), own[seed]))
    raw = pd.concat(frames, ignore_index=True)
    table = raw.drop(columns=["seed", "sentence"]).groupby("lambda", sort=False).mean().reset_index()
    remarks = (
        "P: the usual network; other seed: another usual network, compared with P; new attention: P with such, "
        "trained on as usual. right: accuracy; same: share of P's predictions kept; TVD and JSD (nats, at most "
        "0.693): distances from P's prediction and attention; tau influence: Kendall's tau of the network's own "
        "attention and leave-one-out influence.",
        f"{len(split.training)} sentences for training, {len(split.held)} scored.",
    )

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        part = table[~table["lambda"].isin(["P", OTHER, ANEW])]
        for column in ("right", "same", "TVD"):
            (line,) = left.plot(part["lambda"], part[column], marker="o", label=column)
            other = table[table["lambda"] == OTHER][column].iloc[0]
            left.axhline(other, color=line.get_color(), ls=":", lw=1, label=f"{column}, other seed")
        left.set_ylim(0, 1.02)
        for column, label in (("JSD", "JSD to P's attention"), ("tau influence", "tau, attention and influence")):
            right.plot(part["lambda"], part[column], marker="o", label=label)
        own = table[table["lambda"] == "P"]["tau influence"].iloc[0]
        right.axhline(own, color="C1", ls="--", lw=1, label="the same tau of P")
        right.axhline(0, color="k", lw=0.8)
        for axes in (left, right):
            axes.set_xlabel("lambda")
            axes.legend()

    return Result(
        table,
        tuple(deceptive_attention_claims(raw)),
        {"sentences": raw.round(5)},
        draw,
        remarks,
    )


class Measured(NamedTuple):
    """For M sentences log-odds of the second label (M,), attention, and the influence of each word."""

    logits: np.ndarray
    alpha: Scores
    influence: Scores


def _measure(network: Classifier, split: Split) -> Measured:
    alpha, influence = (classifier_scores(network, split.held, kind) for kind in ("alpha", "loo"))
    return Measured(classifier_logits(network, split.held), alpha, influence)


def _compare(name: str, seed: int, split: Split, now: Measured, own: Measured) -> pd.DataFrame:
    """A row per held-out sentence: a network's prediction and attention against P's and against influence."""
    return pd.DataFrame(
        {
            "lambda": name,
            "seed": seed,
            "sentence": range(len(split.held)),
            "right": ((now.logits > 0) == (split.held.labels == 1)).astype(float),
            "same": ((now.logits > 0) == (own.logits > 0)).astype(float),
            "TVD": np.abs(expit(own.logits) - expit(now.logits)),
            "JSD": [jensen_shannon(p[0], q[0]) for p, q in zip(own.alpha, now.alpha, strict=True)],
            "tau influence": sentence_taus(now.alpha, now.influence),
            "tau P": sentence_taus(now.alpha, own.alpha),
        }
    )


def _per_seed(raw: pd.DataFrame, name: str, column: str) -> pd.Series:
    return raw[raw["lambda"] == name].groupby("seed")[column].mean()


def deceptive_attention_claims(raw: pd.DataFrame) -> Iterator[Claim]:
    """The claims at every lambda above 0, from a row per network and sentence; intervals are over seeds.

    At each: similar predictions, unharmed accuracy, and attention that is neither P's nor follows influence.
    """

    def against(other: str, column: str) -> tuple[float, tuple[float, float]]:
        return averaged(_per_seed(raw, name, column) - _per_seed(raw, other, column))

    text = "The usual network's attention correlates with influence"
    statistic = "Kendall's tau of attention and influence, P, mean over sentences and seeds"
    yield claim(text, statistic, *averaged(_per_seed(raw, "P", "tau influence")), above=0.0)
    for name in raw["lambda"].unique():
        if name in ("P", OTHER, ANEW) or float(name) == 0:
            continue
        text = f"At lambda {name}, Q's predictions are similar to P's"
        statistic = "share of P's predictions, Q minus P with a new attention"
        more = "it shares more of them than P does with a new attention, trained on as usual"
        yield claim(f"{text}: {more}", statistic, *against(ANEW, "same"), above=0.0)
        text = f"... and its accuracy is unharmed (lower by less than {HARMLESS})"
        yield claim(text, "accuracy of Q minus that of P", *against("P", "right"), above=-HARMLESS)
        text = "... with attention further from P's than another usual network's is"
        statistic = "JSD from P's attention, Q minus networks of other seeds, nats"
        yield claim(text, statistic, *against(OTHER, "JSD"), above=0.0)
        statistic = "Kendall's tau of Q's attention and its influence, mean over sentences and seeds"
        taus = averaged(_per_seed(raw, name, "tau influence"))
        yield claim("... and anti-correlated with influence", statistic, *taus, below=0.0)
