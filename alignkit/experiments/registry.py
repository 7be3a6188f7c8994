"""The registry of experiments; their modules are imported only when they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from alignkit.errors import AlignkitError
from alignkit.types import Progress, no_progress

if TYPE_CHECKING:
    from alignkit.experiments.protocol import Result

ALL_IF_EMPTY = {"scored", "pairs", "sentences", "sets"}  # settings of which 0 or nothing means all
OF_PRESET = {"pieces", "batch", "epochs", "steps"}  # settings of which 0 means the preset's, or no limit


@dataclass(frozen=True)
class Experiment:
    """An experiment: its name, its summary, what it reproduces, and the size of that.

    Attributes:
        name: of the experiment.
        summary: a line about it.
        source: the section of the paper that it reproduces.
        size: the settings that make its size.
        trained: those of them that do not count if ``run`` names a network that is trained already.
        paper: their values in the paper, as far as they are known; empty where the paper gives no size.
    """

    name: str
    summary: str
    source: str
    size: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    paper: Mapping[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The module of the experiment; see :mod:`alignkit.experiments.protocol`."""
        return f"alignkit.experiments.{self.name.replace('-', '_')}"

    def settings(self, quick: bool = False, changes: Mapping[str, Any] | None = None) -> Any:
        """The default or quick settings with some changed; values may be text, as from a command line.

        Raises:
            AlignkitError: there is no such setting, or its value is not allowed.
        """
        small = import_module(self.module).QUICK
        hints = get_type_hints(type(small))
        given = {key: _value(key, hints, value) for key, value in (changes or {}).items()}
        return dataclasses.replace(small if quick else type(small)(), **given)

    def size_of(self, settings: Mapping[str, Any]) -> str:
        """The size of a run with these settings: "the paper's size", or its numbers beside the paper's."""
        if self.paper and all(settings[name] == value for name, value in self.paper.items()):
            return "the paper's size"
        run = settings.get("run")
        parts = [f"run {Path(run).name}"] if run else []
        for name in self.size:
            if name not in settings or (run and name in self.trained):
                continue  # results of an earlier version may have no such setting
            value = settings[name]
            if not value and name in OF_PRESET:
                continue
            shown = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            if not value and name in ALL_IF_EMPTY:
                shown = "all"
            differs = name in self.paper and self.paper[name] != value
            parts.append(f"{name} {shown}" + (f" (paper: {self.paper[name]})" if differs else ""))
        return ", ".join(parts)

    def run(self, settings: Any, progress: Progress = no_progress) -> Result:
        """Runs the experiment."""
        name = self.module.rpartition(".")[2]
        result: Result = getattr(import_module(self.module), f"run_{name}")(settings, progress)
        return result


def _value(key: str, hints: Mapping[str, Any], given: Any) -> Any:
    if key not in hints:
        raise AlignkitError(f"there is no setting {key!r}; there are {', '.join(hints)}")
    if not isinstance(given, str):
        return given
    wanted = hints[key]
    if get_origin(wanted) is Literal:
        if given not in get_args(wanted):
            raise AlignkitError(f"setting {key}: {given!r} is not one of {', '.join(get_args(wanted))}")
        return given
    try:
        if wanted is bool:
            return {"true": True, "false": False}[given.lower()]
        if wanted in (int, float, str):
            value = wanted(given)
        else:
            kind = get_args(wanted)[0]  # tuple[int, ...]
            value = tuple(kind(part) for part in given.split(",") if part)
    except (ValueError, KeyError) as error:
        name = getattr(wanted, "__name__", str(wanted))
        raise AlignkitError(f"setting {key}: {given!r} is not {name}") from error
    parts = value if isinstance(value, tuple) else (value,)
    if any(isinstance(part, float) and not isfinite(part) for part in parts):
        raise AlignkitError(f"setting {key}: {given!r} is not finite")
    return value


