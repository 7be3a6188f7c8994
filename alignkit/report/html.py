"""Pieces of HTML that the page is put together from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files

DASH = "\N{EN DASH}"


def asset(name: str) -> str:
    """A file of ``alignkit/report/assets`` as text."""
    return (files("alignkit.report") / "assets" / name).read_text(encoding="utf-8")


def share(value: float | None, digits: int = 0) -> str:
    """A fraction as per cent, with a space that does not break."""
    if value is None or math.isnan(value):
        return DASH
    return f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def table(label: str, header: Sequence[str], rows: Sequence[str], name: str = "") -> str:
    """A table that scrolls where it is wider than the page.

    Args:
        label: what a screen reader calls it.
        header: the columns' names, as text.
        rows: the rows as HTML.
        name: a CSS class.
    """
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in header)
    kind = f' class="{name}"' if name else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table{kind}>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def look(text: str) -> str:
    """A paragraph of HTML that says what a figure shows and what to look for."""
    return f'<p class="look">{text}</p>'


def figure(place: str, text: str) -> str:
    """The place of a figure and of the table with its numbers, which the page's script fills, and :func:`look`."""
    return (
        f'<div class="figure" id="{place}-figure"></div>{look(text)}<details><summary>The numbers</summary>'
        f'<div class="scroll" id="{place}-table"></div></details>'
    )
