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

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, copying
from alignkit.neural.networks.attention import Attention, dot_product_attention
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress

MIXES = ("eight bad", "one good", "eight random")
AT_ONCE = 4  #: heads tried at once


@dataclass(frozen=True)
class MultiheadSettings(copying.SequencePlan):
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
    size = ("samples", "good_heads", "bad_heads", "trials", "length", "hidden", "batch", "steps")
    paper: ClassVar = dict(samples=50, good_heads=20, bad_heads=20, trials=3, hidden=256)
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


QUICK_MULTIHEAD = MultiheadSettings(
    heads=4, samples=5, good_heads=1, bad_heads=5, candidates=16, trials=1, length=16, batch=16, seed=0
)


Head = tuple[nn.Linear, nn.Linear]  #: a query, and a projection of its context


class SeparateHeads(Attention):
    """Heads with a query each, a_tl = h_l · (W s_t + b), whose projected contexts are added."""

    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__()
        self.queries, self.projections = map(nn.ModuleList, zip(*heads, strict=True))

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        contexts, weights = zip(*(dot_product_attention(query(s), h, mask) for query in self.queries), strict=True)
        projected = [project(context) for project, context in zip(self.projections, contexts, strict=True)]
        return torch.stack(projected).sum(0), torch.stack(weights).mean(0)


