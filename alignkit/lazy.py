"""Functions and classes named by a registry, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def imported(place: str) -> Any:
    """The function or class at ``module:name``."""
    module, name = place.split(":")
    return getattr(import_module(module), name)
