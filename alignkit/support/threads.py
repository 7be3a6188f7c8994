"""Blocks of equal work, run by Python threads; kernels release the GIL."""

from __future__ import annotations

import functools
import math
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from threading import Event, Thread, local
from typing import Any, TypeVar

import numpy as np

from alignkit.errors import AlignkitError, check_type
from alignkit.support.settings import GREATEST_THREAD_COUNT

Result = TypeVar("Result")


def thread_count(threads: int | None = None) -> int:
    """The number of threads to use; by default :func:`core_count`, or ``OMP_NUM_THREADS`` if that is less.

    Raises:
        AlignkitError: it is no whole number from 1 to :data:`alignkit.support.settings.GREATEST_THREAD_COUNT`.
    """
    if threads is None:
        wish = re.match(r"\s*0*([1-9]\d{0,3})\s*(,|\Z)", os.environ.get("OMP_NUM_THREADS", ""))
        return min(core_count(), int(wish[1])) if wish else core_count()
    if not isinstance(threads, int):
        check_type(threads, Integral, "the number of threads must be a whole number")
    if not 1 <= threads <= GREATEST_THREAD_COUNT:
        raise AlignkitError(f"the number of threads must lie in [1, {GREATEST_THREAD_COUNT}], not {threads}")
    return threads


def core_count() -> int:
    """The number of cores that this process may use: those it may run on, or fewer by a container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _container_limit())))


@functools.cache
def _container_limit(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """The least limit of the process's Linux control group (version 2) and of those above it, in cores.

    Args:
        groups: where the groups are; a container may see only its own, and that as the first.
        own: the file that names the group of the process.
    """
    least = math.inf
    with suppress(OSError):
        name = own.read_text().partition("0::/")[2].partition("\n")[0]
        for place in (groups / name, *(groups / name).parents):
            with suppress(OSError, ValueError):  # there is no limit where the file is missing, or says max
                quota, period = map(int, (place / "cpu.max").read_text().split())
                least = min(least, quota / period)
    return least


def blocks(offsets: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Split items into at most ``count`` ranges [low, high) of about equal work.

    Args:
        offsets: (N + 1,), the work of all items before each, and of all.
        count: at least 1.
    """
    items = len(offsets) - 1
    if count == 1 or items <= 1:
        return [(0, items)] if items else []
    goals = offsets[-1] * np.arange(1, count) / count
    bounds = [0, *np.searchsorted(offsets, goals).tolist(), items]
    return [(low, high) for low, high in pairwise(bounds) if low < high]


def blocks_of_size(offsets: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Ranges [low, high) of items with about ``size`` elements each.

    Args:
        offsets: int64 (N + 1,); item i has the elements from offsets[i] to offsets[i + 1].
    """
    return blocks(offsets, max(1, -(-int(offsets[-1]) // size)))


_own = local()  # ``stop`` of it: the event after which a thread of :func:`run_side_by_side` begins nothing more


class _StoppedError(Exception):
    """Ends a thread of :func:`run_side_by_side` after another one has failed."""


def run_side_by_side(function: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
    """The results of ``function`` for each of the arguments, computed at once, each by a thread of its own.

    If one of them fails, or the caller is interrupted, the others end at their next :func:`run_blocks`.
    """
    stop = Event()
    failures: list[BaseException] = []

    def work(*own: Any) -> Result:
        _own.stop = stop
        try:
            return function(*own)
        except BaseException as error:
            failures.append(error)
            stop.set()
            raise

    with ThreadPoolExecutor(len(arguments[0])) as pool:
        try:
            return list(pool.map(work, *arguments))
        except _StoppedError:
            raise failures[0] from None
        finally:
            stop.set()


def run_blocks(
    function: Callable[[int, int], Result], ranges: Sequence[tuple[int, int]], threads: int
) -> list[Result]:
    """The results of ``function(low, high)`` in order of the ranges, computed by ``threads`` threads.

    Raises:
        BaseException: the exception of a call; of several, that of the first range. Ranges that no thread has
            begun are then skipped.
    """
    if hasattr(_own, "stop") and _own.stop.is_set():
        raise _StoppedError
    workers = min(threads, len(ranges))
    if workers <= 1:
        return [function(low, high) for low, high in ranges]
    results: dict[int, Result] = {}
    failures: dict[int, BaseException] = {}
    waiting = deque(enumerate(ranges))

    def work() -> None:
        while True:
            try:
                place, (low, high) = waiting.popleft()
            except IndexError:
                return
            try:
                results[place] = function(low, high)
            except BaseException as error:  # raised again by the caller's thread
                failures[place] = error
                waiting.clear()

    # The caller's thread is one of the workers, and the others are started for this call: a pool that outlived it
    # would be lost in a process that forks, and a pool made for it takes several times as long to start.
    helpers = [Thread(target=work, name=f"alignkit-{n}") for n in range(1, workers)]
    try:
        for helper in helpers:
            helper.start()
        work()
    finally:
        waiting.clear()
        for helper in helpers:
            if helper.ident is not None:
                helper.join()
    if failures:
        raise failures[min(failures)]
    return [results[place] for place in range(len(ranges))]


def run_evenly(
    function: Callable[[int, int], Result], offsets: np.ndarray, threads: int, *, parts: int = 1
) -> list[Result]:
    """:func:`run_blocks` of ranges of about equal work.

    Args:
        offsets: as of :func:`blocks`.
        parts: ranges for each of several threads; more than one where a single item can be much of the work.
    """
    return run_blocks(function, blocks(offsets, parts * threads if threads > 1 else 1), threads)
