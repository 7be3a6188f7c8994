"""All experiments by name; their modules are imported only when they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from math import isfinite
from typing import Any, Literal, get_args, get_origin, get_type_hints

from alignkit.errors import AlignkitError
from alignkit.experiments.protocol import Progress, Result, no_progress


@dataclass(frozen=True)
class Experiment:
    """Where an experiment is, and a line about it; ``module`` is as :mod:`alignkit.experiments.protocol` says."""

    name: str
    module: str
    summary: str
    source: str

    def settings(self, quick: bool = False, changes: Mapping[str, Any] | None = None) -> Any:
        """Full-size or quick settings with some changed; values may be text, as from a command line.

        Raises:
            AlignkitError: there is no such setting, or its value does not fit.
        """
        module = import_module(self.module)
        base = module.QUICK if quick else module.Settings()
        hints = get_type_hints(type(base))
        given = {key: _value(key, hints, text) for key, text in (changes or {}).items()}
        return dataclasses.replace(base, **given)

    def run(self, settings: Any, progress: Progress = no_progress) -> Result:
        """Runs it."""
        result: Result = import_module(self.module).run(settings, progress)
        return result


def _value(key: str, hints: Mapping[str, Any], text: Any) -> Any:
    if key not in hints:
        raise AlignkitError(f"there is no setting {key!r}; there are {', '.join(hints)}")
    if not isinstance(text, str):
        return text
    wanted = hints[key]
    if get_origin(wanted) is Literal:
        if text not in get_args(wanted):
            raise AlignkitError(f"setting {key}: {text!r} is not one of {', '.join(get_args(wanted))}")
        return text
    try:
        if wanted in (int, float, str):
            value = wanted(text)
            parts = (value,)
        elif wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        else:
            kind = wanted.__args__[0]  # tuple[int, ...]
            value = parts = tuple(kind(part) for part in text.split(",") if part)
    except (ValueError, KeyError) as error:
        name = getattr(wanted, "__name__", str(wanted))
        raise AlignkitError(f"setting {key}: {text!r} is not {name}") from error
    if any(isinstance(part, float) and not isfinite(part) for part in parts):
        raise AlignkitError(f"setting {key}: {text!r} is not finite")
    return value


_HERE = "alignkit.experiments"
_SNELL = "Snell et al. 2021"
_BLOG = "Understanding Attention Training via Output Relevance"

#: in the order in which `alignkit experiment --list` shows them
_ALL: tuple[Experiment, ...] = (
    Experiment("copying", f"{_HERE}.copying", "copying fails where words meet all words alike", f"{_SNELL}, 3.3"),
    Experiment(
        "permutation-function",
        f"{_HERE}.permutation_function",
        "a fixed reordering is not learned though the words are",
        f"{_SNELL}, 6.2",
    ),
    Experiment("multihead", f"{_HERE}.multihead", "one head with a good start among bad ones", f"{_SNELL}, 5.2"),
    Experiment("locality", f"{_HERE}.locality", "what a state tells of a keyword elsewhere", f"{_SNELL}, 6.1"),
    Experiment(
        "optimal-attention",
        f"{_HERE}.optimal_attention",
        "the attention that would serve best, against the lexical probe",
        f"{_SNELL}, A.1",
    ),
    Experiment(
        "initial-gradient",
        f"{_HERE}.initial_gradient",
        "the proxy's first gradient against the co-occurrence table",
        f"{_SNELL}, 4.1, A.2",
    ),
    Experiment(
        "ktiw-drives-attention",
        f"{_HERE}.ktiw_drives_attention",
        "lexical knowledge and attention against IBM 1 along one training run",
        f"{_SNELL}, the thesis",
    ),
    Experiment(
        "toy-classifier",
        f"{_HERE}.toy_classifier",
        "gradient flow of the two-token classifier from several starts",
        _BLOG,
    ),
    Experiment(
        "output-relevance",
        f"{_HERE}.output_relevance",
        "relevance under uniform attention against attention and influence",
        _BLOG,
    ),
    Experiment(
        "deceptive-attention",
        f"{_HERE}.deceptive_attention",
        "the same predictions with attention that explains nothing",
        _BLOG,
    ),
    Experiment(
        "topic-words",
        f"{_HERE}.topic_words",
        "score against embedding norm of topic words, in closed form and trained",
        "Lu, Mao and Nayak 2021",
    ),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; raises AlignkitError, naming those there are."""
    if name not in EXPERIMENTS:
        raise AlignkitError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
