"""``permutation-function``: words are known and attention is not learned (Snell et al. 2021, section 6.2).

The target is the source in an order that is the same for every pair, y_t = x_order(t). As bags of words, source
and target are those of copying, so a network with uniform attention learns which word is whose translation as well
as it does for copying. But now attention has to find a place instead of the word that follows the last one, and
that is not learned: knowledge of words is needed for attention, and is not enough.

What we took: 40 of 60 types; the order is one random permutation of the places, the same for all seeds; the end
token stays at the end. beta_uf is the lexical probe of a network trained with attention fixed to 1/L, on pairs
that it has not seen. "Equal" is judged by the share of target words for which beta_uf is largest at the source
word that is the translation, of all 40 words: chance is 1 in 41.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.experiments.sequences import Plan, Sequences, curves
from alignkit.metrics.intervals import mean_interval, wilson
from alignkit.neural.ensemble.networks import copying_settings, initial_parameters, to_network
from alignkit.neural.ensemble.training import MemberRun, train_ensemble
from alignkit.neural.scoring.probes import lexical_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = ("copy", "reorder")
MARGIN = 0.05  #: shares that differ by less are called equal


@dataclass(frozen=True)
class Settings(Plan):
    """The paper's size.

    Attributes (others are those of :class:`Plan`):
        seeds: networks per task and attention.
        length: tokens of a sequence.
        types: words that they are drawn from without repetition.
        order_seed: of the order of the places.
        pairs: that the probe is measured on.
    """

    seeds: int = 10
    length: int = 40
    types: int = 60
    order_seed: int = 0
    pairs: int = 50

    def __post_init__(self) -> None:
        check_positive(self, "seeds", "length", "types", "hidden", "pairs")


QUICK = Settings(seeds=3, length=20, types=30, hidden=64, batch=64, pairs=20)


def tasks(settings: Settings) -> dict[str, Sequences]:
    """Copying, and the same sequences in one other order."""
    order = np.random.default_rng(settings.order_seed).permutation(settings.length)
    return {
        "copy": Sequences("subset", settings.types, settings.length),
        "reorder": Sequences("subset", settings.types, settings.length, order),
    }


def run(settings: Settings, progress: Progress = no_progress) -> Result:
    """Trains both tasks with attention and with uniform attention, and probes the latter."""
    import pandas as pd

    distributions = tasks(settings)
    courses: dict[tuple[str, str], list[MemberRun]] = {}
    shares: dict[str, np.ndarray] = {}
    for task, sequences in distributions.items():
        for attention in ("general", "uniform"):
            runs = _train(sequences, attention, settings, progress, f"{task}, {attention}")
            courses[task, attention] = runs
        shares[task] = np.array([_known(sequences, run, settings) for run in courses[task, "uniform"]])
    difference = count_difference(distributions, settings)
    rows = pd.concat([curves(runs, task=t, attention=a) for (t, a), runs in courses.items()], ignore_index=True)
    probes = pd.concat(
        [pd.DataFrame({"task": t, "run": range(len(s)), "known": np.round(s, 5)}) for t, s in shares.items()],
        ignore_index=True,
    )
    return Result(
        pd.DataFrame([_row(task, courses, shares[task], settings) for task in TASKS]),
        tuple(_claims(courses, shares, difference, settings)),
        {"accuracy": rows, "known": probes},
        lambda figure: draw(figure, courses, shares, settings),
    )


def _train(
    sequences: Sequences, attention: str, settings: Settings, progress: Progress, message: str
) -> list[MemberRun]:
    shape = copying_settings(sequences.vocabulary, settings.hidden, attention)
    seeds = range(settings.seeds)
    return train_ensemble(
        [initial_parameters(shape, seed) for seed in seeds],
        seeds,
        sequences.draw,
        settings.training,
        progress,
        message,
    )


def _known(sequences: Sequences, run: MemberRun, settings: Settings) -> float:
    """The share of target words (not ends) whose largest beta_uf is at their translation."""
    shape = copying_settings(sequences.vocabulary, settings.hidden, "uniform")
    pairs = sequences.bitext(np.random.default_rng([settings.order_seed, settings.seeds]), settings.pairs)
    beta = lexical_scores(to_network(run.parameters, 0, shape), pairs)
    gold = sequences.gold(np.arange(settings.length))
    return float(np.mean([(matrix.argmax(1)[:-1] == gold).mean() for matrix in beta]))


def count_difference(distributions: dict[str, Sequences], settings: Settings) -> float:
    """The largest difference between the tasks' tables C on the same 1000 sources; exact."""
    tables = [
        cooccurrence(sequences.words(np.random.default_rng(settings.order_seed), 1000)).to_dense()
        for sequences in distributions.values()
    ]
    return float(np.abs(tables[0] - tables[1]).max())


