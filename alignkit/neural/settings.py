"""Settings of networks, training and the proxy; the paper's as a preset. Imports no torch.

The paper: Snell, Zhong, Klein, Steinhardt, "Approximating How Single Head Attention Learns" (2021).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from alignkit.errors import AlignkitError

Attention = Literal["general", "uniform"]
Output = Literal["hidden", "sum"]
Tokens = Literal["subwords", "words"]
When = Literal["never", "end", "logged"]
Schedule = Literal["paper", "dense", "classification"]
Keep = Literal["logged", "best"]

LIMIT = 1 << 24  #: no size in a settings file may be larger: a damaged file must not ask for terabytes

S = TypeVar("S")


def _positive(owner: str, **values: int) -> None:
    for name, value in values.items():
        if type(value) is not int or not 1 <= value <= LIMIT:
            raise AlignkitError(f"{owner}: {name} must be a whole number from 1 to {LIMIT}, not {value!r}")


def _one_of(owner: str, name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise AlignkitError(f"{owner}: {name} must be one of {', '.join(get_args(choices))}, not {value!r}")


def _share(owner: str, name: str, value: float) -> None:
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise AlignkitError(f"{owner}: {name} must lie in [0, 1), not {value!r}")


def _seed(owner: str, value: int) -> None:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise AlignkitError(f"{owner}: seed must be a whole number of at least 0, not {value!r}")


@dataclass(frozen=True)
class TextSettings:
    """How lines become tokens.

    Attributes:
        tokens: SentencePiece ``subwords`` or whitespace ``words``; joint for both sides.
        pieces: number of subwords (not used for words).
        minimum: a word seen fewer times is unknown (not used for subwords).
    """

    tokens: Tokens = "subwords"
    pieces: int = 8000
    minimum: int = 1

    def __post_init__(self) -> None:
        _one_of("text", "tokens", self.tokens, Tokens)
        _positive("text", pieces=self.pieces, minimum=self.minimum)


@dataclass(frozen=True)
class NetworkSettings:
    """The encoder-decoder of the paper, section 3.1; the defaults are the paper's translation network.

    Attributes:
        vocabulary: V, tokens of the joint vocabulary; 0 stands for "as many as the tokenizer has".
        embedding: size of the one embedding of source and target tokens.
        hidden: H, size of each LSTM direction and of the output layer.
        layers: LSTM layers of encoder and of decoder.
        bidirectional: the encoder reads both ways.
        attention: ``general``, a_tl = h_l · (W s_t + b), as Luong et al. (2015) call it; or
            ``uniform``, weights fixed to 1/L (beta_uf).
        output: ``hidden``, softmax(U ReLU(W [s_t, c_t])); or ``sum``, softmax(U (s_t + c_t)).
        dropout: between LSTM layers.
    """

    vocabulary: int = 0
    embedding: int = 256
    hidden: int = 256
    layers: int = 2
    bidirectional: bool = True
    attention: Attention = "general"
    output: Output = "hidden"
    dropout: float = 0.5

    def __post_init__(self) -> None:
        _positive("network", embedding=self.embedding, hidden=self.hidden, layers=self.layers)
        if self.vocabulary != 0:
            _positive("network", vocabulary=self.vocabulary)
        if self.layers > 64:
            raise AlignkitError(f"network: at most 64 layers, not {self.layers}")
        if type(self.bidirectional) is not bool:
            raise AlignkitError("network: bidirectional must be true or false")
        _one_of("network", "attention", self.attention, Attention)
        _one_of("network", "output", self.output, Output)
        _share("network", "dropout", self.dropout)

    @property
    def encoding(self) -> int:
        """D, the size of an encoder state h_l."""
        return self.hidden * (2 if self.bidirectional else 1)


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained; the defaults are the paper's.

    Attributes:
        batch: sentence pairs per step.
        learning_rate: of Adam.
        epochs: passes over the training text.
        steps: stop after so many steps even if epochs are left (None: no limit).
        seed: of the initial weights, the order of the batches and dropout.
        word_dropout: share of the decoder's input tokens that are hidden (unk) while training, so that a
            decoder with little text to learn from looks at the source; the paper has none.
        warmup: for so many epochs, train with attention fixed to 1/L. By the paper's account attention can
            only be learned once the network knows which words translate to which; on a text of a thousand
            pairs it otherwise settles on the ends of the sentence before that. The paper has none.
        buckets: batches of pairs with equal source length (in shuffled order), which needs no padding in
            the encoder; otherwise batches are drawn from all pairs.
        schedule: at which steps to evaluate, log and keep a checkpoint (:func:`logged_steps`).
        keep: keep a checkpoint at every logged step, or the best only.
        bleu: whether to translate the validation text: never, at the end (with the best weights) or at
            every logged step.
        beam: hypotheses of the beam search for BLEU.
        tf32: on a GPU, allow TF32 matrix products while training.
    """

    batch: int = 16
    learning_rate: float = 1e-3
    epochs: int = 20
    steps: int | None = None
    seed: int = 0
    word_dropout: float = 0.0
    warmup: int = 0
    buckets: bool = True
    schedule: Schedule = "paper"
    keep: Keep = "logged"
    bleu: When = "end"
    beam: int = 5
    tf32: bool = False

    def __post_init__(self) -> None:
        _positive("training", batch=self.batch, epochs=self.epochs, beam=self.beam)
        if self.steps is not None and (type(self.steps) is not int or self.steps < 0):
            raise AlignkitError(f"training: steps must be a whole number of at least 0, not {self.steps!r}")
        _seed("training", self.seed)
        _learning_rate("training", self.learning_rate)
        _share("training", "word_dropout", self.word_dropout)
        if type(self.warmup) is not int or self.warmup < 0:
            raise AlignkitError(f"training: warmup must be a whole number of at least 0, not {self.warmup!r}")
        _one_of("training", "schedule", self.schedule, Schedule)
        _one_of("training", "keep", self.keep, Keep)
        _one_of("training", "bleu", self.bleu, When)


