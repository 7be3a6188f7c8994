"""``gated-classifier``: relevance first, then attention (post "Approximating How Single Head Attention Learns").

The post's classifier is an LSTM whose attention is linear in its states and has no decoder state:

    a_l = alpha . h_l,    p = softmax(a),    Pr[positive] = sigma(W sum_l p_l h_l) = sigma(sum_l p_l beta_l),

with beta_l = W . h_l, which says how positive state l is by itself. Its form is that of the toy classifier
(:mod:`alignkit.lab.experiments.toy_classifier`), from which the post expects: at first attention is uniform and
hardly moves while beta_l is learned; later the words with a large beta_l draw attention.

Each is followed towards what it becomes: the half-way step of A(p at the end, p at a step), and that of
A(r at the end, r at a step), r_l = (2y - 1) beta_l; and beside them how far attention is from uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import (
    ClassifierPlan,
    Split,
    classifier_settings,
    half_way_rows,
    read_split,
    train_in_memory,
)
from alignkit.metrics.agreement import agreement
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.scoring.classifier import classifier_scores
from alignkit.scores import Scores
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress

LINEAR = "general"  #: without decoder state, the query of the score is a learned vector: a_l = alpha . h_l
CURVES = ("attention", "relevance")


@dataclass(frozen=True)
class GatedClassifierSettings(ClassifierPlan):
    """The settings of :class:`ClassifierPlan`, with more epochs: courses are followed to their end."""

    epochs: int = 6


QUICK = GatedClassifierSettings(embedding=32, hidden=24, epochs=8, held=90, seeds=2)


def distance_from_uniform(alpha: Scores) -> float:
    """Mean over texts of the total variation distance of attention from 1/L: 0 if uniform, at most 1."""
    rows = [matrix[0] for matrix in alpha if matrix.size]
    return float(np.mean([np.abs(row - 1 / len(row)).sum() / 2 for row in rows]))


def relevance_and_attention(
    split: Split, settings: GatedClassifierSettings, seed: int, progress: Progress
) -> pd.DataFrame:
    """A row per logged step of one network: accuracy, distance from uniform, and both curves."""
    plan = classifier_settings(settings, split, seed, settings.epochs, LINEAR)
    plan = plan.change(training={"schedule": "classification"})
    seen: list[tuple[int, float, Scores, Scores]] = []

    def look(network: ClassifierAligner) -> None:
        alpha, relevance = (classifier_scores(network.network, split.held, k) for k in ("alpha", "relevance"))
        seen.append((network.step, network.metrics["valid.accuracy"], alpha, relevance))

    train_in_memory(split, plan, progress, look=look)
    rows = []
    for step, accuracy, *scores in seen:
        row = {"seed": seed, "step": step, "accuracy": accuracy, "from uniform": distance_from_uniform(scores[0])}
        for name, last, now in zip(CURVES, seen[-1][2:], scores, strict=True):
            row[name] = agreement(last, now, resamples=0).agreement
        rows.append(row)
    return pd.DataFrame(rows)


def run_gated_classifier(settings: GatedClassifierSettings, progress: Progress = no_progress) -> Result:
    """Follows attention and relevance of every seed."""
    split = read_split(settings)
    frames = []
    for seed in range(settings.seeds):
        part = named_progress(progress, f"seed {seed}", seed, settings.seeds)
        frames.append(relevance_and_attention(split, settings, seed, part))
    raw = pd.concat(frames, ignore_index=True)
    halves = half_way_rows(raw, ["seed"], CURVES)
    remarks = (
        "attention, relevance: A(u, v), u being that of the last step and v that of the step; from uniform: total "
        "variation distance of attention from 1/L.",
        "Half-way steps:\n" + halves.round(1).to_string(index=False),
        f"{len(split.training)} texts for training, {len(split.held)} scored.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, name in enumerate((*CURVES, "from uniform")):
            for place, (_, part) in enumerate(raw.groupby("seed")):
                axes.plot(part.step + 1, part[name], color=f"C{number}", marker=".", label=None if place else name)
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="training step + 1")
        axes.set_ylabel("agreement with the last step; distance from uniform")
        axes.legend()

    return Result(
        raw.drop(columns="seed").groupby("step", as_index=False).mean(),
        tuple(gated_classifier_claims(raw, halves)),
        {"steps": raw.round(5), "halves": halves.round(3)},
        draw,
        remarks,
    )


def gated_classifier_claims(raw: pd.DataFrame, halves: pd.DataFrame) -> Iterator[Claim]:
    """The claims, over seeds."""
    known = halves[np.isfinite(halves[list(CURVES)]).all(axis=1)]
    learned = f"mean over seeds ({len(known)} of {len(halves)} learn both)"
    statistic = f"log2 of half-way steps, attention over relevance, {learned}"
    later = averaged(np.log2(known.attention / known.relevance))
    yield claim("Relevance is learned first, attention after", statistic, *later, above=0.0)
    shares = []
    for half, (_, part) in zip(halves.relevance, raw.groupby("seed"), strict=True):
        if np.isfinite(half):
            far = part["from uniform"].to_numpy()
            shares.append((np.interp(half, part.step, far) - far[0]) / (far[-1] - far[0]))
    text = "When relevance is half-way, attention has hardly left uniform: less than half of its final distance"
    yield claim(text, "share of the final distance from uniform, mean over seeds", *averaged(shares), below=0.5)
