"""The one decorator of all kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles ``function`` without the GIL and keeps the machine code on disk.

    Threads are Python threads that each run a kernel over their own block, so a kernel is serial: it compiles
    in a fraction of the time that ``parallel=True`` takes, needs no OpenMP, and gives the same bits whatever
    the number of threads.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Numba finds no folder it may write a cache to (read-only installation and home): compile each time.
        return numba.njit(**options)(function)
    _forgive(dispatcher)
    return dispatcher


def _forgive(dispatcher: Any) -> None:
    """A cache that cannot be written (full disk) or read (damaged) costs time, never the result."""
    cache = getattr(dispatcher, "_cache", None)
    if cache is None:
        return
    load, save = cache.load_overload, cache.save_overload

    def load_overload(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception:
            return None

    def save_overload(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    cache.load_overload, cache.save_overload = load_overload, save_overload
