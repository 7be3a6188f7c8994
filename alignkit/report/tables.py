"""Tables to text, CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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


def agreement_matrix(table: pd.DataFrame) -> str:
    """The agreement table as text: u down, v across, A(u, v) in per cent with its chance level in brackets."""
    names = list(dict.fromkeys([*table["u"], *table["v"]]))
    cells = {
        (u, v): NONE if math.isnan(a) else f"{100 * a:.1f} ({100 * chance:.1f})"
        for u, v, a, chance in table[["u", "v", "agreement", "chance"]].itertuples(index=False)
    }
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
