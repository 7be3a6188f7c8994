"""Arrays that hold the parts of many sentences, and dataclasses of arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pytest

from alignkit.support.arrays import Ragged, brief_repr, equal_fields, in_runs, offsets_of, places_of, values_of


@dataclass(eq=False, repr=False)
class Parts(Ragged):
    offsets: np.ndarray
    values: np.ndarray
    about: object = None
    hidden: int = field(default=0, repr=False)
    __eq__ = equal_fields
    __repr__ = brief_repr

    def __getitem__(self, m):
        return self.values[self.span(m)]


def parts_of(lists, **more):
    return Parts(offsets_of([*map(len, lists)]), np.array([*chain.from_iterable(lists)], np.int32), **more)


LISTS = [[5, 6], [], [7], [8, 9, 10]]


def test_parts_are_those_of_lists():
    parts = parts_of(LISTS)
    assert [part.tolist() for part in parts] == [parts[m].tolist() for m in range(4)] == LISTS
    assert [parts[m].tolist() for m in range(-4, 0)] == LISTS
    for m in (4, -5):
        with pytest.raises(IndexError, match=f"number {m} of 4"):
            parts[m]
    for chosen in ([3, 0, 0], [], [False, True, True, True]):
        places = places_of(parts, np.array(chosen, bool if True in chosen else int))
        numbers = np.flatnonzero(chosen) if True in chosen else chosen
        assert parts.values[places].tolist() == [value for m in numbers for value in LISTS[m]]
    assert in_runs(np.array([7, 2, 0]), np.array([2, 0, 3])).tolist() == [7, 8, 0, 1, 2]


def test_values_of_known_and_unknown_numbers():
    ids = np.array([1, -1, 0])
    assert values_of(np.array([3.0, 4.0]), ids).tolist() == [4, 0, 3]
    assert values_of(np.array([[1, 2], [3, 4]]), ids, 9).tolist() == [[3, 4], [9, 9], [1, 2]]


def test_dataclasses_of_arrays_are_compared_and_shown_briefly():
    parts = parts_of(LISTS)
    assert parts == parts_of(LISTS)
    for other in (parts_of(LISTS[::-1]), parts_of(LISTS, about=1), parts_of(LISTS, hidden=1), LISTS):
        assert parts != other
    arrays = "offsets=int64 (5,), values=int32 (6,)"
    for about, shown in (
        (None, ""),
        ([1, 2, 3], ", about=[1, 2, 3]"),
        ((1, 2, 3, 4), ", about=4 values"),
        ("a" * 88, f", about='{'a' * 88}'"),
        ("a" * 89, f", about='{'a' * 88}…"),
        (1.5, ", about=1.5"),
    ):
        assert repr(parts_of(LISTS, about=about)) == f"Parts({arrays}{shown})"
