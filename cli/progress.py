"""A progress line on standard error, for what takes longer than a second; silent when that is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

DELAY = 1.0  # seconds before the first sign
INTERVAL = 0.1  # seconds between signs
WIDTH = 24


class ProgressBar:
    """A context manager that is called as ``bar(done, total, message)``.

    Args:
        label: what is going on.
        quiet: show nothing.
    """

    def __init__(self, label: str, quiet: bool = False) -> None:
        self.label = label
        self.shown = sys.stderr.isatty() and not quiet
        self.start = time.monotonic()
        self.last = self.start + DELAY - INTERVAL
        self.drawn = False

    def __call__(self, done: int, total: int, message: str = "") -> None:
        now = time.monotonic()
        if not self.shown or now - self.last < INTERVAL:
            return
        self.last = now
        share = min(done / total, 1.0) if total else 0.0
        bar = "#" * round(share * WIDTH)
        left = (now - self.start) * (1 - share) / share if share else 0.0
        text = f"{self.label} [{bar:<{WIDTH}}] {share:4.0%} {left:4.0f} s left  {message}"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        self.drawn = True

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_bar(label: str, quiet: bool = False) -> ProgressBar:
    """A bar for one piece of work, to be used in a ``with`` statement."""
    return ProgressBar(label, quiet)
