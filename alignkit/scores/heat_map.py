"""Heat maps of score matrices as HTML, for notebooks: plain tables that need no script and no other package."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

#: Of longer texts and sentences, the first ones are shown.
MOST_PAIRS, MOST_TOKENS = 5, 60
_COLOUR = "31, 119, 180"
_TABLE = "border-collapse: collapse; margin: 0 0 1em 0; font-size: 12px; border-color: rgba(128, 128, 128, 0.25)"
_SIZE = "width: 18px; min-width: 18px"  # of a column
_HEAD = f"{_SIZE}; writing-mode: vertical-rl; text-align: left; font-weight: normal; padding: 3px 0"
_SIDE = "text-align: right; font-weight: normal; white-space: nowrap; padding: 0 5px"


def heat_map(
    matrix: np.ndarray,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    caption: str = "",
    *,
    by_row: bool = True,
) -> str:
    """One matrix as an HTML table: a row per target token, a column per source token.

    Args:
        matrix: float (T, L), larger is stronger; negative values are left white. Values are shown as tooltips.
        source, target: the L and T tokens; their numbers without them.
        caption: text above the table.
        by_row: shade each value in proportion to the largest one of its row, since scores compare only within a
            row. False: values are probabilities, 1 is the darkest.
    """
    rows, columns = (min(size, MOST_TOKENS) for size in matrix.shape)
    heads = [str(s) for s in range(columns)] if source is None else source[:columns]
    sides = [str(t) for t in range(rows)] if target is None else target[:rows]
    if matrix.shape != (rows, columns):
        caption += f" (the first {rows} by {columns} of {matrix.shape[0]} by {matrix.shape[1]} tokens)"
    parts = [f'<table rules="all" style="{_TABLE}">']
    if caption:
        parts.append(f'<caption style="text-align: left">{escape(caption)}</caption>')
    parts.append("<tr><th></th>" + "".join(f'<th style="{_HEAD}">{escape(word)}</th>' for word in heads) + "</tr>")
    for t, side in enumerate(sides):
        row = matrix[t, :columns].astype(np.float64)
        largest = float(matrix[t].max(initial=0)) if by_row else 1.0
        cells = "".join(_cell(value, largest) for value in row.tolist())
        parts.append(f'<tr><th style="{_SIDE}; height: 18px">{escape(side)}</th>{cells}</tr>')
    return "".join([*parts, "</table>"])


def _cell(value: float, largest: float) -> str:
    share = min(max(value / largest, 0.0), 1.0) if 0 < largest < float("inf") else 0.0
    shade = f' style="background: rgba({_COLOUR}, {share:.3g})"' if share else ""
    return f'<td title="{value:.4g}"{shade}></td>'


def first_pairs(title: str, tables: Sequence[str], count: int) -> str:
    """Tables of the first pairs of a text below a title that says how many of ``count`` they are."""
    note = f", the first {len(tables)} of them shown" if len(tables) < count else ""
    return f"<div><div>{escape(title + note)}</div>{''.join(tables)}</div>"
