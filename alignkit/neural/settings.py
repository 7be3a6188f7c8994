"""Settings of networks, training and the proxy; the paper's as a preset. Imports no torch.

The paper: Snell, Zhong, Klein, Steinhardt, "Approximating How Single Head Attention Learns" (2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from alignkit.errors import AlignkitError
from alignkit.neural.attention_reading import Reading
from alignkit.neural.networks.registry import check_attention, settings_class
from alignkit.neural.validation import (
    check_choice,
    check_factors,
    check_flag,
    check_learning_rate,
    check_not_negative,
    check_seed,
    check_share,
    check_sizes,
)
from alignkit.records import plainly_shown, shown

Output = Literal["hidden", "sum"]
Tokens = Literal["subwords", "words"]
When = Literal["never", "end", "logged"]
Schedule = Literal["paper", "dense", "classification"]
Keep = Literal["logged", "best"]

#: The factors of the learning rate after the warm-up, given the step at which it ended and the number of this one.
DECAYS: dict[str, Callable[[int, int], float]] = {
    "none": lambda end, step: 1.0,
    "inverse-sqrt": lambda end, step: (end / step) ** 0.5,
}

S = TypeVar("S")


@dataclass(frozen=True)
class TextSettings:
    """Settings of tokenization.

    Attributes:
        tokens: SentencePiece ``subwords`` or whitespace ``words``; joint for both sides.
        pieces: number of subwords (not used for words).
        minimum: a word seen fewer times is unknown (not used for subwords).
    """

    tokens: Tokens = "subwords"
    pieces: int = 8000
    minimum: int = 1

    def __post_init__(self) -> None:
        check_choice("text", "tokens", self.tokens, get_args(Tokens))
        check_sizes("text", pieces=self.pieces, minimum=self.minimum)


@dataclass(frozen=True)
class NetworkSettings:
    """The settings that every translation network has; each network adds its own in a subclass.

    Attributes:
        architecture: the network's name in :data:`alignkit.neural.networks.registry.NETWORKS`, fixed by each
            subclass.
        vocabulary: V, the size of the joint vocabulary; 0 means the tokenizer's.
        embedding: size of the one embedding of source and target tokens.
        attention: a score function and a normalizer, such as ``additive+sparsemax``
            (:mod:`alignkit.neural.networks.mechanisms`; softmax if none is named). ``general``, a_tl = h_l · (W
            s_t + b); ``dot``, a_tl = h_l · s_t; ``uniform``, weights fixed to 1/L (beta_uf).
        heads: K, the number of heads of the attention.
        reading: which of its weights are ``alpha``.
    """

    architecture: str = field(default="", init=False)
    vocabulary: int = 0
    embedding: int = 256
    attention: str = "general"
    heads: int = 1
    reading: Reading = field(default_factory=Reading)

    @property
    def attention_layers(self) -> int:
        """The number of layers of the decoder that attend to the source."""
        return 1

    def __post_init__(self) -> None:
        check_sizes("network", embedding=self.embedding, heads=self.heads)
        for name, most in (("layer", self.attention_layers), ("head", self.heads)):
            if getattr(self.reading, name) > most:
                place = shown(getattr(self.reading, name))
                raise AlignkitError(f"network: there is no {name} {place} of {most} to read")
        if self.vocabulary != 0:
            check_sizes("network", vocabulary=self.vocabulary)
        check_attention("network", self.attention)


@dataclass(frozen=True)
class LstmSettings(NetworkSettings):
    """The LSTM encoder-decoder of the paper, section 3.1; the defaults are the paper's translation network.

    Attributes:
        hidden: H, size of each LSTM direction and of the output layer.
        layers: LSTM layers of encoder and of decoder.
        bidirectional: the encoder reads both ways.
        output: ``hidden``, softmax(U ReLU(W [s_t, c_t])); or ``sum``, softmax(U (s_t + c_t)).
        dropout: between LSTM layers.
    """

    architecture: str = field(default="lstm", init=False)
    hidden: int = 256
    layers: int = 2
    bidirectional: bool = True
    output: Output = "hidden"
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("network", hidden=self.hidden, layers=self.layers)
        if self.layers > 64:
            raise AlignkitError(f"network: at most 64 layers, not {self.layers}")
        check_flag("network", bidirectional=self.bidirectional)
        check_choice("network", "output", self.output, get_args(Output))
        check_share("network", dropout=self.dropout)

    @property
    def encoding(self) -> int:
        """D, the size of an encoder state h_l."""
        return self.hidden * (2 if self.bidirectional else 1)


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training of a translation network; the defaults are the paper's.

    Attributes:
        batch: sentence pairs per step, those of all ranks together.
        learning_rate: of Adam.
        epochs: passes over the training text.
        steps: the maximum number of steps; None for no limit but that of the epochs.
        seed: of the initial weights, the order of the batches and dropout.
        word_dropout: the share of the decoder's input tokens that are replaced by unk during training, so that a
            decoder trained on little text makes use of the source; 0 in the paper.
        warmup: the number of initial epochs in which attention is fixed to 1/L. According to the paper, attention
            can be learned only once the network knows which words are translations of each other; on a text of a
            thousand pairs it may settle on the ends of the sentence before that. 0 in the paper.
        buckets: batches hold pairs of one source length (in shuffled order), which need no padding in the
            encoder; otherwise batches are drawn from all pairs.
        schedule: which steps are evaluated, logged and kept as checkpoints (:func:`logged_steps`).
        keep: keep a checkpoint of every logged step, or of the best step only.
        bleu: when to translate the validation text: never, at the end (with the best weights) or at every logged
            step.
        beam: number of hypotheses of the beam search for BLEU.
        length_penalty: its exponent, by which a longer translation is favoured
            (:func:`alignkit.neural.scoring.decoding.beam_search`).
        label_smoothing: the share of each target's probability that the loss spreads evenly over the vocabulary.
        rate_warmup: the number of initial steps in which the learning rate rises linearly from 0.
        rate_decay: afterwards it stays, or falls with the inverse square root of the number of steps, from the end
            of the warm-up (at least step 1) on.
        guide_weight: the weight of the loss of the attention towards given links; not used without links.
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
    length_penalty: float = 0.0
    label_smoothing: float = 0.0
    rate_warmup: int = 0
    rate_decay: str = "none"
    guide_weight: float = 0.3
    tf32: bool = False

    def __post_init__(self) -> None:
        check_sizes("training", batch=self.batch, epochs=self.epochs, beam=self.beam)
        check_not_negative("training", warmup=self.warmup, rate_warmup=self.rate_warmup)
        if self.steps is not None:
            check_not_negative("training", steps=self.steps)
        check_seed("training", self.seed)
        check_learning_rate("training", self.learning_rate)
        check_flag("training", buckets=self.buckets, tf32=self.tf32)
        check_share("training", word_dropout=self.word_dropout, label_smoothing=self.label_smoothing)
        check_factors("training", length_penalty=self.length_penalty, guide_weight=self.guide_weight)
        check_choice("training", "rate_decay", self.rate_decay, DECAYS)
        check_choice("training", "schedule", self.schedule, get_args(Schedule))
        check_choice("training", "keep", self.keep, get_args(Keep))
        check_choice("training", "bleu", self.bleu, get_args(When))

    def rate(self, step: int) -> float:
        """The learning rate of the step after ``step`` others."""
        number, end = step + 1, max(self.rate_warmup, 1)
        if number < end:
            return self.learning_rate * number / end
        return self.learning_rate * DECAYS[self.rate_decay](end, number)


@dataclass(frozen=True)
class ProxySettings:
    """The bag-of-words proxy of section 2.3 and its training; the defaults are the paper's.

    Attributes:
        embedding: size of e(x).
        learning_rate: of Adam.
        batch: sentence pairs per step.
        epochs: passes over the training text; the epoch with the lowest validation loss is kept.
        seed: of the initial weights and the order of the batches.
        bias: trained with a bias b, p = softmax(W mean_l e(x_l) + b), which beta leaves out, as the authors' own
            code does; the paper's equation has none.
    """

    embedding: int = 256
    learning_rate: float = 1e-3
    batch: int = 64
    epochs: int = 30
    seed: int = 0
    bias: bool = False

    def __post_init__(self) -> None:
        check_sizes("proxy", embedding=self.embedding, batch=self.batch)
        check_not_negative("proxy", epochs=self.epochs)
        check_seed("proxy", self.seed)
        check_learning_rate("proxy", self.learning_rate)
        check_flag("proxy", bias=self.bias)


@dataclass(frozen=True)
class RunSettings:
    """The settings of a training run: all that determines its result, apart from the text."""

    text: TextSettings = field(default_factory=TextSettings)
    network: NetworkSettings = field(default_factory=LstmSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def change(
        self,
        text: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> RunSettings:
        """These settings with some fields of their parts replaced; values of None are ignored.

        If the ``architecture`` of the network changes, its other settings start from their defaults.
        """
        network = dict(network or {})
        architecture = network.pop("architecture", None) or self.network.architecture
        start = self.network if architecture == self.network.architecture else settings_class(architecture)()
        return change_parts(replace(self, network=start), text=text, network=network, training=training)


def change_parts(settings: S, **parts: Mapping[str, Any] | None) -> S:
    """Settings with some fields of their parts replaced; values of None are ignored."""
    new = {
        name: replace(getattr(settings, name), **{k: v for k, v in (part or {}).items() if v is not None})
        for name, part in parts.items()
    }
    return replace(settings, **new)  # type: ignore[type-var]


PRESETS: dict[str, RunSettings] = {
    "paper": RunSettings(),
    # For about a thousand sentence pairs on a laptop: chosen by benchmarks on such a text.
    "small": RunSettings(
        TextSettings(pieces=1000),
        LstmSettings(embedding=128, hidden=128, layers=1, dropout=0.0),
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
    """The steps at which a run of ``last`` steps is evaluated, in ascending order and including 0 and ``last``.

    ``paper``: 0, 50, 100, 500, 1000, 1500, then every 2000. ``dense``, for small texts: 0, 10, 20, 50,
    100, then every 100. ``classification``, the paper's for classifiers: 0, 10, 50, 100, 150, 200, 250, then every
    250.
    """
    check_choice("training", "schedule", schedule, get_args(Schedule))
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
    """The settings that :func:`to_dict` wrote; missing fields have their defaults.

    The class of a network's settings is the one that their ``architecture`` names, whatever ``kind`` is.

    Raises:
        AlignkitError: a field is unknown or has an impossible value.
    """
    assert is_dataclass(kind)
    if not isinstance(values, dict):
        raise AlignkitError(f"{kind.__name__}: not a set of fields")
    if issubclass(kind, NetworkSettings):
        architecture = values.get("architecture", "lstm")
        values = {name: value for name, value in values.items() if name != "architecture"}
        kind = settings_class(architecture)
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
    """The differences of two nested dicts, one line per value, such as ``training.batch: 16 before, now 32``.

    Of a text or other data, which its ``sha256`` identifies, that it is another one.
    """
    for name in sorted({*old, *new}):
        before, now = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            if "sha256" in before and "sha256" in now:
                yield from [f"{prefix}{name}: not the same as before"] if before != now else []
                continue
            yield from differences(before, now, f"{prefix}{name}.")
        elif before != now:
            yield f"{prefix}{name}: {plainly_shown(before)} before, now {plainly_shown(now)}"
