"""The formats of a file that holds both sides of a bitext.

A new one is a class with the members of :class:`PairFormat`, and its place in ``PAIR_FORMATS``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from alignkit.errors import InputError
from alignkit.text.utf8 import valid_text
from alignkit.types import PathLike


class PairFormat(Protocol):
    """A format of a file that holds both sides of a bitext."""

    def recognizes(self, data: bytes) -> bool:
        """Whether a file that starts with ``data`` has this format."""
        ...

    def sides(self, path: PathLike, data: bytes, encoding_errors: str, lowercase: bool) -> tuple[bytes, bytes]:
        """The two sides of a file's content, as valid UTF-8 with a line per sentence.

        Raises:
            InputError: the content is invalid; with the line, if the file has lines.
        """
        ...


@dataclass(frozen=True)
class SeparatedLines:
    """Lines of source, separator and target, which can be read a part at a time.

    Attributes:
        name: of the separator, for messages.
        separator: matches it.
    """

    name: str
    separator: re.Pattern[bytes]

    def recognizes(self, data: bytes) -> bool:
        """Whether the separator is anywhere in ``data``."""
        return self.separator.search(data) is not None

    def sides(self, path: PathLike, data: bytes, encoding_errors: str, lowercase: bool) -> tuple[bytes, bytes]:
        """The two sides of a text; errors as of :func:`.valid_text` and :meth:`split`."""
        return self.split(path, valid_text(path, data, encoding_errors, lowercase))

    def split(self, path: PathLike, text: bytes, first_line: int = 1) -> tuple[bytes, bytes]:
        """The two sides of whole lines; both sides of a blank line are blank.

        Args:
            path: where they come from, for messages.
            text: valid UTF-8.
            first_line: number of the first line.

        Raises:
            InputError: a line without the separator, or with more than one.
        """
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        lines = text.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        for number, line in enumerate(lines, first_line):
            parts = self.separator.split(line) if line.strip(b" \t\r") else [b"", b""]
            if len(parts) != 2:
                raise InputError(
                    path,
                    f"has {len(parts) - 1} separators ({self.name}) where one is needed",
                    line=number,
                    remedy="give two files, or one with SOURCE ||| TARGET or SOURCE<tab>TARGET on each line",
                )
            for side, part in zip(sides, parts, strict=True):
                side.append(part)
        return b"".join(line + b"\n" for line in sides[0]), b"".join(line + b"\n" for line in sides[1])


#: ``|||`` as a token of its own
BARS = SeparatedLines("|||", re.compile(rb"(?<![^ \t\n])\|\|\|(?![^ \t\r\n])"))
TAB = SeparatedLines("tab", re.compile(rb"\t"))

#: The first that recognizes a file reads it; ``TAB`` where none does.
PAIR_FORMATS: tuple[PairFormat, ...] = (BARS,)


def pair_format(parts: Iterable[bytes]) -> PairFormat:
    """The format of a file, told by its first part; for ``|||``, which may come late, by all of its parts.

    Args:
        parts: the file without byte order mark, cut after line ends only.
    """
    for number, part in enumerate(parts):
        for known in PAIR_FORMATS if number == 0 else (BARS,):
            if known.recognizes(part):
                return known
    return TAB
