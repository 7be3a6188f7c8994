"""The decorator of all kernels; here and in ``compiler.py`` is every private name of Numba that alignkit uses.

``tests/test_kernel_cache.py`` lists those names; setup.cfg bounds the version of Numba by the last that has them.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from alignkit.kernels.cache_folder import kernel_folder, make_writable, prune, source_hash
from alignkit.kernels.compiler import inner_compiler, outer_compiler

log = logging.getLogger(__name__)

# Without Numba's run-time (_nrt) the references of arrays are not counted. Counting took a third or more of the
# time of loops that slice arrays or hand them on: an atomic operation each, on memory that all threads share.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}
#: Seconds after the first kernel had to be compiled until the log has it that more are.
PATIENCE = 2.0
_lock = threading.RLock()


class Kernel:
    """A function on arrays and numbers that Numba compiles when it is first called, without the GIL.

    Threads are Python threads that each run a kernel over their own block, so a kernel is serial: it compiles in a
    fraction of the time that ``parallel=True`` takes, needs no OpenMP, and gives the same bits whatever the number
    of threads. Numba itself is imported by the first call, so that programs without kernels do not wait for it.
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
                import numba

                dispatcher = numba.njit(**self.options, pipeline_class=outer_compiler())(self.py_func)
                dispatcher._cache = _cache_class()(self.py_func)
                self._dispatcher = dispatcher
            return self._dispatcher

    @functools.cached_property
    def inner(self) -> Any:
        """The dispatcher for kernels that call this one; it has no cache, for theirs holds its code."""
        import numba

        options = {**self.options, "no_cpython_wrapper": True, "pipeline_class": inner_compiler()}
        return numba.njit(**options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba gives this object when it meets it in another kernel."""
        from numba.core import types

        return types.Dispatcher(self.inner)


def kernel(function: Callable[..., Any]) -> Any:
    """A :class:`Kernel` of a function that creates no arrays, except slices of its arguments."""
    return Kernel(function)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """A :class:`Kernel` of a function that creates arrays: work space, outside of inner loops."""
    return Kernel(function, {**_OPTIONS, "_nrt": True})


@functools.cache
def _cache_class() -> Any:
    """Numba's cache of a function's machine code, in a folder of the user's.

    A cache that cannot be written (read-only or full disk) or read (damaged) costs time, never the result.
    """
    import numba
    from llvmlite import binding
    from numba.core.caching import CompileResultCacheImpl, FunctionCache

    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    folder = kernel_folder(numba.__version__, processor)
    problem = make_writable(folder)
    if problem is None:
        prune(folder)

    class Implementation(CompileResultCacheImpl):
        _locator_classes = [_locator_class(folder, problem)]  # noqa: RUF012

    class Cache(FunctionCache):
        _impl_class = Implementation

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = None
            with suppress(Exception):
                found = super().load_overload(sig, target_context)
            # Two processes that save at once may take the same name for two signatures.
            if found is not None and found.signature.args != tuple(sig):
                found = None
            if found is None and (problem or time.monotonic() - _began() > PATIENCE):
                _announce(problem and f"cannot keep compiled kernels in {folder}: {problem}")
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):
                try:
                    super().save_overload(sig, data)
                except OSError:
                    raise
                except Exception:  # unpickling a damaged index raises almost anything
                    self.flush()
                    super().save_overload(sig, data)

    return Cache


def _locator_class(folder: Path, problem: str | None) -> Any:
    """The class that tells Numba's cache where it is; with a problem, it cannot be written."""
    from numba.core.caching import _CacheLocator

    class Locator(_CacheLocator):
        def __init__(self, function: Any, file: str) -> None:
            self._line = function.__code__.co_firstlineno
            self._py_file = file  # for Numba's messages

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            return cls(py_func, py_file)

        def ensure_cache_path(self) -> None:
            if problem is not None:
                raise OSError(problem)
            folder.mkdir(parents=True, exist_ok=True)  # another process may have removed it

        def get_cache_path(self) -> str:
            return str(folder)

        def get_source_stamp(self) -> str:
            return source_hash()

        def get_disambiguator(self) -> str:
            return str(self._line)

    return Locator


@functools.cache
def _began() -> float:
    """The time at which the first kernel of this process had to be compiled."""
    return time.monotonic()


@functools.cache
def _announce(problem: str | None) -> None:
    """Log, once in a process, that kernels are being compiled and cannot be kept, or that it takes a while."""
    if problem:
        log.warning("%s; compiling them each time; set ALIGNKIT_CACHE to a folder that can be written", problem)
    else:
        log.info("compiling for this machine; the next run need not ...")
