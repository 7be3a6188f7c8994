"""Settings of networks, their training and the proxy, the papers' as presets; names of attentions and networks.

The paper: Snell, Zhong, Klein, Steinhardt, "Approximating How Single Head Attention Learns" (2021). Imports no
torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_origin

from alignkit.errors import AlignkitError, InputError, plainly_shown, shown
from alignkit.support.packages import imported
from alignkit.support.settings import field_types
from alignkit.types import PathLike

UNIFORM = "uniform"  #: the attention without scores
SOFTMAX = "softmax"  #: the normalizer of a mechanism that names none
_ATTENTION = "alignkit.neural.networks.attention"
#: the score functions of attention: name -> ``module:class``, imported when it is needed
SCORE_FUNCTIONS = {
    "general": f"{_ATTENTION}:GeneralScore",
    "dot": f"{_ATTENTION}:DotScore",
    "scaled-dot": f"{_ATTENTION}:ScaledDotScore",
    "additive": f"{_ATTENTION}:AdditiveScore",
    "feed-forward": f"{_ATTENTION}:FeedForwardScore",
    "convolution": f"{_ATTENTION}:ConvolutionScore",
}


class NormalizerEntry(NamedTuple):
    """A normalizer of attention.

    Attributes:
        place: ``module:class``, imported when it is needed.
        parameter: the number after a colon (``entmax:1.3``) if none is given; None if it takes no number.
        lowest, highest: the range of that number, both inclusive.
    """

    place: str
    parameter: float | None = None
    lowest: float = 0.0
    highest: float = math.inf


NORMALIZERS = {
    SOFTMAX: NormalizerEntry(f"{_ATTENTION}:Softmax"),
    "sparsemax": NormalizerEntry(f"{_ATTENTION}:Sparsemax"),
    "entmax15": NormalizerEntry(f"{_ATTENTION}:Entmax15"),
    "entmax": NormalizerEntry(f"{_ATTENTION}:Entmax", 1.5, 1.01, 4.0),
    "learned-entmax": NormalizerEntry(f"{_ATTENTION}:LearnedEntmax"),
    "sigmoid": NormalizerEntry(f"{_ATTENTION}:Sigmoid"),
    "straight-through": NormalizerEntry(f"{_ATTENTION}:StraightThrough"),
    "reinforce": NormalizerEntry(f"{_ATTENTION}:Reinforce"),
    "gumbel": NormalizerEntry(f"{_ATTENTION}:Gumbel", 1.0, 0.01),
}


class Mechanism(NamedTuple):
    """A mechanism of attention, apart from its sizes.

    Attributes:
        score: a name in :data:`SCORE_FUNCTIONS`.
        normalizer: a name in :data:`NORMALIZERS`.
        parameter: the normalizer's number, if it takes one.
    """

    score: str
    normalizer: str = SOFTMAX
    parameter: float | None = None


def parse_attention(owner: str, name: str) -> Mechanism | None:
    """The mechanism that a name such as ``dot``, ``additive+sparsemax`` or ``general+entmax:1.3`` stands for.

    None for ``uniform``.

    Raises:
        AlignkitError: ``owner``, which the message begins with, names no such score function or normalizer, or the
            normalizer takes no number or not this one.
    """
    if name == UNIFORM:
        return None
    score, plus, rest = name.partition("+") if isinstance(name, str) else ("", "", "")
    normalizer, colon, number = (rest if plus else SOFTMAX).partition(":")
    if score not in SCORE_FUNCTIONS or normalizer not in NORMALIZERS:
        raise AlignkitError(
            f"{owner}: attention must be {UNIFORM}, or a score function ({', '.join(SCORE_FUNCTIONS)}), alone or "
            f"with a normalizer ({', '.join(NORMALIZERS)}), such as additive+sparsemax, not {shown(name)}"
        )
    entry = NORMALIZERS[normalizer]
    if not colon:
        return Mechanism(score, normalizer, entry.parameter)
    if entry.parameter is None:
        raise AlignkitError(f"{owner}: {normalizer} takes no number, so {name!r} is no attention")
    try:
        parameter = float(number)
    except ValueError:
        parameter = math.nan
    if not entry.lowest <= parameter <= entry.highest or math.isinf(parameter):
        most = "" if math.isinf(entry.highest) else f" and at most {entry.highest:g}"
        wanted = f"at least {entry.lowest:g}{most}"
        raise AlignkitError(f"{owner}: the number of {normalizer} must be {wanted}, not {number!r}")
    return Mechanism(score, normalizer, parameter)


LIMIT = 1 << 24  #: no size in a settings file may be larger: a damaged file must not ask for terabytes

S = TypeVar("S")
R = TypeVar("R", bound="RunSettings")
Range = tuple[str, Callable[[Any], bool]]  # what a value must be, in words, and whether it is

SIZE: Range = f"a whole number from 1 to {LIMIT}", lambda x: 1 <= x <= LIMIT
COUNT: Range = "a whole number of at least 0", lambda x: 0 <= x < 1 << 63
SHARE: Range = "a number in [0, 1)", lambda x: 0 <= x < 1
#: what a number must be, by the name of its field; other whole numbers are sizes
RANGES: dict[str, Range] = {
    **dict.fromkeys(("layer", "head", "epochs", "steps", "warmup", "rate_warmup", "seed"), COUNT),
    **dict.fromkeys(("dropout", "word_dropout", "label_smoothing"), SHARE),
    "vocabulary": (f"a whole number from 0 to {LIMIT}", lambda x: 0 <= x <= LIMIT),
    "layers": ("a whole number from 1 to 64", lambda x: 1 <= x <= 64),
    "guide_weight": ("a number from 0 to 1000", lambda x: 0 <= x <= 1000),
    "learning_rate": ("a positive number", lambda x: 0 < x < 1e38),
}


@dataclass(frozen=True)
class Settings:
    """Settings whose values are checked by their types, and numbers by :data:`RANGES`."""

    def __post_init__(self) -> None:
        for name, kind in field_types(type(self)).items():
            value, kinds = getattr(self, name), get_args(kind)
            if get_origin(kind) is Literal:
                wanted, right = f"one of {', '.join(kinds)}", isinstance(value, str) and value in kinds
            elif kind is bool:
                wanted, right = "true or false", type(value) is bool
            elif {int, float} & {kind, *kinds}:
                wanted, within = RANGES.get(name, SIZE)
                types = (int, float) if kind is float else (int,)
                right = (type(value) in types and within(value)) or (value is None and type(None) in kinds)
            else:
                continue
            if not right:
                raise AlignkitError(f"setting {name} must be {wanted}, not {shown(value)}")


@dataclass(frozen=True)
class Reading(Settings):
    """Which of a network's attention weights are its ``alpha`` scores.

    Attributes:
        layer: the layer of the decoder, from 1 on; 0 for the mean over layers.
        head: the head, from 1 on; 0 for the mean over heads.
        shifted: row t has the weights of the step whose input is y_t, not of the step that predicts it: the
            decoder then knows the word that it aligns (Chen et al. 2020).
    """

    layer: int = 0
    head: int = 0
    shifted: bool = False


Output = Literal["hidden", "sum"]
Tokens = Literal["subwords", "words"]
When = Literal["never", "end", "logged"]
Schedule = Literal["paper", "dense", "classification"]
Keep = Literal["logged", "best"]
Decay = Literal["none", "inverse-sqrt"]


@dataclass(frozen=True)
class TextSettings(Settings):
    """Settings of tokenization.

    Attributes:
        tokens: SentencePiece ``subwords`` or whitespace ``words``; joint for both sides.
        pieces: number of subwords (not used for words).
        minimum: a word seen fewer times is unknown (not used for subwords).
    """

    tokens: Tokens = "subwords"
    pieces: int = 8000
    minimum: int = 1


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """The settings that every translation network has; each network adds its own in a subclass.

    Attributes:
        architecture: the network's name in :data:`NETWORKS`, fixed by each subclass.
        vocabulary: V, the size of the joint vocabulary; 0 means the tokenizer's.
        embedding: size of the one embedding of source and target tokens.
        attention: a score function and a normalizer, such as ``additive+sparsemax``
            (:func:`parse_attention`; softmax if none is named). ``general``, a_tl = h_l · (W s_t + b); ``dot``,
            a_tl = h_l · s_t; ``uniform``, weights fixed to 1/L (beta_uf).
        heads: K, the number of heads of the attention.
        reading: which of its weights are ``alpha``.
        place: ``module:class`` of the network, imported when it is needed.
    """

    place: ClassVar[str]
    attention_layers = 1  # of the decoder
    architecture: str = field(default="", init=False)
    vocabulary: int = 0
    embedding: int = 256
    attention: str = "general"
    heads: int = 1
    reading: Reading = field(default_factory=Reading)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("layer", self.attention_layers), ("head", self.heads)):
            if getattr(self.reading, name) > most:
                raise AlignkitError(f"network: there is no {name} {getattr(self.reading, name)} of {most} to read")
        parse_attention("network", self.attention)


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

    place = "alignkit.neural.networks.encoder_decoder:EncoderDecoder"
    architecture: str = field(default="lstm", init=False)
    hidden: int = 256
    layers: int = 2
    bidirectional: bool = True
    output: Output = "hidden"
    dropout: float = 0.5

    @property
    def encoding(self) -> int:
        """D, the size of an encoder state h_l."""
        return self.hidden * (2 if self.bidirectional else 1)


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """Settings of the training of a translation network; the defaults are the paper's.

    Attributes:
        batch: sentence pairs per step.
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
        label_smoothing: the share of each target's probability that the loss spreads evenly over the vocabulary.
        rate_warmup: the number of initial steps in which the learning rate rises linearly from 0.
        rate_decay: afterwards it stays, or falls with the inverse square root of the number of steps, from the end
            of the warm-up (at least step 1) on.
        guide_weight: the weight of the loss of the attention towards given links; not used without links.
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
    label_smoothing: float = 0.0
    rate_warmup: int = 0
    rate_decay: Decay = "none"
    guide_weight: float = 0.3

    def last_step(self, epoch_steps: int) -> int:
        """The number of steps in all, if an epoch has this many."""
        most = self.epochs * epoch_steps
        return most if self.steps is None else min(most, self.steps)

    def rate(self, step: int) -> float:
        """The learning rate of the step after ``step`` others."""
        number, end = step + 1, max(self.rate_warmup, 1)
        if number < end:
            return self.learning_rate * number / end
        falling = (end / number) ** 0.5 if self.rate_decay == "inverse-sqrt" else 1.0
        return self.learning_rate * falling


