"""Networks that experiments train for themselves, where no run directory is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alignkit.errors import AlignkitError
from alignkit.experiments.corpora import bitext_lines
from alignkit.experiments.protocol import Progress
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.settings import PRESETS, RunSettings
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import translation_trainer
from alignkit.neural.training.translation_run import LinePairs, learn_tokenizer
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext


@dataclass(frozen=True)
class NetworkPlan:
    """What an experiment trains on what; text files are empty for the sample.

    Attributes:
        source, target: training text.
        valid_source, valid_target: held-out text, which chooses the best network and is scored.
        pairs: training pairs that are read; 0 for all.
        preset: of :data:`alignkit.neural.settings.PRESETS`.
        output: of the network, ``hidden`` or ``sum``.
        pieces, epochs, warmup, batch, learning_rate: the preset's if 0 (warmup: if negative).
        seed: of the training.
    """

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
        return LinePairs(source[: self.pairs or None], target[: self.pairs or None]), LinePairs(*held)

    def settings(self) -> RunSettings:
        """Of text, network and training; raises AlignkitError if there is no such preset."""
        if self.preset not in PRESETS:
            raise AlignkitError(f"there is no preset {self.preset!r}; there are {', '.join(PRESETS)}")
        training = {
            "epochs": self.epochs or None,
            "warmup": None if self.warmup < 0 else self.warmup,
            "batch": self.batch or None,
            "learning_rate": self.learning_rate or None,
            "seed": self.seed,
            "bleu": "never",
        }
        text = {"pieces": self.pieces or None}
        return PRESETS[self.preset].change(text=text, network={"output": self.output}, training=training)


@dataclass(frozen=True)
class Trained:
    """A network with the text it was trained on and its held-out text, encoded."""

    network: NeuralAligner
    training: Bitext
    valid: Bitext


def train_network(
    plan: NetworkPlan,
    progress: Progress,
    measured: Callable[[Trainer[TranslationNetwork, NeuralAligner]], None] | None = None,
    device: str = "auto",
) -> Trained:
    """Trains in memory.

    Args:
        plan: what.
        progress: of the steps.
        measured: called at every measured step of the training.
        device: as :func:`alignkit.neural.devices.pick_device`.
    """
    lines, held = plan.lines()
    settings = plan.settings()
    tokenizer = learn_tokenizer(lines, settings.text)
    text, valid = (encode_bitext(tokenizer, part.source, part.target) for part in (lines, held))
    training = translation_trainer(text, valid, settings, tokenizer, device=device)
    commit = None if measured is None else lambda now, improved: measured(now)
    return Trained(training.run(commit, progress), text, valid)
