"""Tables whose rows are owned by different ranks, while each counts the word pairs of its own text.

The ranks own ranges of source words. Whole numbers are summed by each rank, and then by the owners of its
pairs. Sums of floating-point numbers keep the order of the text: a word pair that several ranks meet is counted
by one after the other, each goes on from the sum that the one before has sent, and the last one sends it to the
owner. Rows are counted piece by piece, so that a rank waits for one piece only. Who has which pair is told
once: afterwards nothing but values travels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from alignkit.classical.exchange import MovedRows, SharedTable
from alignkit.distributed.arrays import ArrayGroup
from alignkit.kernels import shared_rows as kernels
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.shared_rows import NONE
from alignkit.parallel import blocks

#: In how many the rows of each owner are counted: the next rank waits for one of them.
PIECES = 16
#: The work of a row of a group, in pairs: its rows are far from each other. So two ranks took equally long.
ROW_WORK = 10
_COUNTS = "counts"
_WHOLE = (1 << 20) - 1  # tag of the messages of :meth:`DistributedTable.sum_whole`


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Which rank the value of each pair comes from, or goes to, where pairs are in pieces.

    Attributes:
        ranks: uint8 (K,), the ranks, or NONE.
        spans: the pairs of each piece.
        sizes: int64 (N, 256), how many pairs of each piece are of each rank.
    """

    ranks: np.ndarray
    spans: list[slice]
    sizes: np.ndarray

    @classmethod
    def of(cls, ranks: np.ndarray, spans: list[slice]) -> _Pieces:
        sizes = [np.bincount(ranks[span], minlength=256) for span in spans]
        return cls(ranks, spans, np.array(sizes, np.int64).reshape(-1, 256))

    def places(self, piece: int) -> tuple[np.ndarray, np.ndarray]:
        """int64 (256,), twice: the sizes of a piece, and where each rank's values start, one after another."""
        sizes = self.sizes[piece]
        return sizes, np.cumsum(sizes) - sizes


