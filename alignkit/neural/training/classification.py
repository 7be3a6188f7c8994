"""Training of the classifier, and its run directory.

config.json         settings, what text, which labels, with which versions it began
train.npz           the encoded training text, a bitext whose target sentences are the labels
valid.npz           the encoded validation text
log.jsonl           what was measured: train.loss, valid.loss (nats per text), valid.accuracy (share of texts)
checkpoints/        step-000500.pt and so on, at the logged steps
best.pt             the classifier with the highest validation accuracy, of those the one with the lowest loss
state.pt            what going on needs
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.batching import DeviceCorpus, training_batches, usable
from alignkit.neural.checkpoints import BEST, TRAINING, load_payload
from alignkit.neural.classifier_settings import ClassifierRunSettings
from alignkit.neural.devices import one_thread, pick_device
from alignkit.neural.loading import load_aligner
from alignkit.neural.networks.classifier import Classifier, build_classifier
from alignkit.neural.scoring.classifier import classifier_logits, judge_logits
from alignkit.neural.settings import from_dict, logged_steps, to_dict
from alignkit.neural.training.run_directory import STATE, RunDirectory, fingerprint
from alignkit.neural.training.trainer import Loop, Progress, seeded
from alignkit.neural.vectors import Vectors, read_vectors
from alignkit.text.bitext import Bitext
from alignkit.text.labelled import LabelledLines, LabelledText
from alignkit.text.tokenization import Tokenizer, learn_words, tokenizer_from_state, train_subwords


class ClassifierLoop(Loop[ClassifierAligner]):
    """A training run of a classifier; see :class:`alignkit.neural.training.trainer.Loop`."""

    network: Classifier
    each_epoch = False

    def __init__(
        self,
        text: LabelledText,
        valid: LabelledText,
        settings: ClassifierRunSettings,
        tokenizer: Tokenizer,
        vectors: Vectors | None = None,
        device: str = "auto",
    ) -> None:
        """Begins a run.

        Args:
            text: training text with two labels, in the tokenizer's vocabulary.
            valid: held-out text, likewise.
            settings: the size of the vocabulary is filled in from the tokenizer.
            tokenizer: what encoded the text.
            vectors: what the embeddings of some words begin with.
            device: as :func:`alignkit.neural.devices.pick_device`.

        Raises:
            AlignkitError: another vocabulary, not two labels, or a text without words.
        """
        _check(text, valid, tokenizer)
        self.text, self.valid, self.tokenizer = text, valid, tokenizer
        self.settings = settings.change(network={"vocabulary": len(tokenizer.vocabulary)})
        self.device = pick_device(device)
        self.fingerprint = text.bitext.fingerprint()
        plan = self.settings.training
        self.seed, self.learning_rate, self.keep = plan.seed, plan.learning_rate, plan.keep == "logged"
        self.last, self.logged = plan.steps, set(logged_steps(plan.steps, plan.schedule))
        self.epoch_steps = len(self.batches(0))
        with seeded(plan.seed, 0, self.device):
            self.network = Classifier(self.settings.network).to(self.device)
        if vectors is not None:
            with torch.no_grad():
                self.network.embedding.weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.values)
        self._corpus = DeviceCorpus(text.corpus, self.device)
        self.start()

    def batches(self, epoch: int) -> list[np.ndarray]:
        plan = self.settings.training
        return training_batches(self.text.bitext, plan.batch, plan.seed, epoch, plan.buckets)

    def trained(self) -> list[nn.Parameter]:
        if self.settings.training.trained == "all":
            return super().trained()
        assert self.network.attention is not None
        return list(self.network.attention.parameters())

    def backward(self, pairs: np.ndarray) -> Tensor:
        """Of :meth:`loss`."""
        words, lengths = self._corpus.gather(pairs)
        everything = self.settings.training.trained == "all"
        with torch.set_grad_enabled(everything):
            h, mask = self.network.encode(words, lengths)
        # What follows the LSTM has one thread on a CPU: libraries share such small work in ways that give other
        # last bits with another number of threads.
        seen = h.detach().requires_grad_(everything)
        with one_thread(self.device):
            loss = self.loss(pairs, seen, mask)
            loss.backward()
        if everything:
            h.backward(seen.grad)
        return loss.detach()

    def loss(self, texts: np.ndarray, h: Tensor, mask: Tensor) -> Tensor:
        """The mean cross-entropy of a batch with its labels, nats; a subclass may minimise something else.

        Args:
            texts: int64 (B,), places in the training text.
            h: (B, L, D), the states of :meth:`Classifier.encode`.
            mask: (B, L), True where there is a word.
        """
        y = torch.from_numpy(self.text.labels[texts].astype(np.float32)).to(self.device)
        return binary_cross_entropy_with_logits(self.network.logits(h, mask), y)

    def measure(self) -> list[tuple[str, float]]:
        loss, accuracy = judge_logits(classifier_logits(self.network, self.valid), self.valid.labels)
        return [("valid.loss", loss), ("valid.accuracy", accuracy)]

    @staticmethod
    def rank(metrics: Mapping[str, float]) -> tuple[float, ...]:
        return -metrics["valid.accuracy"], metrics["valid.loss"]

    def message(self, epoch: int) -> str:
        assert self.best is not None
        return f"epoch {epoch + 1}, validation accuracy {self.best.metrics['valid.accuracy']:.3f}"

    def snapshot(self) -> ClassifierAligner:
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        network = build_classifier(self.settings.network, weights)
        names = (self.text.names[0], self.text.names[1])
        metrics = self.metrics(self.step)
        return ClassifierAligner(
            network, self.tokenizer, names, self.settings, self.step, metrics, self.fingerprint
        )

    def rebuild(self, weights: object) -> Classifier:
        return build_classifier(self.settings.network, weights)


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


@dataclass(frozen=True)
class ClassifierRun(RunDirectory):
    """The run directory of a classifier."""

    KIND: ClassVar[str] = "alignkit.classifier-run"

    @property
    def settings(self) -> ClassifierRunSettings:
        return from_dict(ClassifierRunSettings, self.config.get("settings"))

    @property
    def train(self) -> LabelledText:
        """The encoded training text."""
        return LabelledText.from_bitext(Bitext.load(self.path / "train.npz"))

    @property
    def valid(self) -> LabelledText:
        """The encoded validation text."""
        return LabelledText.from_bitext(Bitext.load(self.path / "valid.npz"))

    def load(self, step: int | None = None, device: str = "auto") -> ClassifierAligner:
        """The classifier of a logged step, or the best.

        Raises:
            InputError: there is no such checkpoint, or it is damaged.
        """
        place = self.path / BEST if step is None else self.checkpoints.get(step, self.path / f"step {step}")
        found = load_aligner(place, device)
        if not isinstance(found, ClassifierAligner):
            raise InputError(place, "not the checkpoint of a classifier")
        return found


def train_classifier(
    run_dir: str | os.PathLike[str],
    text: LabelledLines,
    valid: LabelledLines,
    labels: tuple[str, str],
    settings: ClassifierRunSettings,
    *,
    vectors: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> ClassifierAligner:
    """Trains a classifier into a run directory, or goes on where an interrupted run of the same stopped.

    On one machine and with the same versions, an interrupted run ends in the same bits as one that was never
    stopped. A finished run is not trained again.

    Args:
        run_dir: made if it does not exist.
        text: training text.
        valid: held-out text.
        labels: y = 0 and y = 1.
        settings: of text, network and training.
        vectors: a file of word vectors that the embeddings begin with, as
            :func:`alignkit.neural.vectors.read_vectors` takes it.
        progress: called after every step with (steps done, steps in all, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        the classifier with the highest validation accuracy.

    Raises:
        AlignkitError: the directory holds something else, or a run with other settings or text; a label is not
            among ``labels``; the vectors are of another size than the embeddings.
    """
    run = ClassifierRun(Path(run_dir))
    tokenizer = _learn(text, settings)
    start = (
        read_vectors(vectors, tokenizer.vocabulary, settings.network.embedding) if vectors is not None else None
    )
    decides = {
        "settings": to_dict(settings),
        "text": {"training": describe(text), "validation": describe(valid)},
        "labels": list(labels),
        "vectors": start.describe() if start is not None else None,
    }
    # What is wrong with the text is said before anything is written.
    if not run.begun:
        encoded, held = text.encode(tokenizer, labels), valid.encode(tokenizer, labels)
        training = ClassifierLoop(encoded, held, settings, tokenizer, start, device)
        run.open(decides)
        encoded.bitext.save(run.path / "train.npz")
        held.bitext.save(run.path / "valid.npz")
    else:
        run.open(decides)
        training = _resume(run, settings, device)
    state = {"tokenizer": training.tokenizer.state()}
    best = training.run(lambda now, improved: run.commit(now, improved, state), progress)
    best.network.to(training.device)
    return best


def describe(text: LabelledLines) -> dict[str, object]:
    """Number of texts and SHA-256 of texts and labels, to tell one labelled text from another."""
    return {"texts": len(text), "sha256": fingerprint(text.texts, text.labels)}


def _learn(text: LabelledLines, settings: ClassifierRunSettings) -> Tokenizer:
    if settings.text.tokens == "words":
        return learn_words(text.texts, settings.text.minimum)
    return train_subwords(text.texts, settings.text.pieces)


def _resume(run: ClassifierRun, settings: ClassifierRunSettings, device: str) -> ClassifierLoop:
    state = load_payload(run.path / STATE, TRAINING)
    best = run.load(device="cpu")
    try:
        tokenizer = tokenizer_from_state(state["tokenizer"])
        training = ClassifierLoop(run.train, run.valid, settings, tokenizer, None, device)
        training.restore(state, best)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(run.path / STATE, f"damaged: {error}") from error
    return training