def _learning_rate(owner: str, value: float) -> None:
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise AlignkitError(f"{owner}: learning_rate must be a positive number, not {value!r}")


@dataclass(frozen=True)
class ProxySettings:
    """The bag-of-words proxy of section 2.3 and its training; the defaults are the paper's.

    Attributes:
        embedding: size of e(x).
        learning_rate: of Adam.
        batch: sentence pairs per step.
        epochs: passes over the training text; the epoch with the lowest validation loss is kept.
        seed: of the initial weights and the order of the batches.
    """

    embedding: int = 256
    learning_rate: float = 1e-3
    batch: int = 64
    epochs: int = 30
    seed: int = 0

    def __post_init__(self) -> None:
        _positive("proxy", embedding=self.embedding, batch=self.batch)
        if type(self.epochs) is not int or self.epochs < 0:
            raise AlignkitError(f"proxy: epochs must be a whole number of at least 0, not {self.epochs!r}")
        _seed("proxy", self.seed)
        _learning_rate("proxy", self.learning_rate)


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides what a training run gives, apart from the text itself."""

    text: TextSettings = field(default_factory=TextSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def change(
        self,
        text: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> RunSettings:
        """These settings with some fields of their parts replaced; values of None are left as they are."""
        parts = {"text": text, "network": network, "training": training}
        new = {
            name: replace(getattr(self, name), **{k: v for k, v in (part or {}).items() if v is not None})
            for name, part in parts.items()
        }
        return RunSettings(**new)


PRESETS: dict[str, RunSettings] = {
    "paper": RunSettings(),
    # For about a thousand sentence pairs on a laptop: chosen by benchmarks on such a text.
    "small": RunSettings(
        TextSettings(pieces=1000),
        NetworkSettings(embedding=128, hidden=128, layers=1, dropout=0.0),
        TrainingSettings(
            learning_rate=3e-3,
            epochs=12,
            word_dropout=0.3,
            warmup=3,
            schedule="dense",
            keep="best",
            bleu="never",
        ),
    ),
}
PROXY_PRESETS: dict[str, ProxySettings] = {
    "paper": ProxySettings(),
    "small": ProxySettings(),
}


def logged_steps(last: int, schedule: Schedule = "paper") -> list[int]:
    """The steps at which a run of ``last`` steps is evaluated, rising; 0 and ``last`` are always among them.

    ``paper``: 0, 50, 100, 500, 1000, 1500, then every 2000. ``dense``, for small texts: 0, 10, 20, 50,
    100, then every 100. ``classification``, the paper's for classifiers: 0, 10, 50, 100, 150, 200, 250, then every
    250.
    """
    _one_of("training", "schedule", schedule, Schedule)
    first, every = {
        "paper": ([0, 50, 100, 500, 1000, 1500], 2000),
        "dense": ([0, 10, 20, 50], 100),
        "classification": ([0, 10, 50, 100, 150, 200], 250),
    }[schedule]
    steps = {*first, *range(every, last + 1, every), last}
    return sorted(step for step in steps if step <= last)


def to_dict(settings: Any) -> dict[str, Any]:
    """Settings as a plain dict of JSON values."""
    return asdict(settings)


def from_dict(kind: type[S], values: object) -> S:
    """The settings that :func:`to_dict` made; a field that is missing has its default.

    Raises:
        AlignkitError: a field is unknown or has an impossible value.
    """
    assert is_dataclass(kind)
    if not isinstance(values, dict):
        raise AlignkitError(f"{kind.__name__}: not a set of fields")
    known = {f.name: f for f in fields(kind)}
    unknown = [str(name) for name in values if name not in known]
    if unknown:
        raise AlignkitError(f"{kind.__name__}: unknown field {', '.join(unknown)}")
    hints = get_type_hints(kind)
    values = {n: from_dict(hints[n], v) if is_dataclass(hints[n]) else v for n, v in values.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise AlignkitError(f"{kind.__name__}: {error}") from error


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """One line per value that two plain dicts do not share, as ``training.batch: 16 before, now 32``."""
    for name in sorted({*old, *new}):
        before, now = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from differences(before, now, f"{prefix}{name}.")
        elif before != now:
            yield f"{prefix}{name}: {before} before, now {now}"
