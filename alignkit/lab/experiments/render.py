"""The result of an experiment as text, JSON and files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.errors import writing
from alignkit.lab.experiments.protocol import Claim, Result
from alignkit.lab.experiments.registry import Experiment
from alignkit.lab.report.tables import NONE, align_columns, finite, records
from alignkit.support.files import atomic_write
from alignkit.support.version import versions


def cell(value: Any) -> str:
    """A value of a table as text, numbers with four significant digits."""
    if isinstance(value, float | np.floating):
        return NONE if np.isnan(value) else f"{value:.4g}"
    return str(value)


def verdict_line(claim: Claim) -> str:
    """The verdict on a claim, and its statistic, as two lines of text."""
    interval = "" if claim.low == claim.high else f" [{cell(claim.low)}, {cell(claim.high)}]"
    return f"{claim.verdict.upper()}: {claim.text}\n    {claim.statistic}: {cell(claim.value)}{interval}"


def result_text(experiment: Experiment, result: Result, size: str) -> str:
    """The result as text: title, table, verdicts and remarks."""
    table = result.table
    grid = [[str(name) for name in table.columns]]
    grid += [[cell(value) for value in row] for row in table.itertuples(index=False)]
    parts = [f"{experiment.name}: {experiment.summary} ({experiment.source}; {size})", align_columns(grid)]
    parts += ["\n".join(verdict_line(claim) for claim in result.claims)]
    parts += ["\n".join(result.remarks)] if result.remarks else []
    return "\n\n".join(part for part in parts if part)


def result_json(experiment: Experiment, settings: Any, result: Result, size: str) -> str:
    """The result without its raw rows as JSON."""
    claims = [{**dataclasses.asdict(claim), "verdict": str(claim.verdict)} for claim in result.claims]
    facts = {
        "experiment": experiment.name,
        "source": experiment.source,
        "size": size,
        "settings": dataclasses.asdict(settings),
        "table": records(result.table),
        "claims": [finite(claim) for claim in claims],
        "remarks": list(result.remarks),
        "versions": versions(),
    }
    return json.dumps(facts, indent=1, allow_nan=False, default=np.generic.item)  # of NumPy's numbers


def save(folder: Path, experiment: Experiment, settings: Any, result: Result, size: str) -> list[Path]:
    """Writes NAME.json, NAME-ROWS.csv for all raw rows, and the picture NAME.png where matplotlib is installed.

    Returns:
        the files written.

    Raises:
        AlignkitError: the folder cannot be made.
    """
    with writing(f"make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{experiment.name}.json"]
    with atomic_write(written[0]) as stream:
        stream.write(result_json(experiment, settings, result, size).encode() + b"\n")
    for name, rows in result.rows.items():
        written.append(folder / f"{experiment.name}-{name}.csv")
        with atomic_write(written[-1]) as stream:
            stream.write(rows.to_csv(index=False, lineterminator="\n").encode())
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return written
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    result.draw(figure)
    written.append(folder / f"{experiment.name}.png")
    with atomic_write(written[-1]) as stream:
        # Without a date or a version in it, the same result is the same file.
        figure.savefig(stream, format="png", dpi=110, metadata={"Software": None})
    return written
