"""``copying-mechanisms``: copying permutations with attention whose gradient dies outside its support.

Permutations of one set of words tell nothing by co-occurrence, so attention has to be found by luck (experiment
``copying``; Snell et al. 2021, section 3.3). Softmax gives every position some weight, and with it some gradient.
Sparsemax and entmax give positions a weight of exactly 0, whose scores then have no gradient: a position that is
lost can only come back by way of other rows. Hard attention sees one position; its estimators get a gradient from
elsewhere: that of softmax, put in the place of the true one, which is 0 (straight-through, Gumbel), or samples of
it (REINFORCE). If the luck that copying needs is a gradient from the right position, sparse and hard attention
should fail more often than softmax.

All mechanisms have the score function h_l · (W s_t + b), the same initial weights and the same sequences, seed by
seed. "Fails" is as in ``copying``: a token accuracy below ``learned`` at the last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from alignkit.lab.experiments import Claim, Figure, Result
from alignkit.lab.experiments.copying import (
    CONFIRMED,
    SequencePlan,
    SequenceRun,
    Sequences,
    color_of,
    copying_network,
    copying_settings,
    curves,
    failure_difference,
    summary,
)
from alignkit.neural.devices import Batch, one_thread
from alignkit.neural.settings import SOFTMAX, parse_attention
from alignkit.neural.training.loop import CPU, adam, optimise
from alignkit.neural.training.translation import TokenLoss, batch_loss
from alignkit.support.stages import Stage, no_progress
from alignkit.types import Progress

#: what the theory says of normalizers: the sparse ones, and the hard ones by how they are trained
SPARSE, HARD = ("entmax15", "sparsemax", "entmax"), ("straight-through", "gumbel", "reinforce")


@dataclass(frozen=True)
class CopyingMechanismsSettings(SequencePlan):
    """The sequences and the networks; smaller than the paper's, so that all mechanisms take minutes.

    The learning rate is three times the paper's: softmax then learns from nearly every seed, and there is room to
    fail more often than it does.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks per mechanism.
        mechanisms: normalizers of :data:`alignkit.neural.settings.NORMALIZERS`; the others are compared
            with softmax.
        length: tokens of a sequence, and number of types.
    """

    seeds: int = 20
    mechanisms: tuple[str, ...] = (SOFTMAX, *SPARSE[:2], *HARD)
    length: int = 20
    hidden: int = 64
    batch: int = 64
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.mechanisms:
            parse_attention("experiment", f"general+{name}")


QUICK = CopyingMechanismsSettings(seeds=4, length=10, hidden=32, batch=32)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionRun(SequenceRun):
    """A network's training, and what its attention left out.

    Attributes (others are those of :class:`SequenceRun`; the network is not kept):
        outside: (N,), per measured step the share of target tokens whose own source token has a weight of 0.
        support: (N,), the mean number of source tokens with a weight above 0.
    """

    outside: np.ndarray
    support: np.ndarray


def train_mechanism(name: str, seed: int, settings: CopyingMechanismsSettings) -> AttentionRun:
    """Trains one network; it is measured, in evaluation mode, on the sequences of a step before that step."""
    sequences = Sequences("permutation", settings.length, settings.length)
    network = copying_network(copying_settings(sequences.vocabulary, settings.hidden, f"general+{name}"), seed)
    generator, measured = np.random.default_rng(seed), []
    lengths = np.full(settings.batch, settings.length + 1)

    def draw() -> Batch:
        drawn = sequences.draw(generator, settings.batch)
        source, previous, target = (torch.from_numpy(np.ascontiguousarray(part.T)) for part in drawn)
        every = torch.arange(target.numel())
        return Batch(np.arange(settings.batch), source, lengths, target, previous, lengths, every)

    batch = draw()

    def loss(_: int) -> Tensor:
        return batch_loss(network.train(), batch)

    optimiser = adam(network.parameters(), settings.learning_rate)
    for step in optimise(optimiser, loss, settings.steps, seed=seed):
        if step:
            batch = draw()
        if step % settings.every and step != settings.steps:
            continue
        network.eval()
        with torch.no_grad():
            encoding = network.encode(batch.source, batch.source_lengths)
            decoded = network.decode(batch.previous, encoding, encoding.start)
            x, output = decoded.features.flatten(0, 1), network.output
            right: Tensor = output(x).argmax(1) == batch.targets
            nats = TokenLoss.apply(x, output.weight, output.bias, batch.targets, 0.0)
        held = decoded.weights > 0  # (B, T, L); the t-th target token is the t-th source token
        outside = 1 - held.diagonal(dim1=1, dim2=2).double().mean()
        numbers = (right.double().mean(), nats, outside, held.double().sum(2).mean())
        measured.append((step, *map(float, numbers)))
        if len(measured) >= CONFIRMED and all(one[1] >= settings.solved for one in measured[-CONFIRMED:]):
            break
    steps, accuracy, losses, outsides, supports = map(np.array, zip(*measured, strict=True))
    return AttentionRun(steps, accuracy, losses, outside=outsides, support=supports)


def run_copying_mechanisms(settings: CopyingMechanismsSettings, progress: Progress = no_progress) -> Result:
    """Trains a network per mechanism and seed, and compares the failures."""
    found: dict[str, list[AttentionRun]] = {name: [] for name in settings.mechanisms}
    with one_thread(CPU), Stage("training", progress) as stage:
        for number, (name, runs) in enumerate(found.items()):
            for seed in range(settings.seeds):
                runs.append(train_mechanism(name, seed, settings))
                stage(number * settings.seeds + seed + 1, len(found) * settings.seeds, name)
    rows, table = [], []
    for name, runs in found.items():
        frame = curves(runs, mechanism=name)
        frame["outside"] = np.concatenate([one.outside for one in runs]).round(4)
        frame["support"] = np.concatenate([one.support for one in runs]).round(2)
        rows.append(frame)
        start = [one.outside[np.searchsorted(one.steps, min(20, settings.steps))] for one in runs]
        row = {"mechanism": name, **summary(runs, settings.learned)}
        row["own token outside at step 20"] = float(np.mean(start))
        row["at the end"] = float(np.mean([one.outside[-1] for one in runs]))
        table.append(row | {"support at the end": float(np.mean([one.support[-1] for one in runs]))})

    def draw(figure: Figure) -> None:
        """Accuracy of every network above, the share of own tokens outside of the support below."""
        axes = figure.subplots(2, len(found), sharex=True, sharey=True, squeeze=False)
        for column, (name, runs) in enumerate(found.items()):
            for one in runs:
                for row, values in enumerate((one.accuracy, one.outside)):
                    axes[row, column].plot(one.steps, values, color=color_of(one, settings), lw=0.8, alpha=0.7)
            axes[0, column].set(title=name, xlim=(0, settings.steps), ylim=(0, 1.02))
            axes[1, column].set_xlabel("step")
        axes[0, 0].set_ylabel("token accuracy")
        axes[1, 0].set_ylabel("own token has weight 0")

    claims = tuple(copying_mechanisms_claims(found, settings))
    return Result(pd.DataFrame(table), claims, {"accuracy": pd.concat(rows, ignore_index=True)}, draw)


def copying_mechanisms_claims(
    found: Mapping[str, Sequence[SequenceRun]], settings: CopyingMechanismsSettings
) -> Iterator[Claim]:
    """That each other mechanism fails more often than softmax; none if softmax was not trained."""
    why = {
        **dict.fromkeys(SPARSE, "no gradient outside its support"),
        "straight-through": "one position, softmax's gradient in place of its own",
        "gumbel": "one position with noise, softmax's gradient in place of its own",
        "reinforce": "one sampled position, a gradient of samples",
    }
    for name in found if SOFTMAX in found else ():
        if name != SOFTMAX:
            reason = why.get(name.partition(":")[0])
            text = f"{name}{f' ({reason})' if reason else ''} fails on permutations more often than softmax"
            yield failure_difference(text, found, name, SOFTMAX, settings, above=0.0)
