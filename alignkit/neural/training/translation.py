"""Training of the encoder-decoder: deterministic in its seed, and able to go on from any measured step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.batching import Batcher, training_batches, usable
from alignkit.neural.devices import pick_device
from alignkit.neural.losses import TokenLoss
from alignkit.neural.networks.encoder_decoder import EncoderDecoder, build_encoder_decoder
from alignkit.neural.scoring.evaluation import bleu, evaluate
from alignkit.neural.settings import RunSettings, logged_steps
from alignkit.neural.training.trainer import Loop, seeded
from alignkit.neural.training.trainer import Progress as Progress
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import BOS, UNK, Tokenizer

BLEU = ("valid.bleu_greedy", "valid.bleu")  #: of one hypothesis, and of a beam


class Training(Loop[NeuralAligner]):
    """A training run of the encoder-decoder; see :class:`alignkit.neural.training.trainer.Loop`."""

    network: EncoderDecoder

    def __init__(
        self,
        bitext: Bitext,
        valid: Bitext,
        settings: RunSettings,
        tokenizer: Tokenizer,
        references: Sequence[str] = (),
        device: str = "auto",
    ) -> None:
        """Begins a run.

        Args:
            bitext: training text; both sides in the tokenizer's vocabulary.
            valid: held-out text, likewise.
            settings: the size of the vocabulary is filled in from the tokenizer.
            tokenizer: what encoded the text.
            references: raw target lines of ``valid``, for BLEU; without them there is none.
            device: as :func:`alignkit.neural.devices.pick_device`.

        Raises:
            AlignkitError: another vocabulary, or a text without a pair that has tokens on both sides.
        """
        _check_text(bitext, valid, tokenizer)
        self.bitext, self.valid, self.tokenizer, self.references = bitext, valid, tokenizer, references
        self.settings = settings.change(network={"vocabulary": len(tokenizer.vocabulary)})
        self.device = pick_device(device)
        self.fingerprint = bitext.fingerprint()
        plan = self.settings.training
        self.epoch_steps = len(training_batches(bitext, plan.batch, plan.seed, 0, plan.buckets))
        most = plan.epochs * self.epoch_steps
        self.last = most if plan.steps is None else min(most, plan.steps)
        self.logged = set(logged_steps(self.last, plan.schedule))
        self.seed, self.learning_rate = plan.seed, plan.learning_rate
        self.keep, self.tf32 = plan.keep == "logged", plan.tf32
        with seeded(plan.seed, 0, self.device):
            self.network = EncoderDecoder(self.settings.network).to(self.device)
        self._batcher = Batcher(bitext, self.device)
        self.start()

    def batches(self, epoch: int) -> list[np.ndarray]:
        plan = self.settings.training
        return training_batches(self.bitext, plan.batch, plan.seed, epoch, plan.buckets)

    def backward(self, pairs: np.ndarray) -> Tensor:
        """Of the mean loss of the batch's target tokens."""
        plan = self.settings.training
        uniform = self.step < plan.warmup * self.epoch_steps
        loss = batch_loss(self.network, self._batcher, pairs, word_dropout=plan.word_dropout, uniform=uniform)
        loss.backward()
        return loss.detach()

    def measure(self) -> list[tuple[str, float]]:
        result = evaluate(self.network, self.valid)
        values = [("valid.loss", result.loss), ("valid.accuracy", result.accuracy)]
        if self.settings.training.bleu == "logged" and self.step in self.logged:
            values += self._bleu(self.network)
        return values

    @staticmethod
    def rank(metrics: Mapping[str, float]) -> tuple[float, ...]:
        return (metrics["valid.loss"],)

    def concluded(self) -> tuple[str, ...]:
        return BLEU if self.settings.training.bleu == "end" else ()

    def conclude(self) -> list[tuple[int, str, float]]:
        assert self.best is not None
        if not self.concluded():
            return []
        return [(self.best.step, name, value) for name, value in self._bleu(self.best.network)]

    def _bleu(self, network: EncoderDecoder) -> list[tuple[str, float]]:
        if not self.references:
            return []
        beam = self.settings.training.beam
        beams = zip(BLEU, (1, beam), strict=True)
        return [(n, bleu(network, self.tokenizer, self.valid, self.references, k)) for n, k in beams]

    def message(self, epoch: int) -> str:
        assert self.best is not None
        best = self.best.metrics["valid.loss"]
        return f"epoch {epoch + 1} of {self.settings.training.epochs}, validation loss {best:.3f}"

    def snapshot(self) -> NeuralAligner:
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        network, metrics = build_encoder_decoder(self.settings.network, weights), self.metrics(self.step)
        return NeuralAligner(network, self.tokenizer, self.settings, self.step, metrics, self.fingerprint)

    def rebuild(self, weights: object) -> EncoderDecoder:
        return build_encoder_decoder(self.settings.network, weights)


def batch_loss(
    network: EncoderDecoder,
    batcher: Batcher,
    pairs: np.ndarray,
    *,
    word_dropout: float = 0.0,
    uniform: bool = False,
) -> Tensor:
    """Mean loss over the real target tokens of these pairs, nats; only they reach the output layer.

    Args:
        network: in training mode.
        batcher: of the training text.
        pairs: the batch.
        word_dropout: the share of the decoder's input, BOS apart, that is replaced by unk.
        uniform: attention is 1/L, whatever has been learned.
    """
    batch = batcher(pairs)
    previous = batch.previous
    if word_dropout:
        hidden = torch.rand(previous.shape, device=previous.device) < word_dropout
        previous = previous.masked_fill(hidden & (previous != BOS), UNK)
    x = network(batch.source, batch.source_lengths, previous, uniform).flatten(0, 1)
    if len(batch.places) < len(x):
        x = x[batch.places]
    loss: Tensor = TokenLoss.apply(x, network.output.weight, network.output.bias, batch.targets)
    return loss


def fit_network(
    bitext: Bitext,
    valid: Bitext,
    settings: RunSettings,
    tokenizer: Tokenizer,
    references: Sequence[str] = (),
    progress: Progress | None = None,
    device: str = "auto",
) -> NeuralAligner:
    """Trains a network in memory, with no run directory; arguments as :class:`Training`."""
    return Training(bitext, valid, settings, tokenizer, references, device).run(progress=progress)


def _check_text(bitext: Bitext, valid: Bitext, tokenizer: Tokenizer) -> None:
    for name, text in (("training", bitext), ("validation", valid)):
        if any(side.vocabulary != tokenizer.vocabulary for side in (text.source, text.target)):
            raise AlignkitError(f"the {name} text is not encoded with the tokenizer's vocabulary")
        if not len(usable(text)):
            raise AlignkitError(f"the {name} text has no pair with tokens on both sides")
