"""``multihead``: several heads help because one of them may start well (Snell et al. 2021, section 5.2, figure 2).

Copying permutations is learned from lucky starts only (experiment ``copying``). Here luck is put into the head:
the rest of the network starts from the same weights throughout, and heads are drawn at random and kept by what a
network with that one head does: "good" if it learns to copy, "bad" if it does not come near (rejection sampling).
Networks with eight heads then have eight bad ones, seven bad and one good, or eight new random ones. One head can
express the task, so what a good head among bad ones adds is a better course of training, not expressiveness.

What we took: a head is a query and a projection of its context, a_tl = h_l · (W s_t + b); the projected contexts
of all heads are added before the output layer. A head is good if its accuracy at the last step is at least
``learned`` with each of ``trials`` streams of sequences, bad if it is below ``bad`` with each; others are not
used. Networks with several heads see streams that no head was chosen by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.experiments.sequences import Plan, Sequences, curves
from alignkit.metrics.intervals import share_difference
from alignkit.neural.ensemble.networks import (
    Parameters,
    copying_settings,
    initial_parameters,
    random_head,
    replace_heads,
)
from alignkit.neural.ensemble.training import MemberRun, train_ensemble

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIXES = ("eight bad", "one good", "eight random")


@dataclass(frozen=True)
class Settings(Plan):
    """The size: narrower than the paper's 256 and with fewer heads tried, see the documentation.

    Attributes (others are those of :class:`Plan`):
        heads: K, heads of the networks that are compared.
        samples: networks of each mix of heads.
        good_heads, bad_heads: heads to find; those of a network are drawn from them.
        candidates: at most so many heads are tried.
        trials: streams of sequences that each head is tried on.
        length: types of the permutations, and tokens of a sequence.
        hidden: size of embeddings, LSTMs and the output layer.
        bad: a head with less at its last step is bad.
        seed: of the weights that all networks share, of the heads, and of the sequences. How many heads are bad
            depends on it: with 0 hardly any, and 40 tried are not enough.
    """

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

    def __post_init__(self) -> None:
        check_positive(self, "heads", "samples", "candidates", "trials", "length", "hidden")


QUICK = Settings(
    heads=4, samples=5, good_heads=1, bad_heads=5, candidates=16, trials=1, length=16, batch=16, seed=0
)


@dataclass(eq=False)
class Heads:
    """Heads that were tried alone.

    Attributes:
        good, bad: those kept.
        runs: of each trial of each head.
        accuracy: at the last step, a row per head tried.
    """

    good: list[Parameters] = field(default_factory=list)
    bad: list[Parameters] = field(default_factory=list)
    runs: list[MemberRun] = field(default_factory=list)
    accuracy: list[list[float]] = field(default_factory=list)

    def add(self, head: Parameters, runs: Sequence[MemberRun], settings: Settings) -> None:
        """Keeps a head if all its trials say the same."""
        last = [float(run.accuracy[-1]) for run in runs]
        self.runs.extend(runs)
        self.accuracy.append(last)
        if min(last) >= settings.learned:
            self.good.append(head)
        elif max(last) < settings.bad:
            self.bad.append(head)


class _Bench:
    """Trains networks that differ in their heads only."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.sequences = Sequences("permutation", settings.length, settings.length)
        self.base = initial_parameters(copying_settings(self.sequences.vocabulary, settings.hidden), settings.seed)

    def head(self, number: int) -> Parameters:
        """The number-th random head of this seed."""
        return random_head(self.settings.hidden, _mix(self.settings.seed, 1, number))

    def train(
        self, heads: Sequence[Sequence[Parameters]], streams: Sequence[int], message: str
    ) -> list[MemberRun]:
        """A network for each set of heads, on the stream of sequences of that number."""
        settings = self.settings
        starts = [replace_heads(self.base, parts) for parts in heads]
        seeds = [_mix(settings.seed, 2, stream) for stream in streams]
        return train_ensemble(starts, seeds, self.sequences.draw, settings.training, self.progress, message)


