"""Tables as text and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.metrics.protocol import Metric

NONE = "-"  #: a cell without a value


def finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with None, which JSON knows, in the place of NaN and infinity."""
    return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as plain dicts for JSON; NaN and infinity become None."""
    return [finite(row) for row in table.to_dict(orient="records")]


def to_json(table: pd.DataFrame, name: str, facts: Mapping[str, Any] | None = None) -> str:
    """One JSON object: the rows under ``name``, and further facts beside them."""
    return json.dumps({name: records(table), **(facts or {})}, indent=1, allow_nan=False)


def percent(share: float) -> str:
    """A share in per cent, or a dash for NaN."""
    return NONE if math.isnan(share) else f"{100 * share:.1f}"


def class_tables(classes: pd.DataFrame, counts: Sequence[str]) -> str:
    """Measures of classes of links as text, a table for each partition.

    Args:
        classes: columns by, class, aer, precision, recall, share_of_errors, and the counts.
        counts: the columns of numbers that are shown.
    """
    shares = {"AER %": "aer", "precision %": "precision", "recall %": "recall"}
    blocks = []
    for by, part in classes.groupby("by", sort=False):
        grid = [[str(by), *shares, *counts, "share of errors %"]]
        for row in part.to_dict(orient="records"):
            cells = [*(percent(row[name]) for name in shares.values()), *(f"{row[name]:,.0f}" for name in counts)]
            grid.append([row["class"], *cells, percent(row["share_of_errors"])])
        blocks.append(align_columns(grid))
    return "\n\n".join(blocks)


def metric_matrix(table: pd.DataFrame, metric: Metric) -> str:
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
