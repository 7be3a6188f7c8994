"""The registry of experiments; their modules are imported only when they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.support.settings import assigned
from alignkit.support.stages import no_progress
from alignkit.types import Progress

if TYPE_CHECKING:
    from alignkit.lab.experiments.protocol import Result

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
        """The module of the experiment; see :mod:`alignkit.lab.experiments.protocol`."""
        return f"alignkit.lab.experiments.{self.name.replace('-', '_')}"

    def settings(self, quick: bool = False, changes: Iterable[str] = ()) -> Any:
        """The default or quick settings with some changed by ``NAME=VALUE``, as on a command line.

        Raises:
            AlignkitError: there is no such setting, or its value is not allowed.
        """
        small = import_module(self.module).QUICK
        return assigned(small if quick else type(small)(), changes)

    def size_of(self, settings: Mapping[str, Any]) -> str:
        """The size of a run with these settings: "the paper's size", or its numbers beside the paper's."""
        if self.paper and all(settings[name] == value for name, value in self.paper.items()):
            return "the paper's size"
        run = settings.get("run")
        parts = [f"run {Path(run).name}"] if run else []
        for name in self.size:
            value = settings[name]
            if (run and name in self.trained) or (not value and name in OF_PRESET):
                continue
            shown = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            if not value and name in ALL_IF_EMPTY:
                shown = "all"
            differs = name in self.paper and self.paper[name] != value
            parts.append(f"{name} {shown}" + (f" (paper: {self.paper[name]})" if differs else ""))
        return ", ".join(parts)

    def run(self, settings: Any, progress: Progress = no_progress, quick: bool = False) -> Result:
        """Runs the experiment; at a quick size, which is not that of the claims, no claim is judged."""
        from alignkit.lab.experiments.protocol import Verdict

        name = self.module.rpartition(".")[2]
        result: Result = getattr(import_module(self.module), f"run_{name}")(settings, progress)
        if not quick:
            return result
        return replace(result, claims=tuple(replace(c, verdict=Verdict.NOT_COMPARABLE) for c in result.claims))


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
        "attention-without-lexicon",
        "what flat training leaves behind, by transplants and by decoded places",
        f"ours; the thesis of {_SNELL}",
        ("seeds", "length", "hidden", "batch", "steps", "before"),
    ),
    Experiment(
        "emergence-law",
        "the step at which attention emerges, predicted from the initial gradient",
        f"ours; after {_SNELL}, 4.1",
        ("contrasts", "lengths", "widths", "rates", "batches", "seeds", "text_lengths", "text_words"),
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
