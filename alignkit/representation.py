"""Short representations of objects with arrays, for the interactive prompt."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

_LONGEST = 90  # characters of the representation of a part


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
