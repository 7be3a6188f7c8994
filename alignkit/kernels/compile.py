"""The one decorator of all kernels."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Called once in a process, before the first kernel is compiled, which takes a while: a program may say so.
announce: Callable[[], None] | None = None

# Without Numba's run-time (_nrt) the references of arrays are not counted. Counting took a third or more of the
# time of loops that slice arrays or hand them on: an atomic operation each, on memory that all threads share.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False}
_lock = threading.RLock()


class Kernel:
    """A function on arrays and numbers that Numba compiles when it is first called, without the GIL.

    Threads are Python threads that each run a kernel over their own block, so a kernel is serial: it compiles in a
    fraction of the time that ``parallel=True`` takes, needs no OpenMP, and gives the same bits whatever the number
    of threads. Numba itself is imported by the first call, so that what needs no kernel does not wait for it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] = _OPTIONS) -> None:
        self.py_func = function
        self.options = options
        self._dispatcher: Any = None
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.dispatcher)(*arguments)

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher, with the machine code kept on disk."""
        with _lock:
            if self._dispatcher is None:
                self._dispatcher = _compiled_once(self.py_func, self.options)
            return self._dispatcher

    @functools.cached_property
    def inner(self) -> Any:
        """For kernels that call this one: a dispatcher without a cache of its own, which would not see that a
        callee has changed."""
        import numba

        return numba.njit(**self.options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this object for when it meets it in another kernel."""
        from numba.core import types

        return types.Dispatcher(self.inner)


def kernel(function: Callable[..., Any]) -> Any:
    """Makes a :class:`Kernel` of a function that makes no arrays; slices of those it is given are fine."""
    return Kernel(function)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """Makes a :class:`Kernel` of a function that makes arrays, which is for work space outside of inner loops."""
    return Kernel(function, {**_OPTIONS, "_nrt": True})


def _compiled_once(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    import numba

    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Numba finds no folder it may write a cache to (read-only installation and home): compile each time.
        _announce()
        return numba.njit(**options)(function)
    _mind_callees(dispatcher)
    _forgive(dispatcher)
    return dispatcher


@functools.cache
def _stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file with kernels."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def _mind_callees(dispatcher: Any) -> None:
    """Machine code on disk counts as old once any file of kernels has changed.

    Numba looks at the file of the function alone, and would keep code with another file's old callees in it.
    """
    files: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(files, "_source_stamp"):
        with suppress(OSError):  # packages in a zip file have no files to change
            files._source_stamp = _stamp()


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
        found = None
        with suppress(Exception):
            found = load(signature, context)
        if found is None:
            _announce()
        return found

    def save_overload(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    cache.load_overload, cache.save_overload = load_overload, save_overload
