from threading import Barrier, active_count, current_thread

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.parallel import blocks, run_blocks, thread_count

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


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_blocks_cover_all_and_share_the_work(count):
    work = np.random.default_rng(0).integers(0, 9, 60)
    ranges = blocks(work, count)
    assert [n for low, high in ranges for n in range(low, high)] == list(range(60))
    assert len(ranges) <= count
    assert max(work[low:high].sum() for low, high in ranges) <= work.sum() / count + 2 * work.max()
    assert blocks(work[:0], count) == []


def test_a_number_of_threads_has_bounds():
    assert thread_count(3) == 3
    assert thread_count() >= 1
    with pytest.raises(AlignkitError, match=r"must lie in .1, 1024., not 0"):
        thread_count(0)
    with pytest.raises(AlignkitError, match=r"must lie in .1, 1024., not 1000000"):
        thread_count(10**6)
