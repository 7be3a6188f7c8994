"""Types that the whole package uses."""

from __future__ import annotations

import os
from collections.abc import Callable

#: The path of a file or folder.
PathLike = str | os.PathLike[str]
#: Called as ``progress(done, total, message)`` in the course of long work.
Progress = Callable[[int, int, str], None]
#: The endings of the files that scores are written to: arrays without pickle; a table, which needs pyarrow.
SCORE_ENDINGS = (".npz", ".parquet")


def no_progress(done: int, total: int, message: str) -> None:
    """A :data:`Progress` that shows nothing."""


def named_progress(progress: Progress, name: str, number: int = 0, parts: int = 1) -> Progress:
    """The progress of part ``number`` of some equally long parts of a work, whose messages begin with its name."""
    return lambda done, total, message: progress(
        number * total + done, parts * total, ": ".join(filter(None, (name, message)))
    )
