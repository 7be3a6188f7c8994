"""Settings of the classifier and its training; the paper's as a preset. Imports no torch.

The paper: Snell, Zhong, Klein, Steinhardt, "Approximating How Single Head Attention Learns" (2021), section 2.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from alignkit.errors import AlignkitError
from alignkit.neural.settings import (
    Keep,
    ProxySettings,
    Schedule,
    TextSettings,
    _learning_rate,
    _one_of,
    _positive,
    _seed,
)

ClassifierAttention = Literal["learned", "uniform"]
Trained = Literal["all", "attention"]


@dataclass(frozen=True)
class ClassifierSettings:
    """The classifier; the defaults are the paper's: 1,274,882 parameters without embeddings.

    Attributes:
        vocabulary: V, words; 0 stands for "as many as the tokenizer has".
        embedding: size of a word's embedding.
        hidden: size of each LSTM direction.
        attention_hidden: size of Q h in the attention's score v · ReLU(Q h).
        attention: ``learned``; or ``uniform``, weights fixed to 1/L (beta_uf).
    """

    vocabulary: int = 0
    embedding: int = 300
    hidden: int = 256
    attention_hidden: int = 256
    attention: ClassifierAttention = "learned"

    def __post_init__(self) -> None:
        sizes = {"embedding": self.embedding, "hidden": self.hidden, "attention_hidden": self.attention_hidden}
        _positive("classifier", **sizes)
        if self.vocabulary != 0:
            _positive("classifier", vocabulary=self.vocabulary)
        _one_of("classifier", "attention", self.attention, ClassifierAttention)


@dataclass(frozen=True)
class ClassifierTraining:
    """How a classifier is trained; the defaults are the paper's.

    Attributes:
        batch: texts per step.
        learning_rate: of Adam.
        steps: in all.
        seed: of the initial weights and the order of the batches.
        trained: ``all`` parameters; or only those of the ``attention``, everything else staying as it was drawn
            (appendix A.6: beta is frozen).
        buckets: batches of texts of like length, in shuffled order, which need little padding; otherwise batches
            are drawn from all texts.
        schedule: at which steps to measure and keep a checkpoint (:func:`alignkit.neural.settings.logged_steps`).
        keep: keep a checkpoint at every logged step, or the best only.
    """

    batch: int = 32
    learning_rate: float = 1e-3
    steps: int = 4000
    seed: int = 0
    trained: Trained = "all"
    buckets: bool = True
    schedule: Schedule = "classification"
    keep: Keep = "logged"

    def __post_init__(self) -> None:
        _positive("classifier training", batch=self.batch)
        if type(self.steps) is not int or self.steps < 0:
            raise AlignkitError(f"classifier training: steps must be at least 0, not {self.steps!r}")
        _seed("classifier training", self.seed)
        _learning_rate("classifier training", self.learning_rate)
        _one_of("classifier training", "trained", self.trained, Trained)
        _one_of("classifier training", "schedule", self.schedule, Schedule)
        _one_of("classifier training", "keep", self.keep, Keep)
        if type(self.buckets) is not bool:
            raise AlignkitError("classifier training: buckets must be true or false")


@dataclass(frozen=True)
class ClassifierRunSettings:
    """Everything that decides what a training run of a classifier gives, apart from the text itself."""

    text: TextSettings = field(default_factory=lambda: TextSettings("words", minimum=3))
    network: ClassifierSettings = field(default_factory=ClassifierSettings)
    training: ClassifierTraining = field(default_factory=ClassifierTraining)

    def __post_init__(self) -> None:
        if self.network.attention == "uniform" and self.training.trained == "attention":
            raise AlignkitError("classifier: uniform attention has nothing to train alone")

    def change(
        self,
        text: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> ClassifierRunSettings:
        """These settings with some fields of their parts replaced; values of None are left as they are."""
        parts = {"text": text, "network": network, "training": training}
        new: dict[str, Any] = {
            name: replace(getattr(self, name), **{k: v for k, v in (part or {}).items() if v is not None})
            for name, part in parts.items()
        }
        return ClassifierRunSettings(**new)


CLASSIFIER_PRESETS: dict[str, ClassifierRunSettings] = {
    "paper": ClassifierRunSettings(),
    # For trying out, and for texts of a few hundred lines.
    "small": ClassifierRunSettings(
        network=ClassifierSettings(embedding=64, hidden=64, attention_hidden=64),
        training=ClassifierTraining(learning_rate=3e-3, steps=500),
    ),
}
#: the bag-of-words proxy as the paper trains it on labelled text: two rows of W, one for each label, of which the
#: difference decides
CLASSIFIER_PROXY = ProxySettings(learning_rate=2e-4)
