"""Text from files, compressed files and standard input: lines and corpora; errors name file and line.

Only ``\\n`` and ``\\r\\n`` end a line, and only ASCII space and tab separate tokens: U+2028, U+0085, a no-break
space, form feed or NUL are part of their token. So N lines of input are N sentences, for every tool that counts
lines as ``wc -l`` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_type, reading
from alignkit.support.arrays import offsets_of
from alignkit.text.bitext import Corpus
from alignkit.text.decompression import decompressed
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 22  # bytes of a file that are read at a time
STREAM_CHUNK = 1 << 16  # the most bytes of a stream that are passed on at a time
_FIRST_TABLE = 1 << 15
_UTF16 = "it looks like UTF-16: convert it with iconv"
#: What to do about a file that is not UTF-8, by its first two bytes.
_REMEDIES = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"PK": "it is a zip archive, as saved models are, not a text",
}


@contextmanager
def open_input(path: PathLike) -> Iterator[IO[bytes]]:
    """A file, or standard input for "-"; raises InputError if it cannot be opened."""
    check_type(path, str | os.PathLike, "a file must be given by its path")
    if os.fspath(path) == "-":
        yield sys.stdin.buffer
        return
    with reading(path):
        stream = open(path, "rb")  # noqa: SIM115
    with stream:
        yield stream


def read_chunks(path: PathLike, stream: IO[bytes], size: int) -> Iterator[bytes]:
    """The rest of an open file in chunks, decompressed if its first bytes say gzip, xz, bzip2 or zstd.

    Args:
        path: its name, for messages.
        stream: the file.
        size: of a chunk, in bytes; -1: all in one; 0: what is there, without waiting for more.

    Raises:
        InputError: it cannot be read, or is damaged.
    """

    def raw() -> Iterator[bytes]:
        read = getattr(stream, "read1", stream.read) if size == 0 else stream.read
        with reading(path):
            while chunk := read(size or STREAM_CHUNK):
                yield chunk

    return decompressed(path, raw())


def whole_lines(path: PathLike, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A text without its byte order mark, cut after line ends only; the last part may lack its own.

    Raises:
        InputError: the text is empty; or what :func:`read_chunks` raises, if the chunks come from there.
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


def file_parts(path: PathLike, size: int | None = None) -> Iterator[bytes]:
    """The content of a file, decompressed, by :func:`whole_lines`; "-" is standard input.

    Args:
        path: the file.
        size: of the parts, as in :func:`read_chunks`; None: :data:`CHUNK`.
    """
    with open_input(path) as stream:
        yield from whole_lines(path, read_chunks(path, stream, size or CHUNK))


def read_raw_lines(path: PathLike) -> Iterator[bytes]:
    """The lines of a large file, one at a time, without their ends; errors as :func:`whole_lines`."""
    for part in file_parts(path):
        yield from part.removesuffix(b"\n").split(b"\n")


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
            remedy = _REMEDIES.get(data[:2], "convert it with iconv, or go on with --encoding-errors replace")
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


def read_utf8(path: PathLike, encoding_errors: str = "strict", lowercase: bool = False) -> bytes:
    """The content of a text file as valid UTF-8, without its byte order mark; "-" is standard input.

    Args:
        path: plain or compressed.
        encoding_errors: "strict" or "replace" (invalid UTF-8 becomes U+FFFD).
        lowercase: lower-case it (full Unicode).

    Raises:
        InputError: it cannot be read, is empty, damaged or invalid, with its line.
    """
    return valid_text(path, b"".join(file_parts(path, -1)), encoding_errors, lowercase)


def split_lines(data: bytes) -> list[str]:
    """The lines of valid UTF-8, without their ends."""
    lines = data.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
        return [line.removesuffix("\r") for line in lines]
    return [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]]


def read_lines(path: PathLike, *, encoding_errors: str = "strict", lowercase: bool = False) -> list[str]:
    """The lines of a text file, without their ends; arguments and errors as :func:`read_utf8`."""
    return split_lines(read_utf8(path, encoding_errors, lowercase))


def encode_text(data: bytes) -> Corpus:
    """The corpus of a text in UTF-8: a sentence per line, tokens between spaces and tabs.

    Ids are given in order of first appearance.

    >>> encode_text(b"the house\\nthe cat\\n")
    Corpus(2 sentences, 4 tokens, 3 types)
    """
    from alignkit.kernels import text

    if not data:
        return Corpus.from_sentences([])
    view = np.frombuffer(data, np.uint8)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # Room for all the tokens that these bytes can hold; pages that are never written take no memory.
    tokens = np.empty(len(data) // 2 + 1, np.int32)
    offsets = np.zeros(lines + 1, np.int64)
    state = np.zeros(4, np.int64)
    # A single line has few words, and should not wait for a large table.
    table = np.full(min(_FIRST_TABLE, 1 << (len(data).bit_length() + 1)), -1, np.int32)
    bounds = np.empty((2, len(table) // 2), np.int64)
    while True:
        text.encode(view, tokens, offsets, table, bounds, state)
        if state[0] >= len(view):
            break
        table = np.full(4 * len(table), -1, np.int32)
        bounds = np.concatenate([bounds, np.empty((2, len(table) // 2 - bounds.shape[1]), np.int64)], axis=1)
        text.fill_table(view, bounds[0], bounds[1], state[3], table)
    tokens.resize(state[2], refcheck=False)
    starts, ends = bounds[:, : state[3]]
    type_offsets = offsets_of(ends - starts)
    letters = np.empty(type_offsets[-1], np.uint8)
    text.copy_tokens(view, starts, type_offsets, letters)
    return Corpus(tokens, offsets, Vocabulary(letters, type_offsets))
