"""Training of translation networks, determined by a seed and resumable from any measured step.

A run is a directory that survives being killed at any moment:

config.json         settings, description of the text, and versions of the program's parts
train.npz           the encoded training text (Bitext.save)
valid.npz           the encoded validation text
valid.tgt.txt       the raw target lines of the validation text, the references of BLEU
log.jsonl           measurements
checkpoints/        step-000500.pt and so on, at the logged steps
best.pt             the network with the lowest validation loss
state.pt            the state from which training is resumed; written last, so that no other file is older
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alignkit.errors import AlignkitError, check_list, reading
from alignkit.links.links import Links
from alignkit.neural.aligners import NeuralAligner, best_checkpoint, load_checkpoint
from alignkit.neural.devices import Batch, Batcher, training_batches, usable
from alignkit.neural.losses import TokenLoss
from alignkit.neural.networks.attention import samplers, score_function_loss
from alignkit.neural.networks.encoder_decoder import Encoding, TranslationNetwork
from alignkit.neural.scoring.evaluation import bleu, evaluate_network
from alignkit.neural.scoring.translation import chosen_map, read_weights
from alignkit.neural.settings import Reading, RunSettings, new_network
from alignkit.neural.training.guidance import Guide, guide_loss, word_guide
from alignkit.neural.training.run_directory import CONFIG, RunDirectory, fingerprint
from alignkit.neural.training.trainer import Task, learn_tokenizer
from alignkit.support.files import atomic_write
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import BOS, UNK, Tokenizer, encode_bitext
from alignkit.types import PathLike, Progress

BLEU = ("valid.bleu_greedy", "valid.bleu")  #: of one hypothesis, and of a beam
REFERENCES = "valid.tgt.txt"  #: in a run directory


class TranslationTask(Task[TranslationNetwork, NeuralAligner]):
    """Training of a translation network on a bitext; the best network has the lowest validation loss.

    Args:
        bitext: training text; both sides in the tokenizer's vocabulary.
        valid: held-out text, likewise.
        settings: of the network and its training; the size of the vocabulary is the tokenizer's.
        tokenizer: the one that encoded the text.
        references: raw target lines of ``valid``, for BLEU, which is not measured without them.
        device: as :func:`alignkit.neural.devices.pick_device`.
        guide: links of the training text that attention is pulled towards, in ``alpha``'s reading.

    Raises:
        AlignkitError: a text has another vocabulary, or no pair with tokens on both sides.
    """

    MEASURES_EPOCHS = True

    def __init__(
        self,
        bitext: Bitext,
        valid: Bitext,
        settings: RunSettings,
        tokenizer: Tokenizer,
        references: Sequence[str] = (),
        device: str = "auto",
        guide: Guide | None = None,
    ) -> None:
        _check_text(bitext, valid, tokenizer)
        super().__init__(bitext, settings, tokenizer, device)
        self.valid, self.references, self.guide = valid, references, guide
        self._batcher = Batcher(bitext, self.device)

    @property
    def last_step(self) -> int:
        training = self.settings.training
        most: int = training.epochs * self.epoch_steps
        return most if training.steps is None else min(most, training.steps)

    def new_network(self) -> TranslationNetwork:
        return new_network(self.settings.network)

    def loss(self, network: TranslationNetwork, batch: np.ndarray, step: int) -> Tensor:
        """As :meth:`Task.loss`, the mean over the batch's target tokens."""
        training = self.settings.training
        uniform = step < training.warmup * self.epoch_steps
        guide = None if uniform or not training.guide_weight else self.guide
        more = {"smoothing": training.label_smoothing, "guide": guide, "guide_weight": training.guide_weight}
        return batch_loss(network, self._batcher(batch), training.word_dropout, uniform, **more)

    def pinned(self, network: TranslationNetwork) -> bool:
        return network.pinned

    def measure(self, network: TranslationNetwork, step: int) -> list[tuple[str, float]]:
        loss, accuracy = evaluate_network(network, self.valid)
        values = [("valid.loss", loss), ("valid.accuracy", accuracy)]
        if self.settings.training.bleu == "logged" and step in self.logged_steps:
            values += self._bleu(network)
        return values

    def rank(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        return (metrics["valid.loss"],)

    def conclude(self, best: NeuralAligner) -> list[tuple[str, float]]:
        return self._bleu(best.network) if self.settings.training.bleu == "end" else []

    def _bleu(self, network: TranslationNetwork) -> list[tuple[str, float]]:
        if not self.references:
            return []
        texts, beams = (self.tokenizer, self.valid, self.references), (1, self.settings.training.beam)
        return [(name, bleu(network, *texts, beam)) for name, beam in zip(BLEU, beams, strict=True)]

    def message(self, epoch: int, best: Mapping[str, float]) -> str:
        epochs = self.settings.training.epochs
        return f"epoch {epoch + 1} of {epochs}, validation loss {best['valid.loss']:.3f}"

    def aligner(self, network: TranslationNetwork, step: int, metrics: dict[str, float]) -> NeuralAligner:
        fingerprint = self.bitext.fingerprint()
        return NeuralAligner(network, self.tokenizer, self.settings, step, metrics, fingerprint)


def batch_loss(
    network: TranslationNetwork,
    batch: Batch,
    word_dropout: float = 0.0,
    uniform: bool = False,
    *,
    smoothing: float = 0.0,
    guide: Guide | None = None,
    guide_weight: float = 0.0,
) -> Tensor:
    """Mean loss over the target tokens of a batch, nats; padding does not reach the output layer.

    Args:
        network: in training mode.
        batch: pairs of the training text.
        word_dropout: the share of the decoder's input that is replaced by unk, except BOS.
        uniform: use uniform attention, 1/L, in place of the learned one; without ``guide``.
        smoothing: of the labels.
        guide, guide_weight: links towards which attention is pulled by a further loss, and its weight.
    """
    previous = batch.previous
    if word_dropout:
        hidden = torch.rand(previous.shape, device=previous.device) < word_dropout
        previous = previous.masked_fill(hidden & (previous != BOS), UNK)
    encoding = network.encode(batch.source, batch.source_lengths)
    if guide is not None:
        x, weights = _guided_pass(network, encoding, batch, previous)
    else:
        x = network.decode(previous, encoding, encoding.start, uniform).features
    x = x.flatten(0, 1)
    if len(batch.places) < len(x):
        x = x[batch.places]
    loss: Tensor = TokenLoss.apply(x, network.output.weight, network.output.bias, batch.targets, smoothing)
    if any(True for _ in samplers(network)):
        losses = cross_entropy(network.output(x.detach()), batch.targets, reduction="none")
        loss = loss + score_function_loss(network, losses, batch.places)
    if guide is not None:
        loss = loss + guide_weight * guide_loss(weights, guide.matrices(batch))
    return loss


def _guided_pass(
    network: TranslationNetwork, encoding: Encoding, batch: Batch, previous: Tensor
) -> tuple[Tensor, Tensor]:
    """Features (B, T, F) for the decoder's input ``previous``, and the weights (B, T, L) of the reading."""
    reading = network.settings.reading
    if reading == Reading():
        decoded = network.decode(previous, encoding, encoding.start)
        return decoded.features, decoded.weights
    if not reading.shifted:
        decoded, maps = network.decode_with_maps(previous, encoding)
        return decoded.features, chosen_map(maps, reading)
    if previous is not batch.previous:  # words were dropped, which are not to be aligned
        features = network.decode(previous, encoding, encoding.start).features
        return features, read_weights(network, encoding, batch, reading)
    # One pass over BOS y_1 .. y_T gives both: its first T steps predict y_1 .. y_T, its last T have them as input.
    decoded, maps = network.decode_with_maps(torch.cat([previous, batch.target[-1:]]), encoding)
    return decoded.features[:, :-1], chosen_map(maps, reading)[:, 1:]


def _check_text(bitext: Bitext, valid: Bitext, tokenizer: Tokenizer) -> None:
    for name, text in (("training", bitext), ("validation", valid)):
        if any(side.vocabulary != tokenizer.vocabulary for side in (text.source, text.target)):
            raise AlignkitError(f"the {name} text is not encoded with the tokenizer's vocabulary")
        if not len(usable(text)):
            raise AlignkitError(f"the {name} text has no pair with tokens on both sides")


@dataclass(frozen=True)
class TranslationRun(RunDirectory[RunSettings, NeuralAligner, Bitext]):
    """The run directory of a translation network."""

    KIND: ClassVar[str] = "alignkit.run"
    COMMAND: ClassVar[str] = "train"
    ALIGNER: ClassVar[type[Any]] = NeuralAligner

    def encoded(self, name: str) -> Bitext:
        return self.read_text(name)

    @property
    def uniform_steps(self) -> int:
        """The number of first steps in which attention was fixed to 1/L, whatever the network's attention is."""
        training = self.settings.training
        if not training.warmup:
            return 0
        return training.warmup * len(training_batches(self.train, training.batch, 0, 0, training.buckets))

    @property
    def references(self) -> list[str]:
        """The raw target lines of the validation text."""
        with reading(place := self.path / REFERENCES):
            return place.read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]


