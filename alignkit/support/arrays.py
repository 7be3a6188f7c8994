"""Arrays that hold the parts of many sentences one after another, and what dataclasses of arrays share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np

_LONGEST = 90  # characters of the representation of a part


class Ragged:
    """What belongs to each of M sentences or sentence pairs, one after another in an array.

    Attributes:
        offsets: int64 (M + 1,), where that of each begins.
    """

    offsets: np.ndarray

    @classmethod
    def unchecked(cls, *values: Any) -> Self:
        """One of the first fields of the dataclass, which this package computed and which are not checked: checks
        take longer than a short sentence does."""
        self = object.__new__(cls)
        vars(self).update(zip(cls.__match_args__, values, strict=False))  # type: ignore[attr-defined]
        return self

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[m] for m in range(len(self)))

    def __getitem__(self, m: int) -> np.ndarray:
        raise NotImplementedError

    def span(self, m: int) -> slice:
        """The places of number m in the array; a negative one counts from the end.

        Raises:
            IndexError: there is no such number.
        """
        if not -len(self) <= m < len(self):
            raise IndexError(f"number {m} of {len(self)}")
        first = m % len(self)
        return slice(self.offsets[first], self.offsets[first + 1])


def offsets_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """int64 (M + 1,): where parts of these M lengths begin, one after another, and where the last ends."""
    import numpy as np

    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.add.accumulate(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


def rise_to(offsets: np.ndarray, end: int) -> bool:
    """Whether these are offsets of parts of an array of this length: they rise from 0 to ``end``.

    They are compared, not subtracted: the difference of two wild numbers may wrap around to a positive one.
    """
    return bool(len(offsets) and offsets[0] == 0 and offsets[-1] == end and (offsets[1:] >= offsets[:-1]).all())


def close_gaps(
    array: np.ndarray, ranges: Sequence[tuple[int, int]], room: np.ndarray, offsets: np.ndarray
) -> None:
    """Move parts of an array, each of which begins where there was room for it, together, and cut off the rest.

    Args:
        array: changed in place; no view of another.
        ranges: of parts low <= m < high, which follow each other without gaps.
        room: int64 (M + 1,), where the part ``low`` of each range begins.
        offsets: int64 (M + 1,), where all parts begin without gaps.
    """
    for low, high in ranges:
        here, there, size = offsets[low], room[low], offsets[high] - offsets[low]
        if here < there:
            array[here : here + size] = array[there : there + size]
    array.resize((int(offsets[-1]), *array.shape[1:]), refcheck=False)


def in_runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """int64: whole numbers in runs of these starts and lengths, one run after another."""
    import numpy as np

    return np.arange(lengths.sum()) + np.repeat(starts - offsets_of(lengths)[:-1], lengths)


def places_of(parts: Ragged, chosen: np.ndarray) -> np.ndarray:
    """int64: the places in the array of chosen parts, indices or bool (M,), one after another."""
    starts = parts.offsets[:-1][chosen]
    return in_runs(starts, parts.offsets[1:][chosen] - starts)


def values_of(values: np.ndarray, ids: np.ndarray, unknown: float = 0) -> np.ndarray:
    """values[ids], and ``unknown`` for an id that is negative or too large; in time that does not depend on the
    number of values."""
    import numpy as np

    is_known = (ids >= 0) & (ids < len(values))
    if is_known.all():
        return values[ids]
    out = np.full((len(ids), *values.shape[1:]), unknown, values.dtype)
    out[is_known] = values[ids[is_known]]
    return out


def equal_fields(self: Any, other: Any) -> bool:
    """Whether two dataclasses have the same fields, arrays included, to be used as ``__eq__``."""
    import numpy as np

    if type(self) is not type(other) or self is other:
        return self is other
    pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
    return all(np.array_equal(a, b) if hasattr(a, "dtype") else a == b for a, b in pairs)


def brief_repr(self: Any) -> str:
    """One line for a dataclass with arrays, to be used as its ``__repr__``.

    An array is represented by its type and shape, as ``int32 (5, 2)``, a longer sequence or dict by its length;
    fields that are None or not meant to be shown are left out.
    """
    parts = []
    for each in fields(self):
        value = getattr(self, each.name) if each.repr else None
        if value is None:
            continue
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            text = f"{value.dtype} {tuple(value.shape)}"
        elif isinstance(value, tuple | list | dict) and len(value) > 3:
            text = f"{len(value)} values"
        else:
            text = " ".join(repr(value).split())
            text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
        parts.append(f"{each.name}={text}")
    return f"{type(self).__name__}({', '.join(parts)})"
