"""Types that the whole package uses, and what all dataclasses of settings and of arrays have in common."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from math import isfinite
from typing import Any, TypeVar, get_type_hints

from alignkit.errors import AlignkitError, abbreviated

#: The path of a file or folder.
PathLike = str | os.PathLike[str]
#: Called as ``progress(done, total, message)`` in the course of long work.
Progress = Callable[[int, int, str], None]
#: The endings of the files that scores are written to: arrays without pickle; a table, which needs pyarrow.
SCORE_ENDINGS = (".npz", ".parquet")
#: The most threads that can be asked for.
GREATEST_THREAD_COUNT = 1024
_LONGEST = 90  # characters of the representation of a part

Settings = TypeVar("Settings")


def no_progress(done: int, total: int, message: str) -> None:
    """A :data:`Progress` that shows nothing."""


def named_progress(progress: Progress, name: str, number: int = 0, parts: int = 1) -> Progress:
    """The progress of part ``number`` of some equally long parts of a work, whose messages begin with its name."""
    return lambda done, total, message: progress(
        number * total + done, parts * total, ": ".join(filter(None, (name, message)))
    )


def with_options(settings: Settings, options: dict[str, Any]) -> Settings:
    """The settings, a frozen dataclass, with some of their fields replaced.

    Raises:
        AlignkitError: there is no such field, or the dataclass refuses a value.
    """
    known = [field.name for field in fields(settings)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise AlignkitError(f"{type(settings).__name__} has no option {name!r}; it has {', '.join(known)}")
    return replace(settings, **options)  # type: ignore[type-var]


def setting_from_text(name: str, text: str, present: Any) -> Any:
    """The value of a setting that a text stands for: JSON or, for text, itself; commas divide a tuple.

    Args:
        name: of the setting.
        text: its new value.
        present: its present value, which says of what type it is.

    Raises:
        AlignkitError: the value is of another type, or no finite number.

    >>> setting_from_text("steps", "3", 100), setting_from_text("widths", "4,16", (64,))
    (3, (4, 16))
    """
    if isinstance(present, str):
        return text
    if isinstance(present, tuple):
        example = present[0] if present else ""
        return tuple(setting_from_text(name, part.strip(), example) for part in text.split(",") if part.strip())
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if present is None or value is None:
        return value
    kind = type(present)
    value = float(value) if kind is float and type(value) is int else value
    if type(value) is not kind or (kind is float and not isfinite(value)):
        wanted = {int: "a whole number", float: "a finite number", bool: "true or false"}[kind]
        raise AlignkitError(f"setting {name}: {text!r} is not {wanted}")
    return value


def brief_repr(self: Any) -> str:
    """One line for a dataclass with arrays, to be used as its ``__repr__``.

    An array is represented by its type and shape, as ``int32 (5, 2)``, a longer sequence or dict by its length;
    fields that are None or not meant to be shown are left out.
    """
    shown = [(each.name, getattr(self, each.name)) for each in fields(self) if each.repr]
    parts = [f"{name}={_part(value)}" for name, value in shown if value is not None]
    return f"{type(self).__name__}({', '.join(parts)})"


def _part(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, tuple | list | dict) and len(value) > 3:
        return f"{len(value)} values"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def assigned(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings, a frozen dataclass, with some of their fields set by texts.

    Args:
        settings: with fields that are numbers, flags, text or None.
        assignments: each ``NAME=VALUE``; the value is JSON, or else text.

    Raises:
        AlignkitError: an assignment is not of this form, there is no such field, or its value is impossible.

    >>> from alignkit.classical.settings import IBM1Settings
    >>> assigned(IBM1Settings(), ["dirichlet=0.01", "null=false"]).dirichlet
    0.01
    """
    kinds, values = get_type_hints(type(settings)), {}
    for text in assignments:
        name, equals, given = (part.strip() for part in text.partition("="))
        if not equals or name not in kinds:
            raise AlignkitError(
                f"{abbreviated(text)!r} sets nothing; use NAME=VALUE with a name of {', '.join(kinds)}"
            )
        if isinstance(getattr(settings, name), tuple):
            values[name] = setting_from_text(name, given, getattr(settings, name))
            continue
        try:
            value = json.loads(given)
        except ValueError:
            value = given
        if isinstance(value, int) and not isinstance(value, bool) and kinds[name] not in (int, bool):
            value = float(value)
        if (
            isinstance(value, bool) != (kinds[name] is bool)
            or not isinstance(value, kinds[name])
            or value != value
        ):
            raise AlignkitError(f"{name} cannot be {abbreviated(given)!r}")
        values[name] = value
    return with_options(settings, values)