def _failed(runs: list[MemberRun], settings: Settings) -> int:
    return sum(run.accuracy[-1] < settings.learned for run in runs)


def _row(
    task: str, courses: dict[tuple[str, str], list[MemberRun]], known: np.ndarray, settings: Settings
) -> dict[str, object]:
    runs = courses[task, "general"]
    return {
        "task": task,
        "runs": len(runs),
        "failed": _failed(runs, settings),
        "mean accuracy": float(np.mean([run.accuracy[-1] for run in runs])),
        "mean accuracy, uniform": float(np.mean([run.accuracy[-1] for run in courses[task, "uniform"]])),
        "beta_uf largest at the translation": float(known.mean()),
        "chance": 1 / (settings.length + 1),
    }


def _claims(
    courses: dict[tuple[str, str], list[MemberRun]],
    shares: dict[str, np.ndarray],
    difference: float,
    settings: Settings,
) -> list[Claim]:
    failed = {task: _failed(courses[task, "general"], settings) for task in TASKS}
    runs = settings.seeds
    statistic = f"share of {runs} seeds with a token accuracy below {settings.learned} at step {settings.steps}"
    gap = shares["reorder"] - shares["copy"]
    interval = mean_interval(gap)
    text = f"a fixed reordering of {settings.length} of {settings.types} is never learned (section 6.2)"
    return [
        claim(
            f"{text}; judged as: fails in more than four fifths of the seeds",
            statistic,
            failed["reorder"] / runs,
            wilson(failed["reorder"], runs),
            above=0.8,
        ),
        claim(
            "copying the same sequences is learned; judged as: fails in less than a third of the seeds",
            statistic,
            failed["copy"] / runs,
            wilson(failed["copy"], runs),
            below=1 / 3,
        ),
        claim(
            "both tasks have the same co-occurrence table C (section 6.2)",
            "largest difference of an entry on the same sources",
            difference,
            below=1e-12,
        ),
        claim(
            f"beta_uf knows as many words as for copying (section 6.2); judged as: within {MARGIN}",
            "share of words whose largest beta_uf is at the translation, reordering minus copying",
            float(gap.mean()),
            interval,
            above=-MARGIN,
            below=MARGIN,
        ),
    ]


def draw(
    figure: Figure,
    courses: dict[tuple[str, str], list[MemberRun]],
    shares: dict[str, np.ndarray],
    settings: Settings,
) -> None:
    """Left, accuracy of every seed; right, what beta_uf knows."""
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    colors = {"copy": "tab:blue", "reorder": "tab:red"}
    for (task, attention), runs in courses.items():
        for number, run in enumerate(runs):
            style = "-" if attention == "general" else ":"
            label = f"{task}, {'attention' if attention == 'general' else 'uniform'}" if not number else None
            left.plot(run.steps, run.accuracy, style, color=colors[task], lw=0.9, alpha=0.8, label=label)
    left.set(xlabel="step", ylabel="token accuracy", ylim=(0, 1.02), xlim=(0, settings.steps))
    left.legend(fontsize="small")
    for place, task in enumerate(TASKS):
        spread = np.linspace(-0.15, 0.15, len(shares[task]))
        right.plot(place + spread, shares[task], "o", color=colors[task], ms=4)
    right.axhline(1 / (settings.length + 1), color="gray", ls="--", lw=0.8, label="chance")
    right.set(xticks=[0, 1], xticklabels=TASKS, ylim=(0, 1.02), xlim=(-0.5, 1.5))
    right.set_ylabel("beta_uf largest at the translation")
    right.legend(fontsize="small")
