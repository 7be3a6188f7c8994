"""Kernels as machine code on disk, called without Numba.

Numba compiles a small function around the kernel, which takes its arguments out of an array of 8-byte slots: an
array as its address and its shape, a number as itself, a tuple as its items; and puts the result behind them. The
object code goes to a file whose name tells the kernel and the types of its arguments, and whose header the sources,
the versions and the processor it is for. llvmlite, which Numba itself compiles with, links it in a later process
within milliseconds.

For Linux on 64-bit machines; elsewhere, or if ALIGNKIT_NATIVE_KERNELS is 0, Numba does everything.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import platform
import struct
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

# Functions that compiled code names and never calls: it raises nothing and owns no memory.
_NEVER_CALLED = (
    "NRT_Free",
    "NRT_MemInfo_call_dtor",
    "numba_do_raise",
    "numba_gil_ensure",
    "numba_gil_release",
    "numba_runtime_build_excinfo_struct",
    "numba_unpickle",
)
_SCALARS = {int: "int64", float: "float64", bool: "bool"}
_SCALARS |= {getattr(np, name): name for name in ("int32", "int64", "uint32", "uint64", "float32", "float64")}
_SCALARS[np.bool_] = "bool"


@functools.cache
def supported() -> bool:
    """Whether kept machine code can be used here."""
    wanted = os.environ.get("ALIGNKIT_NATIVE_KERNELS", "1") != "0"
    interpreted = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    linux = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
    return wanted and not interpreted and linux and sys.implementation.name == "cpython"


# Arguments to slots.


def describe(arguments: Sequence[Any]) -> tuple[str, list[Any]] | None:
    """(code of the types, values of the slots), or None for what slots cannot hold.

    A code is a word per argument: ``<f4:2`` a float32 array of two dimensions in C order, ``int64`` a number,
    ``( ... )`` a tuple.
    """
    words: list[str] = []
    slots: list[Any] = []
    if supported() and all([_describe(argument, words, slots) for argument in arguments]):
        return " ".join(words), slots
    return None


def _describe(value: Any, words: list[str], slots: list[Any]) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        if not value.flags.c_contiguous or value.dtype.kind not in "iufb" or not value.dtype.isnative:
            return False
        words.append(f"{value.dtype.str}:{value.ndim}")
        slots.append(value.__array_interface__["data"][0])
        slots.extend(value.shape)
        return value.flags.aligned
    if kind is tuple:
        words.append("(")
        for item in value:
            if not _describe(item, words, slots):
                return False
        words.append(")")
        return True
    if kind in _SCALARS:
        words.append(_SCALARS[kind])
        slots.append(value)
        return kind is not int or -(2**63) <= value < 2**63
    return False


def _slot_format(code: str) -> str:
    """The slots of a code for ``struct``."""
    letters = []
    for word in code.split():
        if ":" in word:
            letters.append("q" * (1 + int(word.split(":")[1])))
        elif word not in "()":
            letters.append({"float32": "d", "float64": "d", "uint64": "Q"}.get(word, "q"))
    return "=" + "".join(letters)


class Entry:
    """Machine code for one kernel and one code of argument types.

    Args:
        address: of the function int32 (pointer, pointer, slots, slots) that Numba made.
        code: of the types.
        returns: how the result is read from the slots behind the arguments: a format for ``struct``, with "?" for
            a boolean; "" for no result.
        single: whether the result is no tuple.
        keep: what must live as long as the code.
    """

    def __init__(self, address: int, code: str, returns: str, single: bool, keep: Any) -> None:
        self._call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(address)
        self._slots = struct.Struct(_slot_format(code))
        self._booleans = [letter == "?" for letter in returns]
        self._result = struct.Struct("=" + returns.replace("?", "q"))
        self._single = single
        self._keep = keep

    def __call__(self, values: list[Any]) -> Any:
        size = self._slots.size
        block = bytearray(size + self._result.size + 16)  # what the function wants to write beside the slots
        self._slots.pack_into(block, 0, *values)
        place = ctypes.addressof(ctypes.c_char.from_buffer(block))
        spare = place + size + self._result.size
        status = self._call(spare, spare + 8, place, place)
        if status != 0:
            raise RuntimeError(f"a kernel failed with status {status}")
        if not self._booleans:
            return None
        result = self._result.unpack_from(block, size)
        if any(self._booleans):
            result = tuple(bool(x) if b else x for x, b in zip(result, self._booleans, strict=True))
        return result[0] if self._single else result


# Machine code from and to files.


@functools.cache
def _stamp() -> str:
    """Of all that kept code depends on: kernels, versions, processor."""
    import llvmlite
    from llvmlite import binding

    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    spec = find_spec("numba")
    if spec is not None and spec.origin is not None:
        digest.update(Path(spec.origin).with_name("_version.py").read_bytes())
    features = binding.get_host_cpu_features().flatten()
    parts = (llvmlite.__version__, sys.version, np.__version__, binding.get_host_cpu_name(), features)
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()


@functools.cache
def _folder() -> Path | None:
    """Where code is kept: where Numba's caches are asked to be, beside the kernels, or the user's cache."""
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    choices = [Path(__file__).parent / "__pycache__", Path(home) / "alignkit"]
    for folder in [Path(wanted) / "alignkit"] if wanted else choices:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    return None


def _path(name: str, code: str) -> Path | None:
    folder = _folder()
    digest = hashlib.sha256(code.encode()).hexdigest()[:16]
    return None if folder is None else folder / f"{name}-{digest}.kernel"


def load(name: str, code: str) -> Entry | None:
    """The kept code of a kernel, or None where there is none that fits; a damaged file is none."""
    if not supported():
        return None
    try:
        path = _path(name, code)
        if path is None:
            return None
        first, _, machine_code = path.read_bytes().partition(b"\n")
        header = json.loads(first)
        if header["stamp"] != _stamp() or header["sha256"] != hashlib.sha256(machine_code).hexdigest():
            return None
        return _link(header, machine_code, code)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError):
        return None


def _link(header: dict[str, Any], machine_code: bytes, code: str) -> Entry | None:
    from llvmlite import binding

    process = ctypes.CDLL(None)
    if not all(name in _NEVER_CALLED or hasattr(process, name) for name in header["needs"]):
        return None
    with suppress(RuntimeError):  # newer versions do this by themselves
        binding.initialize_native_target()
    with suppress(RuntimeError):
        binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    stubs = "".join(f"define void @{name}() {{ unreachable }}\n" for name in _NEVER_CALLED)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(stubs), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(machine_code))
    engine.finalize_object()
    address = engine.get_function_address(header["symbol"])
    return Entry(address, code, header["returns"], header["single"], engine) if address else None


def build(name: str, code: str, dispatcher: Any) -> Entry | None:
    """Compiles a kernel for these types with Numba and keeps the code; None if it cannot stand alone."""
    from alignkit.kernels.compilation import compile_entry

    compiled = compile_entry(code, dispatcher)
    if compiled is None:
        return None
    header, machine_code = compiled
    header |= {"stamp": _stamp(), "sha256": hashlib.sha256(machine_code).hexdigest()}
    path = _path(name, code)
    if path is not None:
        with suppress(OSError):
            _write(path, json.dumps(header).encode() + b"\n" + machine_code)
    return _link(header, machine_code, code)


def _write(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
