import math
import time
from threading import Barrier, active_count, current_thread

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.support import threads as parallel
from alignkit.support.threads import (
    blocks,
    blocks_of_size,
    core_count,
    run_blocks,
    run_side_by_side,
    thread_count,
)

RANGES = [(n, n + 2) for n in range(0, 40, 2)]
THREADS = pytest.mark.parametrize("threads", [1, 2, 3, 8, 50])


@THREADS
def test_results_come_in_order_of_the_ranges(threads):
    assert run_blocks(lambda low, high: (low, high), RANGES, threads) == RANGES
    assert run_blocks(lambda low, high: (low, high), [], threads) == []


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_as_many_threads_as_asked_run_at_once(threads):
    barrier = Barrier(threads, timeout=60)

    def meet(low, high):
        barrier.wait()  # nobody passes before all have come
        return current_thread().name

    assert len(set(run_blocks(meet, RANGES[:threads], threads))) == threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_failure_is_the_callers_and_what_nobody_began_is_left(threads):
    before, begun = active_count(), []

    def fail(low, high):
        begun.append(low)
        if low == 0:
            raise AlignkitError("the first")
        raise KeyboardInterrupt

    with pytest.raises(AlignkitError, match="the first"):
        run_blocks(fail, RANGES, threads)
    assert len(begun) <= threads
    assert active_count() == before


def test_of_several_failures_that_of_the_first_range_is_raised():
    barrier = Barrier(2, timeout=60)

    def fail(low, high):
        barrier.wait()
        raise ValueError(low)

    with pytest.raises(ValueError, match=r"^0$"):
        run_blocks(fail, RANGES[:2], 2)


@pytest.mark.parametrize("failing", [0, 1])
def test_who_works_beside_one_that_fails_begins_nothing_more(failing):
    assert run_side_by_side(lambda a, b: a + b, (1, 2), (10, 20)) == [11, 22]
    barrier = Barrier(2, timeout=60)

    def work(number):
        barrier.wait()
        if number == failing:
            raise KeyboardInterrupt
        for _ in range(6000):  # a minute, if nothing ends it
            run_blocks(lambda low, high: time.sleep(0.01), [(0, 1)], 1)

    start, before = time.monotonic(), active_count()
    with pytest.raises(KeyboardInterrupt):
        run_side_by_side(work, (0, 1))
    assert time.monotonic() - start < 30
    assert active_count() == before
    assert run_blocks(lambda low, high: low, RANGES, 1) == [low for low, _ in RANGES]


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_blocks_cover_all_and_share_the_work(count):
    work = np.random.default_rng(0).integers(0, 9, 60)
    ranges = blocks(np.append(0, work.cumsum()), count)
    assert [n for low, high in ranges for n in range(low, high)] == list(range(60))
    assert len(ranges) <= count
    assert max(work[low:high].sum() for low, high in ranges) <= work.sum() / count + 2 * work.max()
    assert blocks(np.zeros(1, np.int64), count) == []


def test_blocks_of_a_size_are_as_many_as_it_takes():
    assert blocks_of_size(np.arange(11), 4) == [(0, 4), (4, 7), (7, 10)]
    assert blocks_of_size(np.arange(11), 5) == [(0, 5), (5, 10)]
    assert blocks_of_size(np.array([0, 9]), 2) == [(0, 1)]
    assert blocks_of_size(np.zeros(1, int), 4) == []


@pytest.mark.parametrize(
    ("value", "expected"), [("2", 2), (" 03,1", 3), ("99", 8), ("", 8), ("0", 8), ("-1", 8), ("many", 8)]
)
def test_the_default_heeds_omp_num_threads(monkeypatch, value, expected):
    monkeypatch.setattr(parallel, "core_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert thread_count() == expected
    assert thread_count(20) == 20


@pytest.mark.parametrize(
    ("limits", "own", "expected"),
    [
        ({"": "max 100000"}, "0::/\n", math.inf),
        ({"": "150000 100000"}, "0::/\n", 1.5),
        ({"a": "400000 100000", "a/b": "max 100000"}, "12:cpu:/old\n0::/a/b\n", 4),
        ({"a": "max 100000", "a/b": "400000 100000"}, "0::/a/b\n1:name=x:/c\n", 4),
        ({"": "50000 100000"}, "0::/not/visible/here\n", 0.5),
        ({"": "none"}, "0::/\n", math.inf),
        ({}, None, math.inf),
    ],
)
def test_a_containers_limit_bounds_the_default(monkeypatch, tmp_path, limits, own, expected):
    groups = tmp_path / "groups"
    for name, limit in limits.items():
        (groups / name).mkdir(parents=True, exist_ok=True)
        (groups / name / "cpu.max").write_text(limit + "\n")
    if own is not None:
        (tmp_path / "own").write_text(own)
    assert parallel._container_limit(groups, tmp_path / "own") == expected
    monkeypatch.setattr(parallel, "_container_limit", lambda: expected)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert core_count() == {math.inf: 16, 1.5: 2, 4: 4, 0.5: 1}[expected]


def test_a_number_of_threads_has_bounds():
    assert thread_count(3) == 3
    assert thread_count() >= 1
    with pytest.raises(AlignkitError, match=r"must lie in .1, 1024., not 0"):
        thread_count(0)
    with pytest.raises(AlignkitError, match=r"must lie in .1, 1024., not 1000000"):
        thread_count(10**6)
