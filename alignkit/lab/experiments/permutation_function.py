"""``permutation-function``: words are learned, attention is not (Snell et al. 2021, section 6.2).

The target is the source in an order that is the same for every pair, y_t = x_order(t). As bags of words, source
and target are those of copying, so a network with uniform attention learns the translations of words as well as
it does for copying. But attention now has to find a position instead of the word after the previous one, and that
is not learned: attention needs knowledge of words, and this knowledge is not enough.

Our choices: 40 of 60 types; the order is one random permutation of the positions, the same for all seeds; EOS
stays at the end. beta_uf is the lexical probe of a network trained with attention fixed to 1/L, on new pairs.
"Equally well" is judged by the share of target words for which beta_uf is largest at their translation, among all
40 source words and EOS: chance is 1 in 41.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.copying import (
    SequencePlan,
    SequenceRun,
    Sequences,
    curves,
    failure_claim,
    failures,
    known_words,
    train_networks,
)
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress

TASKS = ("copy", "reorder")
ATTENTIONS = ("general", "uniform")
MARGIN = 0.05  #: shares that differ by less count as equal
Runs = dict[tuple[str, str], list[SequenceRun]]  #: by task and attention


@dataclass(frozen=True)
class PermutationFunctionSettings(SequencePlan):
    """The sequences and the networks; the defaults are the paper's.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks per task and attention.
        length: tokens of a sequence.
        types: words that a sequence is drawn from without repetition.
        order_seed: of the order of the positions.
        pairs: on which the probe is measured.
    """

    least = dict.fromkeys(("order_seed",), 0)
    seeds: int = 20
    length: int = 40
    types: int = 60
    order_seed: int = 0
    pairs: int = 50


QUICK = PermutationFunctionSettings(seeds=3, length=20, types=30, hidden=64, batch=64, pairs=20)


def tasks(settings: PermutationFunctionSettings) -> dict[str, Sequences]:
    """Copying, and reordering of the same sequences."""
    order = np.random.default_rng(settings.order_seed).permutation(settings.length)
    return {
        "copy": Sequences("subset", settings.types, settings.length),
        "reorder": Sequences("subset", settings.types, settings.length, order),
    }


def run_permutation_function(settings: PermutationFunctionSettings, progress: Progress = no_progress) -> Result:
    """Trains both tasks with learned and with uniform attention, and probes the latter."""
    distributions = tasks(settings)
    runs: Runs = {}
    for number, (task, attention) in enumerate((task, a) for task in TASKS for a in ATTENTIONS):
        part = named_progress(progress, f"{task}, {attention}", number, len(TASKS) * len(ATTENTIONS))
        sequences = distributions[task]
        runs[task, attention] = train_networks(sequences, settings, settings.seeds, part, attention=attention)
    known = {task: learned_words(distributions[task], runs[task, "uniform"], settings) for task in TASKS}
    accuracy = {key: float(np.mean([run.accuracy[-1] for run in part])) for key, part in runs.items()}
    table = [
        {
            "task": task,
            "runs": settings.seeds,
            "failed": failures(runs[task, "general"], settings.learned),
            "mean accuracy": accuracy[task, "general"],
            "mean accuracy, uniform": accuracy[task, "uniform"],
            "beta_uf largest at the translation": float(known[task].mean()),
            "chance": 1 / (settings.length + 1),
        }
        for task in TASKS
    ]
    rows = pd.concat([curves(part, task=t, attention=a) for (t, a), part in runs.items()], ignore_index=True)
    probes = [pd.DataFrame({"task": t, "run": range(len(s)), "known": np.round(s, 5)}) for t, s in known.items()]
    return Result(
        pd.DataFrame(table),
        tuple(permutation_function_claims(runs, known, count_difference(distributions, settings), settings)),
        {"accuracy": rows, "known": pd.concat(probes, ignore_index=True)},
        lambda figure: _draw(figure, runs, known, settings),
    )


def learned_words(
    sequences: Sequences, runs: list[SequenceRun], settings: PermutationFunctionSettings
) -> np.ndarray:
    """Per network with uniform attention, the share of words that beta_uf knows, on new pairs."""
    pairs = sequences.bitext(np.random.default_rng([settings.order_seed, settings.seeds]), settings.pairs)
    return known_words(sequences, [run.network for run in runs], pairs)


def count_difference(distributions: dict[str, Sequences], settings: PermutationFunctionSettings) -> float:
    """The largest difference between entries of the tasks' tables C on the same 1000 sources; exact."""
    one, other = (each.counts(np.random.default_rng(settings.order_seed), 1000) for each in distributions.values())
    return float(np.abs(one - other).max())


def permutation_function_claims(
    runs: Runs, known: dict[str, np.ndarray], difference: float, settings: PermutationFunctionSettings
) -> Iterator[Claim]:
    """The claims, from the runs, the share of known words per task, and the difference of the tables C."""
    text = (
        f"a fixed reordering of {settings.length} of {settings.types} is never learned (section 6.2); judged "
        "as: fails for more than four fifths of the seeds"
    )
    yield failure_claim(text, runs["reorder", "general"], settings, above=0.8)
    text = "copying the same sequences is learned; judged as: fails for less than a third of the seeds"
    yield failure_claim(text, runs["copy", "general"], settings, below=1 / 3)
    text = "both tasks have the same co-occurrence table C (section 6.2)"
    yield claim(text, "largest difference between entries, on the same sources", difference, below=1e-12)
    text = f"beta_uf knows as many words as for copying (section 6.2); judged as: within {MARGIN}"
    statistic = "share of words whose largest beta_uf is at the translation, reordering minus copying"
    gain = averaged(known["reorder"] - known["copy"])
    yield claim(text, statistic, *gain, above=-MARGIN, below=MARGIN)


def _draw(figure: Figure, runs: Runs, known: dict[str, np.ndarray], settings: PermutationFunctionSettings) -> None:
    """Accuracy of every seed on the left, known words on the right."""
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    colors = {"copy": "tab:blue", "reorder": "tab:red"}
    for (task, attention), part in runs.items():
        for number, run in enumerate(part):
            style = "-" if attention == "general" else ":"
            label = f"{task}, {'attention' if attention != 'uniform' else 'uniform'}" if not number else None
            left.plot(run.steps, run.accuracy, style, color=colors[task], lw=0.9, alpha=0.8, label=label)
    left.set(xlabel="step", ylabel="token accuracy", ylim=(0, 1.02), xlim=(0, settings.steps))
    left.legend(fontsize="small")
    for place, task in enumerate(TASKS):
        spread = np.linspace(-0.15, 0.15, len(known[task]))
        right.plot(place + spread, known[task], "o", color=colors[task], ms=4)
    right.axhline(1 / (settings.length + 1), color="gray", ls="--", lw=0.8, label="chance")
    right.set(xticks=[0, 1], xticklabels=TASKS, ylim=(0, 1.02), xlim=(-0.5, 1.5))
    right.set(ylabel="beta_uf largest at the translation")
    right.legend(fontsize="small")