def random_head(hidden: int, seed: int) -> Head:
    """A head drawn from this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)


def with_heads(network: EncoderDecoder, heads: Sequence[Head]) -> EncoderDecoder:
    """The network with copies of these heads instead of its own."""
    changed = deepcopy(network)
    changed.attention, changed.context = SeparateHeads(deepcopy(heads)), nn.Identity()  # type: ignore[assignment]
    return changed


def mixed_seed(*numbers: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def kind_of_head(runs: Sequence[copying.SequenceRun], settings: MultiheadSettings) -> str:
    """``good`` or ``bad`` if all trials of a head agree, else ``neither``."""
    last = [run.accuracy[-1] for run in runs]
    return "good" if min(last) >= settings.learned else "bad" if max(last) < settings.bad else "neither"


def choose_heads(
    mix: str,
    kinds: Mapping[str, Sequence[Head]],
    head: Callable[[int], Head],
    choose: np.random.Generator,
    sample: int,
    settings: MultiheadSettings,
) -> list[Head]:
    """The heads of one network with a mix of heads.

    Args:
        mix: one of :data:`MIXES`.
        kinds: the good and the bad heads.
        head: the random head of a number.
        choose: draws from the good and the bad ones.
        sample: numbers the networks of the mix.
        settings: of the experiment.
    """
    if mix == "eight random":
        first = settings.candidates + sample * settings.heads
        return [head(number) for number in range(first, first + settings.heads)]
    bad = [kinds["bad"][i] for i in choose.permutation(len(kinds["bad"]))[: settings.heads]]
    return bad if mix == "eight bad" else [*bad[1:], kinds["good"][int(choose.integers(len(kinds["good"])))]]


def run_multihead(settings: MultiheadSettings, progress: Progress = no_progress) -> Result:
    """Finds heads, then trains networks with each mix of them.

    Raises:
        AlignkitError: too few heads are good or bad among all candidates.
    """
    sequences = copying.Sequences("permutation", settings.length, settings.length)
    base = copying.random_network(sequences.vocabulary, settings.hidden, settings.seed)

    def head(number: int) -> Head:
        return random_head(settings.hidden, mixed_seed(settings.seed, 1, number))

    def train(sets: Sequence[Sequence[Head]], streams: Sequence[int], message: str) -> list[copying.SequenceRun]:
        """Trains a network with each of these sets of heads, on the sequences of these streams."""
        starts = [with_heads(base, heads) for heads in sets]
        seeds = [mixed_seed(settings.seed, 2, stream) for stream in streams]
        told = named_progress(progress, message)
        return copying.train_on_sequences(starts, seeds, sequences.draw, settings, told)

    kinds: dict[str, list[Head]] = {"good": [], "bad": [], "neither": []}
    alone: list[copying.SequenceRun] = []
    tried = 0
    for first in range(0, settings.candidates, AT_ONCE):
        if len(kinds["good"]) >= settings.good_heads and len(kinds["bad"]) >= settings.bad_heads:
            break
        heads = [head(number) for number in range(first, min(first + AT_ONCE, settings.candidates))]
        message = f"{len(kinds['good'])} good and {len(kinds['bad'])} bad of {tried} heads"
        trials = [*range(settings.trials)] * len(heads)
        runs = train([[each] for each in heads for _ in range(settings.trials)], trials, message)
        for place, each in enumerate(heads):
            part = runs[place * settings.trials : (place + 1) * settings.trials]
            kinds[kind_of_head(part, settings)].append(each)
        alone += runs
        tried += len(heads)
    if not kinds["good"] or len(kinds["bad"]) < settings.heads:
        have = f"{len(kinds['good'])} are good and {len(kinds['bad'])} bad, but 1 and {settings.heads} are needed"
        raise AlignkitError(f"of {tried} heads {have}; raise candidates, or change steps or seed")
    choose = np.random.default_rng([settings.seed, 3])
    mixes: dict[str, list[copying.SequenceRun]] = {}
    streams = range(settings.trials, settings.trials + settings.samples)  # by which no head was selected
    for mix in MIXES:
        samples = range(settings.samples)
        sets = [choose_heads(mix, kinds, head, choose, sample, settings) for sample in samples]
        mixes[mix] = train(sets, streams, mix)
    groups = {"one, tried": alone, **mixes}
    half, table = settings.steps // 2 // settings.every * settings.every, []
    for name, part in groups.items():
        columns = copying.summary(part, settings.learned)
        halfway = [run.accuracy[np.searchsorted(run.steps, half, side="right") - 1] for run in part]
        row = {"heads": name, **{column: columns[column] for column in ("runs", "failed", "share")}}
        row["mean accuracy halfway"] = float(np.mean(halfway))
        table.append(row | {"mean accuracy": columns["mean accuracy"]})
    remarks = [
        f"{tried} heads tried alone: {len(kinds['good'])} good, {len(kinds['bad'])} bad.",
        "Intervals are too narrow: the networks of a mix share all weights but their heads, and draw on the same.",
    ]
    if settings.heads != 8:
        remarks.append(f"'eight' in the names stands for {settings.heads}.")

    def draw(figure: Figure) -> None:
        """Accuracy of every network, a panel for each group."""
        axes = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
        for axis, (name, part) in zip(axes, groups.items(), strict=True):
            for run in part:
                axis.plot(run.steps, run.accuracy, color=copying.color_of(run, settings), lw=0.8, alpha=0.7)
            axis.set(title=name, xlabel="step", xlim=(0, settings.steps), ylim=(0, 1.02))
        axes[0].set_ylabel("token accuracy")

    rows = pd.concat([copying.curves(part, heads=name) for name, part in groups.items()], ignore_index=True)
    claims = tuple(multihead_claims(alone, mixes, settings))
    return Result(pd.DataFrame(table), claims, {"accuracy": rows}, draw, tuple(remarks))


def multihead_claims(
    single: Sequence[copying.SequenceRun], runs: copying.Groups, settings: MultiheadSettings
) -> Iterator[Claim]:
    """The claims, from all trials of single heads and the networks with each mix of heads."""
    # The trials of one head are not independent, so only the first counts.
    groups = {"one": single[:: settings.trials], **runs}
    text = "one good head among eight suffices: fails less often than eight bad ones (section 5.2, figure 2)"
    yield copying.failure_difference(text, groups, "one good", "eight bad", settings, below=0.0)
    text = "eight random heads fail less often than eight bad ones (section 5.2, figure 2)"
    yield copying.failure_difference(text, groups, "eight random", "eight bad", settings, below=0.0)
    text = "eight random heads fail less often than one (section 5.2)"
    yield copying.failure_difference(text, groups, "eight random", "one", settings, below=0.0)
