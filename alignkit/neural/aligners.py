"""Trained networks, classifiers and proxies as aligners, and their checkpoint files.

A file is a plain dict ``{"header": {"kind", "version"}, ...}`` written by ``torch.save`` and read with
``weights_only=True``, which builds tensors and plain values and refuses everything else: nothing is executed.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.aligner import Aligner
from alignkit.errors import AlignkitError, InputError, first_line, reading
from alignkit.neural.devices import batch_sizes, pick_device, to_device
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.encoder_decoder import TranslationNetwork
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.scoring.evaluation import translation_log_probabilities
from alignkit.neural.scoring.translation import finite_scores, network_scores
from alignkit.neural.settings import (
    ClassifierRunSettings,
    ProxySettings,
    Reading,
    RunSettings,
    best_checkpoint,
    from_dict,
    new_network,
)
from alignkit.scores import Scores, flat_offsets, tokens_of_elements
from alignkit.support.files import Record, atomic_write, check_kind, check_regular
from alignkit.text.bitext import Bitext, Corpus, check_bitext, lines_of
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import (
    EOS,
    SPECIALS,
    UNK,
    Tokenizer,
    check_shared,
    encode_bitext,
    reencode,
    tokenizer_from_state,
)
from alignkit.text.vocabulary import UNKNOWN, Vocabulary
from alignkit.types import PathLike

A = TypeVar("A", bound="TrainedAligner")

NETWORK, PROXY, TRAINING = "alignkit.network", "alignkit.proxy", "alignkit.training"
CLASSIFIER = "alignkit.classifier"
VERSION = 2
LARGEST_WEIGHT = 1e6  #: in absolute value: sums and products of such numbers are finite in float32


def save_payload(path: PathLike, kind: str, payload: Mapping[str, Any]) -> None:
    """Write a checkpoint of that kind, atomically; the same content gives the same bytes.

    Raises:
        AlignkitError: the name does not end in .pt, by which checkpoints are recognised, or writing fails.
    """
    if not os.fspath(path).endswith(".pt"):
        raise AlignkitError(f"cannot write {path}: the name of a checkpoint must end in .pt")
    # Into memory first: torch writes the name of the file that it is given into the file.
    buffer = io.BytesIO()
    torch.save(_plain({"header": {"kind": kind, "version": VERSION}, **payload}), buffer)
    with atomic_write(path) as stream:
        stream.write(buffer.getbuffer())


def _plain(value: Any) -> Any:
    """The same content in new containers: pickle's bytes depend on which equal strings are one object."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(part) for part in value])
    return value


def load_payload(path: PathLike, *kinds: str) -> dict[str, Any]:
    """Read a checkpoint of one of the kinds; nothing in the file is executed.

    Raises:
        InputError: the file is missing, damaged, contains code, or is of another kind or version.
    """
    check_regular(path)
    try:
        with reading(path), zipfile.ZipFile(path) as archive:  # torch does not test its checksums
            if archive.testzip() is not None:
                raise InputError(path, "damaged: a checksum does not match")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about files of other kinds: the error says what matters
            payload = torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # torch raises a dozen kinds of error for a bad file
        problem = "not a checkpoint, damaged, or with something other than numbers in it; nothing in it was run"
        raise InputError(path, problem, remedy="give a checkpoint (.pt) or a run directory") from error
    header = payload.get("header") if isinstance(payload, dict) else None
    if not isinstance(header, dict):
        raise InputError(path, "not a checkpoint that alignkit wrote")
    check_kind(path, header, kinds, VERSION)
    return payload


_CAUSED = AlignkitError, LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError


@contextmanager
def readable(path: PathLike) -> Iterator[None]:
    """Within the block the content of a file is made into objects: what fails there is the file's fault.

    Raises:
        InputError: instead of any error that wrong content can cause.
    """
    try:
        yield
    except (InputError, torch.OutOfMemoryError):
        raise
    except _CAUSED as error:
        raise InputError(path, f"damaged: {first_line(error)}") from error


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The parameters of a network by name, in the host's memory."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}


def checked_weights(weights: object, largest: float = LARGEST_WEIGHT) -> dict[str, Tensor]:
    """The weights, float32 tensors by name, at most ``largest`` in absolute value; otherwise raises ValueError."""
    if not isinstance(weights, dict):
        raise ValueError("no weights")
    for name, tensor in weights.items():
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.float32 or tensor.layout != torch.strided:
            raise ValueError(f"weight {name} is not a float32 tensor")
        if not bool((tensor.abs() <= largest).all()):  # not true of NaN either
            raise ValueError(f"weight {name} is not finite, or too large for any trained network")
    return weights


