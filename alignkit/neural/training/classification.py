"""Training of the classifier, determined by a seed and resumable from any measured step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence

from alignkit.embeddings.word_vectors import read_word_vectors
from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.devices import DeviceCorpus, one_thread, usable
from alignkit.neural.networks.attention import samplers, score_function_loss
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, judge_logits
from alignkit.neural.settings import ClassifierRunSettings
from alignkit.neural.training.run_directory import ClassifierRun, fingerprint
from alignkit.neural.training.trainer import Task, learn_tokenizer
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines, LabelledText
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress


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


@dataclass(eq=False, repr=False)
class ClassificationTask(Task[Classifier, ClassifierAligner]):
    """Training of a classifier; the best has the highest validation accuracy and, among equals, the lowest loss.

    Attributes:
        text, valid: with two labels, in the tokenizer's vocabulary.
        prepare: called with the initial classifier, whose weights it may change, for instance to word vectors
            (:func:`read_vectors`) or to those of another classifier.
        criterion: the loss to minimise.

    Raises:
        AlignkitError: a text is not in the tokenizer's vocabulary, or has no words, or not two labels.
    """

    text: LabelledText
    valid: LabelledText
    prepare: Callable[[Classifier], None] | None = None
    criterion: Loss = label_loss

    def __post_init__(self) -> None:
        text, valid = self.text, self.valid
        for name, part in (("training", text), ("validation", valid)):
            if part.corpus.vocabulary != self.tokenizer.vocabulary:
                raise AlignkitError(f"the {name} text is not encoded with the tokenizer's vocabulary")
            if len(part.names) != 2:
                raise AlignkitError(f"a classifier has two labels, the {name} text has {len(part.names)}")
            if not len(usable(part.bitext)):
                raise AlignkitError(f"the {name} text has no text with words")
        if text.names != valid.names:
            raise AlignkitError("training and validation text do not have the same labels")
        if len(np.unique(text.labels[usable(text.bitext)])) != 2:
            raise AlignkitError("all training texts have the same label: there is nothing to learn")
        super().__post_init__()
        self._corpus = DeviceCorpus(text.corpus, self.device)

    def new_network(self) -> Classifier:
        network = Classifier(self.settings.network)
        if self.prepare is not None:
            self.prepare(network)
        return network

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

    def aligner(self, network: Classifier, step: int, metrics: dict[str, float]) -> ClassifierAligner:
        known = self.settings, step, metrics, self.text.bitext.fingerprint()
        return ClassifierAligner(network, self.tokenizer, *known, (self.text.names[0], self.text.names[1]))


SMALLEST = 1e-12  #: smaller attention counts as this in logarithms


def divergence(p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
    """KL(p || q) in nats of each row, (B,), over the places of the mask (B, L)."""
    p, q = p.clamp(min=SMALLEST), q.clamp(min=SMALLEST)
    return ((p * (p.log() - q.log())) * mask).sum(1)


def adversarial_loss(logits: np.ndarray, alpha: Scores, weight: float) -> Loss:
    """The loss of a network that gives a teacher's outputs with attention far from the teacher's.

    TVD(p_P, p_Q) - lambda KL(alpha_P || alpha_Q), mean over a batch; TVD is the total variation distance,
    |p_P - p_Q| for two classes (Wiegreffe and Pinter 2019, section 5).

    Args:
        logits: float64 (M,), the teacher's outputs on the training text.
        alpha: the teacher's attention there.
        weight: lambda.
    """

    def loss(judged: Judged) -> Tensor:
        device = judged.logits.device
        p = torch.from_numpy(expit(logits[judged.texts])).float().to(device)
        rows = [torch.from_numpy(alpha[m][0]) for m in judged.texts]
        kl = divergence(pad_sequence(rows, batch_first=True).to(device), judged.alpha, judged.mask)
        return ((torch.sigmoid(judged.logits) - p).abs() - weight * kl).mean()

    return loss


def inattention_loss(avoided: Sequence[np.ndarray], weight: float) -> Loss:
    """The loss of a network that must not attend to some words, and still find the labels.

    Cross-entropy minus lambda log(1 - m), means over a batch, m being the attention on the words to avoid
    (Pruthi et al. 2020, section 3).

    Args:
        avoided: per training text bool (L,), True at the words to avoid.
        weight: lambda.
    """

    def loss(judged: Judged) -> Tensor:
        marks = [torch.from_numpy(avoided[m]) for m in judged.texts]
        marked = pad_sequence(marks, batch_first=True).to(judged.alpha.device)
        rest = (judged.alpha * ~marked).sum(1)
        return label_loss(judged) - weight * rest.clamp(min=SMALLEST).log().mean()

    return loss


def copy_but_attention(network: Classifier) -> Callable[[Classifier], None]:
    """Copies the weights of a network to another one, apart from those of its attention."""
    kept = {name: w for name, w in network.state_dict().items() if not name.startswith("attention.")}

    def prepare(other: Classifier) -> None:
        other.load_state_dict(kept, strict=False)

    return prepare


def read_vectors(path: PathLike, vocabulary: Vocabulary, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of a vocabulary's words, to be the initial embeddings of a network.

    Args:
        path: plain or compressed.
        vocabulary: the words to read vectors of.
        size: E.

    Returns:
        int64 (K,), ascending, the words that have a vector; float32 (K, E), their vectors.

    Raises:
        InputError: as :func:`alignkit.embeddings.word_vectors.read_word_vectors`, or the vectors are not of this
            size.
    """
    places = {token.encode("utf-8", "surrogatepass"): i for i, token in enumerate(vocabulary.tokens)}
    vectors = {places[word]: vector for word, vector in read_word_vectors(path, places).items()}
    ids = np.array(sorted(vectors), np.int64)
    values = np.stack([vectors[i] for i in ids.tolist()])
    if values.shape[1] != size:
        remedy = f"set the size of embeddings (--set network.embedding={values.shape[1]})"
        raise InputError(path, f"has {values.shape[1]} numbers a word where {size} are needed", remedy=remedy)
    return ids, values


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
            :func:`read_vectors`.
        progress: called after every step with (steps done, steps in all, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        the classifier with the highest validation accuracy.

    Raises:
        AlignkitError: the directory contains something else, or a run with other settings or text; a label is not
            among ``labels``; the vectors and the embeddings differ in size.
    """
    tokenizer = learn_tokenizer(text.texts, settings.text)
    size = settings.network.embedding
    prepare, described = None, None
    if vectors is not None:
        ids, values = read_vectors(vectors, tokenizer.vocabulary, size)
        digest = hashlib.sha256(ids.tobytes() + values.astype("<f4").tobytes())
        described = {"words": len(ids), "sha256": digest.hexdigest()}

        def prepare(network: Classifier) -> None:
            with torch.no_grad():
                network.embedding.weight[torch.from_numpy(ids)] = torch.from_numpy(values)

    parts = {"training": text, "validation": valid}
    config = {
        "settings": asdict(settings),
        "text": {n: {"texts": len(p), "sha256": fingerprint(p.texts, p.labels)} for n, p in parts.items()},
        "labels": list(labels),
        "vectors": described,
    }

    run = ClassifierRun(run_dir)
    state = run.open(config, device)
    if state is not None:
        training, held, tokenizer = run.encoded_texts(state)
    else:
        training, held = (part.encode(tokenizer, labels, ends=settings.ends) for part in (text, valid))
    task = ClassificationTask(training, held, settings, tokenizer, prepare=prepare, device=device)
    return run.complete(task, state, device, progress)
