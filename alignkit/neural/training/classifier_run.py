"""The run directory of a classifier: a training run on disk that survives being killed at any moment.

config.json         settings, description of the text, labels, and versions of the program's parts
train.npz           the encoded training text, a bitext whose target sentences are the labels
valid.npz           the encoded validation text
log.jsonl           measurements: train.loss, valid.loss (nats per text), valid.accuracy (share of texts)
checkpoints/        step-000500.pt and so on, at the logged steps
best.pt             the classifier with the highest validation accuracy and, among equals, the lowest loss
state.pt            the state from which training is resumed
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.classifier_settings import ClassifierRunSettings
from alignkit.neural.devices import pick_device
from alignkit.neural.settings import from_dict, to_dict
from alignkit.neural.training.classification import classification_trainer
from alignkit.neural.training.run_directory import RunDirectory, fingerprint
from alignkit.neural.vectors import read_vectors
from alignkit.text.labelled import LabelledLines, LabelledText
from alignkit.text.tokenization import Tokenizer, learn_words, train_subwords
from alignkit.types import PathLike, Progress


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
        return LabelledText.from_bitext(self.encoded("training"))

    @property
    def valid(self) -> LabelledText:
        """The encoded validation text."""
        return LabelledText.from_bitext(self.encoded("validation"))

    def load(self, step: int | None = None, device: str = "auto") -> ClassifierAligner:
        """The classifier of a logged step, or the best; errors as :meth:`RunDirectory.load`."""
        found = super().load(step, device)
        assert isinstance(found, ClassifierAligner)  # of these settings
        return found


def train_classifier(
    run_dir: PathLike,
    text: LabelledLines,
    valid: LabelledLines,
    labels: tuple[str, str],
    settings: ClassifierRunSettings,
    *,
    vectors: PathLike | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> ClassifierAligner:
    """Train a classifier in a run directory, or resume an interrupted run.

    On one machine and with the same versions, an interrupted run ends with the same bits as an uninterrupted one.
    A finished run is not trained again.

    Args:
        run_dir: created if it does not exist.
        text: training text.
        valid: held-out text.
        labels: the names of y = 0 and y = 1.
        settings: of text, network and training.
        vectors: a file of word vectors, the initial embeddings of their words; see
            :func:`alignkit.neural.vectors.read_vectors`.
        progress: called after every step with (steps done, steps in all, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        the classifier with the highest validation accuracy.

    Raises:
        AlignkitError: the directory contains something else, or a run with other settings or text; a label is not
            among ``labels``; the vectors and the embeddings differ in size.
    """
    pick_device(device)  # a missing device is reported before anything is written
    run = ClassifierRun(Path(run_dir))
    tokenizer = _learn(text, settings)
    size = settings.network.embedding
    start = None if vectors is None else read_vectors(vectors, tokenizer.vocabulary, size)
    config = {
        "settings": to_dict(settings),
        "text": {"training": _describe(text), "validation": _describe(valid)},
        "labels": list(labels),
        "vectors": None if start is None else start.describe(),
    }
    if run.begun:
        run.open(config)
        texts = run.train, run.valid
        training, tokenizer = run.resume(
            lambda own: classification_trainer(*texts, settings, own, device=device), run.load(device="cpu")
        )
    else:  # errors in the text are raised before anything is written
        texts = _encode(text, valid, tokenizer, labels, settings.ends)
        prepare = None if start is None else lambda network: start.fill(network.embedding)
        training = classification_trainer(*texts, settings, tokenizer, prepare=prepare, device=device)
        run.open(config)
        run.save_texts(*(part.bitext for part in texts))
    state = {"tokenizer": tokenizer.state()}
    best = training.run(lambda now, improved: run.commit(now, improved, state), progress)
    return best.to(device)


def _encode(
    text: LabelledLines, valid: LabelledLines, tokenizer: Tokenizer, labels: tuple[str, str], ends: bool
) -> tuple[LabelledText, LabelledText]:
    return text.encode(tokenizer, labels, ends=ends), valid.encode(tokenizer, labels, ends=ends)


def _describe(text: LabelledLines) -> dict[str, object]:
    """The number of texts and the SHA-256 of texts and labels, which identify the text."""
    return {"texts": len(text), "sha256": fingerprint(text.texts, text.labels)}


def _learn(text: LabelledLines, settings: ClassifierRunSettings) -> Tokenizer:
    if settings.text.tokens == "words":
        return learn_words(text.texts, settings.text.minimum)
    return train_subwords(text.texts, settings.text.pieces)
