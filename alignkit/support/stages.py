"""Stages of long work, reported in the log: for work without a terminal, and for users of the library."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import count
from threading import Event, Thread
from typing import ClassVar

from alignkit.types import Progress

log = logging.getLogger(__name__)

#: Seconds until a stage is reported for the first time, and between two reports.
FIRST, LATER = 5.0, 30.0


def no_progress(done: int, total: int, message: str) -> None:
    """A :data:`Progress` that shows nothing."""


def named_progress(progress: Progress, name: str, number: int = 0, parts: int = 1) -> Progress:
    """The progress of part ``number`` of some equally long parts of a work, whose messages begin with its name."""
    return lambda done, total, message: progress(
        number * total + done, parts * total, ": ".join(filter(None, (name, message)))
    )


def progress_of_parts(progress: Progress, parts: int) -> Callable[[str], Progress]:
    """What gives the :func:`named_progress` of one part after another of so many."""
    numbers = count()
    return lambda name: named_progress(progress, name, next(numbers), parts)


class Stage:
    """A stage of long work, called as a :data:`alignkit.types.Progress` in the course of it.

    The log has a line such as ``fitting: 3 of 10, log-likelihood -1.2e+06, 41 s`` after five seconds, and then
    every thirty, of level INFO; at level DEBUG, a line for every new message too. Of stages within one another,
    the outermost that has been called is reported, else the innermost.

    Args:
        name: of the stage.
        progress: is called too.
    """

    _open: ClassVar[list[Stage]] = []

    def __init__(self, name: str, progress: Progress | None = None) -> None:
        self.name, self.progress = name, progress
        self.place, self.message = "", ""
        self.began = time.monotonic()
        self._ended = Event()

    def __call__(self, done: int, total: int, message: str = "") -> None:
        """Note that ``done`` of ``total`` parts are done; a total of 0 is one that is not known."""
        self.place = f"{done:,} of {total:,}" if total else f"{done:,}"
        is_new, self.message = message != self.message, message
        if self.progress is not None:
            self.progress(done, total, message)
        if is_new and self._is_reported():
            log.debug("%s", self)

    def __str__(self) -> str:
        parts = filter(None, (self.place, self.message, f"{time.monotonic() - self.began:.0f} s"))
        return f"{self.name}: {', '.join(parts)}"

    def __enter__(self) -> Stage:
        Stage._open.append(self)
        if log.isEnabledFor(logging.INFO):
            Thread(target=self._report, name="alignkit-stage", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        Stage._open.remove(self)
        self._ended.set()

    def _is_reported(self) -> bool:
        called = [stage for stage in Stage._open if stage.place]
        return self in (called or Stage._open[-1:])[:1]

    def _report(self) -> None:
        pause = FIRST
        while not self._ended.wait(pause):
            if self._is_reported():
                log.info("%s", self)
            pause = LATER
