"""What torchrun tells a process that it starts: its rank, and where the others meet. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from alignkit.errors import AlignkitError

_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@dataclass(frozen=True)
class Launch:
    """The place of a process among those that torchrun started together.

    Attributes:
        rank: its number among all, from 0.
        world_size: the number of all.
        local_rank: its number among those of its machine, from 0.
        local_world_size: their number.
        address: the host of rank 0, as the others reach it.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    address: str


def find_launch(environment: Mapping[str, str] | None = None) -> Launch | None:
    """What the environment says, that of this process if none is given; None where torchrun did not start it.

    Raises:
        AlignkitError: a variable has an impossible value.
    """
    values = os.environ if environment is None else environment
    if any(name not in values for name in (*_NAMES, "MASTER_ADDR", "MASTER_PORT")):
        return None
    for name in _NAMES:
        if not values[name].isdecimal():
            raise AlignkitError(f"the environment variable {name} of torchrun is {values[name]!r}, not a number")
    rank, size, local_rank, local_size = (int(values[name]) for name in _NAMES)
    launch = Launch(rank, size, local_rank, local_size, values["MASTER_ADDR"])
    if not (launch.rank < launch.world_size and launch.local_rank < launch.local_world_size):
        ranks = f"{launch.rank} of {launch.world_size} and {launch.local_rank} of {launch.local_world_size} here"
        raise AlignkitError(f"the environment says rank {ranks}")
    return launch
