"""Settings of the classifier and its training; the paper's as a preset. Imports no torch.

The paper: Snell, Zhong, Klein, Steinhardt, "Approximating How Single Head Attention Learns" (2021), section 2.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from alignkit.errors import AlignkitError
from alignkit.neural.networks.mechanisms import UNIFORM, parse_mechanism
from alignkit.neural.settings import Keep, ProxySettings, Schedule, TextSettings, change_parts
from alignkit.neural.validation import (
    check_choice,
    check_flag,
    check_learning_rate,
    check_not_negative,
    check_seed,
    check_sizes,
)
from alignkit.records import shown

Trained = Literal["all", "attention"]
Encoder = Literal["lstm", "self-attention", "words", "embeddings"]
MOST_LAYERS = 64  #: of an encoder: a damaged settings file must not ask for millions


@dataclass(frozen=True)
class ClassifierSettings:
    """Settings of the classifier; the defaults are the paper's, with 1,274,882 parameters besides the embeddings.

    Attributes:
        vocabulary: V, the number of words; 0 means the tokenizer's.
        embedding: size of a word's embedding.
        hidden: size of each LSTM direction; half the size of a state.
        attention_hidden: size of the hidden layer of the attention's score function, if it has one: Q h in the
            paper's v · ReLU(Q h).
        attention: a score function and a normalizer (:mod:`alignkit.neural.networks.mechanisms`; softmax if none
            is named), where the score has no decoder state; or ``uniform``, weights fixed to 1/L (beta_uf).
        encoder: what gives the states: bidirectional LSTMs (``lstm``); layers of a transformer's encoder
            (``self-attention``); tanh(A x + a) of each word's embedding by itself (``words``); or the
            ``embeddings`` themselves.
        layers: of the encoder; embeddings have none.
        hierarchical: attention over the words of each sentence, then over sentences (Yang et al. 2016); a sentence
            ends with a word that ends in a full stop, an exclamation mark or a question mark. Uniform attention
            stays what it is.
    """

    vocabulary: int = 0
    embedding: int = 300
    hidden: int = 256
    attention_hidden: int = 256
    attention: str = "feed-forward"
    encoder: Encoder = "lstm"
    layers: int = 1
    hierarchical: bool = False

    def __post_init__(self) -> None:
        sizes = {"embedding": self.embedding, "hidden": self.hidden, "attention_hidden": self.attention_hidden}
        check_sizes("classifier", **sizes, layers=self.layers)
        if self.layers > MOST_LAYERS:
            raise AlignkitError(f"classifier: layers must be at most {MOST_LAYERS}, not {shown(self.layers)}")
        check_choice("classifier", "encoder", self.encoder, get_args(Encoder))
        if self.vocabulary != 0:
            check_sizes("classifier", vocabulary=self.vocabulary)
        check_flag("classifier", hierarchical=self.hierarchical)
        if self.attention != UNIFORM:
            mechanism = parse_mechanism(self.attention, "classifier")
            if self.hierarchical and mechanism.normalizer == "reinforce":
                raise AlignkitError("classifier: reinforce is not for hierarchical attention, which samples twice")


@dataclass(frozen=True)
class ClassifierTraining:
    """Settings of the training of a classifier; the defaults are the paper's.

    Attributes:
        batch: texts per step.
        learning_rate: of Adam.
        steps: number of steps.
        seed: of the initial weights and the order of the batches.
        trained: ``all`` parameters; or only those of the ``attention``, while the others keep their initial
            values (appendix A.6: beta is frozen).
        buckets: batches hold texts of similar length (in shuffled order), which need little padding; otherwise
            batches are drawn from all texts.
        schedule: which steps are evaluated and kept (:func:`alignkit.neural.settings.logged_steps`).
        keep: keep a checkpoint of every logged step, or of the best step only.
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
        check_sizes("classifier training", batch=self.batch)
        check_not_negative("classifier training", steps=self.steps)
        check_seed("classifier training", self.seed)
        check_learning_rate("classifier training", self.learning_rate)
        check_choice("classifier training", "trained", self.trained, get_args(Trained))
        check_choice("classifier training", "schedule", self.schedule, get_args(Schedule))
        check_choice("classifier training", "keep", self.keep, get_args(Keep))
        check_flag("classifier training", buckets=self.buckets)

    def rate(self, step: int) -> float:
        """The learning rate, which is the same at every step."""
        return self.learning_rate


@dataclass(frozen=True)
class ClassifierRunSettings:
    """The settings of a classifier's training run: all that determines its result, apart from the text.

    Attributes:
        text, network, training: its parts.
        ends: texts begin with BOS and end with EOS, as the source sentences of a translation do.
    """

    text: TextSettings = field(default_factory=lambda: TextSettings("words", minimum=3))
    network: ClassifierSettings = field(default_factory=ClassifierSettings)
    training: ClassifierTraining = field(default_factory=ClassifierTraining)
    ends: bool = False

    def __post_init__(self) -> None:
        check_flag("classifier", ends=self.ends)
        if self.network.attention == UNIFORM and self.training.trained == "attention":
            raise AlignkitError("classifier: uniform attention has no parameters, so it cannot be trained alone")

    def change(
        self,
        text: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> ClassifierRunSettings:
        """These settings with some fields of their parts replaced; values of None are ignored."""
        return change_parts(self, text=text, network=network, training=training)


CLASSIFIER_PRESETS: dict[str, ClassifierRunSettings] = {
    "paper": ClassifierRunSettings(),
    # For trying out, and for texts of a few hundred lines.
    "small": ClassifierRunSettings(
        network=ClassifierSettings(embedding=64, hidden=64, attention_hidden=64),
        training=ClassifierTraining(learning_rate=3e-3, steps=500),
    ),
}
#: the bag-of-words proxy as the paper trains it on labelled text, where W has one row for each of the two labels
CLASSIFIER_PROXY = ProxySettings(learning_rate=2e-4)
