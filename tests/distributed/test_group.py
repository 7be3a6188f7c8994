"""What ranks exchange, and how they end when one of them does."""

from __future__ import annotations

import time

import pytest

from alignkit.distributed.group import current_group, joined_group
from alignkit.distributed.launch import Launch, find_launch
from alignkit.errors import AlignkitError

from .conftest import our_lines

PLACE = {
    **{"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
    **{"MASTER_ADDR": "here", "MASTER_PORT": "5"},
}

EXCHANGE = """
import os, torch
import numpy as np
from alignkit.distributed.arrays import ArrayGroup
from alignkit.distributed.group import current_group, joined_group
def same_names(group):
    r = group.rank
    assert group.world_size == 3
    given = np.array([r, 1])
    assert group.all_reduce(given).tolist() == [3, 3] and given.tolist() == [r, 1]
    group.broadcast(given, 2, "a test")
    assert given.tolist() == [2, 1]
    rows = group.all_gather(np.full((r, 2), 5.0))
    assert [each.tolist() for each in rows] == [[], [[5, 5]], [[5, 5]] * 2]
    assert group.sizes(10 * r).tolist() == [0, 10, 20]
    assert group.texts("abc"[:r]) == ["", "a", "ab"]

with joined_group() as group:
    assert current_group() is group
    r, n = group.rank, group.world_size
    assert n == 3 and group.leads == (r == 0)
    table = torch.arange(6.0).view(2, 3).t() * (r + 1)  # not contiguous
    assert torch.equal(group.all_reduce(table), torch.arange(6.0).view(2, 3).t() * 6)
    assert torch.equal(table, torch.arange(6.0).view(2, 3).t() * (r + 1))
    given = torch.full((2,), float(r) + 7)
    group.broadcast(given)
    assert given.tolist() == [7, 7]
    columns = torch.arange(6.0).view(2, 3).t() * r  # not contiguous
    group.broadcast(columns, 2)
    assert torch.equal(columns, torch.arange(6.0).view(2, 3).t() * 2)
    assert group.broadcast_object({"rank": r}) == {"rank": 0}
    assert group.broadcast_object({"rank": r}, 1) == {"rank": 1}
    same_names(ArrayGroup(group))
    group.barrier()
assert current_group().world_size == 1
os.write(1, b"agreed\\n")
"""

# One rank comes to harm while the others wait for it, rank 0 within a block that writes.
HARM = """
import os, signal, sys, time, torch
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the other ranks of its machine, too
from alignkit.distributed.group import joined_group
from alignkit.errors import AlignkitError
LOST, HOW = {lost}, {how!r}
try:
    with joined_group("start it again") as group:
        group.barrier()
        if group.rank == LOST:
            time.sleep(0.3)
            if HOW == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise AlignkitError("no such thing")
        if group.rank == {writer}:
            with group.writing():
                time.sleep(1)
                os.write(1, b"written\\n")
        group.all_reduce(torch.ones(3))
except AlignkitError as error:
    print("alignkit: error:", error, file=sys.stderr)
    sys.exit(2)
print("not reached")
"""


def test_the_environment_of_torchrun_is_read() -> None:
    assert find_launch({}) is None
    assert find_launch(PLACE) == Launch(1, 4, 1, 2, "here")
    with pytest.raises(AlignkitError, match="WORLD_SIZE of torchrun is 'many'"):
        find_launch({**PLACE, "WORLD_SIZE": "many"})
    with pytest.raises(AlignkitError, match="rank 4 of 4"):
        find_launch({**PLACE, "RANK": "4"})


def test_without_torchrun_there_is_one_rank() -> None:
    with joined_group() as group:
        assert (group.rank, group.world_size, group.leads) == (0, 1, True)
        assert group.broadcast_object(3) == 3
        with group.writing():
            group.barrier()
    assert current_group() is group


def test_ranks_exchange_tensors_and_values(start) -> None:  # type: ignore[no-untyped-def]
    process = start(3, EXCHANGE)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert out.split() == ["agreed"] * 3


@pytest.mark.parametrize("lost", [0, 1])
def test_a_killed_rank_ends_the_others_with_a_line(start, lost: int) -> None:  # type: ignore[no-untyped-def]
    began = time.monotonic()
    process = start(3, HARM.format(lost=lost, how="killed", writer=2 - 2 * lost))
    out, err = process.communicate(timeout=100)
    assert time.monotonic() - began < 60
    assert process.returncode != 0
    (line,) = our_lines(err)
    assert line.startswith(f"alignkit: error: rank {lost} (process ")
    assert line.endswith(") died, so the other ranks stop; start it again")
    assert "not reached" not in out
    assert "written" in out


def test_a_rank_that_fails_speaks_for_itself(start) -> None:  # type: ignore[no-untyped-def]
    process = start(2, HARM.format(lost=1, how="failed", writer=0))
    out, err = process.communicate(timeout=100)
    assert process.returncode != 0
    assert our_lines(err) == ["alignkit: error: no such thing"]
    assert "not reached" not in out
