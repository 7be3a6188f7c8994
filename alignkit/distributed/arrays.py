"""What the ranks of a fit send each other: NumPy arrays, counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed

from alignkit.distributed.group import Group
from alignkit.errors import AlignkitError
from alignkit.types import PathLike

Result = TypeVar("Result")
#: A mask of 64 bits says which ranks have a word pair.
MOST_RANKS = 64
_CHUNK = 1 << 22  # bytes of a file that are sent at a time
_FILES = 1 << 21  # tag of the parts of files


@dataclass
class Traffic:
    """What a rank has sent, and how long it has waited.

    Attributes:
        sent: bytes to other ranks, by purpose.
        waited: seconds in calls that wait for other ranks.
    """

    sent: dict[str, int] = field(default_factory=dict)
    waited: float = 0.0

    def add(self, purpose: str, size: int) -> None:
        """Count bytes that are sent."""
        self.sent[purpose] = self.sent.get(purpose, 0) + size


class ArrayGroup:
    """The ranks of a run, which send each other arrays.

    They have the operations of :class:`alignkit.distributed.group.Group` by the same names, and more; what is sent
    is counted.

    Every method but :meth:`send`, :meth:`receive` and :meth:`wait` is called by all of them, in the same order.

    Args:
        group: the ranks, of which there are several.

    Attributes:
        rank, world_size: the number of this process, from 0, and that of all ranks.
        traffic: what this rank has sent so far.

    Raises:
        AlignkitError: there are more than :data:`MOST_RANKS`.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self.rank, self.world_size = group.rank, group.world_size
        if self.world_size > MOST_RANKS:
            raise AlignkitError(
                f"{self.world_size} ranks are more than {MOST_RANKS}; start fewer, with more threads each"
            )
        self.traffic = Traffic()

    def send(self, array: np.ndarray, to: int, tag: int, purpose: str) -> Any:
        """Begin to send an array, which must not change until the result's ``wait()``; None if it is empty."""
        if array.size == 0:
            return None
        self.traffic.add(purpose, array.nbytes)
        return self._begin(distributed.isend, array, to, tag)

    def receive(self, array: np.ndarray, source: int, tag: int) -> Any:
        """Begin to fill an array with one that another rank sends, as :meth:`send`."""
        return None if array.size == 0 else self._begin(distributed.irecv, array, source, tag)

    def wait(self, *requests: Any) -> None:
        """Wait for sends and receives."""
        start = time.perf_counter()
        for request in requests:
            if request is not None:
                self._group.run(request.wait)
        self.traffic.waited += time.perf_counter() - start

    def writing(self) -> AbstractContextManager[None]:
        """Within the block files are written (:meth:`.Group.writing`)."""
        return self._group.writing()

    def joined_files(self, path: PathLike) -> Iterator[bytes]:
        """The content of the files of all ranks, in their order, at rank 0; at the others nothing.

        It is iterated over to its end by all ranks.
        """
        with open(path, "rb") as stream:
            sizes = self.sizes(os.fstat(stream.fileno()).st_size).tolist()
            for rank, size in enumerate(sizes):
                for low in range(0, size, _CHUNK):
                    if rank == self.rank:
                        data = np.frombuffer(stream.read(_CHUNK), np.uint8).copy()
                        if rank > 0:
                            self.wait(self.send(data, 0, _FILES, "output"))
                    elif self.rank == 0:
                        data = np.empty(min(_CHUNK, size - low), np.uint8)
                        self.wait(self.receive(data, rank, _FILES))
                    if self.rank == 0:
                        yield data.tobytes()

    def agreed(self, function: Callable[[], Result]) -> Result:
        """The result of ``function()``, if it fails at no rank.

        Raises:
            AlignkitError: as the function, at the first rank where it fails; the others end with that one.
        """
        problem: AlignkitError | None = None
        try:
            result = function()
        except AlignkitError as error:
            problem = error
        failed = np.flatnonzero(self.all_gather(np.array([problem is not None]), "problems")).tolist()
        if not failed:
            return result
        if failed[0] != self.rank or problem is None:
            self._group.barrier()  # until this process is ended because another rank has failed
            raise AlignkitError("another rank has failed")
        raise problem

    def broadcast(self, array: np.ndarray, source: int, purpose: str) -> None:
        """Fill the arrays of all ranks with that of one."""
        if array.size:
            if source == self.rank:
                self.traffic.add(purpose, array.nbytes * (self.world_size - 1))
            self._run(distributed.broadcast, _bytes(array), source)

    def all_to_all(self, parts: Sequence[np.ndarray], sizes: Sequence[int], out: np.ndarray, purpose: str) -> None:
        """Send part p to rank p, and fill ``out`` with what the others send to this one, in their order.

        Args:
            parts: one for each rank.
            sizes: how many rows come from each rank.
            out: (sum of sizes, ...), of the type of the parts.
        """
        width = out.itemsize * int(np.prod(out.shape[1:], dtype=np.int64))
        lengths = [part.nbytes for part in parts]
        self.traffic.add(purpose, sum(lengths) - lengths[self.rank])
        given = np.concatenate([_flat(part) for part in parts]) if len(parts) > 1 else _flat(parts[0])
        self._run(
            distributed.all_to_all_single,
            _bytes(out),
            torch.from_numpy(given),
            [int(size) * width for size in sizes],
            lengths,
        )

    def all_reduce(self, numbers: np.ndarray, purpose: str = "sums") -> np.ndarray:
        """int64 (n,), the sums of all ranks' numbers, element by element, at each of them."""
        sums = np.array(numbers, np.int64)
        if sums.size:
            self.traffic.add(purpose, 2 * sums.nbytes * (self.world_size - 1) // self.world_size)
            self._run(distributed.all_reduce, torch.from_numpy(sums))
        return sums

    def sizes(self, size: int) -> np.ndarray:
        """int64 (world size,): the number that each rank gives."""
        numbers = np.zeros(self.world_size, np.int64)
        numbers[self.rank] = size
        return self.all_reduce(numbers)

    def all_gather(self, rows: np.ndarray, purpose: str = "rows") -> list[np.ndarray]:
        """The arrays (n, ...) of all ranks, in their order, at each of them."""
        sizes = self.sizes(len(rows))
        out = np.empty((int(sizes.sum()), *rows.shape[1:]), rows.dtype)
        self.all_to_all([rows] * self.world_size, sizes.tolist(), out, purpose)
        ends = np.cumsum(sizes).tolist()
        return [out[low:high] for low, high in pairwise([0, *ends])]

    def texts(self, text: str) -> list[str]:
        """The texts of all ranks."""
        parts = self.all_gather(np.frombuffer(text.encode("utf-8"), np.uint8), "text")
        return [part.tobytes().decode("utf-8") for part in parts]

    def _begin(self, begin: Callable[..., Any], array: np.ndarray, other: int, tag: int) -> Any:
        requests: list[Any] = []
        self._group.run(lambda: requests.append(begin(_bytes(array), other, tag=tag)))
        return requests[0]

    def _run(self, function: Callable[..., Any], *arguments: Any) -> None:
        start = time.perf_counter()
        self._group.run(lambda: function(*arguments))
        self.traffic.waited += time.perf_counter() - start


def _flat(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _bytes(array: np.ndarray) -> Tensor:
    """A contiguous array as a tensor of bytes, in the same memory."""
    return torch.from_numpy(array.reshape(-1).view(np.uint8))
