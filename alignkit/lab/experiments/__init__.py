"""The experiments of the papers. Each has a table, a verdict for each claim, raw rows and a picture.

An experiment has, in a module of this package that may hold several,

- a frozen dataclass of settings, a subclass of :class:`ExperimentSettings` (numbers, strings and tuples of them),
  whose defaults are the paper's size, or that of the committed run;
- ``QUICK_NAME``: an instance of it with which the experiment takes less than 2 minutes on two cores;
- ``run_NAME(settings, progress) -> Result``: a plain function that can also be called from a notebook;

and an entry in :data:`EXPERIMENTS` below. Modules are imported only when they run.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, SupportsFloat

from alignkit.errors import AlignkitError, writing
from alignkit.lab.report.tables import NONE, align_columns, finite, records
from alignkit.support.packages import MissingPackageError, need, versions
from alignkit.support.settings import assigned
from alignkit.support.stages import no_progress
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Figure
else:
    Figure = Any  # matplotlib is an extra


class Verdict(StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable at this size"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and its verdict.

    Attributes:
        text: the claim, understandable without the paper, with the section that makes it.
        statistic: what was measured, in words.
        value: the statistic.
        low, high: its interval; equal to ``value`` where it is exact.
        verdict: see :func:`judge`; none is given at a quick size.
    """

    text: str
    statistic: str
    value: float
    low: float
    high: float
    verdict: Verdict


ALL_IF_EMPTY = {"scored", "pairs", "sets"}  # settings of which 0 or nothing means all
OF_PRESET = {"pieces", "batch", "epochs", "steps"}  # settings of which 0 means the preset's, or no limit


@dataclass(frozen=True)
class ExperimentSettings:
    """Settings of an experiment, whose numbers are above 0 and whose tuples are not empty.

    Attributes:
        least: the settings that may be 0 or empty, with the least value of each.
        size: the settings that make the size of the experiment.
        trained: those of them that do not count if ``run`` names a network that is trained already.
        paper: their values in the paper, as far as they are known; empty where the paper gives no size.
        alike: the settings whose values may be the same.
    """

    least: ClassVar[dict[str, int]] = {}
    size: ClassVar[tuple[str, ...]] = ()
    trained: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[dict[str, Any]] = {}
    alike: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Raises AlignkitError if a setting is too small, or the same value would count twice."""
        for name, value in vars(self).items():
            parts = value if isinstance(value, tuple) else (value,)
            least = self.least.get(name)
            if not parts and least is None:
                raise AlignkitError(f"{name} must not be empty")
            if len(set(parts)) < len(parts) and name not in self.alike:
                raise AlignkitError(f"{name} has a value twice: {' '.join(map(str, parts))}")
            if least is None and any(part <= 0 for part in parts if type(part) in (int, float)):
                raise AlignkitError(f"{name} must be above 0, not {value}")
            if least is not None and any(part < least for part in parts if type(part) in (int, float)):
                raise AlignkitError(f"{name} must be at least {least}, not {value}")

    def size_text(self) -> str:
        """The size of a run with these settings: "the paper's size", or its numbers beside the paper's."""
        if self.paper and all(getattr(self, name) == value for name, value in self.paper.items()):
            return "the paper's size"
        run = getattr(self, "run", "")
        parts = [f"run {Path(run).name}"] if run else []
        for name in self.size:
            value = getattr(self, name)
            if (run and name in self.trained) or (not value and name in OF_PRESET):
                continue
            shown = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            if not value and name in ALL_IF_EMPTY:
                shown = "all"
            differs = name in self.paper and self.paper[name] != value
            parts.append(f"{name} {shown}" + (f" (paper: {self.paper[name]})" if differs else ""))
        return ", ".join(parts)


@dataclass(frozen=True)
class Result:
    """The result of an experiment.

    Attributes:
        table: what is printed; numbers are in the units that its columns name.
        claims: in the order of the paper.
        rows: raw rows by name, one tidy data frame each; enough to redraw the picture.
        draw: draws on an empty matplotlib figure.
        remarks: sentences that a reader needs beside the table, such as what was tried where a claim fails.
    """

    table: pd.DataFrame
    claims: tuple[Claim, ...]
    rows: Mapping[str, pd.DataFrame]
    draw: Callable[[Figure], None]
    remarks: tuple[str, ...] = field(default=())


def judge(low: float, high: float, *, above: float | None = None, below: float | None = None) -> Verdict:
    """The verdict on an interval: holds if all of it is above (below) the bound, fails if none of it is.

    With both bounds, the claim is that the value lies between them. NaN leaves it undecided.
    """
    if math.isnan(low) or math.isnan(high):
        return Verdict.UNDECIDED
    floor, ceiling = -math.inf if above is None else above, math.inf if below is None else below
    if low > floor and high < ceiling:
        return Verdict.HOLDS
    if high <= floor or low >= ceiling:
        return Verdict.FAILS
    return Verdict.UNDECIDED


