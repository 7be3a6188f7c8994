"""``output-relevance`` drives attention (blog post "Understanding Attention Training via Output Relevance").

Relevance r_l = (2y - 1) W . h_l is what state l adds to the log-odds of the right class y if it is attended. It is
learned under uniform attention from counts alone: *großartig* is only ever seen with one output, *Film* with both
(:func:`count_tables`). The claim: r of a network whose attention is fixed to 1/L already orders the words of a
sentence as the attention of a network does that is trained as usual, and as the influence of each word does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.experiments.classifier import ClassifierPlan, influence, read_split, train_classifier, view
from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.experiments.statistics import averaged, kendall
from alignkit.metrics.agreement import agreement
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EXAMPLE = (("dieser film ist großartig", "this movie is great"), ("dieser film ist schlecht", "this movie is bad"))
INPUTS, OUTPUTS = ("film", "großartig", "schlecht"), ("great", "bad")
#: (u, v): tau of v with u, and what the names mean below
PAIRS = (
    ("r uniform", "alpha"),
    ("|r| uniform", "alpha"),
    ("r uniform", "influence"),
    ("alpha", "influence"),
    ("r uniform", "r"),
)


@dataclass(frozen=True)
class Settings(ClassifierPlan):
    """As :class:`alignkit.experiments.classifier.ClassifierPlan`."""


QUICK = Settings(embedding=32, hidden=24, epochs=8, held=90, seeds=2)


def count_tables() -> pd.DataFrame:
    """How often each input word of the example meets each output word, from the co-occurrence table."""
    import pandas as pd

    bitext = Bitext.from_sentences(*([line.split() for line in side] for side in zip(*EXAMPLE, strict=True)))
    table = cooccurrence(bitext, "one")
    rows = []
    for word in INPUTS:
        i = bitext.source.vocabulary.ids[word]
        counts = [table.value(i, bitext.target.vocabulary.ids[output]) for output in OUTPUTS]
        rows.append({"input": word, **dict(zip(OUTPUTS, counts, strict=True))})
    return pd.DataFrame(rows)


def run(settings: Settings | None = None, progress: Progress = no_progress) -> Result:
    """Trains a classifier with and one without attention for every seed, and orders the words of held-out text."""
    import pandas as pd

    settings = settings or Settings()
    check_positive(settings, "held", "embedding", "hidden", "rate", "batch", "epochs", "seeds")
    data, training, held = read_split(settings)
    total, done = 2 * settings.seeds * settings.epochs, [0]

    def tick() -> None:
        done[0] += 1
        progress(done[0], total, "training")

    rows, tables, accuracies = [], [], []
    for seed in range(settings.seeds):
        normal = train_classifier(data, training, settings, seed, tick=tick)
        uniform = train_classifier(data, training, settings, seed + 1000, uniform=True, tick=tick)
        seen, plain = view(normal, data, held), view(uniform, data, held)
        lists = {
            "alpha": seen.alpha,
            "r": seen.relevance,
            "r uniform": plain.relevance,
            "|r| uniform": [np.abs(r) for r in plain.relevance],
            "influence": influence(normal, data, held, seen.logit),
        }
        right = data.labels[held] == 1
        accuracies.append([float(np.mean((logit > 0) == right)) for logit in (seen.logit, plain.logit)])
        for u, v in PAIRS:
            taus = [kendall(a, b) for a, b in zip(lists[u], lists[v], strict=True)]
            rows.append(pd.DataFrame({"seed": seed, "sentence": held, "u": u, "v": v, "tau": taus}))
            found = agreement(_as_scores(lists[u]), _as_scores(lists[v]), resamples=0)
            tables.append({"u": u, "v": v, "agreement": found.agreement, "chance": found.chance})
    raw = pd.concat(rows, ignore_index=True)
    taus = raw.groupby(["u", "v"], sort=False).tau.mean().rename("tau")
    table = pd.DataFrame(tables).groupby(["u", "v"], sort=False).mean().join(taus).reset_index()
    both = np.mean(accuracies, axis=0)
    counts = count_tables()
    remarks = (
        f"{len(training)} sentences trained on, {len(held)} looked at; accuracy {both[0]:.3f} with attention, "
        f"{both[1]:.3f} with uniform attention.",
        "r uniform: relevance of the network with uniform attention; all else of the one with attention, trained "
        "from another seed. tau: Kendall's tau-b within a sentence, mean. agreement: of the top 5 %.",
        "Counts of the example:\n" + counts.to_string(index=False),
    )
    drawn = lambda figure: _draw(figure, raw)  # noqa: E731
    return Result(table, _claims(raw, counts), {"sentences": raw.round(5), "counts": counts}, drawn, remarks)


def _as_scores(rows: list[np.ndarray]) -> Scores:
    return Scores.from_matrices([row[None].astype(np.float32) for row in rows])


def per_sentence(raw: pd.DataFrame, u: str, v: str) -> np.ndarray:
    """tau of each sentence, mean over the seeds: sentences are what intervals are over."""
    some = raw[(raw.u == u) & (raw.v == v)]
    means: np.ndarray = some.groupby("sentence").tau.mean().to_numpy()
    return means


def _claims(raw: pd.DataFrame, counts: pd.DataFrame) -> tuple[Claim, ...]:
    table = counts.set_index("input")
    odds = table["great"] - table["bad"]
    exact = float(abs(odds["film"]) + abs(odds["großartig"] - 1) + abs(odds["schlecht"] + 1))
    return (
        claim(
            "In the example only the telling words are counted with one output more than with the other",
            "deviation of the count differences (great - bad) from 0, 1 and -1",
            exact,
            below=1e-9,
        ),
        claim(
            "Relevance learned under uniform attention correlates with the attention of the usual network",
            "Kendall's tau of r uniform and alpha, mean over sentences",
            *averaged(per_sentence(raw, "r uniform", "alpha")),
            above=0.0,
        ),
        claim(
            "... and with the influence of each word on the usual network (leave one out)",
            "Kendall's tau of r uniform and influence, mean over sentences",
            *averaged(per_sentence(raw, "r uniform", "influence")),
            above=0.0,
        ),
        claim(
            "Attention itself correlates with influence",
            "Kendall's tau of alpha and influence, mean over sentences",
            *averaged(per_sentence(raw, "alpha", "influence")),
            above=0.0,
        ),
    )


def _draw(figure: Figure, raw: pd.DataFrame) -> None:
    axes = figure.subplots()
    names = [f"{u}\nand {v}" for u, v in PAIRS]
    values = [per_sentence(raw, u, v) for u, v in PAIRS]
    axes.boxplot([x[~np.isnan(x)] for x in values], tick_labels=names, showmeans=True, whis=(5, 95), sym="")
    axes.axhline(0, color="k", lw=0.8)
    axes.set_ylabel("Kendall's tau within a sentence")
