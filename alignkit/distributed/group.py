"""The group of ranks that torchrun started together, and what they exchange."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed

from alignkit.distributed.launch import Launch, find_launch
from alignkit.distributed.lifeline import Lifeline
from alignkit.errors import AlignkitError, first_line

JOIN = timedelta(minutes=5)  #: how long ranks may take to find each other
_EVER = timedelta(days=365)  # a rank may work as long as it takes: the lifeline notices deaths
_KEY = "alignkit/lifeline"
#: in the errors of connections between ranks
_CONNECTION = ("peer", "onnect", "imeout", "imed out", "pair")

T = TypeVar("T")


class Group:
    """The ranks of a run; this process is one of them.

    Operations have the names of those of :mod:`torch.distributed`. A group of one returns what it is given. All
    others must be called by all ranks in the same order, with tensors of the same shapes; results are the same
    bits every time, for the same number of ranks. :class:`alignkit.distributed.arrays.ArrayGroup` is for arrays.

    Attributes:
        launch: the place of this process; None in a group of one.
    """

    def __init__(self, launch: Launch | None = None, lifeline: Lifeline | None = None) -> None:
        self.launch, self._lifeline = launch, lifeline

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return 0 if self.launch is None else self.launch.rank

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return 1 if self.launch is None else self.launch.world_size

    @property
    def leads(self) -> bool:
        """True at rank 0, which alone writes files and messages."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sums of all ranks' tensors, element by element, at each of them."""
        if self.world_size == 1:
            return tensor
        sums = tensor.detach().to("cpu", copy=True).contiguous()
        self.run(lambda: distributed.all_reduce(sums))
        return sums.to(tensor.device)

    def broadcast(self, tensor: Tensor, source: int = 0) -> None:
        """Fill the tensors of all ranks with that of one."""
        if self.world_size == 1:
            return
        found = tensor.detach().cpu().contiguous()
        self.run(lambda: distributed.broadcast(found, source))
        if found.data_ptr() != tensor.data_ptr():
            with torch.no_grad():
                tensor.copy_(found)

    def broadcast_object(self, value: T, source: int = 0) -> T:
        """The value that one rank gives; those of the others are not used. It is pickled."""
        values = [value]
        self.run(lambda: distributed.broadcast_object_list(values, source))
        return values[0]

    def barrier(self) -> None:
        """Wait until all ranks have come here."""
        self.run(distributed.barrier)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within the block files are written: if another rank dies, this process ends only after the block."""
        if self._lifeline is None:
            yield
            return
        with self._lifeline.writing():
            yield

    def run(self, operation: Callable[[], object]) -> None:
        """Raises AlignkitError if the ranks lose touch and none of them has died, which would end this process."""
        if self.world_size == 1:
            return
        try:
            operation()
        except RuntimeError as error:
            if self._lifeline is None or not any(word in str(error) for word in _CONNECTION):
                raise
            self._lifeline.await_verdict()
            raise AlignkitError(
                f"rank {self.rank} has lost the connection to other ranks: {first_line(error)}"
            ) from error


_ALONE = Group()
_joined = _ALONE


def current_group() -> Group:
    """The group that this process has joined by :func:`joined_group`, or a group of one."""
    return _joined


@contextmanager
def joined_group(remedy: str = "", launch: Launch | None = None) -> Iterator[Group]:
    """Join the other ranks for the duration of the block; all do that at the same time.

    If a rank dies, even by SIGKILL, all others end within seconds with exit code 2 and one line on the standard
    error of each machine that names it. If one ends by an exception, they do so, too.

    Args:
        remedy: advice at the end of that line.
        launch: that of this process's environment if not given; without any, the group is of one.

    Raises:
        AlignkitError: the ranks do not find each other.
    """
    global _joined
    launch = launch or find_launch()
    if launch is None or launch.world_size == 1:
        yield _ALONE
        return
    lifeline = Lifeline(launch, remedy)
    group = Group(launch, lifeline)
    _connect(launch, lifeline)
    _joined, failed = group, True
    try:
        yield group
        failed = False
    finally:
        _joined = _ALONE
        lifeline.leave(failed)
        if not failed:
            distributed.destroy_process_group()


def _connect(launch: Launch, lifeline: Lifeline) -> None:
    """Join all ranks by the lifeline, and then by torch's process group."""
    try:
        store, rank, world = next(iter(distributed.rendezvous("env://", timeout=JOIN)))
        if launch.rank == 0:
            store.set(_KEY, json.dumps(lifeline.listen()))
            lifeline.accept()
        else:
            lifeline.connect(json.loads(store.get(_KEY)))
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=_EVER)
    except (RuntimeError, ValueError, OSError) as error:
        problem = f"rank {launch.rank} of {launch.world_size} cannot join the others through {launch.address}"
        port = os.environ.get("MASTER_PORT")
        raise AlignkitError(f"{problem}:{port}: {first_line(error)}") from error
