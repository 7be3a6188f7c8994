"""A progress bar on standard error for work of more than a second, if standard error is a terminal."""

from __future__ import annotations

import os
import sys
from typing import Any

DELAY = 1.0  # seconds before the bar is shown
FORMAT = "{desc} [{bar:24}] {percentage:3.0f} % {remaining} left{postfix}"


class ProgressBar:
    """The progress of a piece of work, called as ``bar(done, total, message)``; a bar on a terminal only.

    Args:
        label: the name of the work.
        quiet: show nothing.
        fits: how many fits it is, which may run at the same time; messages of the second begin with "reverse, ".
    """

    def __init__(self, label: str, quiet: bool = False, fits: int = 1) -> None:
        self.label, self.fits = label, fits
        self.shown = sys.stderr.isatty() and not quiet
        self.bar: Any = None
        self.done: dict[bool, int] = {}
        self.steps: dict[bool, int] = {}
        self.last: dict[bool, str] = {}

    def __call__(self, done: int, total: int, message: str = "") -> None:
        reverse = message.startswith("reverse, ")
        if done <= self.done.get(reverse, 0):
            self.steps[reverse] = 0  # what came before, as the encoding of words, were no iterations
        self.done[reverse], self.last[reverse] = done, message
        self.steps[reverse] = self.steps.get(reverse, 0) + 1
        if not self.shown:
            return
        if self.bar is None:
            self.bar = _terminal_bar(self.label)
        self.bar.total = self.fits * total
        self.bar.set_postfix_str(message, refresh=False)
        self.bar.update(sum(self.done.values()) - self.bar.n)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    @property
    def summary(self) -> str:
        """The number of iterations that were run, and the last message of each fit; empty if there was none."""
        if not self.steps:
            return ""
        count = max(self.steps.values())  # fewer than planned where links settled before
        messages = "; ".join(self.last[reverse] for reverse in sorted(self.last))
        return f"{count} iteration{'s' if count > 1 else ''}: {messages}"


def _terminal_bar(label: str) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        monitor_interval = 0  # no thread beside ours

    # Some terminals say that they have no columns and rows, and tqdm would show that many.
    known = os.get_terminal_size(2).columns > 0
    size: dict[str, Any] = {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}
    form: dict[str, Any] = {"bar_format": FORMAT, "ascii": " #", "leave": False, **size}
    return Bar(desc=label, total=1, delay=DELAY, miniters=0, file=sys.stderr, **form)


def progress_bar(label: str, quiet: bool = False) -> ProgressBar:
    """A bar for one piece of work, to be used in a ``with`` statement."""
    return ProgressBar(label, quiet)
