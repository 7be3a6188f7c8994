"""``deceptive-attention`` (blog post "Understanding Attention Training via Output Relevance").

Network P is trained as usual. Network Q is trained to give P's predictions with attention far from P's:

    minimise mean over sentences of TVD(y_P, y_Q) - lambda KL(alpha_P || alpha_Q),

TVD being the total variation distance, |p_P - p_Q| for two classes. If usual training made attention follow what
matters because prediction needs that, Q could not have both. It can: low loss does not ask for such attention;
usual training comes to it because it starts from uniform attention and follows relevance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.experiments.classifier import (
    Classifier,
    ClassifierPlan,
    Loss,
    Padded,
    View,
    influence,
    pad,
    read_split,
    train_classifier,
    view,
)
from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.experiments.statistics import averaged, kendall
from alignkit.experiments.texts import Labelled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SMALLEST = 1e-12  #: attention below this counts as this in KL
SLACK = 0.03  #: a Q that keeps this share of P's predictions less than the copy with the least lambda still counts


@dataclass(frozen=True)
class Settings(ClassifierPlan):
    """Besides the plan of the classifiers:

    Attributes:
        weights: lambda, rising; the Q of the first, 0, is a plain copy.
        copy_epochs: epochs of Q; it has P's outputs on the training text to learn from.
        fresh: all of Q starts from fresh weights, not only its attention. TVD alone teaches a fresh network
            badly (its gradient vanishes where a prediction is sure and wrong); and from P's own attention Q
            would not move away, as KL has its minimum there.
    """

    weights: tuple[float, ...] = (0.0, 0.001, 0.002, 0.004, 0.007, 0.01, 0.03)
    copy_epochs: int = 6
    fresh: bool = False


QUICK = Settings(embedding=32, hidden=24, epochs=8, copy_epochs=6, held=90, seeds=2, weights=(0.0, 0.03, 0.1))


def divergence(p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
    """KL(p || q) in nats of each row, (B,), over the places of the mask (B, L)."""
    p, q = p.clamp(min=SMALLEST), q.clamp(min=SMALLEST)
    kl: Tensor = ((p * (p.log() - q.log())) * mask).sum(1)
    return kl


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon divergence of two distributions, nats: 0 if equal, log 2 if apart."""
    middle = (p + q) / 2

    def kl(x: np.ndarray) -> float:
        some = x > 0
        return float((x[some] * np.log(x[some] / middle[some])).sum())

    return (kl(p) + kl(q)) / 2


@torch.no_grad()
def outputs(network: Classifier, data: Labelled, sentences: np.ndarray) -> dict[int, tuple[float, Tensor]]:
    """p of the second class, and attention (L,), of every sentence (index)."""
    found = {}
    for low in range(0, len(sentences), 64):
        batch = pad(data.text, data.labels, sentences[low : low + 64])
        logit, alpha, _ = network(batch)
        for row, sentence in enumerate(sentences[low : low + 64].tolist()):
            found[sentence] = (float(torch.sigmoid(logit[row])), alpha[row, : int(batch.lengths[row])])
    return found


def deceptive_loss(teacher: dict[int, tuple[float, Tensor]], weight: float) -> Loss:
    """The objective of Q, given what P says of every sentence, with lambda = ``weight``."""

    def loss(batch: Padded, sentences: np.ndarray, logit: Tensor, alpha: Tensor) -> Tensor:
        said = [teacher[m] for m in sentences.tolist()]
        p = torch.tensor([one for one, _ in said])
        theirs = torch.nn.utils.rnn.pad_sequence([row for _, row in said], batch_first=True)
        distance = (torch.sigmoid(logit) - p).abs()
        return (distance - weight * divergence(theirs, alpha, batch.mask)).mean()

    return loss


