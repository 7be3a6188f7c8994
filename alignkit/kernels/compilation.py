"""From a kernel to machine code that runs without Numba: what :mod:`alignkit.kernels.native` keeps."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from alignkit.kernels.native import _NEVER_CALLED


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """The address as a pointer."""
    del context

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], target.get_value_type(signature.return_type))

    return types.voidptr(address), generate


def compile_entry(code: str, dispatcher: Any) -> tuple[dict[str, Any], bytes] | None:
    """(header, object code) of a function int32 (pointer, pointer, slots, slots) that calls the kernel.

    Args:
        code: of the argument types (``native.describe``).
        dispatcher: Numba's, of the kernel.

    Returns:
        None if the result is no number or tuple of numbers, or if the code needs what only Numba's runtime has.
    """
    names: dict[str, Any] = {"carray": numba.carray, "pointer": _pointer, "kernel": dispatcher}
    words = iter(code.split())
    slot = [0]
    items, signature = [], []
    for word in words:
        expression, kind = _argument(word, words, slot, names)
        items.append(expression)
        signature.append(kind)
    dispatcher.compile(tuple(signature))
    returned = dispatcher.overloads[tuple(signature)].signature.return_type
    single = not isinstance(returned, types.BaseTuple)
    kinds = [] if isinstance(returned, types.NoneType) else [returned] if single else list(returned.types)
    if not all(isinstance(kind, types.Integer | types.Float | types.Boolean) for kind in kinds):
        return None
    lines = [f"result = kernel({', '.join(items)})"]
    for k, kind in enumerate(kinds):
        block = "reals" if isinstance(kind, types.Float) else "slots"
        lines.append(f"{block}[{slot[0] + k}] = {'result' if single else f'result[{k}]'}")
    source = "def entry(slots, reals):\n" + "".join(f"    {line}\n" for line in lines)
    exec(source, names)
    pointers = types.CPointer(types.int64), types.CPointer(types.float64)
    function = numba.cfunc(types.void(*pointers))(names["entry"])
    machine_code = function._library.serialize_using_object_code()[2][0]
    needs = undefined_symbols(machine_code)
    process = ctypes.CDLL(None)
    if not all(name in _NEVER_CALLED or hasattr(process, name) for name in needs):
        return None
    returns = "".join(_letter(kind) for kind in kinds)
    symbol = function._wrapper_name.removeprefix("cfunc.")
    return {"symbol": symbol, "needs": needs, "returns": returns, "single": single}, machine_code


def _letter(kind: Any) -> str:
    if isinstance(kind, types.Float):
        return "d"
    return "?" if isinstance(kind, types.Boolean) else "Q" if not kind.signed else "q"


def _argument(word: str, words: Iterator[str], slot: list[int], names: dict[str, Any]) -> tuple[str, Any]:
    """(expression, Numba type) of the argument that starts with ``word``; takes its further words and slots."""
    if word == "(":
        items = []
        for inner in words:
            if inner == ")":
                break
            items.append(_argument(inner, words, slot, names))
        return f"({''.join(f'{item}, ' for item, _ in items)})", types.Tuple([kind for _, kind in items])
    place = slot[0]
    if ":" in word:
        dtype, dimensions = np.dtype(word.split(":")[0]), int(word.split(":")[1])
        slot[0] += 1 + dimensions
        name = f"type_{dtype.name}"
        names[name] = dtype.type
        shape = "".join(f"slots[{place + 1 + d}], " for d in range(dimensions))
        return (
            f"carray(pointer(slots[{place}]), ({shape}), {name})",
            types.Array(numba.from_dtype(dtype), dimensions, "C"),
        )
    slot[0] += 1
    kind = types.boolean if word == "bool" else getattr(types, word)
    names[f"type_{word}"] = bool if word == "bool" else getattr(np, word)
    return f"type_{word}({'reals' if isinstance(kind, types.Float) else 'slots'}[{place}])", kind


def undefined_symbols(machine_code: bytes) -> list[str]:
    """The names that an ELF object of 64 bits leaves to be found elsewhere."""
    if machine_code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF object")
    start, size, count = (
        struct.unpack_from("<Q", machine_code, 40)[0],
        *struct.unpack_from("<HH", machine_code, 58),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", machine_code, start + size * k) for k in range(count)]
    found = set()
    for kind, offset, length, link, entry in ((s[1], s[4], s[5], s[6], s[9]) for s in sections):
        if kind != 2:  # the symbol table
            continue
        strings = sections[link][4]
        for place in range(offset, offset + length, entry):
            name, _, _, section = struct.unpack_from("<IBBH", machine_code, place)
            if section == 0 and name:
                end = machine_code.index(b"\0", strings + name)
                found.add(machine_code[strings + name : end].decode())
    return sorted(found)