def claim(
    text: str, statistic: str, value: float, interval: tuple[float, float] | None = None, **bounds: float | None
) -> Claim:
    """A claim judged by its interval (``value`` itself if that is exact), with the bounds of :func:`judge`."""
    low, high = (value, value) if interval is None else interval
    return Claim(text, statistic, value, low, high, judge(low, high, **bounds))


def share_claim(text: str, statistic: str, count: int, total: int, **bounds: float | None) -> Claim:
    """A claim about a share, judged by Wilson's interval, with the bounds of :func:`judge`."""
    from alignkit.metrics.intervals import wilson

    return claim(text, statistic, count / total, wilson(count, total), **bounds)


def averaged(values: Any, least: float = -math.inf, most: float = math.inf) -> tuple[float, tuple[float, float]]:
    """The mean of independent values (runs, sentences) without NaN, and its 95 % interval within these bounds.

    >>> averaged([1.0, 2.0, 3.0, float("nan")])[0]
    2.0
    """
    import numpy as np

    from alignkit.metrics.intervals import mean_interval

    sample = np.asarray(values, np.float64).ravel()
    sample = sample[~np.isnan(sample)]
    return float(sample.mean()) if len(sample) else float("nan"), mean_interval(sample, least, most)


@dataclass(frozen=True)
class Experiment:
    """An experiment: its name, its summary, and what it reproduces.

    Attributes:
        name: of the experiment.
        summary: a line about it.
        source: the section of the paper that it reproduces.
    """

    name: str
    summary: str
    source: str

    @property
    def identifier(self) -> str:
        """The name as Python writes it."""
        return self.name.replace("-", "_")

    @property
    def module(self) -> str:
        """The module of the experiment."""
        shared = (module for module, names in SHARED_MODULES.items() if self.name in names)
        return f"alignkit.lab.experiments.{next(shared, self.identifier)}"

    def settings(self, quick: bool = False, changes: Iterable[str] = ()) -> Any:
        """The default or quick settings with some changed by ``NAME=VALUE``, as on a command line.

        Raises:
            AlignkitError: there is no such setting, or its value is not allowed.
        """
        small = getattr(import_module(self.module), f"QUICK_{self.identifier.upper()}")
        return assigned(small if quick else type(small)(), changes)

    def run(self, settings: Any, progress: Progress = no_progress, quick: bool = False) -> Result:
        """Runs the experiment; at a quick size, which is not that of the claims, no claim is judged."""
        result: Result = getattr(import_module(self.module), f"run_{self.identifier}")(settings, progress)
        if not quick:
            return result
        return replace(result, claims=tuple(replace(c, verdict=Verdict.NOT_COMPARABLE) for c in result.claims))


def cells(values: Sequence[Any]) -> list[str]:
    """The values of a column as text, numbers with equally many decimals: four significant digits of the largest.

    >>> cells([-474.58, -318662.2, 0.0026]), cells([0.25, 0.00003]), cells([1180.0, "all"])
    (['-474.58', '-318,662.20', '0.0026'], ['0.2500', '3e-05'], ['1,180', 'all'])
    """
    numbers = [abs(float(each)) for each in values if isinstance(each, SupportsFloat)]
    known = [each for each in numbers if math.isfinite(each)]
    whole = all(each.is_integer() for each in known)
    decimals = 0 if whole else min(max(3 - math.floor(math.log10(max(known))), 2), 6)

    def text(value: Any) -> str:
        if not isinstance(value, SupportsFloat) or isinstance(value, bool):
            return str(value)
        number = float(value)
        if math.isnan(number):
            return NONE
        if isinstance(value, int):
            return f"{value:,}"
        # What these decimals would show as 0 keeps a digit.
        return f"{number:,.{decimals}f}" if not number or round(number, decimals) else f"{number:.2g}"

    return [text(value) for value in values]


def result_text(experiment: Experiment, result: Result, size: str) -> str:
    """The result as text: title, table, verdicts and remarks."""
    title = f"{experiment.name}: {experiment.summary} ({experiment.source}; {size})"
    columns = [[str(name), *cells(result.table[name].tolist())] for name in result.table]
    grid = [list(row) for row in zip(*columns, strict=True)]
    verdicts: list[str] = []
    judged = {each.verdict for each in result.claims} != {Verdict.NOT_COMPARABLE}
    if result.claims and not judged:
        verdicts.append(f"{Verdict.NOT_COMPARABLE.upper()}:")
    for each in result.claims:
        value, low, high = cells([each.value, each.low, each.high])
        interval = "" if low == high else f" [{low}, {high}]"
        verdict = f"{each.verdict.upper()}: " if judged else ""
        verdicts.append(f"{verdict}{each.text}\n    {each.statistic}: {value}{interval}")
    parts = (title, align_columns(grid), "\n".join(verdicts), "\n".join(result.remarks))
    return "\n\n".join(part for part in parts if part)


