"""The one decorator of all kernels."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from alignkit.kernels import native

#: Called once in a process, before the first kernel is compiled, which takes a while: a program may say so.
announce: Callable[[], None] | None = None

_lock = threading.RLock()


class Kernel:
    """A function on arrays and numbers that is compiled when it is first called, without the GIL.

    Threads are Python threads that each run a kernel over their own block, so a kernel is serial: it compiles in a
    fraction of the time that ``parallel=True`` takes, needs no OpenMP, and gives the same bits whatever the number
    of threads.

    The machine code is kept on disk (:mod:`alignkit.kernels.native`) and runs from there without Numba, whose import
    and set-up would take longer than the alignment of a small text. Numba comes in where there is no code yet, and
    for arguments or platforms that the kept code is not for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        self._entries: dict[str, native.Entry | None] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        described = native.describe(arguments)
        if described is None:
            return self.dispatcher(*arguments)
        code, values = described
        try:
            entry = self._entries[code]
        except KeyError:
            entry = self._prepare(code)
        return self.dispatcher(*arguments) if entry is None else entry(values)

    def _prepare(self, code: str) -> native.Entry | None:
        with _lock:
            if code not in self._entries:
                name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
                entry = native.load(name, code)
                if entry is None and native.supported():
                    _announce()
                    entry = native.build(name, code, self.inner)
                self._entries[code] = entry
            return self._entries[code]

    @functools.cached_property
    def inner(self) -> Any:
        """For kernels that call this one: Numba's dispatcher, without a cache of its own, which would not see that
        a callee has changed."""
        import numba

        return numba.njit(**_OPTIONS)(self.py_func)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher with Numba's cache."""
        import numba

        _announce()
        try:
            dispatcher = numba.njit(cache=True, **_OPTIONS)(self.py_func)
        except RuntimeError:
            # Numba finds no folder it may write a cache to (read-only installation and home): compile each time.
            return numba.njit(**_OPTIONS)(self.py_func)
        _forgive(dispatcher)
        return dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this object for when it meets it in another kernel."""
        from numba.core import types

        return types.Dispatcher(self.inner)


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}


def kernel(function: Callable[..., Any]) -> Any:
    """Makes a :class:`Kernel` of a function."""
    return Kernel(function)


def _announce() -> None:
    global announce
    if announce is not None:
        say, announce = announce, None
        say()


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
