"""Downloads that are whole or absent, and checked.

``SHA256SUMS`` keeps the SHA-256 of every file, in the format of sha256sum, so that the next call checks what is
there.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

from alignkit.errors import AlignkitError, writing
from alignkit.support.datasets.catalogue import DataSet, RemoteFile
from alignkit.support.files import atomic_write
from alignkit.support.stages import no_progress
from alignkit.support.version import __version__
from alignkit.types import PathLike, Progress

SUMS = "SHA256SUMS"
TIMEOUT = 30.0  # seconds without a byte
LARGEST = 1 << 28  # bytes of a file whose size the catalogue does not know
_BLOCK = 1 << 16


def fetch(data: DataSet, folder: PathLike, progress: Progress | None = None) -> list[Path]:
    """Download all files of a data set that are not there yet; returns where they are.

    Args:
        data: what to download.
        folder: made if it does not exist.
        progress: called with (bytes so far, bytes of the file, its name).

    Raises:
        AlignkitError: no network, a file with another content than expected, an existing file that differs, or a
            folder that cannot be written to.
    """
    place = Path(folder)
    with writing(f"make the folder {folder}"):
        place.mkdir(parents=True, exist_ok=True)
    return [_fetch_file(each, place, progress or no_progress) for each in data.files]


def _fetch_file(file: RemoteFile, folder: Path, progress: Progress) -> Path:
    path, sums = folder / file.name, _read_sums(folder)
    if path.exists():
        wanted = file.sha256 or sums.get(file.name)
        if wanted is None or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            problem = "is there and not known" if wanted is None else "is there with another content"
            raise AlignkitError(f"{path} {problem}; move it away to download it again")
        return path
    with atomic_write(path) as stream:
        found = _download(file, stream, progress)
        if file.sha256 not in (None, found):
            raise AlignkitError(f"{file.url}: has SHA-256 {found}, expected {file.sha256}; nothing was kept")
        with atomic_write(folder / SUMS) as listed:
            lines = sorted((sums | {file.name: found}).items())
            listed.write("".join(f"{digest}  {name}\n" for name, digest in lines).encode())
    return path


def _download(file: RemoteFile, stream: IO[bytes], progress: Progress) -> str:
    """Write the content of a file to a stream; returns its SHA-256."""
    headers = {"User-Agent": f"alignkit/{__version__}", "Accept-Encoding": "identity"}
    digest, done = hashlib.sha256(), 0
    try:
        opener = urllib.request.build_opener(_Redirects)
        with opener.open(urllib.request.Request(file.url, headers=headers), timeout=TIMEOUT) as answer:
            said, most = str(answer.headers.get("Content-Length", "")), file.size or LARGEST
            total = int(said) if re.fullmatch(r"\d{1,15}", said, re.ASCII) else file.size or 0
            while block := answer.read(_BLOCK):
                if max(total, done + len(block)) > most:
                    raise AlignkitError(f"{file.url}: is larger than {most:,} bytes; nothing was kept")
                stream.write(block)
                digest.update(block)
                done += len(block)
                progress(done, max(total, done), file.name)
        if done < total:
            raise ConnectionError(f"the connection broke after {done:,} of {total:,} bytes")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        raise AlignkitError(f"{file.url}: cannot be downloaded ({getattr(error, 'reason', error)})") from error
    return digest.hexdigest()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to where the file is, but not from an encrypted connection to one that is not."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith(("https:", f"{req.type}:")):
            raise AlignkitError(f"{req.full_url}: the server leads to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read_sums(folder: Path) -> dict[str, str]:
    """File name -> SHA-256 of the folder's ``SHA256SUMS``."""
    path = folder / SUMS
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    pairs = (line.split("  ", 1) for line in lines if "  " in line)
    return {name: digest for digest, name in pairs}