def result_json(experiment: Experiment, settings: Any, result: Result, size: str) -> str:
    """The result without its raw rows as JSON."""
    facts = {
        "experiment": experiment.name,
        "source": experiment.source,
        "size": size,
        "settings": dataclasses.asdict(settings),
        "table": records(result.table),
        "claims": [finite(dataclasses.asdict(each)) | {"verdict": str(each.verdict)} for each in result.claims],
        "remarks": list(result.remarks),
        "versions": versions(),
    }
    return json.dumps(facts, indent=1, allow_nan=False, default=lambda number: number.item())  # of NumPy's


def save_result(folder: Path, experiment: Experiment, settings: Any, result: Result, size: str) -> list[Path]:
    """Writes NAME.json, NAME-ROWS.csv for all raw rows, and the picture NAME.png where matplotlib is installed.

    Returns:
        the files written.

    Raises:
        AlignkitError: the folder cannot be made.
    """
    from alignkit.support.files import atomic_write

    with writing(f"make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{experiment.name}.json"]
    with atomic_write(written[0]) as stream:
        stream.write(result_json(experiment, settings, result, size).encode() + b"\n")
    for name, rows in result.rows.items():
        written.append(folder / f"{experiment.name}-{name}.csv")
        with atomic_write(written[-1]) as stream:
            stream.write(rows.to_csv(index=False, lineterminator="\n").encode())
    with suppress(MissingPackageError):
        save_picture(folder / f"{experiment.name}.png", result.draw)
        written.append(folder / f"{experiment.name}.png")
    return written


def save_picture(path: PathLike, draw: Callable[[Figure], None]) -> None:
    """Write a PNG file; raises MissingPackageError without matplotlib.

    Args:
        path: the file.
        draw: draws on an empty figure.
    """
    need("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from alignkit.support.files import atomic_write

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    with atomic_write(path) as stream:
        # Without a date or a version in it, the same result is the same file.
        figure.savefig(stream, format="png", dpi=110, metadata={"Software": None})


#: the modules that have several experiments
SHARED_MODULES = {
    "classifiers": ("gated-classifier", "output-relevance", "deceptive-attention"),
    "copying": ("copying", "copying-mechanisms", "permutation-function"),
    "initial_gradient": ("initial-gradient", "emergence-law"),
    "interventions": ("written-lexicon", "attention-without-lexicon"),
    "ktiw": ("ktiw-drives-attention", "ktiw-per-head"),
    "learning": ("word-order-of-learning", "gold-links"),
}
_SNELL = "Snell et al. 2021"
_THESIS, _OWN, _AFTER = f"{_SNELL}, the thesis", f"ours; the thesis of {_SNELL}", f"ours; after {_SNELL}, 4.1"
_BLOG = "Understanding Attention Training via Output Relevance"
_POST = "Approximating How Single Head Attention Learns (post)"
#: (name, summary, source), in the order of `alignkit experiment --list`
_LISTED = (
    ("copying", "copying fails if all words co-occur equally often", f"{_SNELL}, 3.3"),
    ("copying-mechanisms", "sparse and hard attention on permutations, against softmax", f"after {_SNELL}, 3.3"),
    ("permutation-function", "a fixed reordering is not learned though the words are", f"{_SNELL}, 6.2"),
    ("multihead", "one head with a good start among bad ones", f"{_SNELL}, 5.2"),
    ("locality", "what a state reveals of a keyword elsewhere", f"{_SNELL}, 6.1"),
    ("optimal-attention", "the best attention against the lexical probe", f"{_SNELL}, A.1"),
    ("initial-gradient", "the proxy's first gradient against co-occurrence", f"{_SNELL}, 4.1, A.2"),
    ("ktiw-drives-attention", "lexical knowledge before attention in training", _THESIS),
    ("ktiw-per-head", "lexical knowledge before attention in each head of a transformer", f"after {_THESIS}"),
    ("written-lexicon", "lexical knowledge written, erased, frozen and graded", _OWN),
    ("attention-without-lexicon", "what flat training leaves behind, by transplants and by decoded places", _OWN),
    ("emergence-law", "the step at which attention emerges, predicted from the initial gradient", _AFTER),
    ("word-order-of-learning", "when attention finds each word, predicted from the text", "ours"),
    ("gold-links", "error rates of attention and lexical probe while they learn", "ours"),
    ("toy-classifier", "gradient flow of the two-token classifier from several starts", _POST),
    ("gated-classifier", "relevance before attention in an LSTM with linear attention", _POST),
    ("output-relevance", "relevance under uniform attention against attention and influence", _BLOG),
    ("deceptive-attention", "the same predictions with attention that explains nothing", _BLOG),
    ("topic-words", "score against embedding norm of topic words", "Lu, Mao and Nayak 2021"),
)
EXPERIMENTS = {name: Experiment(name, summary, source) for name, summary, source in _LISTED}
