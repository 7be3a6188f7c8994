"""Plain values that were read from a file, checked one by one: each that is wrong is an error that names it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from alignkit.errors import InputError
from alignkit.types import PathLike

LARGEST = (1 << 63) - 1  #: of whole numbers


def parse_json(path: PathLike, text: str, *, line: int | None = None) -> Any:
    """The value of a JSON text.

    Args:
        path, line: where it was read, for the error.
        text: the text.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = str(error).split(":")[0] or type(error).__name__
        raise InputError(path, f"damaged: not JSON ({problem})", line=line) from error


class Record:
    """Values by name, such as the header of a model or a row of a log.

    Its methods return a value of the type that they are called for.

    Args:
        path, line: where they were read.
        values: the values.
        name: of the record in the file, if it is part of another one.

    Raises:
        InputError: ``values`` are not values by name; from the methods: there is no such value, it is of another
            type, or it is out of its range.
    """

    def __init__(self, path: PathLike, values: object, *, name: str = "", line: int | None = None) -> None:
        self._path, self._name, self._line = path, name, line
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise self._problem(f"{name or 'its content'} should be values by name")
        self._values: Mapping[str, Any] = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def whole(self, name: str, low: int = 0, high: int = LARGEST) -> int:
        """A whole number from ``low`` to ``high``."""
        value = self.value(name)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}", value)
        return value

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number from ``low`` to ``high``."""
        return self._number(name, self.value(name), low, high)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        value = self.value(name)
        if not isinstance(value, list | tuple):
            raise self._wrong(name, "a list of numbers", value)
        return tuple(self._number(name, each, -math.inf, math.inf) for each in value)

    def text(self, name: str, choices: Collection[str] | None = None) -> str:
        """A string, one of the choices if there are any."""
        value = self.value(name)
        if not isinstance(value, str) or (choices is not None and value not in choices):
            raise self._wrong(name, "a string" if choices is None else f"one of {', '.join(choices)}", value)
        return value

    def texts(self, name: str, count: int | None = None) -> tuple[str, ...]:
        """A list of strings, ``count`` of them if it is given."""
        value = self.value(name)
        right = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        if not right or count not in (None, len(value)):
            raise self._wrong(name, "a list of strings" if count is None else f"a list of {count} strings", value)
        return tuple(value)

    def flag(self, name: str) -> bool:
        """True or False."""
        value = self.value(name)
        if type(value) is not bool:
            raise self._wrong(name, "true or false", value)
        return value

    def rows(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self.value(name)
        if not isinstance(value, list | tuple):
            raise self._wrong(name, "a list", value)
        return list(value)

    def value(self, name: str) -> Any:
        """Anything; the caller checks it."""
        if name not in self._values:
            raise self._problem(f"{self._place(name)} is missing")
        return self._values[name]

    def part(self, name: str) -> Record:
        """Values by name."""
        return Record(self._path, self.value(name), name=self._place(name), line=self._line)

    def optional(self, name: str) -> bool:
        """Whether there is such a value that is not None."""
        return self._values.get(name) is not None

    def _number(self, name: str, value: object, low: float, high: float) -> float:
        try:
            found = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
        except OverflowError:
            found = math.inf
        if not (math.isfinite(found) and low <= found <= high):
            bounds = "" if math.isinf(high) and math.isinf(low) else f" from {low:g} to {high:g}"
            raise self._wrong(name, f"a finite number{bounds}", value)
        return found

    def _place(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name

    def _wrong(self, name: str, wanted: str, value: object) -> InputError:
        return self._problem(f"{self._place(name)} should be {wanted}, not {shown(value)}")

    def _problem(self, problem: str) -> InputError:
        return InputError(self._path, f"damaged: {problem}", line=self._line)


def plainly_shown(value: object) -> str:
    """A value as :func:`shown`, but a short string, such as a name, without quotation marks."""
    return value if isinstance(value, str) and len(value) <= 40 else shown(value)


def shown(value: object) -> str:
    """A value as errors show it: itself if it is a short number or string, else its type."""
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a larger one"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"a string of {len(value)} characters"
    return f"a {type(value).__name__}"