def run(settings: Settings | None = None, progress: Progress = no_progress) -> Result:
    """Trains P, and a Q for every lambda, for every seed; compares them on held-out sentences."""
    import pandas as pd

    settings = settings or Settings()
    check_positive(settings, "held", "embedding", "hidden", "rate", "batch", "epochs", "seeds")
    check_positive(settings, "copy_epochs")
    if len(settings.weights) < 2:
        raise AlignkitError("setting weights: a plain copy's lambda (0) and at least one more are needed")
    data, training, held = read_split(settings)
    total = settings.seeds * (settings.epochs + settings.copy_epochs * len(settings.weights))
    done = [0]

    def tick() -> None:
        done[0] += 1
        progress(done[0], total, "training")

    rows = []
    for seed in range(settings.seeds):
        P = train_classifier(data, training, settings, seed, tick=tick)
        seen = view(P, data, held)
        teacher = outputs(P, data, training)
        rows.append(_compare("P", seed, data, held, P, seen, seen))
        plan = ClassifierPlan(**{**vars(settings_plan(settings)), "epochs": settings.copy_epochs})
        for weight in settings.weights:
            loss = deceptive_loss(teacher, weight)
            first = None if settings.fresh else P
            Q = train_classifier(data, training, plan, seed + 1000, loss=loss, tick=tick, first=first)
            rows.append(_compare(f"{weight:g}", seed, data, held, Q, view(Q, data, held), seen))
    raw = pd.concat(rows, ignore_index=True)
    table = raw.drop(columns=["seed", "sentence"]).groupby("lambda", sort=False).mean().reset_index()
    remarks = (
        "P: the usual network. right: accuracy; same: share of P's predictions kept; TVD and JSD (nats, at most "
        "0.693): distance to P of the prediction and of the attention; tau influence: Kendall's tau of attention "
        "and leave-one-out influence, both of the network itself.",
        f"{len(training)} sentences trained on, {len(held)} looked at.",
    )
    drawn = lambda figure: _draw(figure, table)  # noqa: E731
    return Result(table, _claims(raw), {"sentences": raw.round(5)}, drawn, remarks)


def settings_plan(settings: Settings) -> ClassifierPlan:
    """The part of the settings that is the classifiers' plan."""
    from dataclasses import fields

    return ClassifierPlan(**{field.name: getattr(settings, field.name) for field in fields(ClassifierPlan)})


def _compare(
    name: str, seed: int, data: Labelled, held: np.ndarray, network: Classifier, now: View, before: View
) -> pd.DataFrame:
    """One row per sentence: how this network's prediction and attention relate to P's and to influence."""
    import pandas as pd

    effects = influence(network, data, held, now.logit)
    p, q = (1 / (1 + np.exp(-x.astype(np.float64))) for x in (before.logit, now.logit))
    return pd.DataFrame(
        {
            "lambda": name,
            "seed": seed,
            "sentence": held,
            "right": ((now.logit > 0) == (data.labels[held] == 1)).astype(float),
            "same": ((now.logit > 0) == (before.logit > 0)).astype(float),
            "TVD": np.abs(p - q),
            "JSD": [jensen_shannon(a, b) for a, b in zip(before.alpha, now.alpha, strict=True)],
            "tau influence": [kendall(a, b) for a, b in zip(now.alpha, effects, strict=True)],
            "tau P": [kendall(a, b) for a, b in zip(now.alpha, before.alpha, strict=True)],
        }
    )


def _per_sentence(raw: pd.DataFrame, name: str, column: str) -> pd.Series:
    values: pd.Series = raw[raw["lambda"] == name].groupby("sentence")[column].mean()
    return values


def chosen(raw: pd.DataFrame) -> tuple[str, str]:
    """The lambda that the claims are about, above the least, whose Q is a plain copy.

    Returns:
        the largest that keeps P's predictions about as well (:data:`SLACK`) as the least, or the next to the least
        if none does; and the least.
    """
    least, *others = [name for name in raw["lambda"].unique() if name != "P"]
    bar = _per_sentence(raw, least, "same").mean() - SLACK
    keep = [name for name in others if _per_sentence(raw, name, "same").mean() >= bar]
    return keep[-1] if keep else others[0], least


def _claims(raw: pd.DataFrame) -> tuple[Claim, ...]:
    # Lambda is chosen by every other sentence: there predictions are kept by that choice, which shows nothing.
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
            f"share of predictions kept, at {at} (by every other sentence), on the rest, minus the plain copy's",
            *averaged(kept),
            above=-2 * SLACK,
        ),
        claim(
            "... with attention further from P's than the plain copy's",
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
            "... and Q's attention less with Q's influence",
            f"tau of P minus tau of Q, at {at}, mean over sentences",
            *averaged(own - tau),
            above=0.0,
        ),
        claim(
            "... in fact no longer",
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
