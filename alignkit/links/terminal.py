"""Pictures of sentence pairs for terminals: target by source words. Imports nothing heavy."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

_COLOUR = re.compile(r"\x1b\[\d*m")
_JOINERS = "\u200c\u200d"  # within words of some scripts
_LEFT_TO_RIGHT = "\u200e"


class Marks(NamedTuple):
    """The characters of a picture, each two columns wide: squares, in the terminals' usual fonts.

    ``shades`` are those of links, the most probable last; ``corner`` and ``line`` lead from a word to its column.
    """

    nothing: str
    shades: tuple[str, ...]
    corner: str
    line: str


BLOCKS = Marks("· ", ("░░", "▒▒", "▓▓", "██"), "╭ ", "│ ")
PLAIN = Marks(". ", ("--", "++", "xx", "##"), ", ", "| ")


def marks_for(encoding: str) -> Marks:
    """The marks that a terminal of this encoding can show."""
    try:
        "".join((*BLOCKS.shades, BLOCKS.nothing, BLOCKS.corner, BLOCKS.line)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def grid(
    matrix: Iterable[Iterable[float]],
    source: Sequence[str],
    target: Sequence[str],
    marks: Marks = BLOCKS,
    *,
    colour: bool = False,
) -> list[str]:
    """The lines of a picture: each source word above its column, each target word at the end of its row.

    A word is the last of its line, so that no script and no width of characters can move a column.

    Args:
        matrix: (T, L), from 0, no link, to 1.
        source, target: the L and T words.
        marks: to draw with.
        colour: whether the terminal shows colours.

    >>> print(*grid([[1.0, 0.0], [0.1, 0.6]], ["das", "Haus"], ["the", "house"], PLAIN), sep="\\n")
    , das
    | , Haus
    ##.  the
    --++ house
    """
    heads = (marks.line * s + marks.corner + printable(word) for s, word in enumerate(source))
    rows = (
        f"{''.join(_cell(float(value), marks, colour) for value in row)} {printable(word)}"
        for row, word in zip(matrix, target, strict=True)
    )
    return [_left_to_right(line) for line in (*heads, *rows)]


def _cell(value: float, marks: Marks, colour: bool) -> str:
    most = len(marks.shades)
    text = marks.shades[min(max(round(value * most), 1), most) - 1] if value > 0 else marks.nothing
    return f"\x1b[{32 if value > 0 else 2}m{text}\x1b[0m" if colour else text


def printable(text: str) -> str:
    """The text without what would steer a terminal."""
    return "".join(each if each.isprintable() or each in _JOINERS else "\ufffd" for each in text)


def _left_to_right(line: str) -> str:
    """The line with a mark before it that keeps its order in terminals that write Hebrew or Arabic leftwards."""
    leftwards = any(unicodedata.bidirectional(each) in ("R", "AL") for each in line)
    return _LEFT_TO_RIGHT + line if leftwards else line


def width(line: str) -> int:
    """The number of columns that a line takes in a terminal."""
    widths = (
        0 if unicodedata.category(each) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in _COLOUR.sub("", line)
    )
    return sum(widths)


def beside(left: Sequence[str], right: Sequence[str], gap: int = 4) -> list[str]:
    """The lines of two pictures next to each other."""
    edge = max(map(width, left)) + gap
    return [a + " " * (edge - width(a)) + b for a, b in zip_longest(left, right, fillvalue="")]
