"""Settings changed by texts such as ``network.layers=2``. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from alignkit.errors import AlignkitError
from alignkit.neural.settings import from_dict, to_dict

S = TypeVar("S")


def assign(settings: S, assignments: Iterable[str]) -> S:
    """The settings with some of their fields replaced.

    Args:
        settings: of a run.
        assignments: each ``PART.FIELD=VALUE``, such as ``training.label_smoothing=0.1``; the value is JSON, or
            else text.

    Raises:
        AlignkitError: an assignment is not of this form, or there is no such field, or its value is impossible.
    """
    values = to_dict(settings)
    for text in assignments:
        name, equals, value = text.partition("=")
        *parts, field = name.strip().split(".")
        place: Any = values
        for part in parts:
            place = place.get(part) if isinstance(place, dict) else None
        if not equals or not isinstance(place, dict) or field not in place or isinstance(place[field], dict):
            known = ", ".join(_names(values))
            raise AlignkitError(f"{text!r} sets nothing; use NAME=VALUE with a name of {known}")
        try:
            place[field] = json.loads(value)
        except ValueError:
            place[field] = value.strip()
    return from_dict(type(settings), values)


def _names(values: dict[str, Any], prefix: str = "") -> Iterable[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{name}.")
        elif name != "architecture":
            yield prefix + name
