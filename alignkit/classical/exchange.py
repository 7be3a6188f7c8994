"""What the processes of a fit tell each other: nothing, if there is one; :mod:`alignkit.distributed` has more.

A text that is shared out among processes is cut into as many parts, in its order. Every sum of floating-point
numbers goes from process to process in that order, each going on where the one before stopped: the same sequence
of additions as in one process, with the same bits. What can be summed in whole numbers needs no order, and nobody
waits for anybody's sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Any

import numpy as np

from alignkit.kernels.inverted_index import TableRows
from alignkit.parallel import blocks
from alignkit.text.bitext import Bitext

# :meth:`Exchange.total` counts in parts of 2^-32; a sum of 2^31 numbers of this size does not overflow.
_ONE, _LARGEST = 2.0**32, 2.0**30


class SharedTable:
    """The word pairs of a text, and the complete rows of their table; one process has both in the same arrays.

    Attributes:
        local: the word pairs that meet in the text of this process, by source word.
        owned: the complete rows of the source words that this process owns.
    """

    def __init__(self, local: TableRows) -> None:
        self.local = self.owned = local

    def collect(self, add: Callable[[int, int, np.ndarray], None]) -> np.ndarray:
        """float64 (K,): the sums over the whole text of what each text adds to the pairs of the owned rows.

        Args:
            add: called as ``add(low, high, sums)``; it adds to ``sums`` float64 (local K,) the part of this
                process's text, for local rows low <= i < high.
        """
        sums = np.zeros(len(self.local.columns))
        add(0, len(self.local.offsets) - 1, sums)
        return sums

    def sum_whole(self, add: Callable[[np.ndarray], None]) -> np.ndarray:
        """int64 (K,): the sums over the whole text of what each text adds to the pairs of the owned rows.

        Args:
            add: called as ``add(sums)``; it adds to ``sums`` int64 (local K,) the part of this process's text.
        """
        sums = np.zeros(len(self.local.columns), np.int64)
        add(sums)
        return sums

    def spread(self, values: np.ndarray, out: np.ndarray) -> None:
        """Sets ``out`` (local K, ...), a value of each local pair, from ``values`` (K, ...), one of each owned."""
        if out is not values:
            out[:] = values

    def whole(self, values: np.ndarray, local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets, columns and values of all rows, in the first process if the exchange gathers tables; otherwise
        those of the local pairs.

        Args:
            values: (K, ...), of the owned rows; local: (local K, ...), of the local pairs.
        """
        return self.owned.offsets, self.owned.columns, values


class MovedRows:
    """Rows of a table that are dealt out to processes by groups of source words; in one process they stay.

    Attributes:
        rows: those of this process.
    """

    def __init__(self, rows: TableRows) -> None:
        self.rows = rows

    def move(self, values: np.ndarray) -> None:
        """Set the values of the rows from those of the owned ones, float32 (K,)."""

    def add_back(self, values: np.ndarray, out: np.ndarray) -> None:
        """``out`` (K, 1 + C)[:, 1:] of the owned rows += values (moved K, C) of these."""
        out[:, 1:] += values


class Exchange:
    """One process, which has all of the text and so nobody to ask: what many have in common is its own.

    Attributes:
        rank, size: the number of this process, from 0, and how many there are.
        work: int64 (M,), of each pair, by which the text was shared out, where a fit sees the pairs otherwise, as
            parts of words; None: as the fit sees them.
    """

    rank, size = 0, 1
    work: np.ndarray | None = None

    def agreed(self, function: Callable[[], Any]) -> Any:
        """The result of ``function()``, if it fails in no process; otherwise all of them end with its error."""
        return function()

    @property
    def is_shared(self) -> bool:
        """Whether there are other processes."""
        return self.size > 1

    def table(self, local: TableRows, work: np.ndarray) -> SharedTable:
        """The table of the word pairs that meet in the text.

        Args:
            local: those of this process's text; the values are not looked at.
            work: int64 (V_src,), how much work the row of each source word is here.
        """
        return SharedTable(local)

    def move_rows(self, owned: TableRows, groups: np.ndarray) -> MovedRows:
        """The same rows dealt out anew, so that those of a group are all in one process.

        Args:
            owned: the rows of this process.
            groups: int (V_src,), the group of each source word.
        """
        return MovedRows(owned)

    def in_turn(self, sums: np.ndarray, add: Callable[[np.ndarray], None]) -> np.ndarray:
        """``sums`` after each process has called ``add(sums)`` on what the one before has left; in all of them."""
        add(sums)
        return sums

    def summed(self, numbers: np.ndarray) -> np.ndarray:
        """The sums of whole numbers int64 (n,) over all processes."""
        return numbers

    def largest(self, number: int) -> int:
        """The largest of all processes' numbers."""
        return number

    def merged_counts(self, codes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rising codes int64 (n,) that any process has, and the sums of their counts."""
        return codes, counts

    def gathered(self, rows: np.ndarray) -> np.ndarray:
        """float64 (n, ...), the rows of all processes, one after another."""
        return rows

    def combined(self, values: np.ndarray) -> np.ndarray:
        """float64 (n,), of which each is 0 in all processes but one: what that one has."""
        return values

    def copies(self, bitext: Bitext) -> np.ndarray:
        """int64 (M,): how often each pair of this process is in the whole text."""
        return bitext.copies

    def text_blocks(self, work: np.ndarray, count: int) -> list[tuple[int, int]]:
        """What lies in this process's part of each of :func:`alignkit.parallel.blocks` of the whole text; it may
        be nothing.

        Args:
            work: (M,), of each pair of this process; :attr:`work` instead, if there is one.
            count: of blocks of the whole text.
        """
        return blocks(work if self.work is None else self.work, count)

    def total(self, values: np.ndarray) -> float:
        """The sum of values (n,) over all processes, to 2^-33 each: a sum of whole numbers, so no order matters.

        Args:
            values: of a size below 2^30, as logarithms of probabilities are.
        """
        limited = np.clip(np.nan_to_num(values), -_LARGEST, _LARGEST)
        numbers = np.rint(limited * _ONE).astype(np.int64)
        high, low = self.summed(np.array([(numbers >> 32).sum(), (numbers & 0xFFFFFFFF).sum()])).tolist()
        return ((high << 32) + low) / int(_ONE)


#: The exchange of a process that is alone.
ALONE = Exchange()
_current: ContextVar[Exchange] = ContextVar("exchange", default=ALONE)


def current_exchange() -> Exchange:
    """The exchange of the fits that begin here: :data:`ALONE`, but within :func:`exchanging`."""
    return _current.get()


def with_work(exchange: Exchange, work: np.ndarray | None) -> Exchange:
    """The exchange of fits that see the same pairs otherwise than they were shared out."""
    found = copy(exchange)
    found.work = work
    return found


@contextmanager
def exchanging(exchange: Exchange) -> Iterator[None]:
    """Fits that begin in the block are of a text of which this process has one part, and others have the rest."""
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)
