"""``output-relevance`` drives attention (slides "Understanding Attention Training via Output Relevance").

The relevance of state l for an output o is r_l = W_o . h_l, what the state adds to the logit of o if it is
attended. Of two classes only the difference of their logits counts, so that with one row W for it,
r_l = (2y - 1) W . h_l is the relevance for the right class y. It is learned under uniform attention from counts
alone: *großartig* is only ever seen with one of *great* and *bad*, *Film* with both (:func:`count_tables`). The
claim: r of a network whose attention is fixed to 1/L already orders the words of a sentence as the attention of an
ordinarily trained network does, and as the influence of each word does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import (
    ClassifierPlan,
    Split,
    classifier_settings,
    read_split,
    sentence_taus,
    train_in_memory,
)
from alignkit.metrics.agreement import agreement
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores, judge_logits
from alignkit.scores import Scores
from alignkit.support.stages import named_progress, no_progress
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

EXAMPLE = (("dieser film ist großartig", "this movie is great"), ("dieser film ist schlecht", "this movie is bad"))
INPUTS = ("dieser", "film", "ist", "großartig", "schlecht")
OUTPUTS = ("this", "movie", "is", "great", "bad")
#: (u, v): Kendall's tau and agreement of v with u, by the names of :func:`held_out_scores`
PAIRS = (
    ("r uniform", "alpha"),
    ("|r| uniform", "alpha"),
    ("r uniform", "influence"),
    ("alpha", "influence"),
    ("r uniform", "r"),
)


@dataclass(frozen=True)
class OutputRelevanceSettings(ClassifierPlan):
    """The settings of :class:`alignkit.lab.experiments.networks.ClassifierPlan`."""


QUICK = OutputRelevanceSettings(embedding=32, hidden=24, epochs=8, held=90, seeds=2)


def count_tables() -> pd.DataFrame:
    """The 5 x 5 co-occurrence counts of the example, a row per input word and a column per output word."""
    bitext = Bitext.from_sentences(*([line.split() for line in side] for side in zip(*EXAMPLE, strict=True)))
    table = cooccurrence(bitext, "one")
    rows = []
    for word in INPUTS:
        i = bitext.source.vocabulary.ids[word]
        counts = [table.value(i, bitext.target.vocabulary.ids[output]) for output in OUTPUTS]
        rows.append({"input": word, **dict(zip(OUTPUTS, counts, strict=True))})
    return pd.DataFrame(rows)


def held_out_scores(usual: Classifier, uniform: Classifier, split: Split) -> dict[str, Scores]:
    """Scores of the words of the held-out text, from the usual network and from that with uniform attention."""
    plain = classifier_scores(uniform, split.held, "relevance")
    return {
        "alpha": classifier_scores(usual, split.held, "alpha"),
        "r": classifier_scores(usual, split.held, "relevance"),
        "r uniform": plain,
        "|r| uniform": Scores(np.abs(plain.values), plain.offsets, plain.shapes),
        "influence": classifier_scores(usual, split.held, "loo"),
    }


def run_output_relevance(settings: OutputRelevanceSettings, progress: Progress = no_progress) -> Result:
    """Trains a classifier with and one without attention for every seed, and compares the scores of words."""
    split = read_split(settings)
    frames, tables, accuracies = [], [], []
    for seed in range(settings.seeds):
        networks = []
        for place, (number, attention) in enumerate(((seed, "feed-forward"), (seed + 1000, "uniform"))):
            plan = classifier_settings(settings, split, number, settings.epochs, attention)
            part = named_progress(progress, attention, 2 * seed + place, 2 * settings.seeds)
            networks.append(train_in_memory(split, plan, part))
        logits = [classifier_logits(network, split.held) for network in networks]
        accuracies.append([judge_logits(z, split.held.labels)[1] for z in logits])
        scores = held_out_scores(networks[0], networks[1], split)
        for u, v in PAIRS:
            taus = sentence_taus(scores[u], scores[v])
            frames.append(pd.DataFrame({"seed": seed, "sentence": range(len(taus)), "u": u, "v": v, "tau": taus}))
            found = agreement(scores[u], scores[v], resamples=0)
            tables.append({"u": u, "v": v, "agreement": found.agreement, "chance": found.chance})
    raw = pd.concat(frames, ignore_index=True)
    mean_taus = raw.groupby(["u", "v"], sort=False).tau.mean().rename("tau")
    table = pd.DataFrame(tables).groupby(["u", "v"], sort=False).mean().join(mean_taus).reset_index()
    counts = count_tables()
    with_attention, without = np.mean(accuracies, axis=0)
    remarks = (
        f"{len(split.training)} sentences for training, {len(split.held)} scored; accuracy {with_attention:.3f} "
        f"with attention, {without:.3f} with uniform attention.",
        "r uniform: relevance in the network with uniform attention; all other scores are of the network with "
        "attention, trained from another seed. tau: mean of Kendall's tau-b within a sentence. agreement: of the "
        "top 5 %.",
        "Counts of the example:\n" + counts.to_string(index=False),
    )
    rows = {"sentences": raw.round(5), "counts": counts}
    claims = tuple(output_relevance_claims(raw, counts))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        names = [f"{u}\nand {v}" for u, v in PAIRS]
        values = [per_sentence(raw, u, v) for u, v in PAIRS]
        axes.boxplot([x[~np.isnan(x)] for x in values], tick_labels=names, showmeans=True, whis=(5, 95), sym="")
        axes.axhline(0, color="k", lw=0.8)
        axes.set_ylabel("Kendall's tau within a sentence")

    return Result(table, claims, rows, draw, remarks)


def per_sentence(raw: pd.DataFrame, u: str, v: str) -> np.ndarray:
    """Kendall's tau of each sentence, mean over the seeds; intervals are over sentences."""
    some = raw[(raw.u == u) & (raw.v == v)]
    return some.groupby("sentence").tau.mean().to_numpy()


def output_relevance_claims(raw: pd.DataFrame, counts: pd.DataFrame) -> Iterator[Claim]:
    """The claims, from a row per seed, sentence and pair of scores, and the counts of the example."""
    odds = counts.set_index("input").eval("great - bad")
    exact = float(abs(odds["film"]) + abs(odds["großartig"] - 1) + abs(odds["schlecht"] + 1))
    text = "In the example, only the words that tell the class co-occur more often with one output"
    statistic = "deviation of the count differences (great - bad) from 0, 1 and -1"
    yield claim(text, statistic, exact, below=1e-9)
    learned = "Relevance learned under uniform attention"
    texts = {
        ("r uniform", "alpha"): f"{learned} correlates with the attention of the usual network",
        ("r uniform", "influence"): "... and with the influence of each word on the usual network (leave-one-out)",
        ("alpha", "influence"): "Attention itself correlates with influence",
    }
    for (u, v), text in texts.items():
        statistic = f"Kendall's tau of {u} and {v}, mean over sentences"
        yield claim(text, statistic, *averaged(per_sentence(raw, u, v)), above=0.0)
