"""``deceptive-attention`` (blog post "Understanding Attention Training via Output Relevance").

Network P is trained as usual. Network Q is trained to give P's predictions with attention far from P's:

    minimise mean over sentences of TVD(y_P, y_Q) - lambda KL(alpha_P || alpha_Q),

TVD being the total variation distance, |p_P - p_Q| for two classes. If ordinary training made attention follow
influence because prediction needs that, Q could not have both. The claim is that it can: low loss does not require
such attention; ordinary training arrives at it because it starts from uniform attention and follows relevance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from alignkit.analysis.explanation.decisions import attention_distance
from alignkit.errors import AlignkitError
from alignkit.experiments.classifiers import (
    ClassifierPlan,
    Outputs,
    Split,
    classifier_settings,
    outputs,
    read_split,
    train_in_memory,
)
from alignkit.experiments.protocol import Claim, Result, check_positive, claim, part_of
from alignkit.experiments.statistics import averaged, sentence_taus
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_scores
from alignkit.neural.training.attention_losses import adversarial_loss, copy_but_attention
from alignkit.types import Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SLACK = 0.03  #: a Q that keeps a smaller share of P's predictions than the plain copy by up to this is good enough


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

    weights: tuple[float, ...] = (0.0, 0.001, 0.002, 0.004, 0.007, 0.01, 0.03)
    copy_epochs: int = 6
    fresh: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "copy_epochs")
        if len(self.weights) < 2:
            raise AlignkitError("weights: a plain copy's lambda (0) and at least one more are needed")


QUICK = DeceptiveAttentionSettings(
    embedding=32, hidden=24, epochs=8, copy_epochs=6, held=90, seeds=2, weights=(0.0, 0.03, 0.1)
)


def run_deceptive_attention(settings: DeceptiveAttentionSettings, progress: Progress = no_progress) -> Result:
    """Trains P, and a Q for every lambda, for every seed; compares them on held-out sentences."""
    import pandas as pd

    split = read_split(settings)
    frames: list[pd.DataFrame] = []
    for seed in range(settings.seeds):
        training = classifier_settings(settings, split, seed, settings.epochs)
        copying = classifier_settings(settings, split, seed + 1000, settings.copy_epochs)
        steps, copy_steps = training.training.steps, copying.training.steps
        a_seed = steps + len(settings.weights) * copy_steps
        before, total = seed * a_seed, settings.seeds * a_seed
        P = train_in_memory(split, training, part_of(progress, before, total))
        own, teacher = outputs(P, split.held), outputs(P, split.training)
        frames.append(_compare("P", seed, split, P, own))
        for number, weight in enumerate(settings.weights):
            Q = train_in_memory(
                split,
                copying,
                part_of(progress, before + steps + number * copy_steps, total),
                prepare=None if settings.fresh else copy_but_attention(P),
                loss=adversarial_loss(teacher.logits, teacher.alpha, weight),
            )
            frames.append(_compare(f"{weight:g}", seed, split, Q, own))
    raw = pd.concat(frames, ignore_index=True)
    table = raw.drop(columns=["seed", "sentence"]).groupby("lambda", sort=False).mean().reset_index()
    remarks = (
        "P: the usual network. right: accuracy; same: share of P's predictions kept; TVD and JSD (nats, at most "
        "0.693): distances from P's prediction and attention; tau influence: Kendall's tau of the network's own "
        "attention and leave-one-out influence.",
        f"{len(split.training)} sentences for training, {len(split.held)} scored.",
    )
    return Result(
        table,
        deceptive_attention_claims(raw),
        {"sentences": raw.round(5)},
        lambda figure: _draw(figure, table),
        remarks,
    )


def _compare(name: str, seed: int, split: Split, network: Classifier, teacher: Outputs) -> pd.DataFrame:
    """A row per held-out sentence: the network's prediction and attention against P's and against influence."""
    import pandas as pd

    now = outputs(network, split.held)
    influence = classifier_scores(network, split.held, "loo")
    return pd.DataFrame(
        {
            "lambda": name,
            "seed": seed,
            "sentence": range(len(split.held)),
            "right": ((now.logits > 0) == (split.held.labels == 1)).astype(float),
            "same": ((now.logits > 0) == (teacher.logits > 0)).astype(float),
            "TVD": np.abs(expit(teacher.logits) - expit(now.logits)),
            "JSD": [attention_distance(p[0], q[0]) for p, q in zip(teacher.alpha, now.alpha, strict=True)],
            "tau influence": sentence_taus(now.alpha, influence),
            "tau P": sentence_taus(now.alpha, teacher.alpha),
        }
    )


def _per_sentence(raw: pd.DataFrame, name: str, column: str) -> pd.Series:
    values: pd.Series = raw[raw["lambda"] == name].groupby("sentence")[column].mean()
    return values


def chosen(raw: pd.DataFrame) -> tuple[str, str]:
    """The lambda that the claims are about, and the least lambda, whose Q is a plain copy.

    The former is the largest that keeps P's predictions about as well (:data:`SLACK`) as the plain copy does, or
    the second smallest if none does.
    """
    least, *others = [name for name in raw["lambda"].unique() if name != "P"]
    bar = _per_sentence(raw, least, "same").mean() - SLACK
    keep = [name for name in others if _per_sentence(raw, name, "same").mean() >= bar]
    return keep[-1] if keep else others[0], least


def deceptive_attention_claims(raw: pd.DataFrame) -> tuple[Claim, ...]:
    """The claims, from a row per network and sentence."""
    # Lambda is chosen on every other sentence. There predictions are kept by construction, so only the other
    # sentences can decide whether they are.
    first = np.isin(raw["sentence"], np.unique(raw["sentence"])[::2])
    name, least = chosen(raw[first])
    at = f"lambda {name}"
    own = _per_sentence(raw, "P", "tau influence")
    tau = _per_sentence(raw, name, "tau influence")
    kept, apart = (
        _per_sentence(part, name, column) - _per_sentence(part, least, column)
        for column, part in (("same", raw[~first]), ("JSD", raw))
    )
    return (
        claim(
            f"Q gives P's predictions about as well as a plain copy (lambda {least}) does",
            f"share of predictions kept, at {at} (chosen on half of the sentences), on the other half, "
            "minus the plain copy's",
            *averaged(kept),
            above=-2 * SLACK,
        ),
        claim(
            "... with attention further from P's than the plain copy's is",
            f"JSD of attention, at {at}, minus that of the plain copy, nats",
            *averaged(apart),
            above=0.0,
        ),
        claim(
            "The usual network's attention correlates with influence",
            "Kendall's tau of attention and influence, P, mean over sentences",
            *averaged(own),
            above=0.0,
        ),
        claim(
            "... and Q's attention less so with Q's influence",
            f"tau of P minus tau of Q, at {at}, mean over sentences",
            *averaged(own - tau),
            above=0.0,
        ),
        claim(
            "... in fact not at all",
            f"Kendall's tau of attention and influence, Q, at {at}",
            *averaged(tau),
            below=0.05,
        ),
    )


def _draw(figure: Figure, table: pd.DataFrame) -> None:
    left, right = figure.subplots(1, 2)
    part = table[table["lambda"] != "P"]
    for column in ("right", "same", "TVD"):
        left.plot(part["lambda"], part[column], marker="o", label=column)
    left.set_ylim(0, 1.02)
    for column, label in (("JSD", "JSD to P's attention"), ("tau influence", "tau, attention and influence")):
        right.plot(part["lambda"], part[column], marker="o", label=label)
    own = table[table["lambda"] == "P"]["tau influence"].iloc[0]
    right.axhline(own, color="C1", ls="--", lw=1, label="the same tau of P")
    right.axhline(0, color="k", lw=0.8)
    for axes in (left, right):
        axes.set_xlabel("lambda")
        axes.legend()
