"""``multihead``: several heads help because one of them may start well (Snell et al. 2021, section 5.2, figure 2).

Copying permutations is learned from lucky initialisations only (experiment ``copying``). Here the luck is in the
head: the rest of the network always has the same initial weights, and heads are drawn at random and selected by
training a network with that head alone: a head is "good" if the network learns to copy, "bad" if it does not come
close (rejection sampling). Networks with eight heads then have eight bad ones, seven bad and one good, or eight
new random ones. One head can express the task, so a good head among bad ones helps training, not expressiveness.

Our choices: a head is a query and a projection of its context, a_tl = h_l · (W s_t + b); the projected contexts
of all heads are added before the output layer. A head is good if its accuracy at the last step is at least
``learned`` in each of ``trials`` trials with different sequences, bad if it is below ``bad`` in each; others are
not used. Networks with several heads are trained on sequences by which no head was selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from alignkit.errors import AlignkitError
from alignkit.lab.experiments.ensemble import (
    MemberRun,
    Parameters,
    SequencePlan,
    copying_settings,
    initial_parameters,
    random_head,
    replace_heads,
    train_ensemble,
)
from alignkit.lab.experiments.protocol import Claim, Figure, Result
from alignkit.lab.experiments.sequences import (
    Sequences,
    color_of,
    curves,
    failure_difference,
    final_accuracies,
    summary,
)
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress

MIXES = ("eight bad", "one good", "eight random")
AT_ONCE = 4  #: heads tried at once


@dataclass(frozen=True)
class MultiheadSettings(SequencePlan):
    """The heads and the networks: narrower and fewer than the paper's, see docs/experiments/multihead.md.

    Attributes (others are those of :class:`SequencePlan`):
        heads: K, heads of the networks that are compared.
        samples: networks of each mix of heads.
        good_heads, bad_heads: heads to find; those of a network are drawn from them.
        candidates: heads that are tried, at most.
        trials: of each head, each with its own sequences.
        length: types of the permutations, and tokens of a sequence.
        hidden: size of embeddings, LSTMs and the output layer.
        bad: a head with a lower accuracy at its last step is bad.
        seed: of the weights that all networks share, of the heads, and of the sequences. The number of bad heads
            depends on it: with 0 there are hardly any among 40.
    """

    least = dict.fromkeys(("seed",), 0)
    heads: int = 8
    samples: int = 12
    good_heads: int = 4
    bad_heads: int = 10
    candidates: int = 100
    trials: int = 2
    length: int = 40
    hidden: int = 128
    batch: int = 64
    steps: int = 200
    bad: float = 0.6
    seed: int = 1


QUICK = MultiheadSettings(
    heads=4, samples=5, good_heads=1, bad_heads=5, candidates=16, trials=1, length=16, batch=16, seed=0
)


@dataclass(eq=False)
class Heads:
    """The heads that were tried alone.

    Attributes:
        good, bad: those that were selected.
        runs: all trials of all heads.
        tried: the number of heads.
    """

    good: list[Parameters] = field(default_factory=list)
    bad: list[Parameters] = field(default_factory=list)
    runs: list[MemberRun] = field(default_factory=list)
    tried: int = 0

    def add(self, head: Parameters, runs: Sequence[MemberRun], settings: MultiheadSettings) -> None:
        """Selects a head if its trials agree."""
        last = final_accuracies(runs)
        self.runs.extend(runs)
        self.tried += 1
        if last.min() >= settings.learned:
            self.good.append(head)
        elif last.max() < settings.bad:
            self.bad.append(head)


class HeadTraining:
    """Trains networks that differ in their heads only."""

    def __init__(self, settings: MultiheadSettings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.sequences = Sequences("permutation", settings.length, settings.length)
        self.base = initial_parameters(copying_settings(self.sequences.vocabulary, settings.hidden), settings.seed)

    def head(self, number: int) -> Parameters:
        """Random head ``number`` of this seed."""
        return random_head(self.settings.hidden, _mix(self.settings.seed, 1, number))

    def run(self, heads: Sequence[Sequence[Parameters]], streams: Sequence[int], message: str) -> list[MemberRun]:
        """Trains a network with each of these sets of heads, on the sequences of these streams."""
        settings = self.settings
        starts = [replace_heads(self.base, parts) for parts in heads]
        seeds = [_mix(settings.seed, 2, stream) for stream in streams]
        return train_ensemble(starts, seeds, self.sequences.draw, settings, named_progress(self.progress, message))


def _mix(*numbers: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def find_heads(training: HeadTraining) -> Heads:
    """Tries random heads until there are enough good and bad ones.

    Raises:
        AlignkitError: there are too few among all candidates.
    """
    settings, found = training.settings, Heads()
    while len(found.good) < settings.good_heads or len(found.bad) < settings.bad_heads:
        numbers = range(found.tried, min(found.tried + AT_ONCE, settings.candidates))
        if not numbers:
            break
        pairs = [(training.head(number), trial) for number in numbers for trial in range(settings.trials)]
        message = f"{len(found.good)} good and {len(found.bad)} bad of {found.tried} heads"
        runs = training.run([[head] for head, _ in pairs], [trial for _, trial in pairs], message)
        for place in range(len(numbers)):
            part = slice(place * settings.trials, (place + 1) * settings.trials)
            found.add(pairs[part.start][0], runs[part], settings)
    if not found.good or len(found.bad) < settings.heads:
        raise AlignkitError(
            f"of {found.tried} heads {len(found.good)} are good and {len(found.bad)} bad, but 1 and "
            f"{settings.heads} are needed; raise candidates, or change steps or seed"
        )
    return found


def run_multihead(settings: MultiheadSettings, progress: Progress = no_progress) -> Result:
    """Finds heads, then trains networks with each mix of them."""
    training = HeadTraining(settings, progress)
    found = find_heads(training)
    choose = np.random.default_rng([settings.seed, 3])
    runs: dict[str, list[MemberRun]] = {}
    streams = range(settings.trials, settings.trials + settings.samples)  # by which no head was selected
    for mix in MIXES:
        sets = [choose_heads(mix, found, training, choose, sample) for sample in range(settings.samples)]
        runs[mix] = training.run(sets, streams, mix)
    groups = {"one, tried": found.runs, **runs}
    rows = [curves(part, heads=name) for name, part in groups.items()]
    half, table = np.array([settings.steps // 2 // settings.every * settings.every]), []
    for name, part in groups.items():
        columns = summary(part, settings.learned)
        head = {"heads": name, **{column: columns[column] for column in ("runs", "failed", "share")}}
        head["mean accuracy halfway"] = float(np.mean([run.at(half) for run in part]))
        table.append({**head, "mean accuracy": columns["mean accuracy"]})
    remarks = [
        f"{found.tried} heads tried alone: {len(found.good)} good, {len(found.bad)} bad.",
        "Intervals are too narrow: the networks of a mix share all weights but their heads, and draw on the same.",
    ]
    if settings.heads != 8:
        remarks.append(f"'eight' in the names stands for {settings.heads}.")
    return Result(
        pd.DataFrame(table),
        tuple(multihead_claims(found.runs, runs, settings)),
        {"accuracy": pd.concat(rows, ignore_index=True)},
        lambda figure: _draw(figure, groups, settings),
        tuple(remarks),
    )


def choose_heads(
    mix: str, found: Heads, training: HeadTraining, choose: np.random.Generator, sample: int
) -> list[Parameters]:
    """The heads of one network with a mix of heads; ``sample`` numbers the networks of the mix."""
    heads = training.settings.heads
    if mix == "eight random":
        first = training.settings.candidates + sample * heads
        return [training.head(number) for number in range(first, first + heads)]
    bad = [found.bad[i] for i in choose.permutation(len(found.bad))[:heads]]
    return bad if mix == "eight bad" else [*bad[1:], found.good[choose.integers(len(found.good))]]


def multihead_claims(
    single: Sequence[MemberRun], runs: Mapping[str, Sequence[MemberRun]], settings: MultiheadSettings
) -> Iterator[Claim]:
    """The claims, from all trials of single heads and the networks with each mix of heads."""
    # The trials of one head are not independent, so only the first counts.
    groups = {"one": single[:: settings.trials], **runs}
    text = "one good head among eight suffices: fails less often than eight bad ones (section 5.2, figure 2)"
    yield failure_difference(text, groups, "one good", "eight bad", settings, below=0.0)
    text = "eight random heads fail less often than eight bad ones (section 5.2, figure 2)"
    yield failure_difference(text, groups, "eight random", "eight bad", settings, below=0.0)
    text = "eight random heads fail less often than one (section 5.2)"
    yield failure_difference(text, groups, "eight random", "one", settings, below=0.0)


def _draw(figure: Figure, groups: Mapping[str, Sequence[MemberRun]], settings: MultiheadSettings) -> None:
    """Accuracy of every network, a panel for each group."""
    axes = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for axis, (name, part) in zip(axes, groups.items(), strict=True):
        for run in part:
            axis.plot(run.steps, run.accuracy, color=color_of(run, settings), lw=0.8, alpha=0.7)
        axis.set(title=name, xlabel="step", xlim=(0, settings.steps), ylim=(0, 1.02))
    axes[0].set_ylabel("token accuracy")
