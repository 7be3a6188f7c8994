"""Dataclasses of settings: fields replaced by name or by text, and their types checked. Imports nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from math import isfinite
from numbers import Integral, Real
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from alignkit.errors import AlignkitError, abbreviated, check_type

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: The endings of the files that scores are written to: arrays without pickle; a table, which needs pyarrow.
SCORE_ENDINGS = (".npz", ".parquet")
#: The most threads that can be asked for.
GREATEST_THREAD_COUNT = 1024
#: The least probability that a word has no counterpart of those shown as omissions and additions. On development
#: data, a third to a half of the stretches shown in undamaged text have no gold link either.
LEAST_GAP = 0.4


Settings = TypeVar("Settings", bound="DataclassInstance")

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


def with_options(kind: type[Settings], settings: Settings | None, options: Mapping[str, Any]) -> Settings:
    """Settings with some of their fields replaced.

    Args:
        kind: their type, a frozen dataclass.
        settings: None: the defaults.
        options: new values of fields.

    Raises:
        AlignkitError: the settings are of another type; there is no such field, or a value is of another type or
            refused by the dataclass.
    """
    check_type(settings, kind | None, f"single settings are passed by name; settings must be {kind.__name__}")
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise AlignkitError(f"{kind.__name__} has no option {name!r}; it has {', '.join(known)}")
    check_values(kind, options)
    return replace(kind() if settings is None else settings, **options)


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


_type_hints = cache(get_type_hints)  # which parses them at each call


def field_types(kind: Any) -> dict[str, Any]:
    """The type of each field of a dataclass, by name."""
    hints = _type_hints(kind)
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
    return replace(settings, **own)
