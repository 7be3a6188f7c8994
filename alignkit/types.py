"""Types that the whole package uses, parts of an array, and what dataclasses of settings and of arrays share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from inspect import Parameter, getdoc, signature
from math import isfinite
from numbers import Integral, Real
from textwrap import indent
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from alignkit.errors import AlignkitError, abbreviated, check_type

if TYPE_CHECKING:
    import numpy as np

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
Function = TypeVar("Function", bound=Callable[..., Any])


class Ragged:
    """What belongs to each of M sentences or sentence pairs, one after another in an array.

    Attributes:
        offsets: int64 (M + 1,), where that of each begins.
    """

    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[m] for m in range(len(self)))

    def __getitem__(self, m: int) -> np.ndarray:
        raise NotImplementedError

    def span(self, m: int) -> slice:
        """The places of number m in the array; a negative one counts from the end.

        Raises:
            IndexError: there is no such number.
        """
        if not -len(self) <= m < len(self):
            raise IndexError(f"number {m} of {len(self)}")
        first = m % len(self)
        return slice(self.offsets[first], self.offsets[first + 1])


def offsets_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """int64 (M + 1,): where parts of these M lengths begin, one after another, and where the last ends."""
    import numpy as np

    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


def in_runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """int64: whole numbers in runs of these starts and lengths, one run after another."""
    import numpy as np

    return np.arange(lengths.sum()) + np.repeat(starts - offsets_of(lengths)[:-1], lengths)


def places_of(parts: Ragged, chosen: np.ndarray) -> np.ndarray:
    """int64: the places in the array of chosen parts, indices or bool (M,), one after another."""
    starts = parts.offsets[:-1][chosen]
    return in_runs(starts, parts.offsets[1:][chosen] - starts)


def counted(number: int, name: str) -> str:
    """The number of some things, as ``1 pair`` or ``1,000 pairs``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def no_progress(done: int, total: int, message: str) -> None:
    """A :data:`Progress` that shows nothing."""


def named_progress(progress: Progress, name: str, number: int = 0, parts: int = 1) -> Progress:
    """The progress of part ``number`` of some equally long parts of a work, whose messages begin with its name."""
    return lambda done, total, message: progress(
        number * total + done, parts * total, ": ".join(filter(None, (name, message)))
    )


#: Type of a setting -> the types that stand for it; others are not checked.
_TYPES = {"int": Integral, "float": Real, "bool": bool, "str": str, "None": NoneType}


def check_values(settings: Any, values: Mapping[str, Any]) -> None:
    """Check values of a dataclass's fields that are numbers, flags or text.

    Raises:
        AlignkitError: a value is of another type than its field.
    """
    for each in fields(settings):
        if each.name in values:
            kinds = tuple(_TYPES.get(kind, object) for kind in str(each.type).split(" | "))
            check_type(values[each.name], kinds, f"{each.name} must be {each.type}")


def with_options(settings: Settings, options: dict[str, Any]) -> Settings:
    """The settings, a frozen dataclass, with some of their fields replaced.

    Raises:
        AlignkitError: there is no such field, or a value is of another type or refused by the dataclass.
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        raise AlignkitError(
            f"{abbreviated(repr(settings))} is not a settings object; pass single settings by name"
        )
    known = [field.name for field in fields(settings)]
    for name in options:
        if name not in known:
            raise AlignkitError(f"{type(settings).__name__} has no option {name!r}; it has {', '.join(known)}")
    check_values(settings, options)
    return replace(settings, **options)


def naming_options(*parts: type[Any]) -> Callable[[Function], Function]:
    """Decorate a function that takes fields of settings as ``**options``: its signature and its help name them.

    Args:
        *parts: dataclasses, in whose docstrings ``Attributes`` are explained.
    """

    def named(function: Function) -> Function:
        whole, kind = signature(function), Parameter.KEYWORD_ONLY
        own = [each for each in whole.parameters.values() if each.kind is not each.VAR_KEYWORD]
        own += [Parameter(f.name, kind, default=f.default, annotation=f.type) for p in parts for f in fields(p)]
        function.__signature__ = whole.replace(parameters=own)  # type: ignore[attr-defined]
        texts = ((getdoc(part) or "").partition("Attributes:\n")[2].partition("\n\n")[0] for part in parts)
        function.__doc__ = f"{function.__doc__}\n    Options:\n" + indent("\n".join(texts), "    ") + "\n"
        return function

    return named


def equal_fields(self: Any, other: Any) -> bool:
    """Whether two dataclasses have the same fields, arrays included, to be used as ``__eq__``."""
    import numpy as np

    if type(self) is not type(other) or self is other:
        return self is other
    pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
    return all(np.array_equal(a, b) if hasattr(a, "dtype") else a == b for a, b in pairs)


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
        settings: with fields that are numbers, flags, text, None, tuples of these, or settings with such fields.
        assignments: each ``NAME=VALUE``, for a field of a part as ``training.batch=8``; the value is JSON, or else
            text, and commas divide a tuple.

    Raises:
        AlignkitError: an assignment is not of this form, there is no such field, or its value is impossible.

    >>> from alignkit.classical.settings import IBM1Settings
    >>> assigned(IBM1Settings(), ["dirichlet=0.01", "null=false"]).dirichlet
    0.01
    """
    kinds, values = dict(_kinds(settings)), {}
    for text in assignments:
        name, equals, given = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in kinds:
            raise AlignkitError(
                f"{abbreviated(text)!r} sets nothing; use NAME=VALUE with a name of {', '.join(kinds)}"
            )
        values[name] = _value(name, given, kinds[name])
    return _replaced(settings, values)


def field_types(kind: Any) -> dict[str, Any]:
    """The type of each field of a dataclass, by name."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _kinds(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The name and type of every field that can be set and is no part with fields of its own."""
    kinds = field_types(type(settings))
    for each in fields(settings):
        if is_dataclass(part := getattr(settings, each.name)):
            yield from _kinds(part, f"{prefix}{each.name}.")
        elif each.init:
            yield prefix + each.name, kinds[each.name]


_WANTED = {int: "a whole number", float: "a finite number", bool: "true or false", type(None): "null"}


def _value(name: str, text: str, kind: Any) -> Any:
    """The value of a field's type that a text stands for."""
    if kind is str or get_origin(kind) is Literal:
        return text
    kinds = get_args(kind) or (kind,)
    if get_origin(kind) is tuple:
        return tuple(_value(name, part.strip(), kinds[0]) for part in text.split(",") if part.strip())
    value: Any = text
    with suppress(ValueError, OverflowError, RecursionError):
        value = json.loads(text)
    if float in kinds and value is not None:
        with suppress(ValueError, OverflowError):
            value = float(text)
    if type(value) not in kinds or (type(value) is float and not isfinite(value)):
        wanted = " or ".join(_WANTED[each] for each in kinds)
        raise AlignkitError(f"setting {name}: {abbreviated(text)!r} is not {wanted}")
    return value


def _replaced(settings: Settings, values: Mapping[str, Any]) -> Settings:
    own = {name: value for name, value in values.items() if "." not in name}
    for part in {name.partition(".")[0] for name in values.keys() - own.keys()}:
        inner = {name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{part}.")}
        own[part] = _replaced(getattr(settings, part), inner)
    return replace(settings, **own)  # type: ignore[type-var]
