"""The exchange between ranks that each have a part of one text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from alignkit.classical.exchange import Exchange, MovedRows, SharedTable
from alignkit.distributed.arrays import ArrayGroup
from alignkit.distributed.table import DistributedTable, TravellingRows
from alignkit.kernels.inverted_index import TableRows
from alignkit.text.bitext import Bitext

_TURN = 1 << 20  # tags of messages of :meth:`GroupExchange.in_turn`; tables use those below


class GroupExchange(Exchange):
    """The exchange of one rank of a group; :class:`Exchange` calls ranks processes, and their number size.

    Args:
        group: the ranks; rank p has part p of the text.
        gathers_tables: whether rank 0 gets all of a fitted table.
    """

    def __init__(self, group: ArrayGroup, gathers_tables: bool = False) -> None:
        self.group, self.gathers_tables = group, gathers_tables
        self.rank, self.size = group.rank, group.world_size

    def agreed(self, function: Callable[[], Any]) -> Any:
        """See :meth:`Exchange.agreed`."""
        return self.group.agreed(function)

    def table(self, local: TableRows, work: np.ndarray) -> SharedTable:
        """See :meth:`Exchange.table`."""
        return DistributedTable(self.group, local, work, self.gathers_tables)

    def move_rows(self, owned: TableRows, groups: np.ndarray) -> MovedRows:
        """See :meth:`Exchange.move_rows`."""
        return TravellingRows(self.group, owned, groups)

    def in_turn(self, sums: np.ndarray, add: Callable[[np.ndarray], None]) -> np.ndarray:
        """See :meth:`Exchange.in_turn`."""
        group = self.group
        if self.rank > 0:
            group.wait(group.receive(sums, self.rank - 1, _TURN))
        add(sums)
        if self.rank < self.size - 1:
            group.wait(group.send(sums, self.rank + 1, _TURN, "sums in turn"))
        group.broadcast(sums, self.size - 1, "sums in turn")
        return sums

    def summed(self, numbers: np.ndarray) -> np.ndarray:
        """See :meth:`Exchange.summed`."""
        return self.group.all_reduce(numbers)

    def largest(self, number: int) -> int:
        """See :meth:`Exchange.largest`."""
        return int(self.group.sizes(number).max())

    def merged_counts(self, codes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`Exchange.merged_counts`."""
        pairs = np.concatenate(self.group.all_gather(np.stack([codes, counts], axis=1).astype(np.int64)))
        merged, which = np.unique(pairs[:, 0], return_inverse=True)
        sums = np.zeros(len(merged), np.int64)
        np.add.at(sums, which, pairs[:, 1])
        return merged, sums

    def gathered(self, rows: np.ndarray) -> np.ndarray:
        """See :meth:`Exchange.gathered`."""
        return np.concatenate(self.group.all_gather(rows))

    def combined(self, values: np.ndarray) -> np.ndarray:
        """See :meth:`Exchange.combined`."""
        # As whole numbers, of which all but one are 0.
        return self.group.all_reduce(values.view(np.int64)).view(np.float64)

    def copies(self, bitext: Bitext) -> np.ndarray:
        """See :meth:`Exchange.copies`.

        Pairs are told apart by 128 bits of a hash, and counted by the rank that the hash names.
        """
        hashes = _hashes(bitext)
        order = np.argsort(hashes[:, 0] % np.uint64(self.size), kind="stable")
        counts = np.bincount((hashes[:, 0] % np.uint64(self.size)).astype(np.int64), minlength=self.size)
        ends = [0, *np.cumsum(counts).tolist()]
        parts = [hashes[order[low:high]] for low, high in pairwise(ends)]
        sizes = self.group.all_gather(counts[None])
        incoming = [int(each[0, self.rank]) for each in sizes]
        met = np.empty((sum(incoming), 2), np.uint64)
        self.group.all_to_all(parts, incoming, met, "copies")
        _, which, numbers = np.unique(met, axis=0, return_inverse=True, return_counts=True)
        back = numbers[which.reshape(-1)].astype(np.int64)
        cuts = [0, *np.cumsum(incoming).tolist()]
        found = np.empty(len(bitext), np.int64)
        answers = [back[low:high] for low, high in pairwise(cuts)]
        self.group.all_to_all(answers, counts.tolist(), found, "copies")
        copies = np.empty(len(bitext), np.int64)
        copies[order] = found
        return copies

    def text_blocks(self, work: np.ndarray, count: int) -> list[tuple[int, int]]:
        """See :meth:`Exchange.text_blocks`."""
        work = work if self.work is None else self.work
        bounds = shared_bounds(self.group, work, count)
        first = int(self.group.sizes(len(work))[: self.rank].sum())
        local = np.clip(bounds - first, 0, len(work)).tolist()
        return [(low, high) for (low, high), wide in zip(pairwise(local), np.diff(bounds), strict=True) if wide]


def shared_bounds(group: ArrayGroup, work: np.ndarray, count: int) -> np.ndarray:
    """int64 (count + 1,): where the blocks of :func:`alignkit.parallel.blocks` start in the text of all ranks.

    Args:
        work: (M,), of each pair of this rank.
        count: at least 1.
    """
    ends = np.cumsum(work, dtype=np.int64)
    totals = group.sizes(int(ends[-1]) if len(ends) else 0)
    ends += int(totals[: group.rank].sum())
    goals = int(totals.sum()) * np.arange(1, count) / count
    # As if searched in [0, *ends] of all: how many of these numbers are below each goal.
    below = group.all_reduce(np.searchsorted(ends, goals)) + (goals > 0)
    whole = group.sizes(len(work)).sum()
    return np.concatenate([[0], below, [whole]]).astype(np.int64)


def _hashes(bitext: Bitext) -> np.ndarray:
    """uint64 (M, 2): a hash of each sentence pair."""
    digests = []
    for m in range(len(bitext)):
        source, target = bitext.source[m], bitext.target[m]
        digest = hashlib.blake2b(len(source).to_bytes(8, "little"), digest_size=16)
        digest.update(source.tobytes())
        digest.update(target.tobytes())
        digests.append(digest.digest())
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
