"""Every field of a file, changed in every way that a damaged or hand-made file may have changed it."""

from __future__ import annotations

import copy
import json
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.support.files import HEADER, save_arrays

Change = tuple[str, str, Any]  #: the field, what was done to it, and the content after that
MISSING = object()
WRONG: list[Any] = [
    *(None, True, False, 0, -1, 3, 1 << 62, 10**1000, -0.5, 0.5, 1e30, 1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "7", [], ["x"], [[1]], {}, {"x": 1}),
    MISSING,
]


def changed_arrays(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Other arrays in place of one."""
    yield from ((f"as {dtype}", array.astype(dtype)) for dtype in ("f4", "f8", "i4", "i8", "u1", "?", "U3", "c8"))
    yield from (
        ("as a table", array[None]),
        ("empty", array[:0]),
        ("one less", array[:-1]),
        ("a number", array.sum()),
    )
    yield from (("twice", np.concatenate([array, array])), ("reversed", array[::-1]))
    wild = (
        [-1, 0, 1 << 30, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min] if array.dtype.kind in "iu" else []
    )
    wild = wild or [np.nan, np.inf, -np.inf, -1, 0, 1, 1e30, 3.4e38]
    for value in wild:
        for where, place in (("first", 0), ("last", -1), ("all", slice(None))):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = array.copy()
                if other.size:
                    other.reshape(-1)[place] = np.array(value).astype(array.dtype)
            yield f"{where} {value}", other
    yield "missing", MISSING


def changed_values(
    values: Any, tensors: Callable[[Any], Iterator[tuple[str, Any]]] | None = None
) -> Iterator[Change]:
    """Copies of nested plain values with each of them changed in each way; ``tensors`` changes what is one."""
    for path, value in _places(values):
        is_plain = value is None or isinstance(value, bool | int | float | str | bytes | list | tuple | dict)
        changes = (
            (("to " + repr(new)[:30], new) for new in WRONG) if is_plain else (tensors or changed_arrays)(value)
        )
        for how, new in changes:
            if new is not MISSING or path:
                yield ".".join(map(str, path)), how, _with(values, path, new)
    if isinstance(values, dict):
        yield "more", "added", {**values, "more": 1}


def _places(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, values
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _places(value, (*path, name))
    elif isinstance(values, list | tuple):
        for number, value in list(enumerate(values))[:2]:  # the others are like them
            yield from _places(value, (*path, number))


def _with(values: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    other = copy.copy(list(values) if isinstance(values, tuple) else values)
    inner = _with(values[path[0]], path[1:], new)
    if inner is MISSING:
        del other[path[0]]
    else:
        other[path[0]] = inner
    return other


def npz_content(path: Path) -> dict[str, Any]:
    """The header and the arrays of a file of :func:`alignkit.support.files.save_arrays`."""
    with np.load(path) as loaded:
        arrays = {name: loaded[name] for name in loaded.files if name != HEADER}
        header = json.loads(loaded[HEADER])
    del header["arrays"]
    return {"header": header, "arrays": arrays}


def write_npz(path: Path, content: dict[str, Any]) -> None:
    """The file of a content of :func:`npz_content`, with a header that names the arrays that are there."""
    header = dict(content["header"])
    kind, version = header.pop("kind", None), header.pop("version", None)
    save_arrays(path, kind, version, content["arrays"], header)


def changed_npz(content: dict[str, Any]) -> Iterator[Change]:
    """A file's content with each array and each value of the header changed."""
    for field, how, header in changed_values(content["header"]):
        if isinstance(header, dict):
            yield field, how, {**content, "header": header}
    for name, array in content["arrays"].items():
        for how, new in changed_arrays(array):
            arrays = {
                other: value for other, value in content["arrays"].items() if other != name or new is not MISSING
            }
            more = {} if new is MISSING else {name: np.asarray(new)}
            yield name, how, {**content, "arrays": arrays | more}
    yield "more", "added", {**content, "arrays": content["arrays"] | {"more": np.zeros(1)}}


def some(changes: Iterator[Change], most: int | None) -> list[Change]:
    """All of the changes, or at most so many of each field, drawn at random; all weights count as one field."""
    fields: dict[str, list[Change]] = {}
    for change in changes:
        name = re.sub(r"[0-9]+", "#", re.sub(r"^weights\..*", "weights.*", change[0]))
        fields.setdefault(name, []).append(change)
    if most is None:
        return [change for found in fields.values() for change in found]
    rng = random.Random(0)
    return [change for found in fields.values() for change in rng.sample(found, min(most, len(found)))]


def failures(changes: list[Change], write: Callable[[Any], None], use: Callable[[], None], what: str) -> list[str]:
    """The changes that gave a warning or another exception than an AlignkitError of one line, or took it badly."""
    found = []
    for field, how, content in changes:
        write(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                use()
        except AlignkitError as error:
            message = str(error)
            if "\n" in message or len(message) > 600:
                found.append(f"{what}, {field} {how}: {message!r}")
        except Exception as error:
            found.append(f"{what}, {field} {how}: {type(error).__name__}: {str(error)[:200]}")
    return found