@dataclass(frozen=True, eq=False)
class TrainedAligner(Aligner):
    """A trained network as an aligner; a result of training.

    Attributes:
        network: in evaluation mode, on the device that computes.
        tokenizer: the one that encoded the training text.
        settings: of text, network and training.
        step: the number of training steps taken.
        metrics: the values measured at that step, such as ``valid.loss``.
        fingerprint: of the training text (:meth:`Bitext.fingerprint`).
        labels: the names of y = 0 and y = 1, of a classifier.
    """

    network: Any = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    settings: Any
    step: int
    metrics: dict[str, float]
    fingerprint: str
    labels: tuple[str, ...] = ()
    ending = ".pt"
    KIND: ClassVar[str]  #: of its checkpoints
    SETTINGS: ClassVar[type[Any]]

    def to(self: A, device: str) -> A:
        """This aligner with its network moved to the device (``auto``: a GPU where there is one)."""
        self.network.to(pick_device(device))
        return self

    def save(self, path: PathLike) -> None:
        """Write a checkpoint; raises AlignkitError if the name does not end in .pt."""
        payload = {
            "settings": asdict(self.settings),
            "step": self.step,
            "tokenizer": self.tokenizer.state(),
            **({"labels": list(self.labels)} if self.labels else {}),
            "metrics": dict(self.metrics),
            "fingerprint": self.fingerprint,
            "weights": weights_of(self.network),
        }
        save_payload(path, self.KIND, payload)

    @classmethod
    def read(cls: type[A], content: Record, device: torch.device) -> A:
        """The aligner of a checkpoint's content; what fails there is the file's fault."""
        settings = from_dict(cls.SETTINGS, content.value("settings"))
        with torch.device("meta"):  # no memory yet: the settings of a damaged file may ask for any amount
            network = new_network(settings.network)
        network.load_state_dict(checked_weights(content.value("weights")), assign=True)
        # Tensors that were read must be trainable parameters again, in one block for oneDNN and cuDNN.
        for parameter in network.parameters():
            parameter.requires_grad_(True)
        tokenizer = tokenizer_from_state(content.value("tokenizer"))
        if len(tokenizer.vocabulary) != settings.network.vocabulary:
            raise ValueError("the vocabularies of tokenizer and network differ in size")
        measured = content.part("metrics")
        metrics = {name: measured.number(name) for name in measured}
        step, text = content.whole("step"), content.text("fingerprint")
        labels = content.texts("labels", 2) if cls.KIND == CLASSIFIER else ()
        return cls(network.eval().to(device), tokenizer, settings, step, metrics, text, labels)


