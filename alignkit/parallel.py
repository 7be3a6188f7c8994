"""Blocks of equal work for Python threads that run kernels (which hold no GIL)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
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
    """``function(low, high)`` for every range, on so many threads; results in order of the ranges."""
    if threads == 1 or len(ranges) <= 1:
        return [function(low, high) for low, high in ranges]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda bounds: function(*bounds), ranges))
