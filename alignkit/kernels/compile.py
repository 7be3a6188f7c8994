"""The decorator of all kernels: Numba's ``njit``, imported at the first call, with machine code kept on disk.

Numba's own cache (``njit(cache=True)``) would do with less code. This one is kept for what it spares in every run
of ``alignkit align`` on a small text: a fifth of the time and 60 of 206 MB, because Numba's compiler is not made
ready where all is kept; and for what it survives: a damaged file, a full or read-only disk, and a change in a
kernel that others call, which Numba's own does not notice. Its price is the private names of Numba that this file
uses, listed in ``tests/kernels/test_kernel_cache.py``. Where a Numba lacks one, its own cache is used.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from alignkit.kernels.cache_folder import kernel_folder, make_writable, prune, read_checked, write_checked

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

                dispatcher = numba.njit(**self.options)(self.py_func)
                try:
                    dispatcher._cache = _cache_class()(self.py_func)
                except (ImportError, AttributeError):
                    _use_cache_of_numba(dispatcher)
                self._dispatcher = dispatcher
            return self._dispatcher

    @functools.cached_property
    def inner(self) -> Any:
        """The dispatcher for kernels that call this one; it has no cache, for theirs holds its code."""
        import numba

        return numba.njit(**{**self.options, "no_cpython_wrapper": True})(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba gives this object when it meets it in another kernel."""
        from numba.core import types

        return types.Dispatcher(self.inner)


def _use_cache_of_numba(dispatcher: Any) -> None:
    """Let Numba keep a kernel by itself, in the folder for these sources, if that can be written."""
    import numba

    config: Any = numba.config
    folder = kernel_folder(numba.__version__, "numba")
    if make_writable(folder) is None:
        config.CACHE_DIR, chosen = str(folder), config.CACHE_DIR
        dispatcher.enable_caching()
        config.CACHE_DIR = chosen


def kernel(function: Callable[..., Any]) -> Any:
    """A :class:`Kernel` of a function that creates no arrays, except slices of its arguments."""
    return Kernel(function)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """A :class:`Kernel` of a function that creates arrays: work space, outside of inner loops."""
    return Kernel(function, {**_OPTIONS, "_nrt": True})


@functools.cache
def _cache_class() -> Any:
    """The class of caches of a function's machine code, in a folder of the user's: a file for each signature.

    A cache that cannot be written (read-only or full disk) or is not as it was written costs time, never the
    result.
    """
    import numba
    from llvmlite import binding
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult
    from numba.core.runtime import nrt
    from numba.core.serialize import dumps

    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    folder = kernel_folder(numba.__version__, processor)
    problem = make_writable(folder)
    if problem is None:
        prune(folder)

    # What kernels that create arrays call. Numba would get ready to compile, which takes as long as importing it.
    for name, address in nrt._nrt.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)

    class Cache(NullCache):
        def __init__(self, function: Any) -> None:
            self.function = function

        def place(self, sig: Any) -> Path:
            # The folder's name stands for the sources of our kernels, but not of those of tests.
            name, code = f"{self.function.__module__}.{self.function.__name__}", self.function.__code__
            key = f"{self.function.__qualname__} {code.co_firstlineno} {code.co_code.hex()} {sig}"
            return folder / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.nbc"

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            overload: Any = None
            with suppress(Exception):
                data = read_checked(self.place(sig))
                overload = data and CompileResult._rebuild(target_context, *pickle.loads(data))
            # Two types may have one name.
            if overload is not None and overload.signature.args != tuple(sig):
                overload = None
            if overload is None and (problem or time.monotonic() - _began() > PATIENCE):
                _announce(problem and f"cannot keep compiled kernels in {folder}: {problem}")
            return overload

        def save_overload(self, sig: Any, data: Any) -> None:
            if problem is None and not data.library.has_dynamic_globals:  # those are addresses in this process
                (name, kind, (code, _)), *rest, environments = data._reduce()
                # To rebuild the environments of its own functions on arrays, Numba would import their modules in
                # every run; without constants nothing looks at them. Ours may print, or raise with a value.
                environments = tuple(
                    environment
                    for environment in environments
                    if environment.consts or not environment.globals["__name__"].startswith("numba.")
                )
                # Beside the machine code Numba keeps what other functions need to inline this one. Ours never do
                # (they inline `Kernel.inner`), and reading it took half of the time: one name is enough.
                entry = f'@"{data.fndesc.llvm_cpython_wrapper_name}" = global i8 0'
                stub = binding.parse_assembly(entry).as_bitcode()
                with suppress(OSError):
                    write_checked(self.place(sig), dumps(((name, kind, (code, stub)), *rest, environments)))

    return Cache


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