class DistributedTable(SharedTable):
    """The part of a table that one rank of a group has.

    Args:
        group: the ranks.
        local: the word pairs of this rank's text.
        work: int64 (V_src,), how much work each row is here.
        gathers: whether :meth:`whole` gives rank 0 all rows.
    """

    def __init__(self, group: ArrayGroup, local: TableRows, work: np.ndarray, gathers: bool) -> None:
        self.group, self.local, self.gathers = group, local, gathers
        sizes = np.diff(local.offsets)
        self.bounds = owners(group.all_reduce(sizes), group.world_size)
        work = group.all_reduce(work)
        self._pieces = [
            (low + first, low + end, owner)
            for owner, (low, high) in enumerate(pairwise(self.bounds.tolist()))
            for first, end in blocks(work[low:high] + 1, PIECES)
        ]
        self._own = [n for n, (_, _, owner) in enumerate(self._pieces) if owner == group.rank]
        self._merge(sizes)
        self._is_told = False

    def _merge(self, sizes: np.ndarray) -> None:
        """Make the owned rows of what all ranks have."""
        group, local = self.group, self.local
        low, high = self.bounds[group.rank : group.rank + 2].tolist()
        ranges = list(pairwise(self.bounds.tolist()))
        rows = np.empty((group.world_size, high - low), np.int64)
        group.all_to_all(
            [sizes[a:b] for a, b in ranges], [high - low] * group.world_size, rows.reshape(-1), "pairs, once"
        )
        cuts = [slice(local.offsets[a], local.offsets[b]) for a, b in ranges]
        incoming = rows.sum(axis=1).tolist()
        met = np.empty(sum(incoming), np.int32)
        group.all_to_all([local.columns[cut] for cut in cuts], incoming, met, "pairs, once")
        starts = np.zeros((group.world_size, high - low + 1), np.int64)
        np.cumsum(rows, axis=1, out=starts[:, 1:])
        starts += np.cumsum([0, *incoming[:-1]])[:, None]
        offsets, columns, masks = np.zeros(len(sizes) + 1, np.int64), [np.empty(0, np.int32)], [_no_masks()]
        for piece in self._own:
            first, end, _ = self._pieces[piece]
            part = starts[:, first - low : end - low + 1]
            lists = [met[each[0] : each[-1]] for each in part]
            numbers = [np.repeat(np.arange(end - first), np.diff(each)) for each in part]
            found, mask, counts = _union(numbers, lists, end - first)
            offsets[first + 1 : end + 1] = counts
            columns.append(found)
            masks.append(mask)
        np.cumsum(offsets, out=offsets)
        self._masks = np.concatenate(masks)
        merged = np.concatenate(columns)
        self.owned = TableRows(offsets, merged, np.ones(len(merged), np.float32))
        self._members = incoming

    def _tell(self) -> None:
        """Give each rank the neighbours of its pairs, and count what :meth:`collect` will send and receive."""
        group, local = self.group, self.local
        replies = []
        for rank, size in enumerate(self._members):
            near = np.empty(size, np.uint8), np.empty(size, np.uint8)
            kernels.neighbours(self._masks, rank, *near)
            replies.append(near)
        held = np.diff(local.offsets[self.bounds]).tolist()
        before, after = (np.empty(len(local.columns), np.uint8) for _ in range(2))
        for side, out in enumerate((before, after)):
            group.all_to_all([reply[side] for reply in replies], held, out, "pairs, once")
        last = np.empty(len(self._masks), np.uint8)
        kernels.highest_bits(self._masks, last)
        spans = [slice(local.offsets[low], local.offsets[high]) for low, high, _ in self._pieces]
        self._before, self._after = (_Pieces.of(ranks, spans) for ranks in (before, after))
        owned = [self._pieces[n][:2] for n in self._own]
        self._last = _Pieces.of(last, [slice(*self.owned.offsets[list(rows)]) for rows in owned])
        self._turn, self._is_told = 0, True

    def collect(self, add: Callable[[int, int, np.ndarray], None]) -> np.ndarray:
        """See :meth:`SharedTable.collect`."""
        if not self._is_told:
            self._tell()
        group, count = self.group, len(self._pieces)
        tag, self._turn = self._turn * 2 * count, (self._turn + 1) % 16
        incoming = [self._expect(self._before, n, tag + n) for n in range(count)]
        finals = [self._expect(self._last, n, tag + count + piece) for n, piece in enumerate(self._own)]
        sums, sent = np.zeros(len(self.local.columns)), []
        for n, (span, (low, high, owner)) in enumerate(zip(self._before.spans, self._pieces, strict=True)):
            buffer, places, waiting = incoming[n]
            group.wait(*waiting)
            kernels.unpack(self._before.ranks[span], buffer, places, sums[span])
            add(low, high, sums)
            packed, (sizes, places) = np.empty(span.stop - span.start), self._after.places(n)
            kernels.pack(self._after.ranks[span], sums[span], places.copy(), packed)
            for rank in [*range(group.rank + 1, group.world_size), NONE]:
                part = packed[places[rank] : places[rank] + sizes[rank]]
                if rank == NONE and owner == group.rank:
                    own, starts, _ = finals[self._own.index(n)]
                    own[starts[owner] : starts[owner] + len(part)] = part
                elif rank == NONE:
                    sent.append(group.send(part, owner, tag + count + n, _COUNTS))
                else:
                    sent.append(group.send(part, rank, tag + n, _COUNTS))
        counts = np.zeros(len(self.owned.columns))
        for span, (buffer, places, waiting) in zip(self._last.spans, finals, strict=True):
            group.wait(*waiting)
            kernels.unpack(self._last.ranks[span], buffer, places, counts[span])
        group.wait(*sent)
        return counts

    def _expect(self, sources: _Pieces, piece: int, tag: int) -> tuple[np.ndarray, np.ndarray, list[object]]:
        """Begin to receive a piece's values: (buffer, places (256,) of each rank's, requests)."""
        group = self.group
        sizes, places = sources.places(piece)
        buffer = np.empty(int(sizes[: group.world_size].sum()))
        waiting = [
            group.receive(buffer[places[rank] : places[rank] + sizes[rank]], rank, tag)
            for rank in range(group.world_size)
            if rank != group.rank
        ]
        return buffer, places, waiting

    def sum_whole(self, add: Callable[[np.ndarray], None]) -> np.ndarray:
        """See :meth:`SharedTable.sum_whole`."""
        group, sums = self.group, np.zeros(len(self.local.columns), np.int64)
        found = {rank: np.empty(size, np.int64) for rank, size in enumerate(self._members) if rank != group.rank}
        incoming = [group.receive(part, rank, _WHOLE) for rank, part in found.items()]
        add(sums)
        cuts = [slice(*ends) for ends in pairwise(self.local.offsets[self.bounds].tolist())]
        sent = [group.send(sums[cuts[rank]], rank, _WHOLE, _COUNTS) for rank in found]
        group.wait(*incoming)
        found[group.rank] = sums[cuts[group.rank]]
        counts = np.zeros(len(self.owned.columns), np.int64)
        for rank, part in found.items():
            kernels.add_of_process(self._masks, rank, part, counts)
        group.wait(*sent)
        return counts

    def spread(self, values: np.ndarray, out: np.ndarray) -> None:
        """See :meth:`SharedTable.spread`."""
        # Not -1, which cannot be told where a rank owns no pair.
        wide = values.reshape(len(values), int(np.prod(values.shape[1:], dtype=np.int64)))
        parts = []
        for rank, size in enumerate(self._members):
            part = np.empty((size, wide.shape[1]), values.dtype)
            kernels.pack_of_process(self._masks, rank, wide, part)
            parts.append(part)
        held = np.diff(self.local.offsets[self.bounds]).tolist()
        self.group.all_to_all(parts, held, out, "values")

    def whole(self, values: np.ndarray, local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See :meth:`SharedTable.whole`."""
        if not self.gathers:
            return self.local.offsets, self.local.columns, local
        sizes = self.group.all_reduce(np.diff(self.owned.offsets))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        held = np.diff(offsets[self.bounds]).tolist() if self.group.rank == 0 else [0] * self.group.world_size
        found = []
        for array in (self.owned.columns, values):
            out = np.empty((sum(held), *array.shape[1:]), array.dtype)
            parts = [array, *[array[:0]] * (self.group.world_size - 1)]
            self.group.all_to_all(parts, held, out, "table, at the end")
            found.append(out)
        if self.group.rank == 0:
            return offsets, found[0], found[1]
        return self.local.offsets, self.local.columns, local


class TravellingRows(MovedRows):
    """Rows of a table, dealt out to the ranks of a group by groups of source words.

    Args:
        group: the ranks.
        owned: the rows of this one.
        groups: int (V_src,), the group of each source word.
    """

    def __init__(self, group: ArrayGroup, owned: TableRows, groups: np.ndarray) -> None:
        self.group = group
        sizes = np.diff(owned.offsets)
        whole = group.all_reduce(sizes)
        bounds = owners(group_work(groups, whole), group.world_size)
        ranks = np.searchsorted(bounds[1:], groups, side="right")  # of each source word
        self._ranks = np.repeat(ranks, sizes).astype(np.uint8)
        self._sent = np.bincount(self._ranks, minlength=group.world_size).tolist()
        mine = np.where(ranks == group.rank, whole, 0)
        self._received = group.all_gather(np.array(self._sent)[None])
        self._held = [int(each[0, group.rank]) for each in self._received]
        columns = np.empty(sum(self._held), np.int32)
        self._send(owned.columns, columns, "rows by class, once")
        offsets = np.concatenate([[0], np.cumsum(mine)]).astype(np.int64)
        super().__init__(TableRows(offsets, columns, np.empty(len(columns), np.float32)))

    def _send(self, values: np.ndarray, out: np.ndarray, purpose: str) -> None:
        packed = np.empty(len(values), values.dtype)
        kernels.pack(self._ranks, values, _places(self._sent), packed)
        self.group.all_to_all(_cut(packed, self._sent), self._held, out, purpose)

    def move(self, values: np.ndarray) -> None:
        """See :meth:`MovedRows.move`."""
        self._send(values, self.rows.values, "rows by class")

    def add_back(self, values: np.ndarray, out: np.ndarray) -> None:
        """See :meth:`MovedRows.add_back`."""
        packed = np.empty((len(self._ranks), *values.shape[1:]), values.dtype)
        self.group.all_to_all(_cut(values, self._held), self._sent, packed, "rows by class")
        kernels.add_unpacked(self._ranks, packed, _places(self._sent), out)


def group_work(groups: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """int64 (A,): how much work groups of rows are, relative to each other.

    Args:
        groups: int (V_src,), the group of each row; sizes: int64 (V_src,), the number of its pairs.
    """
    return np.bincount(groups, sizes + ROW_WORK).astype(np.int64)


def owners(work: np.ndarray, size: int) -> np.ndarray:
    """int64 (size + 1,): where the ranges of about equal work start that ``size`` ranks own."""
    total = np.concatenate([[0], np.cumsum(work, dtype=np.int64)])
    inner = np.searchsorted(total, total[-1] * np.arange(1, size) / size)
    return np.concatenate([[0], inner, [len(work)]]).astype(np.int64)


def _places(sizes: list[int]) -> np.ndarray:
    """int64 (256,): where the values of each rank start."""
    places = np.zeros(256, np.int64)
    np.cumsum(sizes[:-1], out=places[1 : len(sizes)])
    return places


def _cut(values: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    """The values, one rank's after another's, as an array for each."""
    return np.split(values, np.cumsum(sizes[:-1]))


def _no_masks() -> np.ndarray:
    return np.empty(0, np.uint64)


def _union(
    rows: list[np.ndarray], columns: list[np.ndarray], count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs that any rank has, of ``count`` rows: columns, masks of who has them, sizes of the rows."""
    width = 1 + max((int(each.max(initial=0)) for each in columns), default=0)
    keys = np.concatenate([row * width + column for row, column in zip(rows, columns, strict=True)])
    bits = np.repeat(np.uint64(1) << np.arange(len(rows), dtype=np.uint64), [len(each) for each in columns])
    if len(keys) == 0:
        return np.empty(0, np.int32), _no_masks(), np.zeros(count, np.int64)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    masks = np.bitwise_or.reduceat(bits[order], starts)
    found = keys[starts]
    return (found % width).astype(np.int32), masks, np.bincount(found // width, minlength=count)