@dataclass(frozen=True, eq=False)
class NeuralAligner(TrainedAligner):
    """A trained translation network as an aligner."""

    network: TranslationNetwork = field(repr=False)
    settings: RunSettings
    KIND: ClassVar[str] = NETWORK
    SETTINGS: ClassVar[type[Any]] = RunSettings
    predicts = ("target",)
    descriptions: ClassVar = {
        "alpha": (
            "Attention",
            "How strongly the network looks at each source word while it writes a target word.",
        ),
        "beta": (
            "Network's word knowledge",
            "How probable the network finds the target word if it sees one source word alone.",
        ),
    }

    def __repr__(self) -> str:
        return f"NeuralAligner({self.name}, step {self.step}, {len(self.tokenizer.vocabulary)} tokens)"

    @property
    def name(self) -> str:
        """The architecture, such as ``lstm``; ``uniform`` for a network with uniform attention."""
        settings = self.network.settings
        return "uniform" if settings.attention == "uniform" else settings.architecture

    @property
    def title(self) -> str:
        return {"lstm": "network", "uniform": "network without attention"}.get(self.name, self.name)

    def label(self, kind: str) -> tuple[str, str]:
        """The title and the explanation of its scores of a kind on a page."""
        if self.name == "uniform" and kind == "beta":
            note = "The same, of a network that was trained with attention spread evenly over the sentence."
            return "Word knowledge without attention", note
        return super().label(kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("alpha", "beta", "delta", "loo", *(["ov"] if self.network.has_ov_circuits else []))

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """The (T, L) matrix of every pair, between the words of a bitext of words (alpha and beta, see
        :class:`alignkit.aligner.WordLevel`), or between the tokens of one that :func:`encode_bitext` made.

        Raises:
            AlignkitError: there is no such kind, or the tokens come from a different tokenizer.
        """
        self.check_kind(kind)
        if not self._is_encoded(bitext):
            self._own(bitext)  # raises if it knows no word
            return self.on_words().score(bitext, kind)
        return network_scores(self.network, self._own(bitext), kind, self.settings.network.reading)

    def with_reading(self, reading: Reading) -> NeuralAligner:
        """This aligner with other weights as its alpha; raises AlignkitError if it does not have them."""
        return replace(self, settings=self.settings.change(network={"reading": reading}))

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair under teacher forcing, EOS included."""
        return translation_log_probabilities(self.network, self._own(bitext))

    def _is_encoded(self, bitext: Bitext) -> bool:
        """Whether a bitext is of subwords, with EOS, and not of words."""
        words = bitext.target.vocabulary
        return words == self.tokenizer.vocabulary or SPECIALS[EOS] in words

    def _own(self, bitext: Bitext) -> Bitext:
        """The bitext in the network's vocabulary."""
        check_bitext(bitext)
        if not self._is_encoded(bitext):
            for side in (bitext.source, bitext.target):
                words = side.vocabulary
                check_shared(sum(UNK not in self.tokenizer.encode(word) for word in words), len(words))
            return encode_bitext(self.tokenizer, *lines_of(bitext))
        vocabulary = self.tokenizer.vocabulary
        return Bitext(reencode(bitext.source, vocabulary), reencode(bitext.target, vocabulary))


@dataclass(frozen=True, eq=False)
class ClassifierAligner(TrainedAligner):
    """A trained classifier as an aligner of texts with their labels."""

    network: Classifier = field(repr=False)
    settings: ClassifierRunSettings
    KIND: ClassVar[str] = CLASSIFIER
    SETTINGS: ClassVar[type[Any]] = ClassifierRunSettings
    kinds = ("alpha", "beta", "delta", "loo")
    descriptions: ClassVar = {
        "alpha": ("Attention", "How strongly the classifier looks at each word."),
        "beta": (
            "Word knowledge",
            "How strongly this word's state alone speaks for the right label, in log-odds.",
        ),
        "delta": (
            "Gradient",
            "How fast the log-probability of the right label rises as the word's embedding grows.",
        ),
        "loo": ("Leave-one-out", "How far the log-probability of the right label falls without the word."),
    }

    def __repr__(self) -> str:
        return f"ClassifierAligner({self.name} of {' and '.join(self.labels)}, step {self.step})"

    @property
    def name(self) -> str:
        """``classifier``, or ``uniform`` for one with uniform attention."""
        return "uniform" if self.network.settings.attention == "uniform" else "classifier"

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """The (1, L) matrix of every text with its label; words that the network does not know count as unk.

        Raises:
            AlignkitError: there is no such kind; a target sentence is not one of the two labels; or the words come
                from a different tokenizer.
        """
        self.check_kind(kind)
        return classifier_scores(self.network, self._own(bitext), kind)

    def logits(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,), as :func:`classifier_logits`; errors as :meth:`score`."""
        return classifier_logits(self.network, self._own(bitext))

    def _own(self, bitext: Bitext) -> LabelledText:
        text = LabelledText.from_bitext(bitext)
        table = {name: i for i, name in enumerate(self.labels)}
        own = np.array([table.get(name, -1) for name in text.names], np.int32)[text.labels]
        if (own < 0).any():
            strange = text.names[text.labels[int(np.argmax(own < 0))]]
            raise AlignkitError(f"label {strange!r} is not one of the classifier's: {', '.join(self.labels)}")
        corpus: Corpus = reencode(text.corpus, self.tokenizer.vocabulary)
        return LabelledText(corpus, own, self.labels)


@dataclass(frozen=True, eq=False)
class ProxyAligner(Aligner):
    """A trained proxy as an aligner: beta[t, l] = softmax(W e(x_l))[y_t] depends on the two words alone.

    Attributes:
        embedding: float32 (V_src, K), e.
        output: float32 (V_tgt, K), W.
        source: vocabulary of the source.
        target: vocabulary of the target.
        settings: of its training.
        loss: its validation loss, nats per token.
        fingerprint: of the training text (:meth:`Bitext.fingerprint`).
    """

    embedding: Tensor = field(repr=False)
    output: Tensor = field(repr=False)
    source: Vocabulary
    target: Vocabulary
    settings: ProxySettings
    loss: float
    fingerprint: str
    name = "proxy"
    title = "bag-of-words model"
    descriptions: ClassVar = {
        "beta": (
            "Bag-of-words model",
            "How strongly each source word votes for the target word in a model that ignores word order.",
        )
    }
    kinds = ("beta",)
    ending = ".pt"

    def __repr__(self) -> str:
        words = f"{len(self.source)} source and {len(self.target)} target tokens"
        return f"ProxyAligner({words}, validation loss {self.loss:.4g})"

    def score(self, bitext: Bitext, kind: str = "beta") -> Scores:
        """The (T, L) matrix of every pair; 0 where one of the words is unknown to the proxy.

        Raises:
            AlignkitError: there is no such kind; or these are words, and the proxy knows a network's tokens.
        """
        self.check_kind(kind)
        if SPECIALS[EOS] in self.target and SPECIALS[EOS] not in bitext.target.vocabulary:
            raise AlignkitError(
                "the proxy knows the tokens of its run's network, not words: give it the text that "
                "alignkit.text.tokenization.encode_bitext(network.tokenizer, source_lines, target_lines) makes"
            )
        shapes = bitext.shapes
        offsets = flat_offsets(shapes)
        values = np.zeros(offsets[-1], np.float32)
        x, y = tokens_of_elements(bitext, np.arange(len(values)))
        x = self.source.translate(bitext.source.vocabulary)[x]
        y = self.target.translate(bitext.target.vocabulary)[y]
        known = np.flatnonzero((x != UNKNOWN) & (y != UNKNOWN))
        # softmax(W e(x))[y], the softmax once per distinct x.
        known = known[np.argsort(x[known], kind="stable")]
        words, starts = np.unique(x[known], return_index=True)
        bounds, device, size = np.append(starts, len(known)), self.output.device, len(self.output)
        step = max(1, batch_sizes("proxy", device).logits // (4 * size))
        with torch.inference_mode():
            for low in range(0, len(words), step):
                high = min(low + step, len(words))
                some = to_device(words[low:high].astype(np.int64), device)
                table = torch.softmax(self.embedding[some] @ self.output.t(), 1)
                places = known[bounds[low] : bounds[high]]
                row = np.repeat(np.arange(high - low), np.diff(bounds[low : high + 1]))
                at = to_device(row * size + y[places], device)
                values[places] = table.view(-1)[at].cpu().numpy()
        return finite_scores(values, offsets, shapes)

    def save(self, path: PathLike) -> None:
        """Write a checkpoint; raises AlignkitError if the name does not end in .pt."""
        weights = {"embedding": self.embedding, "output": self.output}
        payload = {
            "settings": asdict(self.settings),
            "source": list(self.source.tokens),
            "target": list(self.target.tokens),
            "loss": self.loss,
            "fingerprint": self.fingerprint,
            "weights": {name: tensor.cpu().contiguous() for name, tensor in weights.items()},
        }
        save_payload(path, PROXY, payload)

    @classmethod
    def read(cls, content: Record, device: torch.device) -> ProxyAligner:
        """The proxy of a checkpoint's content; what fails there is the file's fault."""
        weights = checked_weights(content.value("weights"))
        source, target = (Vocabulary.from_tokens(content.texts(side)) for side in ("source", "target"))
        settings = from_dict(ProxySettings, content.value("settings"))
        shapes = {"embedding": (len(source), settings.embedding), "output": (len(target), settings.embedding)}
        if {name: tuple(weight.shape) for name, weight in weights.items()} != shapes:
            raise ValueError("the weights do not fit the vocabularies")
        embedding, output = (weights[name].to(device) for name in shapes)
        loss, mark = content.number("loss"), content.text("fingerprint")
        return cls(embedding, output, source, target, settings, loss, mark)


def load_checkpoint(path: PathLike, device: str = "auto") -> Aligner:
    """Read a checkpoint (.pt), or the best network so far of a run directory.

    Returns:
        a :class:`NeuralAligner`, :class:`ClassifierAligner` or :class:`ProxyAligner`, whichever the file holds.

    Raises:
        InputError: the file is missing, damaged, contains code, or is of another kind or version.
        AlignkitError: there is no such device.
    """
    place = Path(path)
    if place.is_dir():
        place = best_checkpoint(place)
    payload, where = load_payload(place, NETWORK, PROXY, CLASSIFIER), pick_device(device)
    kinds: dict[str, Any] = {NETWORK: NeuralAligner, PROXY: ProxyAligner, CLASSIFIER: ClassifierAligner}
    aligner: Aligner
    with readable(place):
        aligner = kinds[payload["header"]["kind"]].read(Record(place, payload), where)
    return aligner
