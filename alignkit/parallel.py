"""Blocks of equal work for Python threads that run kernels (which hold no GIL)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from threading import Thread
from typing import TypeVar

import numpy as np

from alignkit.errors import AlignkitError

Result = TypeVar("Result")


def thread_count(threads: int | None = None) -> int:
    """The number of threads to use: as asked, or as many as this process may run on.

    Raises:
        AlignkitError: fewer than one.
    """
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if threads < 1:
        raise AlignkitError(f"the number of threads must be at least 1, not {threads}")
    return threads


def blocks(work: np.ndarray, count: int) -> list[tuple[int, int]]:
    """At most ``count`` ranges [low, high) that cover all items and share the work evenly."""
    if count == 1:
        return [(0, len(work))] if len(work) else []
    total = np.concatenate([[0], np.cumsum(work, dtype=np.int64)])
    goals = total[-1] * np.arange(1, count) / count
    bounds = [0, *np.searchsorted(total, goals).tolist(), len(work)]
    return [(low, high) for low, high in pairwise(bounds) if low < high]


def run_blocks(
    function: Callable[[int, int], Result], ranges: Sequence[tuple[int, int]], threads: int
) -> list[Result]:
    """``function(low, high)`` for every range, on so many threads; results in order of the ranges.

    Raises:
        What a call raised; of several, that of the first range. Ranges that nobody has begun are then left.
    """
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
            except IndexError:  # none is left
                return
            try:
                results[place] = function(low, high)
            except BaseException as error:  # of whatever kind, it is the caller's
                failures[place] = error
                waiting.clear()

    # The caller is one of the workers, and the others are started anew: a pool that outlived the call would be
    # lost in a process that forks, and one made for the call takes several times as long to start.
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
