"""Trained networks and classifiers as aligners, and the loader of their checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from alignkit.aligner import Aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.neural.checkpoints import (
    BEST,
    CLASSIFIER,
    NETWORK,
    PROXY,
    load_payload,
    network_with_weights,
    readable,
    save_payload,
    weights_of,
)
from alignkit.neural.devices import pick_device
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.encoder_decoder import TranslationNetwork
from alignkit.neural.proxy import proxy_of_record
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.scoring.evaluation import translation_log_probabilities
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import ClassifierRunSettings, Reading, RunSettings, from_dict
from alignkit.scores import Scores
from alignkit.support.files import Record
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import Tokenizer, reencode, tokenizer_from_state
from alignkit.types import PathLike

A = TypeVar("A", bound="TrainedAligner")


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
        network = network_with_weights(settings.network, content.value("weights"))
        tokenizer = tokenizer_from_state(content.value("tokenizer"))
        if len(tokenizer.vocabulary) != settings.network.vocabulary:
            raise ValueError("the vocabularies of tokenizer and network differ in size")
        measured = content.part("metrics")
        metrics = {name: measured.number(name) for name in measured}
        step, text = content.whole("step"), content.text("fingerprint")
        labels = content.texts("labels", 2) if cls.KIND == CLASSIFIER else ()
        return cls(network.to(device), tokenizer, settings, step, metrics, text, labels)


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

    def score(self, bitext: Bitext, kind: str) -> Scores:
        """The (T, L) matrix of every pair; tokens that the network does not know count as unk.

        Raises:
            AlignkitError: there is no such kind, or the tokens come from a different tokenizer.
        """
        self.check_kind(kind)
        return network_scores(self.network, self._own(bitext), kind, self.settings.network.reading)

    def with_reading(self, reading: Reading) -> NeuralAligner:
        """This aligner with other weights as its alpha; raises AlignkitError if it does not have them."""
        return replace(self, settings=self.settings.change(network={"reading": reading}))

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair under teacher forcing, EOS included."""
        return translation_log_probabilities(self.network, self._own(bitext))

    def _own(self, bitext: Bitext) -> Bitext:
        """The bitext in the network's vocabulary."""
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

    def score(self, bitext: Bitext, kind: str) -> Scores:
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


_MOST_NAMED = 6  # runs that an error names


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
    loaders: dict[str, Callable[[Record, torch.device], Aligner]]
    loaders = {NETWORK: NeuralAligner.read, PROXY: proxy_of_record, CLASSIFIER: ClassifierAligner.read}
    load = loaders[payload["header"]["kind"]]
    with readable(place):
        return load(Record(place, payload), where)


def best_checkpoint(run: Path) -> Path:
    """The file of the best network so far of a run directory.

    Raises:
        InputError: the folder has none; the message names the runs in the folder, if there are any.
    """
    if not (run / BEST).exists():
        inner = [str(place.parent) for place in sorted(run.glob(f"*/{BEST}"))]
        if inner:
            more = ", ..." if len(inner) > _MOST_NAMED else ""
            raise InputError(run, f"is not a run; give one of those in it: {', '.join(inner[:_MOST_NAMED])}{more}")
        problem = f"has no {BEST}, so it is not a run, or one that has only just begun"
        raise InputError(run, problem, remedy="give a run directory of `alignkit train` or `alignkit classify`")
    return run / BEST
