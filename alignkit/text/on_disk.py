"""Arrays larger than memory, in files without a name that the system maps into memory.

Nothing is left behind however the process ends. A mapped array is an array like any other; pages that were read
count as memory in use only until :func:`release`, or until the system reclaims them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from typing import IO, Any

import numpy as np

from alignkit.errors import AlignkitError

CHUNK = 1 << 22  # bytes written at a time
#: Numbers of a mapped array to go through between calls of :func:`release`.
RELEASED = 1 << 21


def temporary_file(folder: str | None) -> IO[bytes]:
    """A file without a name in a folder; None: the system's folder for temporary files.

    Raises:
        AlignkitError: it cannot be made.
    """
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise no_room(folder, error) from error


def no_room(folder: str | None, error: OSError) -> AlignkitError:
    """The error of a temporary file that cannot be written."""
    place = folder or tempfile.gettempdir()
    return AlignkitError(f"cannot write temporary files in {place}: {error.strerror or error}; set TMPDIR")


def scratch_array(size: int, dtype: Any, folder: str | None) -> np.ndarray:
    """Zeros (size,) in a file without a name, mapped into memory; the file goes when the array does.

    Raises:
        AlignkitError: there is no room for it.
    """
    dtype = np.dtype(dtype)
    if size == 0:
        return np.zeros(0, dtype)
    with temporary_file(folder) as file:
        try:
            # Reserved at once: a disk that is full later would end the process without a word.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
            else:
                for low in range(0, size * dtype.itemsize, CHUNK):
                    file.write(bytes(min(CHUNK, size * dtype.itemsize - low)))
                file.flush()
        except OSError as error:
            raise no_room(folder, error) from error
        return np.frombuffer(mmap.mmap(file.fileno(), size * dtype.itemsize, access=mmap.ACCESS_WRITE), dtype)


def release(*arrays: np.ndarray) -> None:
    """Give back the memory of mapped arrays, which are read again when they are used again.

    Arrays that are not mapped are left alone.
    """
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            with suppress(OSError):
                base.madvise(mmap.MADV_DONTNEED)
