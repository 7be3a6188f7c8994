"""Downloads that can be resumed, are whole or absent, and are checked.

While it comes, a file is called ``NAME.part``. It gets its name once it has the size that is known or that the
server said, and the SHA-256 that is known. ``SHA256SUMS`` keeps the SHA-256 of every file, in the format of
sha256sum, so that the next call checks what is there.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from alignkit.datasets.catalogue import DataSet, RemoteFile
from alignkit.errors import AlignkitError
from alignkit.storage import atomic_write
from alignkit.types import PathLike, Progress, no_progress
from alignkit.version import __version__

SUMS = "SHA256SUMS"
TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 16


def fetch(data: DataSet, folder: PathLike, progress: Progress | None = None) -> list[Path]:
    """Download all files of a data set that are not there yet; returns where they are.

    A download that was interrupted goes on where it stopped, if the server can do that.

    Args:
        data: what to download.
        folder: made if it does not exist.
        progress: called with (bytes so far, bytes of the file, its name).

    Raises:
        AlignkitError: no network, a file with another content or size than expected, an existing file that
            differs, or a folder that cannot be written to.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlignkitError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    return [_fetch_file(each, place, progress or no_progress) for each in data.files]


def missing_files(data: DataSet, folder: PathLike) -> list[RemoteFile]:
    """The files of a data set that are not in the folder."""
    return [each for each in data.files if not (Path(folder) / each.name).exists()]


def _fetch_file(file: RemoteFile, folder: Path, progress: Progress) -> Path:
    path, part = folder / file.name, folder / f"{file.name}.part"
    sums = _read_sums(folder)
    if path.exists():
        wanted = file.sha256 or sums.get(file.name)
        if wanted is None or _sha256(path) != wanted:
            problem = "is there and not known" if wanted is None else "is there with another content"
            raise AlignkitError(f"{path} {problem}; move it away to download it again")
        return path
    _download(file, part, progress)
    found = _sha256(part)
    if file.sha256 is not None and found != file.sha256:
        part.unlink()
        raise AlignkitError(f"{file.url}: has SHA-256 {found}, expected {file.sha256}; nothing was kept")
    with atomic_write(folder / SUMS) as stream:
        lines = sorted((sums | {file.name: found}).items())
        stream.write("".join(f"{digest}  {name}\n" for name, digest in lines).encode())
    os.replace(part, path)
    return path


def _download(file: RemoteFile, part: Path, progress: Progress) -> None:
    """Download a file to ``part``, going on after what is there."""
    start = part.stat().st_size if part.exists() else 0
    if file.size is not None and start == file.size:
        return
    try:
        with _open(file.url, start) as answer:
            start, total = _range(answer, start)
            if file.size is not None and total is not None and total != file.size:
                raise AlignkitError(
                    f"{file.url}: has {total:,} bytes, expected {file.size:,}; nothing was downloaded"
                )
            done = _receive(answer, part, start, total or file.size, partial(_tell, progress, file.name))
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            if error.headers.get("Content-Range") == f"bytes */{start}":
                return None  # nothing is left to come
            part.unlink()  # longer than the file, so not a part of it
            return _download(file, part, progress)
        raise AlignkitError(f"{file.url}: the server answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        host = urlsplit(file.url).hostname
        raise AlignkitError(f"no network: {host} cannot be reached ({_reason(error.reason)})") from error
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _broken(file, part) from error
    except OSError as error:
        raise AlignkitError(f"cannot write {part}: {error.strerror or error}") from error
    expected = total if total is not None else file.size
    if expected is not None and done < expected:
        raise _broken(file, part)


def _tell(progress: Progress, name: str, done: int, total: int) -> None:
    progress(done, total, name)


def _broken(file: RemoteFile, part: Path) -> AlignkitError:
    size = part.stat().st_size if part.exists() else 0
    return AlignkitError(
        f"{file.url}: the connection broke after {size:,} bytes; the same command goes on from there"
    )


def _open(url: str, start: int) -> Any:
    headers = {"User-Agent": f"alignkit/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    opener = urllib.request.build_opener(_NoDowngrade)
    return opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Refuses to be sent from https to another scheme."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise AlignkitError(f"{req.full_url}: the server leads to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _range(answer: Any, start: int) -> tuple[int, int | None]:
    """(the first byte that comes, the size of the whole file or None)."""
    length = answer.headers.get("Content-Length")
    left = int(length) if length is not None and length.isdigit() else None
    content = answer.headers.get("Content-Range") or ""
    if answer.status != http.HTTPStatus.PARTIAL_CONTENT or not content.startswith(f"bytes {start}-"):
        start = 0
    return start, None if left is None else start + left


def _receive(answer: Any, part: Path, start: int, total: int | None, tell: Callable[[int, int], None]) -> int:
    """Append what comes to the first ``start`` bytes of ``part``; returns its size."""
    with open(part, "r+b" if start else "wb") as stream:
        stream.truncate(start)
        stream.seek(start)
        done = start
        for block in _blocks(answer):
            stream.write(block)
            done += len(block)
            tell(done, max(total or 0, done))
        stream.flush()
        os.fsync(stream.fileno())
    return done


def _blocks(answer: Any) -> Iterator[bytes]:
    while block := answer.read(_BLOCK):
        yield block


def _reason(reason: object) -> str:
    return getattr(reason, "strerror", None) or str(reason)


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_sums(folder: Path) -> dict[str, str]:
    """File name -> SHA-256 of the folder's ``SHA256SUMS``."""
    path = folder / SUMS
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    pairs = (line.split("  ", 1) for line in lines if "  " in line)
    return {name: digest for digest, name in pairs}
