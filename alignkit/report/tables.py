"""Tables as text and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from alignkit.metrics.protocol import Metric
from alignkit.metrics.registry import MAIN

if TYPE_CHECKING:
    import pandas as pd


NONE = "-"  #: a cell without a value


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain dicts for JSON; NaN becomes None."""
    rows = table.to_dict(orient="records")
    return [
        {name: None if isinstance(x, float) and math.isnan(x) else x for name, x in row.items()} for row in rows
    ]


def to_json(table: pd.DataFrame, name: str, facts: Mapping[str, Any] | None = None) -> str:
    """One JSON object: the rows under ``name``, and further facts beside them."""
    return json.dumps({name: records(table), **(facts or {})}, indent=1, allow_nan=False)


def metric_matrix(table: pd.DataFrame, metric: Metric = MAIN) -> str:
    """A metric's table as text: u down, v across, the value, and in brackets its chance level if it has one.

    Args:
        table: of :func:`alignkit.metrics.registry.compare`.
        metric: that of the table.
    """
    names = list(dict.fromkeys([*table["u"], *table["v"]]))
    cells = {}
    for row in table.to_dict(orient="records"):
        value = row[metric.name]
        chance = f" ({metric.text(row['chance'])})" if metric.chance else ""
        cells[row["u"], row["v"]] = NONE if math.isnan(value) else metric.text(value) + chance
    grid = [["u \\ v", *names]]
    grid += [[u, *(cells.get((u, v), NONE) for v in names)] for u in names]
    return align_columns(grid)


def align_columns(grid: list[list[str]]) -> str:
    """Rows of cells as lines of text; the first column left, the others right."""
    widths = [max(len(row[i]) for row in grid) for i in range(len(grid[0]))]
    lines = []
    for row in grid:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
