"""Training of the classifier, determined by a seed and resumable from any measured step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.batching import DeviceCorpus, training_batches, usable
from alignkit.neural.checkpoints import copied_weights
from alignkit.neural.classifier_settings import ClassifierRunSettings
from alignkit.neural.devices import one_thread, pick_device
from alignkit.neural.networks.classifier import Classifier, build_classifier
from alignkit.neural.networks.hard import samplers, score_function_loss
from alignkit.neural.scoring.classifier import classifier_logits, judge_logits
from alignkit.neural.settings import logged_steps
from alignkit.neural.training.loop import seeded
from alignkit.neural.training.trainer import Task, Trainer, TrainingPlan
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import Tokenizer


class Judged(NamedTuple):
    """The outputs of a classifier for a batch of training texts, from which a loss is computed.

    Attributes:
        texts: int64 (B,), their indices in the training text.
        labels: (B,), 0 or 1.
        logits: (B,), log p(y = 1) - log p(y = 0).
        alpha: (B, L), the attention; 0 at padding.
        mask: (B, L), True where there is a word, or the number of its sentence (:meth:`Classifier.encode`).
    """

    texts: np.ndarray
    labels: Tensor
    logits: Tensor
    alpha: Tensor
    mask: Tensor


Loss = Callable[[Judged], Tensor]  #: the scalar that training minimises


def label_loss(judged: Judged) -> Tensor:
    """Mean cross-entropy with the labels, nats."""
    return binary_cross_entropy_with_logits(judged.logits, judged.labels)


class ClassificationTask(Task[Classifier, ClassifierAligner]):
    """Training of a classifier; the best has the highest validation accuracy and, among equals, the lowest loss.

    Attributes:
        text, valid: training text and held-out text.
        settings: with the size of the vocabulary filled in.
        plan: the steps of the run.
        tokenizer, criterion (the loss), device: as in :func:`classification_trainer`.
    """

    def __init__(
        self,
        text: LabelledText,
        valid: LabelledText,
        settings: ClassifierRunSettings,
        tokenizer: Tokenizer,
        loss: Loss = label_loss,
        device: str = "auto",
    ) -> None:
        """Arguments and errors as in :func:`classification_trainer`."""
        _check(text, valid, tokenizer)
        self.text, self.valid, self.tokenizer, self.criterion = text, valid, tokenizer, loss
        self.settings = settings.change(network={"vocabulary": len(tokenizer.vocabulary)})
        self.device = pick_device(device)
        self._fingerprint = text.bitext.fingerprint()
        self._corpus = DeviceCorpus(text.corpus, self.device)
        training = self.settings.training
        self.plan = TrainingPlan(
            training.seed,
            training.rate,
            training.steps,
            len(self.batches(0)),
            frozenset(logged_steps(training.steps, training.schedule)),
            keep_logged=training.keep == "logged",
            measure_epochs=False,
        )

    def batches(self, epoch: int) -> list[np.ndarray]:
        training = self.settings.training
        return training_batches(self.text.bitext, training.batch, training.seed, epoch, training.buckets)

    def pinned(self, network: Classifier) -> bool:
        return True

    def parameters(self, network: Classifier) -> list[nn.Parameter]:
        if self.settings.training.trained == "all":
            return super().parameters(network)
        assert network.attention is not None
        return list(network.attention.parameters())

    def loss(self, network: Classifier, batch: np.ndarray, step: int) -> Tensor:
        """As :meth:`Task.loss`, the mean over texts."""
        words, lengths = self._corpus.gather(batch)
        y = torch.from_numpy(self.text.labels[batch].astype(np.float32)).to(self.device)
        with torch.set_grad_enabled(self.settings.training.trained == "all"):
            h, mask = network.encode(words, lengths)
        # On a CPU, one thread computes what follows the LSTM: the way libraries divide such small work changes the
        # last bits with the number of threads.
        with one_thread(self.device):
            judged = Judged(batch, y, *self.judge(network, h, mask, batch), mask)
            loss = self.criterion(judged)
            if any(True for _ in samplers(network)):
                losses = binary_cross_entropy_with_logits(judged.logits, y, reduction="none")
                loss = loss + score_function_loss(network, losses, torch.arange(len(y), device=self.device))
        return loss

    def judge(self, network: Classifier, h: Tensor, mask: Tensor, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        """As :meth:`Classifier.judge`, of the training texts of a batch."""
        return network.judge(h, mask)

    def measure(self, network: Classifier, step: int) -> list[tuple[str, float]]:
        loss, accuracy = judge_logits(classifier_logits(network, self.valid), self.valid.labels)
        return [("valid.loss", loss), ("valid.accuracy", accuracy)]

    def rank(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        return -metrics["valid.accuracy"], metrics["valid.loss"]

    def message(self, epoch: int, best: Mapping[str, float]) -> str:
        return f"epoch {epoch + 1}, validation accuracy {best['valid.accuracy']:.3f}"

    def snapshot(self, network: Classifier, step: int, metrics: dict[str, float]) -> ClassifierAligner:
        weights = copied_weights(network)
        labels = (self.text.names[0], self.text.names[1])
        return ClassifierAligner(
            self.rebuild(weights), self.tokenizer, labels, self.settings, step, metrics, self._fingerprint
        )

    def rebuild(self, weights: object) -> Classifier:
        return build_classifier(self.settings.network, weights)


def classification_trainer(
    text: LabelledText,
    valid: LabelledText,
    settings: ClassifierRunSettings,
    tokenizer: Tokenizer,
    *,
    prepare: Callable[[Classifier], None] | None = None,
    loss: Loss = label_loss,
    device: str = "auto",
) -> Trainer[Classifier, ClassifierAligner]:
    """A training run of a classifier, before its first step.

    Args:
        text: training text with two labels, in the tokenizer's vocabulary.
        valid: held-out text, likewise.
        settings: of the network and its training; the size of the vocabulary is the tokenizer's.
        tokenizer: the one that encoded the text.
        prepare: called with the initial classifier, whose weights it may change, for instance to word vectors
            (:meth:`alignkit.neural.vectors.Vectors.fill`) or to those of another classifier.
        loss: the loss to minimise.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: a text has another vocabulary, no words, or not two labels.
    """
    return trainer_of(ClassificationTask(text, valid, settings, tokenizer, loss, device), prepare)


def trainer_of(
    task: ClassificationTask, prepare: Callable[[Classifier], None] | None = None
) -> Trainer[Classifier, ClassifierAligner]:
    """The training run of a task, before its first step; ``prepare`` as in :func:`classification_trainer`."""
    settings = task.settings
    with seeded(settings.training.seed, 0, task.device):
        network = Classifier(task.settings.network).to(task.device)
        network.mark_sentence_ends(task.tokenizer.vocabulary)
    if prepare is not None:
        prepare(network)
    return Trainer(task, task.plan, network)


def _check(text: LabelledText, valid: LabelledText, tokenizer: Tokenizer) -> None:
    for name, part in (("training", text), ("validation", valid)):
        if part.corpus.vocabulary != tokenizer.vocabulary:
            raise AlignkitError(f"the {name} text is not encoded with the tokenizer's vocabulary")
        if len(part.names) != 2:
            raise AlignkitError(f"a classifier has two labels, the {name} text has {len(part.names)}")
        if not len(usable(part.bitext)):
            raise AlignkitError(f"the {name} text has no text with words")
    if text.names != valid.names:
        raise AlignkitError("training and validation text do not have the same labels")
    if len(np.unique(text.labels[usable(text.bitext)])) != 2:
        raise AlignkitError("all training texts have the same label: there is nothing to learn")