@dataclass(frozen=True)
class ProxySettings(Settings):
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


@dataclass(frozen=True)
class RunSettings(Settings):
    """The settings of a training run: all that determines its result, apart from the text."""

    text: TextSettings = field(default_factory=TextSettings)
    network: NetworkSettings = field(default_factory=LstmSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def change(
        self: R,
        *,
        text: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> R:
        """These settings with some fields of their parts replaced; values of None are ignored.

        If the ``architecture`` of the network changes, its other settings start from their defaults.
        """
        new = {}
        for name, values in (("text", text), ("network", network), ("training", training)):
            part, given = getattr(self, name), {k: v for k, v in (values or {}).items() if v is not None}
            architecture = given.pop("architecture", None)
            if architecture is not None and architecture != part.architecture:
                part = settings_class(architecture)()
            new[name] = replace(part, **given)
        return replace(self, **new)


#: The names of :data:`PRESETS`, for type checkers.
Preset = Literal["paper", "small"]
PRESETS: dict[str, RunSettings] = {
    "paper": RunSettings(),
    # For about a thousand sentence pairs on a laptop: chosen by benchmarks on such a text.
    "small": RunSettings(
        TextSettings(pieces=1000),
        LstmSettings(embedding=128, hidden=128, layers=1, dropout=0.0),
        TrainingSettings(
            learning_rate=3e-3, epochs=12, word_dropout=0.3, warmup=3, schedule="dense", keep="best", bleu="never"
        ),
    ),
}


def new_network(settings: NetworkSettings | ClassifierSettings) -> Any:
    """The network of these settings with random weights, drawn from torch's global generator."""
    return imported(settings.place)(settings)


def logged_steps(last: int, schedule: Schedule = "paper") -> list[int]:
    """The steps at which a run of ``last`` steps is evaluated, in ascending order and including 0 and ``last``.

    ``paper``: 0, 50, 100, 500, 1000, 1500, then every 2000. ``dense``, for small texts: 0, 10, 20, 50,
    100, then every 100. ``classification``, the paper's for classifiers: 0, 10, 50, 100, 150, 200, 250, then every
    250.
    """
    first, every = {
        "paper": ([0, 50, 100, 500, 1000, 1500], 2000),
        "dense": ([0, 10, 20, 50], 100),
        "classification": ([0, 10, 50, 100, 150, 200], 250),
    }[schedule]
    steps = {*first, *range(every, last + 1, every), last}
    return sorted(step for step in steps if step <= last)


def from_dict(kind: type[S], values: object) -> S:
    """The settings that :func:`dataclasses.asdict` gives; missing fields have their defaults.

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
    kinds = field_types(kind)
    unknown = [str(name) for name in values if name not in kinds]
    if unknown:
        raise AlignkitError(f"{kind.__name__}: unknown field {', '.join(unknown)}")
    values = {n: from_dict(kinds[n], v) if is_dataclass(kinds[n]) else v for n, v in values.items()}
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


@dataclass(frozen=True)
class TransformerSettings(NetworkSettings):
    """The transformer encoder-decoder (Vaswani et al. 2017), at a size for texts of some ten thousand pairs.

    Layer normalization stands before each part (Xiong et al. 2020), and positions are sinusoidal vectors.
    ``embedding`` is E, the size of all states, and ``attention`` that to the source.

    Attributes:
        hidden: size of the hidden layer of each feed-forward network.
        layers: of encoder and of decoder.
        dropout: of embeddings, of what each part adds, and within feed-forward networks.
    """

    place = "alignkit.neural.networks.transformer:Transformer"
    architecture: str = field(default="transformer", init=False)
    attention: str = "scaled-dot"
    heads: int = 4
    hidden: int = 1024
    layers: int = 3
    dropout: float = 0.1

    @property
    def attention_layers(self) -> int:  # type: ignore[override]
        return self.layers

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding % self.heads:
            problem = f"{self.heads} heads cannot share an embedding of {self.embedding}"
            raise AlignkitError(f"network: {problem}; choose a multiple")


Trained = Literal["all", "attention"]
Encoder = Literal["lstm", "words", "embeddings"]


@dataclass(frozen=True)
class ClassifierSettings(Settings):
    """Settings of the classifier; the defaults are the paper's, with 1,274,882 parameters besides the embeddings.

    Attributes:
        vocabulary: V, the number of words; 0 means the tokenizer's.
        embedding: size of a word's embedding.
        hidden: size of each LSTM direction; half the size of a state.
        attention_hidden: size of the hidden layer of the attention's score function, if it has one: Q h in the
            paper's v · ReLU(Q h).
        attention: a score function and a normalizer (:func:`parse_attention`; softmax if none is named), where the
            score has no decoder state; or ``uniform``, weights fixed to 1/L (beta_uf).
        encoder: what gives the states: bidirectional LSTMs (``lstm``); tanh(A x + a) of each word's embedding by
            itself (``words``); or the ``embeddings`` themselves.
        layers: of the encoder; embeddings have none.
    """

    place: ClassVar[str] = "alignkit.neural.networks.classifier:Classifier"
    vocabulary: int = 0
    embedding: int = 300
    hidden: int = 256
    attention_hidden: int = 256
    attention: str = "feed-forward"
    encoder: Encoder = "lstm"
    layers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_attention("classifier", self.attention)


@dataclass(frozen=True)
class ClassifierTraining(Settings):
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

    def last_step(self, epoch_steps: int) -> int:
        """The number of steps, which is that of the settings."""
        return self.steps

    def rate(self, step: int) -> float:
        """The learning rate, which is the same at every step."""
        return self.learning_rate


@dataclass(frozen=True)
class ClassifierRunSettings(RunSettings):
    """The settings of a classifier's training run: all that determines its result, apart from the text.

    Attributes:
        text, network, training: its parts.
        ends: texts begin with BOS and end with EOS, as the source sentences of a translation do.
    """

    text: TextSettings = field(default_factory=lambda: TextSettings("words", minimum=3))
    network: ClassifierSettings = field(default_factory=ClassifierSettings)  # type: ignore[assignment]
    training: ClassifierTraining = field(default_factory=ClassifierTraining)  # type: ignore[assignment]
    ends: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network.attention == UNIFORM and self.training.trained == "attention":
            raise AlignkitError("classifier: uniform attention has no parameters, so it cannot be trained alone")


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

#: The names of :data:`NETWORKS`, for type checkers.
Architecture = Literal["lstm", "transformer"]
#: the translation networks; to add one, write a file with its class and a line here
NETWORKS: dict[str, type[NetworkSettings]] = {"lstm": LstmSettings, "transformer": TransformerSettings}


def settings_class(architecture: str) -> type[Any]:
    """The settings of the network of that name; raises AlignkitError if there is none."""
    if not isinstance(architecture, str) or architecture not in NETWORKS:
        raise AlignkitError(f"architecture must be one of {', '.join(NETWORKS)}, not {shown(architecture)}")
    return NETWORKS[architecture]


#: the kinds of runs in config.json, by the commands that train them
RUN_KINDS = {"train": "alignkit.run", "classify": "alignkit.classifier-run"}
CONFIG = "config.json"
BEST = "best.pt"  #: the network with the lowest validation loss, in a run directory


def command_of_run(folder: Path) -> str | None:
    """The command that trained the run in a folder; None if its configuration shows none."""
    try:
        kind = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return next((command for command, known in RUN_KINDS.items() if known == kind), None)


def check_run(path: PathLike, command: str, checkpoint: bool = True) -> None:
    """Check, before torch is loaded, that a path may be a run of a command, or, if it may be one, a checkpoint.

    Raises:
        InputError: it is none; it is a run of another command.
    """
    place, remedy = Path(path), f"give a run directory of `alignkit {command}`"
    if place.is_dir():
        best_checkpoint(place)
    elif not checkpoint or place.suffix != ".pt":
        problem = "is neither a run nor a checkpoint (.pt)" if checkpoint else "is not a run directory"
        raise InputError(path, problem, remedy=remedy)
    found = command_of_run(place if place.is_dir() else place.parent)
    if found not in (None, command):
        raise InputError(path, f"is a run of `alignkit {found}`", remedy=remedy)


def best_checkpoint(run: Path) -> Path:
    """The file of the best network so far of a run directory.

    Raises:
        InputError: the folder has none; the message names the runs in the folder, if there are any.
    """
    if not (run / BEST).exists():
        inner = [str(place.parent) for place in sorted(run.glob(f"*/{BEST}"))]
        if inner:
            more = ", ..." if len(inner) > 6 else ""
            raise InputError(run, f"is not a run; give one of those in it: {', '.join(inner[:6])}{more}")
        problem = f"has no {BEST}, so it is not a run, or one that has only just begun"
        raise InputError(run, problem, remedy="give a run directory of `alignkit train` or `alignkit classify`")
    return run / BEST
