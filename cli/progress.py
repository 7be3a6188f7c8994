"""A progress bar on standard error for work of more than a second, if standard error is a terminal."""

from __future__ import annotations

import os
import sys
from typing import Any

DELAY = 1.0  # seconds before the bar is shown
FORMAT = "{desc} [{bar:24}] {percentage:3.0f} % {remaining} left{postfix}"


class ProgressBar:
    """A tqdm bar as a context manager that is called as ``bar(done, total, message)``.

    Args:
        label: the name of the work.
        quiet: show nothing.
    """

    def __init__(self, label: str, quiet: bool = False) -> None:
        self.label = label
        self.shown = sys.stderr.isatty() and not quiet
        self.bar: Any = None

    def __call__(self, done: int, total: int, message: str = "") -> None:
        if not self.shown:
            return
        if self.bar is None:
            self.bar = _terminal_bar(self.label)
        self.bar.total = total
        self.bar.set_postfix_str(message, refresh=False)
        self.bar.update(done - self.bar.n)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _terminal_bar(label: str) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        monitor_interval = 0  # no thread beside ours

    # Some terminals say that they have no columns, and tqdm would show that many.
    width: dict[str, Any] = {"dynamic_ncols": True} if os.get_terminal_size(2).columns else {"ncols": 80}
    form: dict[str, Any] = {"bar_format": FORMAT, "ascii": " #", "leave": False, **width}
    return Bar(desc=label, total=1, delay=DELAY, miniters=0, file=sys.stderr, **form)


def progress_bar(label: str, quiet: bool = False) -> ProgressBar:
    """A bar for one piece of work, to be used in a ``with`` statement."""
    return ProgressBar(label, quiet)
