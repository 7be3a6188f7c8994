"""Numba's compiler with less work per kernel: it takes less than half of the time, and results keep their bits.

Numba optimises and assembles every function for itself, and then again within each function that calls it, where
small functions are inlined: a kernel that is called by one that is called by one gets all of that three times.
Here a function that only kernels call stays as Numba wrote it, and is optimised where it is called. The functions
by which Python and C would call it are left out, and the search for cyclic garbage waits for the compiler.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@functools.cache
def outer_compiler() -> Any:
    """The class of Numba's compiler for kernels that Python calls."""
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):
        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout  # all else is done for the whole, once

        def _optimize_final_module(self) -> None:
            # What only this kernel calls is its own: LLVM inlines whatever is called in one place.
            for function in self._final_module.functions:
                if function.linkage == Linkage.linkonce_odr:
                    function.linkage = Linkage.internal
            super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            super()._finalize_final_module()
            codegen: Any = self._codegen
            for name, environment in _environments_of(self).items():
                if codegen._engine.is_symbol_defined(name):
                    codegen.set_env(name, environment)

    return _compiler_with(Library)


@functools.cache
def inner_compiler() -> Any:
    """The class of Numba's compiler for functions that only kernels call: no machine code is made of them."""
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):
        def __init__(self, codegen: Any, name: str) -> None:
            super().__init__(codegen, name)
            self.environments: dict[str, Any] = {}

        @property
        def codegen(self) -> Any:
            return self  # for set_env only, which get_executable calls

        def set_env(self, env_name: str, env: Any) -> None:
            self.environments[env_name] = env  # there is no memory for it before a caller has machine code

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0  # Numba's answer where there is no machine code

    return _compiler_with(Library)


def _environments_of(library: Any) -> dict[str, Any]:
    """The environments (a Numba function's constants that are Python objects) of all functions linked into it."""
    found = dict(getattr(library, "environments", {}))
    for linked in library._linking_libraries:
        found.update(_environments_of(linked))
    return found


def _compiler_with(library_class: Any) -> Any:
    from numba.core.compiler import Compiler

    class KernelCompiler(Compiler):
        def __init__(self, typingctx: Any, targetctx: Any, library: Any, *arguments: Any) -> None:
            library = library_class(targetctx.codegen(), "kernel")
            library.enable_object_caching()
            super().__init__(typingctx, targetctx, library, *arguments)

        def compile_extra(self, func: Any) -> Any:
            with _uncollected():
                return super().compile_extra(func)

    return KernelCompiler


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cyclic garbage within the block: a compiler makes many objects, and most stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
