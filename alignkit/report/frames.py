"""The numbers of a report as tidy tables, one file each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import AlignkitError
from alignkit.report.breakdown import breakdown_table, gold_classes, gold_table, mass_table
from alignkit.report.model import Report
from alignkit.storage import atomic_write
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

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
    """Name -> what makes the table of that name: one for each metric, bands, mass, scores; gold, errors
    and course if any."""
    made: dict[str, Callable[[], pd.DataFrame]] = {
        **{name: partial(lambda table: table, table) for name, table in report.tables.items()},
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


def save_frames(report: Report, folder: PathLike) -> list[Path]:
    """Write NAME.csv for every table of :func:`frames`; returns the files.

    Raises:
        AlignkitError: the folder cannot be made or written to.
    """
    place = make_folder(folder)
    written = []
    for name, make in frames(report).items():
        written.append(place / f"{name}.csv")
        with atomic_write(written[-1]) as stream:
            make().to_csv(stream, index=False, lineterminator="\n", encoding="utf-8")
    return written


def make_folder(folder: PathLike) -> Path:
    """The folder, made if it does not exist; raises AlignkitError if it cannot be made."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlignkitError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    return place
