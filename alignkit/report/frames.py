"""The numbers of a report as tidy tables, one file each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import AlignkitError
from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.metrics.registry import MAIN, SCORE_METRICS, compare
from alignkit.report.breakdown import breakdown_table, mass_table
from alignkit.report.gold import gold_classes, gold_table
from alignkit.report.model import Report
from alignkit.storage import atomic_write
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "parquet")
SCORE_COLUMNS = ("run", "step", "sentence", "t", "s", "kind", "value")


def score_frame(report: Report) -> pd.DataFrame:
    """All scores of a report: columns run, step, sentence, t, s, kind and value, one row per matrix element.

    ``run`` is what the report calls the aligner; ``step`` is the training step of a network, missing for others.
    ``sentence``, ``t`` and ``s`` count from 0.
    """
    import pandas as pd

    parts = []
    for each in report.sets:
        frame = each.scores.to_frame()
        owner, _, kind = each.name.rpartition(".")
        frame.insert(0, "run", owner)
        frame.insert(1, "step", pd.array([report.steps.get(owner)] * len(frame), dtype="Int64"))
        frame.insert(5, "kind", kind)
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)[list(SCORE_COLUMNS)]


def frames(report: Report) -> dict[str, Callable[[], pd.DataFrame]]:
    """Name -> what makes the table of that name: agreement, tau, bands, mass, scores; gold, errors
    and course if any."""
    made: dict[str, Callable[[], pd.DataFrame]] = {
        MAIN.name: lambda: report.table,
        **{metric.name: partial(_metric_frame, report, metric) for metric in SCORE_METRICS if metric is not MAIN},
        "bands": lambda: breakdown_table(report),
        "mass": lambda: mass_table(report),
        "scores": lambda: score_frame(report),
    }
    if report.gold is not None:
        made["gold"] = lambda: gold_table(report)
        made["errors"] = lambda: gold_classes(report)
    steps = report.time_course
    if steps is not None:
        made["course"] = lambda: steps
    return made


def _metric_frame(report: Report, metric: Metric) -> pd.DataFrame:
    scores = {each.name: each.scores for each in report.sets}
    return compare(scores, metric, MetricSettings(percent=report.percent, seed=report.seed))


def save_frames(report: Report, folder: PathLike, form: str = "csv") -> list[Path]:
    """Write NAME.csv (or NAME.parquet) for every table of :func:`frames`; returns the files.

    Raises:
        AlignkitError: the folder cannot be made or written to, Parquet without pyarrow, or another format.
    """
    if form not in FORMATS:
        raise AlignkitError(f"frames are written as {' or '.join(FORMATS)}, not {form!r}")
    place = make_folder(folder)
    written = []
    for name, make in frames(report).items():
        path = place / f"{name}.{form}"
        table = make()
        try:
            with atomic_write(path) as stream:
                if form == "csv":
                    table.to_csv(stream, index=False, lineterminator="\n", encoding="utf-8")
                else:
                    table.to_parquet(stream)
        except ImportError as error:
            raise AlignkitError("Parquet needs pyarrow: pip install pyarrow, or write CSV") from error
        written.append(path)
    return written


def make_folder(folder: PathLike) -> Path:
    """The folder, made if it does not exist; raises AlignkitError if it cannot be made."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlignkitError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    return place
