"""Translation networks that experiments train in memory, and when their curves are half-way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pandas as pd

from alignkit.errors import AlignkitError, find_known
from alignkit.lab.experiments import ExperimentSettings
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import PRESETS, RunSettings
from alignkit.neural.training.trainer import Trainer, learn_tokenizer
from alignkit.neural.training.translation import TranslationTask
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs, read_line_pairs
from alignkit.text.tokenization import Tokenizer, encode_bitext
from alignkit.types import Progress

Text = TypeVar("Text")

LEARNED = 0.05  #: a curve that never exceeds its start by this has no half-way step


def bitext_lines(source: str, target: str, part: str = "train") -> LinePairs:
    """The lines of both sides of a bitext, in lower case.

    Args:
        source, target: two files; both empty for the German-English sample.
        part: of the sample, ``train`` or ``test``.

    Raises:
        InputError: as :func:`alignkit.text.pairs.read_line_pairs`.
        AlignkitError: only one of the two is given.
    """
    if bool(source) != bool(target):
        raise AlignkitError("give both settings, source and target, or neither (the sample bitext)")
    if not source:
        from alignkit_data import path

        source, target = str(path(f"{part}.de")), str(path(f"{part}.en"))
    return read_line_pairs(source, target, lowercase=True)


@dataclass(frozen=True)
class NetworkPlan(ExperimentSettings):
    """The text, the network, and its training; text files are empty for the sample.

    Attributes:
        source, target: training text.
        valid_source, valid_target: held-out text, which chooses the best network and is scored.
        pairs: training pairs that are read; 0 for all.
        preset: of :data:`alignkit.neural.settings.PRESETS`.
        output: of the network, ``hidden`` or ``sum``.
        pieces, epochs, warmup, batch, learning_rate: the preset's if 0 (warmup: if negative).
        seed: of the training.
    """

    least = dict.fromkeys(("pairs", "pieces", "epochs", "batch", "learning_rate", "seed"), 0) | {"warmup": -1}
    source: str = ""
    target: str = ""
    valid_source: str = ""
    valid_target: str = ""
    pairs: int = 0
    preset: str = "small"
    output: str = "hidden"
    pieces: int = 0
    epochs: int = 0
    warmup: int = -1
    batch: int = 0
    learning_rate: float = 0.0
    seed: int = 0

    def lines(self) -> tuple[LinePairs, LinePairs]:
        """Training and held-out text.

        Raises:
            AlignkitError: training text without held-out text, or the reverse.
        """
        if bool(self.source) != bool(self.valid_source):
            raise AlignkitError("give all of source, target, valid_source and valid_target, or none (the sample)")
        source, target = bitext_lines(self.source, self.target)
        held = bitext_lines(self.valid_source, self.valid_target, "test")
        return LinePairs(source[: self.pairs or None], target[: self.pairs or None]), held

    def settings(self) -> RunSettings:
        """The settings of text, network and training; raises AlignkitError if there is no such preset."""
        preset = find_known(self.preset, PRESETS, "preset")
        training = {name: getattr(self, name) or None for name in ("epochs", "batch", "learning_rate")}
        training |= {"warmup": None if self.warmup < 0 else self.warmup, "seed": self.seed, "bleu": "never"}
        text = {"pieces": self.pieces or None}
        return preset.change(text=text, network={"output": self.output}, training=training)


@dataclass(frozen=True, eq=False)
class EncodedText(Generic[Text]):
    """Training and held-out text, encoded by a tokenizer."""

    training: Text
    valid: Text
    tokenizer: Tokenizer


def encode_plan(plan: NetworkPlan) -> EncodedText[Bitext]:
    """Reads the text of a plan and learns its tokenizer; errors as :meth:`NetworkPlan.lines`."""
    lines, held = plan.lines()
    tokenizer = learn_tokenizer([*lines.source, *lines.target], plan.settings().text)
    training, valid = (encode_bitext(tokenizer, part.source, part.target) for part in (lines, held))
    return EncodedText(training, valid, tokenizer)


def train_network(
    settings: RunSettings,
    text: EncodedText[Bitext],
    progress: Progress,
    look: Callable[[NeuralAligner], None] | None = None,
    device: str = "auto",
) -> NeuralAligner:
    """Trains a network in memory and returns the best one, by the loss on held-out text.

    Args:
        settings, text: what to train.
        progress, look: as in :meth:`alignkit.neural.training.trainer.Trainer.run`.
        device: as :func:`alignkit.neural.devices.pick_device`.
    """
    task = TranslationTask(text.training, text.valid, settings, text.tokenizer, device=device)
    return Trainer(task).run(progress, look)


def take_pairs(bitext: Bitext, number: int) -> Bitext:
    """The first ``number`` pairs; all if it is 0 or there are fewer."""
    return bitext.take(np.arange(min(number or len(bitext), len(bitext))))


def half_way(steps: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The step at which each curve first exceeds the mean of its first and its largest value.

    Args:
        steps: (K,), rising, the first being the one before training.
        curves: (K, C).

    Returns:
        (C,), interpolated linearly between measured steps; infinite for a curve that was not learned.

    >>> half_way(np.array([0.0, 10.0, 20.0]), np.array([[0.1], [0.2], [0.7]])).round(2).tolist()
    [14.0]
    """
    top = curves.max(0)
    middle = (curves[0] + top) / 2
    k, c = (curves > middle).argmax(0), np.arange(len(top))
    with np.errstate(divide="ignore", invalid="ignore"):  # of curves that do not rise
        share = (middle - curves[k - 1, c]) / (curves[k, c] - curves[k - 1, c])
        found = steps[k - 1] + share * (steps[k] - steps[k - 1])
    return np.where(top - curves[0] >= LEARNED, found, np.inf)


def half_way_rows(raw: pd.DataFrame, by: Sequence[str], curves: Sequence[str]) -> pd.DataFrame:
    """:func:`half_way` of each of the curves, a row per group.

    Args:
        raw: a row per group and step, with the columns of ``by``, ``step`` and the curves.
        by: the columns that name a group.
        curves: columns with values that rise.
    """
    rows = []
    for group, part in raw.groupby(list(by), sort=False):
        half_ways = half_way(part["step"].to_numpy(np.float64), part[list(curves)].to_numpy())
        rows.append(dict(zip((*by, *curves), (*group, *half_ways), strict=True)))
    return pd.DataFrame(rows)
