"""The user's cache folder keeps what takes most of a run's time: what encoders found, and graphs of encoders.

The name of a kept file stands for all that it depends on; it holds nothing that a text could be read from.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from alignkit.embeddings.levels import Embeddings
from alignkit.kernels.cache_folder import base_folder, make_writable, read_checked, write_checked
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

SWITCH = "ALIGNKIT_KEEP_EMBEDDINGS"  # 0: nothing is kept
MOST = 1 << 30  # bytes of all files; the last used stay


def kept(about: str, make: Callable[[], bytes]) -> bytes:
    """What was made before, or is made now. A folder that cannot be used costs time, never the result.

    Args:
        about: all that it depends on.
        make: makes it.
    """
    folder = base_folder() / "embeddings"
    if os.environ.get(SWITCH) == "0" or make_writable(folder) is not None:
        return make()
    place = folder / f"{sha256(about.encode()).hexdigest()}.kept"
    with suppress(OSError):
        data = read_checked(place)
        if data is not None:
            os.utime(place)
            return data
    data = make()
    with suppress(OSError):
        if len(data) <= MOST:
            write_checked(place, data)
            _bound(folder)
    return data


def _bound(folder: Path) -> None:
    """Remove the files that were not used for the longest time, until all take at most :data:`MOST`."""
    files = sorted(((path.stat(), path) for path in folder.glob("*.kept")), key=lambda each: -each[0].st_mtime)
    total = 0
    for status, path in files:
        total += status.st_size
        if total > MOST:
            path.unlink(missing_ok=True)


class KeptLevels:
    """Embeddings that find the levels of a text again.

    Args:
        inner: what finds them first.
        about: all that they depend on beside the text.
    """

    def __init__(self, inner: Embeddings, about: str) -> None:
        self.inner, self.about = inner, about

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """See :class:`alignkit.embeddings.levels.Embeddings`."""
        about = f"levels {self.about} {bitext.fingerprint()}"
        data = kept(about, lambda: self.inner.levels(bitext, threads, progress).tobytes())
        return np.frombuffer(data, np.uint8).copy()  # kernels are compiled for arrays that can be written