def _mix(*numbers: int) -> int:
    """One seed of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def find_heads(bench: _Bench) -> Heads:
    """Tries random heads until there are enough good and bad ones.

    Raises:
        AlignkitError: too few after all candidates.
    """
    settings, found = bench.settings, Heads()
    wave = 4
    while len(found.good) < settings.good_heads or len(found.bad) < settings.bad_heads:
        tried = len(found.accuracy)
        numbers = range(tried, min(tried + wave, settings.candidates))
        if not numbers:
            break
        pairs = [(bench.head(number), trial) for number in numbers for trial in range(settings.trials)]
        message = f"{len(found.good)} good and {len(found.bad)} bad of {tried} heads"
        runs = bench.train([[head] for head, _ in pairs], [trial for _, trial in pairs], message)
        for place in range(len(numbers)):
            part = slice(place * settings.trials, (place + 1) * settings.trials)
            found.add(pairs[part.start][0], runs[part], settings)
    if not found.good or len(found.bad) < settings.heads:
        raise AlignkitError(
            f"of {len(found.accuracy)} heads {len(found.good)} are good and {len(found.bad)} bad, but 1 and "
            f"{settings.heads} are needed; raise candidates, or change steps or seed"
        )
    return found


def run(settings: Settings, progress: Progress = no_progress) -> Result:
    """Finds heads, then trains networks with each mix of them."""
    import pandas as pd

    bench = _Bench(settings, progress)
    found = find_heads(bench)
    choose = np.random.default_rng([settings.seed, 3])
    runs: dict[str, list[MemberRun]] = {}
    streams = range(settings.trials, settings.trials + settings.samples)  # none that heads were chosen by
    for mix in MIXES:
        sets = [_draw_heads(mix, found, bench, choose, sample) for sample in range(settings.samples)]
        runs[mix] = bench.train(sets, streams, mix)
    rows = [curves(found.runs, heads="one, tried"), *(curves(part, heads=mix) for mix, part in runs.items())]
    table = pd.DataFrame(
        [_row("one, tried", found.runs, settings), *(_row(mix, part, settings) for mix, part in runs.items())]
    )
    kept = f"{len(found.accuracy)} heads tried alone: {len(found.good)} good, {len(found.bad)} bad."
    return Result(
        table,
        tuple(_claims(found.runs, runs, settings)),
        {"accuracy": pd.concat(rows, ignore_index=True)},
        lambda figure: draw(figure, found.runs, runs, settings),
        (kept, f"'eight' in the names stands for {settings.heads}.") if settings.heads != 8 else (kept,),
    )


def _draw_heads(
    mix: str, found: Heads, bench: _Bench, choose: np.random.Generator, sample: int
) -> list[Parameters]:
    heads = bench.settings.heads
    if mix == "eight random":
        first = bench.settings.candidates + sample * heads
        return [bench.head(number) for number in range(first, first + heads)]
    bad = [found.bad[i] for i in choose.permutation(len(found.bad))[:heads]]
    return bad if mix == "eight bad" else [*bad[1:], found.good[choose.integers(len(found.good))]]


def _failed(runs: Sequence[MemberRun], settings: Settings) -> int:
    return sum(run.accuracy[-1] < settings.learned for run in runs)


def _row(name: str, runs: Sequence[MemberRun], settings: Settings) -> dict[str, object]:
    last = np.array([run.accuracy[-1] for run in runs])
    half = [run.at(np.array([settings.steps // 2 // settings.every * settings.every]))[0] for run in runs]
    return {
        "heads": name,
        "runs": len(runs),
        "failed": _failed(runs, settings),
        "share": _failed(runs, settings) / len(runs),
        "mean accuracy halfway": float(np.mean(half)),
        "mean accuracy": float(last.mean()),
    }


def _claims(single: Sequence[MemberRun], runs: dict[str, list[MemberRun]], settings: Settings) -> list[Claim]:
    statistic = f"share with an accuracy below {settings.learned} at step {settings.steps}, difference"
    count = {mix: (_failed(part, settings), len(part)) for mix, part in runs.items()}
    alone = single[:: settings.trials]  # trials of one head are not independent
    count["one"] = _failed(alone, settings), len(alone)
    texts = {
        ("one good", "eight bad"): "one good head among eight suffices: fails less often than eight bad ones "
        "(section 5.2, figure 2)",
        (
            "eight random",
            "eight bad",
        ): "eight random heads fail less often than eight bad ones (section 5.2, figure 2)",
        ("eight random", "one"): "eight random heads fail less often than one (section 5.2)",
    }
    claims = []
    for (one, other), text in texts.items():
        gap, low, high = share_difference(*count[one], *count[other])
        claims.append(claim(text, f"{statistic} {one} - {other}", gap, (low, high), below=0.0))
    return claims


def draw(
    figure: Figure, single: Sequence[MemberRun], runs: dict[str, list[MemberRun]], settings: Settings
) -> None:
    """Accuracy of every network, a panel for each mix."""
    panels = {"one, tried": single, **runs}
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (name, part) in zip(axes, panels.items(), strict=True):
        for run in part:
            failed = run.accuracy[-1] < settings.learned
            axis.plot(run.steps, run.accuracy, color="tab:red" if failed else "tab:blue", lw=0.8, alpha=0.7)
        axis.set(title=name, xlabel="step", xlim=(0, settings.steps), ylim=(0, 1.02))
    axes[0].set_ylabel("token accuracy")
