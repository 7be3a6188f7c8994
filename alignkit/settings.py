"""Settings given as a dataclass, as single options, or both; the limit of one that everything has."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from alignkit.errors import AlignkitError

#: The most threads that can be asked for.
GREATEST_THREAD_COUNT = 1024

Settings = TypeVar("Settings")


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
