"""Training of translation networks, determined by a seed and resumable from any measured step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.attention_reading import Reading
from alignkit.neural.batching import Batch, Batcher, training_batches, usable
from alignkit.neural.checkpoints import copied_weights
from alignkit.neural.devices import pick_device
from alignkit.neural.losses import TokenLoss
from alignkit.neural.networks.base import Encoding, TranslationNetwork, build_network, new_network
from alignkit.neural.networks.hard import samplers, score_function_loss
from alignkit.neural.scoring.evaluation import bleu, evaluate_network
from alignkit.neural.scoring.probes import chosen_map, read_weights
from alignkit.neural.settings import RunSettings, TrainingSettings, logged_steps
from alignkit.neural.training.guidance import Guide, guide_loss
from alignkit.neural.training.loop import seeded
from alignkit.neural.training.trainer import Task, Trainer, TrainingPlan
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import BOS, UNK, Tokenizer

BLEU = ("valid.bleu_greedy", "valid.bleu")  #: of one hypothesis, and of a beam


class TranslationTask(Task[TranslationNetwork, NeuralAligner]):
    """Training of a translation network on a bitext; the best network has the lowest validation loss.

    Attributes:
        bitext, valid: training text and held-out text.
        settings: with the size of the vocabulary filled in.
        plan: the steps of the run.
        tokenizer, references, device: as in :func:`translation_trainer`.
    """

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
        """Arguments and errors as in :func:`translation_trainer`."""
        _check_text(bitext, valid, tokenizer)
        self.bitext, self.valid, self.tokenizer, self.references = bitext, valid, tokenizer, references
        self.settings = settings.change(network={"vocabulary": len(tokenizer.vocabulary)})
        self.device, self.guide = pick_device(device), guide
        self.concluding = BLEU if self.settings.training.bleu == "end" else ()
        self._fingerprint = bitext.fingerprint()
        self._batcher = Batcher(bitext, self.device)
        training = self.settings.training
        steps = epoch_steps(bitext, training)
        last = training.epochs * steps
        last = last if training.steps is None else min(last, training.steps)
        self.plan = TrainingPlan(
            training.seed,
            training.rate,
            last,
            steps,
            frozenset(logged_steps(last, training.schedule)),
            keep_logged=training.keep == "logged",
            measure_epochs=True,
            tf32=training.tf32,
        )

    def batches(self, epoch: int) -> list[np.ndarray]:
        training = self.settings.training
        return training_batches(self.bitext, training.batch, training.seed, epoch, training.buckets)

    def loss(self, network: TranslationNetwork, batch: np.ndarray, step: int) -> Tensor:
        """As :meth:`Task.loss`, the mean over the batch's target tokens."""
        training = self.settings.training
        uniform = step < training.warmup * self.plan.epoch_steps
        guided = None
        if self.guide is not None and training.guide_weight and not uniform:
            guided = Guided(self.guide, training.guide_weight)
        smoothing, pairs = training.label_smoothing, self._batcher(batch)
        return batch_loss(network, pairs, training.word_dropout, uniform, smoothing=smoothing, guided=guided)

    def pinned(self, network: TranslationNetwork) -> bool:
        return network.pinned

    def measure(self, network: TranslationNetwork, step: int) -> list[tuple[str, float]]:
        result = evaluate_network(network, self.valid)
        values = [("valid.loss", result.loss), ("valid.accuracy", result.accuracy)]
        if self.settings.training.bleu == "logged" and step in self.plan.logged_steps:
            values += self._bleu(network)
        return values

    def rank(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        return (metrics["valid.loss"],)

    def conclude(self, best: NeuralAligner) -> list[tuple[str, float]]:
        return self._bleu(best.network) if self.concluding else []

    def _bleu(self, network: TranslationNetwork) -> list[tuple[str, float]]:
        if not self.references:
            return []
        beam = self.settings.training.beam
        beams = zip(BLEU, (1, beam), (0.0, self.settings.training.length_penalty), strict=True)
        texts = self.tokenizer, self.valid, self.references
        return [(name, bleu(network, *texts, beam, penalty)) for name, beam, penalty in beams]

    def message(self, epoch: int, best: Mapping[str, float]) -> str:
        epochs = self.settings.training.epochs
        return f"epoch {epoch + 1} of {epochs}, validation loss {best['valid.loss']:.3f}"

    def snapshot(self, network: TranslationNetwork, step: int, metrics: dict[str, float]) -> NeuralAligner:
        weights = copied_weights(network)
        return NeuralAligner(
            self.rebuild(weights), self.tokenizer, self.settings, step, metrics, self._fingerprint
        )

    def rebuild(self, weights: object) -> TranslationNetwork:
        return build_network(self.settings.network, weights)


def translation_trainer(
    bitext: Bitext,
    valid: Bitext,
    settings: RunSettings,
    tokenizer: Tokenizer,
    references: Sequence[str] = (),
    device: str = "auto",
    guide: Guide | None = None,
) -> Trainer[TranslationNetwork, NeuralAligner]:
    """A training run of a translation network, before its first step.

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
    task = TranslationTask(bitext, valid, settings, tokenizer, references, device, guide)
    with seeded(settings.training.seed, 0, task.device):
        network = new_network(task.settings.network).to(task.device)
    return Trainer(task, task.plan, network)


def epoch_steps(bitext: Bitext, training: TrainingSettings) -> int:
    """The number of training steps in one pass over the text; all passes have the same number."""
    return len(training_batches(bitext, training.batch, training.seed, 0, training.buckets))


class Guided(NamedTuple):
    """Guided training: the links, and the weight of their loss."""

    guide: Guide
    weight: float


def batch_loss(
    network: TranslationNetwork,
    batch: Batch,
    word_dropout: float = 0.0,
    uniform: bool = False,
    *,
    smoothing: float = 0.0,
    guided: Guided | None = None,
) -> Tensor:
    """Mean loss over the target tokens of a batch, nats; padding does not reach the output layer.

    Args:
        network: in training mode.
        batch: pairs of the training text.
        word_dropout: the share of the decoder's input that is replaced by unk, except BOS.
        uniform: use uniform attention, 1/L, in place of the learned one; without ``guided``.
        smoothing: of the labels.
        guided: adds the loss of the attention towards links.
    """
    previous = batch.previous
    if word_dropout:
        hidden = torch.rand(previous.shape, device=previous.device) < word_dropout
        previous = previous.masked_fill(hidden & (previous != BOS), UNK)
    encoding = network.encode(batch.source, batch.source_lengths)
    if guided is not None:
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
    if guided is not None:
        loss = loss + guided.weight * guide_loss(weights, guided.guide.matrices(batch))
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
