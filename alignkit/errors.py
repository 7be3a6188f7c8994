"""Errors a user can act on: what is wrong, where, and the remedy, in one line."""

from __future__ import annotations

import os


class AlignkitError(Exception):
    """Base of every error that alignkit raises on purpose.

    The command line prints it as one line and exits with code 2.
    """


class InputError(AlignkitError):
    """Something is wrong with a file or stream that the user gave.

    Args:
        path: the file ("-" is shown as standard input).
        problem: what is wrong, without a final full stop.
        line: one-based line number, where there is one.
        remedy: what the user can do about it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        problem: str,
        *,
        line: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.path = "standard input" if os.fspath(path) == "-" else os.fspath(path)
        self.problem = problem
        self.line = line
        self.remedy = remedy
        place = self.path if line is None else f"{self.path}, line {line}"
        message = f"{place}: {problem}" + (f"; {remedy}" if remedy else "")
        # What a file says of itself may hold line ends; the message stays one line.
        super().__init__(" ".join(message.splitlines()))
