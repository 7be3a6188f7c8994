"""The folder of the user's in which compiled kernels are kept, never inside the package.

It is ``kernels/KEY`` in ``$ALIGNKIT_CACHE``; without that variable in ``$NUMBA_CACHE_DIR/alignkit``; without
either in the user's cache folder (``~/.cache/alignkit`` on Linux). The key stands for the versions of Python and
Numba, the processor, and the source text of all kernels: whatever changes, even in a kernel that others call, no
old machine code is found.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

log = logging.getLogger(__name__)

DAY = 24 * 60 * 60  # seconds
KEPT_DAYS = 30  # of a folder that is not used any more
KEPT_FOLDERS = 20  # beside the one in use
_NAME = re.compile(r"py[0-9.]+[a-z]*-numba[0-9a-z.+]+-[0-9a-f]{16}")


def base_folder() -> Path:
    """The folder of all caches, which need not exist; a relative path if the user has no home."""
    for variable, folder in (("ALIGNKIT_CACHE", ""), ("NUMBA_CACHE_DIR", "alignkit")):
        chosen = os.environ.get(variable)
        if chosen:
            return Path(chosen).absolute() / folder
    from platformdirs import user_cache_path

    try:
        return user_cache_path("alignkit", appauthor=False)
    except RuntimeError:  # older versions return such a path
        return Path("~/.cache/alignkit")


@functools.cache
def source_hash() -> str:
    """SHA-256 of the source text of all kernels."""
    digest = hashlib.sha256()
    sources = (entry for entry in files(__package__).iterdir() if entry.name.endswith(".py"))
    for source in sorted(sources, key=lambda entry: entry.name):
        data = source.read_bytes()
        digest.update(f"{source.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def kernel_folder(numba_version: str, processor: str) -> Path:
    """The folder of the kernels that these sources, this Python and that Numba make for that processor."""
    python = f"py{sys.version_info.major}.{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    key = hashlib.sha256(f"{source_hash()} {processor}".encode()).hexdigest()[:16]
    return base_folder() / "kernels" / f"{python}-numba{numba_version}-{key}"


def make_writable(folder: Path) -> str | None:
    """Make the folder and mark it as used now; return the reason if it cannot be written, else None."""
    if not folder.is_absolute():
        return "there is no home folder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.strerror or str(error)
    with suppress(OSError):
        os.utime(folder)
    return None


def write_checked(place: Path, data: bytes) -> None:
    """Write a file, whole or not at all, with a checksum for :func:`read_checked`."""
    place.parent.mkdir(parents=True, exist_ok=True)  # another process may have removed it
    temporary = place.with_suffix(f".{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(hashlib.sha256(data).digest() + data)
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


def read_checked(place: Path) -> bytes | None:
    """What :func:`write_checked` wrote; None if the file is missing or is not as it was written."""
    if not place.exists():
        return None
    content = place.read_bytes()
    digest, data = content[:32], content[32:]
    if hashlib.sha256(data).digest() != digest:
        log.warning("%s is damaged; it is rebuilt", place)
        return None
    return data


def prune(folder: Path) -> None:
    """Remove other versions' folders that were not used for ``KEPT_DAYS``; keep at most ``KEPT_FOLDERS``.

    Only folders with names of :func:`kernel_folder` are removed; a process that is using one compiles again.
    """
    others = []
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder and _NAME.fullmatch(other.name) and not other.is_symlink():
                others.append((other.stat().st_mtime, other))
    others.sort(reverse=True)
    oldest = time.time() - KEPT_DAYS * DAY
    for place, (used, other) in enumerate(others):
        if used < oldest or place >= KEPT_FOLDERS:
            shutil.rmtree(other, ignore_errors=True)
