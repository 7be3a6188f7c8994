"""Errors that a user can act on: the problem, its place and the remedy, in one line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

Value = TypeVar("Value")


class AlignkitError(Exception):
    """The base of every error that alignkit raises deliberately.

    The command line prints it as one line and exits with code 2.
    """


class InputError(AlignkitError):
    """A problem with a file or stream that the user gave.

    Args:
        path: the file ("-" is shown as standard input).
        problem: without a final full stop.
        line: one-based line number, if there is one.
        remedy: advice to the user, if there is any.
    """

    def __init__(
        self, path: str | os.PathLike[str], problem: str, *, line: int | None = None, remedy: str | None = None
    ) -> None:
        self.path = shown_path(path)
        self.problem = problem
        self.line = line
        self.remedy = remedy
        place = self.path if line is None else f"{self.path}, line {line}"
        message = f"{place}: {problem}" + (f"; {remedy}" if remedy else "")
        # Text from the file may contain line ends; the message stays one line.
        super().__init__(" ".join(message.splitlines()))


def shown_path(path: str | os.PathLike[str]) -> str:
    """The file as messages name it."""
    return "standard input" if os.fspath(path) == "-" else os.fspath(path)


@contextmanager
def of_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within the block, what came from a file is used: an error that names no file is about this one.

    Raises:
        InputError: instead of an AlignkitError that is none, unless it says that a package is missing.
    """
    try:
        yield
    except (InputError, ImportError):
        raise
    except AlignkitError as error:
        raise InputError(path, str(error)) from error


@contextmanager
def of_list(name: str) -> Iterator[None]:
    """Within the block, items of a list are read as lines: an error names one as Python does, ``links[2]``.

    Raises:
        InputError: instead of one with a line.
    """
    try:
        yield
    except InputError as error:
        if error.line is None:
            raise
        raise of_item(name, error) from error


def of_item(name: str, error: InputError) -> InputError:
    """The error of a line, as that of an item of a list."""
    return InputError(f"{name}[{(error.line or 1) - 1}]", error.problem, remedy=error.remedy)


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within the block, a file is read: raises InputError instead of an OSError, or if it is not UTF-8."""
    try:
        yield
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(path, f"damaged: {error}") from error


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Within the block, an OSError is an AlignkitError: cannot ``what``, which is as ``write FILE``."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe has read enough
    except OSError as error:
        raise AlignkitError(f"cannot {what}: {error.strerror or error}") from error


def abbreviated(text: str, length: int = 40) -> str:
    """The text, or its beginning and end if it is longer than ``length``, to be quoted in an error."""
    return text if len(text) <= length else f"{text[: length // 2]}...{text[-length // 4 :]}"


def plainly_shown(value: object) -> str:
    """A value as :func:`shown`, but a short string, such as a name, without quotation marks."""
    return value if isinstance(value, str) and len(value) <= 40 else shown(value)


def shown(value: object) -> str:
    """A value as errors show it: itself if it is a short number or string, else its type."""
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a larger one"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"a string of {len(value)} characters"
    return f"a {type(value).__name__}"


def counted(number: int, name: str) -> str:
    """The number of some things, as ``1 pair`` or ``1,000 pairs``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def first_line(error: Exception) -> str:
    """The first line of what another library's error says, without its full stop, or the error's type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removesuffix(".")


def check_type(given: object, kinds: Any, what: str) -> None:
    """Raise AlignkitError unless a value is of a type, or one of them; ``what`` is as ``a word must be text``."""
    if not isinstance(given, kinds):
        raise AlignkitError(f"{what}, not {abbreviated(repr(given))}")


def check_known(name: object, known: Iterable[str], what: str) -> None:
    """Raise AlignkitError, with the names there are, unless a name is one of them; ``what`` is what it names."""
    if name not in (names := list(known)):
        raise AlignkitError(f"unknown {what} {name!r}; choose from {', '.join(names)}")


def find_known(name: str, known: Mapping[str, Value], what: str) -> Value:
    """What has a name; raises AlignkitError as :func:`check_known`."""
    check_known(name, known, what)
    return known[name]


def check_list(given: object, what: str, remedy: str = "") -> None:
    """Check that what should be a list is one, and no string, whose letters would be taken for its items.

    Args:
        given: the value.
        what: what it should be, as ``a sentence must be a list of words``.
        remedy: advice.

    Raises:
        AlignkitError: it is a string, or nothing that can be gone through.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        shown = f"{'the string ' if isinstance(given, str | bytes) else ''}{abbreviated(str(given))!r}"
        raise AlignkitError(f"{what}, not {shown}" + (f"; {remedy}" if remedy else ""))
