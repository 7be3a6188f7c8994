"""Valid UTF-8 and its lines, which only ``\\n`` and ``\\r\\n`` end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alignkit.errors import AlignkitError, InputError
from alignkit.types import PathLike

BOM = b"\xef\xbb\xbf"


def valid_text(
    path: PathLike, data: bytes, encoding_errors: str = "strict", lowercase: bool = False, first_line: int = 1
) -> bytes:
    """``data``, which starts at line ``first_line`` of a text, as valid UTF-8, lower-cased on request.

    Raises:
        InputError: invalid UTF-8, with its line, unless ``encoding_errors`` is "replace".
    """
    if encoding_errors not in ("strict", "replace"):
        raise AlignkitError(f"encoding_errors must be strict or replace, not {encoding_errors!r}")
    if data.isascii():
        return data.lower() if lowercase else data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if encoding_errors == "strict":
            utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
            remedy = (
                "it looks like UTF-16: convert it with iconv"
                if utf16
                else "convert it with iconv, or go on with --encoding-errors replace"
            )
            line = data.count(b"\n", 0, error.start) + first_line
            raise InputError(path, "is not valid UTF-8", line=line, remedy=remedy) from error
        text = data.decode("utf-8", "replace")
        data = text.encode("utf-8")
    del text
    return _lowered(data) if lowercase else data


def _lowered(data: bytes, size: int = 1 << 22) -> bytes:
    """Valid UTF-8 in lower case, by parts of whole lines: as a string it may take four times as much memory."""
    parts, low = [], 0
    while low < len(data):
        high = data.find(b"\n", low + size) + 1 or len(data)
        parts.append(data[low:high].decode("utf-8").lower().encode("utf-8"))
        low = high
    return b"".join(parts)


def split_lines(data: bytes) -> list[str]:
    """The lines of valid UTF-8, without their ends."""
    lines = data.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
        return [line.removesuffix("\r") for line in lines]
    return [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]]


def whole_lines(path: PathLike, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A text without its byte order mark, cut after line ends only; the last part may lack its own.

    Args:
        path: where it comes from, for messages.
        chunks: the text in chunks of any size.

    Raises:
        InputError: it is empty.
    """
    begun = False
    for part in _cut_at_line_ends(chunks):
        text = part if begun else part.removeprefix(BOM)
        if text:
            begun = True
            yield text
    if not begun:
        raise InputError(path, "is empty")


def _cut_at_line_ends(chunks: Iterable[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*waiting, chunk[:cut]])
            waiting = []
        if cut < len(chunk):
            waiting.append(chunk[cut:])
    if waiting:
        yield b"".join(waiting)