_SNELL = "Snell et al. 2021"
_BLOG = "Understanding Attention Training via Output Relevance"
_POST = "Approximating How Single Head Attention Learns (post)"
#: in the order of `alignkit experiment --list`
_ALL = (
    Experiment(
        "copying",
        "copying fails if all words co-occur equally often",
        f"{_SNELL}, 3.3",
        ("seeds", "length", "subset_types", "hidden", "batch", "steps"),
        paper={"seeds": 20, "length": 40, "subset_types": 60, "hidden": 256, "batch": 128, "steps": 300},
    ),
    Experiment(
        "copying-mechanisms",
        "sparse and hard attention on permutations, against softmax",
        f"after {_SNELL}, 3.3",
        ("seeds", "mechanisms", "length", "hidden", "batch", "steps", "learning_rate"),
    ),
    Experiment(
        "permutation-function",
        "a fixed reordering is not learned though the words are",
        f"{_SNELL}, 6.2",
        ("seeds", "length", "types", "hidden", "batch", "steps"),
        paper={"seeds": 20, "length": 40, "types": 60, "hidden": 256, "batch": 128, "steps": 300},
    ),
    Experiment(
        "multihead",
        "one head with a good start among bad ones",
        f"{_SNELL}, 5.2",
        ("samples", "good_heads", "bad_heads", "trials", "length", "hidden", "batch", "steps"),
        paper={"samples": 50, "good_heads": 20, "bad_heads": 20, "trials": 3, "hidden": 256},
    ),
    Experiment(
        "locality",
        "what a state reveals of a keyword elsewhere",
        f"{_SNELL}, 6.1",
        ("seeds", "length", "types", "hidden", "batch", "steps"),
    ),
    Experiment(
        "optimal-attention",
        "the best attention against the lexical probe",
        f"{_SNELL}, A.1",
        ("preset", "pieces", "batch", "epochs", "scored"),
        trained=("preset", "pieces", "batch", "epochs"),
    ),
    Experiment(
        "initial-gradient",
        "the proxy's first gradient against co-occurrence",
        f"{_SNELL}, 4.1, A.2",
        ("words", "widths", "seeds"),
    ),
    Experiment(
        "ktiw-drives-attention",
        "lexical knowledge before attention in training",
        f"{_SNELL}, the thesis",
        ("runs", "scored"),
    ),
    Experiment(
        "ktiw-per-head",
        "lexical knowledge before attention in each head of a transformer",
        f"after {_SNELL}, the thesis",
        ("pieces", "layers", "heads", "embedding", "batch", "steps", "scored"),
    ),
    Experiment(
        "written-lexicon",
        "lexical knowledge written, erased, frozen and graded",
        f"ours; the thesis of {_SNELL}",
        ("seeds", "length", "types", "hidden", "batch", "steps", "doses", "contrasts"),
    ),
    Experiment(
        "word-order-of-learning",
        "when attention finds each word, predicted from the text",
        "ours",
        ("sizes", "seeds", "scored", "steps", "epochs", "batch"),
    ),
    Experiment(
        "gold-links",
        "error rates of attention and lexical probe while they learn",
        "ours",
        ("sets", "pairs", "pieces", "epochs", "batch", "seeds"),
    ),
    Experiment(
        "toy-classifier",
        "gradient flow of the two-token classifier from several starts",
        _POST,
        ("source_time", "time", "step"),
    ),
    Experiment(
        "gated-classifier",
        "relevance before attention in an LSTM with linear attention",
        _POST,
        ("seeds", "embedding", "hidden", "epochs", "held"),
    ),
    Experiment(
        "output-relevance",
        "relevance under uniform attention against attention and influence",
        _BLOG,
        ("seeds", "embedding", "hidden", "epochs", "held"),
    ),
    Experiment(
        "deceptive-attention",
        "the same predictions with attention that explains nothing",
        _BLOG,
        ("seeds", "embedding", "hidden", "epochs", "copy_epochs", "held"),
    ),
    Experiment(
        "topic-words",
        "score against embedding norm of topic words",
        "Lu, Mao and Nayak 2021",
        ("seeds", "topics", "dictionary", "sentences", "width", "steps"),
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; raises AlignkitError, with the names there are, if there is none."""
    if name not in EXPERIMENTS:
        raise AlignkitError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
