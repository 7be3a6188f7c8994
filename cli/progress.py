"""Progress on standard error: on a terminal a bar, for work of more than a second; elsewhere lines."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from alignkit.support.stages import Stage, log

DELAY = 1.0  # seconds before the bar is shown
FORMAT = "{desc} [{bar:24}] {percentage:3.0f} % {remaining} left{postfix}"


class ProgressBar(Stage):
    """The progress of a piece of work, called as ``bar(done, total, message)``: a bar on a terminal, else lines.

    Args:
        label: the name of the work.
        quiet: show nothing.
        fits: how many fits it is, which may run at the same time; messages of the second begin with "reverse, ".
    """

    def __init__(self, label: str, quiet: bool = False, fits: int = 1) -> None:
        super().__init__(label)
        self.fits = fits
        # Where the log shows lines of progress, as with --verbose, they would be in the way of the bar.
        self.shown = sys.stderr.isatty() and not quiet and not log.isEnabledFor(logging.INFO)
        self.bar: Any = None
        self.done: dict[bool, int] = {}

    def __call__(self, done: int, total: int, message: str = "") -> None:
        """Draw the bar, or note the progress for the next line."""
        super().__call__(done, total, message)
        self.done[message.startswith("reverse, ")] = done
        if not self.shown:
            return
        if self.bar is None:
            self.bar = _terminal_bar(self.name)
        self.bar.total = self.fits * total
        self.bar.set_postfix_str(message, refresh=False)
        self.bar.update(sum(self.done.values()) - self.bar.n)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.bar is not None:
            self.bar.close()


def _terminal_bar(label: str) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # no thread beside ours

    # Some terminals say that they have no columns and rows, and tqdm would show that many.
    known = os.get_terminal_size(2).columns > 0
    size: dict[str, Any] = {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}
    form: dict[str, Any] = {"bar_format": FORMAT, "ascii": " #", "leave": False, **size}
    return Bar(desc=label, total=1, delay=DELAY, miniters=0, file=sys.stderr, **form)