def find_run(path: PathLike) -> TranslationRun | None:
    """The run at a directory, or the run that a checkpoint belongs to; None if there is none."""
    place = Path(path).resolve()
    for folder in (place, place.parent, place.parent.parent):
        if (folder / CONFIG).is_file() and (folder / "train.npz").is_file():
            return TranslationRun(folder)
    return None


def train_translation(
    run_dir: PathLike,
    text: LinePairs,
    valid: LinePairs,
    settings: RunSettings,
    progress: Progress | None = None,
    device: str = "auto",
    guide: Links | None = None,
) -> NeuralAligner:
    """Train a network in a run directory, or resume an interrupted run.

    On one machine, with the same versions and number of threads, an interrupted run ends with the same bits as an
    uninterrupted one. A finished run is not trained again.

    Args:
        run_dir: created if it does not exist.
        text: raw training text.
        valid: raw held-out text.
        settings: of text, network and training.
        progress: called after every step with (steps done, steps in all, message).
        device: as :func:`alignkit.neural.devices.pick_device`.
        guide: links between the words of ``text`` that attention is pulled towards (guided training).

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: the directory contains something else, or a run with other settings or text; the two sides
            of a text differ in length, or are strings; there is no such device.
    """
    for name, part in (("training", text), ("validation", valid)):
        for side in part:
            check_list(side, f"the {name} text must have a list of lines on each side")
        if len(part.source) != len(part.target):
            raise AlignkitError(
                f"the {name} text has {len(part.source)} source and {len(part.target)} target lines"
            )
    run = TranslationRun(Path(run_dir))
    described = {"training": _describe(text), "validation": _describe(valid)}
    if guide is not None:
        described["guide"] = {"links": len(guide.pairs), "sha256": fingerprint(guide.to_strings())}

    def encode() -> tuple[Bitext, Bitext, Tokenizer]:
        tokenizer = learn_tokenizer([*text.source, *text.target], settings.text)
        training, held = (encode_bitext(tokenizer, *part) for part in (text, valid))
        with atomic_write(run.path / REFERENCES) as stream:
            for line in valid.target:
                stream.write(line.encode("utf-8", "surrogatepass") + b"\n")
        return training, held, tokenizer

    def task(training: Bitext, held: Bitext, tokenizer: Tokenizer) -> TranslationTask:
        own = None if guide is None else word_guide(guide, text, training, tokenizer)
        return TranslationTask(training, held, settings, tokenizer, valid.target, device, own)

    config = {"settings": asdict(settings), "text": described}
    return run.complete(config, encode, task, device, progress)


def _describe(text: LinePairs) -> dict[str, object]:
    """The number of pairs and the SHA-256 of the lines, which identify the text."""
    return {"pairs": len(text.source), "sha256": fingerprint(*text)}


def load_network(path: PathLike, device: str = "auto") -> NeuralAligner:
    """The network of a checkpoint or run directory.

    Raises:
        AlignkitError: it holds another aligner, or lies in a run directory that it does not belong to.
    """
    network = load_checkpoint(path, device)
    if not isinstance(network, NeuralAligner):
        raise AlignkitError(f"{path} holds a {network.name}, not a network of `alignkit train`")
    run = find_run(path)
    if run is not None:
        run.check(network, Path(path))
    return network


def open_run(path: PathLike) -> TranslationRun:
    """The run in a directory.

    Raises:
        InputError: there is no such directory, or it holds no run or one without any network yet.
    """
    run = TranslationRun(best_checkpoint(Path(path)).parent)
    _ = run.config
    return run
