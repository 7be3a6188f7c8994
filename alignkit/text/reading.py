"""How a file becomes a :class:`~alignkit.text.bitext.Bitext`, from its bytes to the numbers of its tokens.

1. :func:`read_chunks` reads a file or standard input in chunks, and decompresses what its first bytes say is gzip,
   xz, bzip2 or zstd.
2. :func:`whole_lines` drops the byte order mark and cuts after line ends only.
3. :func:`valid_text` checks that the lines are UTF-8, and lower-cases them.
4. :func:`encode_text` numbers the tokens by a kernel: a :class:`~alignkit.text.bitext.Corpus`. Raw text takes
   :func:`alignkit.text.raw_text.tokenized_text` instead.
5. :func:`alignkit.text.pairs.read_bitext` does this for both sides, which must have equally many lines.

Only ``\\n`` and ``\\r\\n`` end a line. So N lines of input are N sentences, for every tool that counts lines as
``wc -l`` does. Only spaces, ideographic spaces (U+3000), tabs and ``\\r`` separate tokens: U+2028, U+0085, a
no-break space, form feed or NUL are part of theirs. A line without a visible character is blank. Errors name file
and line.
"""

from __future__ import annotations

import bz2
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from importlib import import_module
from itertools import chain
from typing import IO, Any, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_type, reading
from alignkit.support.arrays import offsets_of
from alignkit.text.bitext import Corpus, kept_tokens
from alignkit.text.vocabulary import VISIBLE, Vocabulary
from alignkit.types import PathLike

BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 22  # bytes of a file that are read at a time
STREAM_CHUNK = 1 << 16  # the most bytes of a stream that are passed on at a time
_LOWERED = 1 << 22  # bytes that are lower-cased at a time: as a string they may take four times as much memory
_FIRST_TABLE = 1 << 15
_IDEOGRAPHIC_SPACE = "\u3000".encode()
#: bool (256,): the first bytes of the characters that :data:`VISIBLE` does not match.
_MAYBE_INVISIBLE = np.isin(np.arange(256), [*range(33), 0xC2, 0xE2, 0xEF])
_UTF16 = "it looks like UTF-16: convert it with iconv"
#: What to do about a file that is not UTF-8, by its first two bytes.
_REMEDIES = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"PK": "it is a zip archive, as saved models are, not a text",
}


# The package xopen decompresses, too, but does not pass all of our tests (version 2.1.0). Once one xz or bzip2
# stream was whole, it takes damage in the next for the end of the file, and gives a part of the text without an
# error, as Python's own modules do. It refuses the zero padding that xz allows, takes the skippable frames of zstd
# for text, and plain text that starts with "BZh" for bzip2.


class _Compression(NamedTuple):
    """A compressed format: its name, the bytes that its files may start with, and what makes a decompressor of one
    stream, an object with ``decompress``, ``eof`` and ``unused_data``."""

    name: str
    starts: tuple[bytes, ...]
    decompressor: Callable[[], Any]


_COMPRESSIONS = (
    _Compression("gzip", (b"\x1f\x8b",), lambda: zlib.decompressobj(wbits=31)),
    _Compression("xz", (b"\xfd7zXZ\x00",), lzma.LZMADecompressor),
    # Longer than the "BZh" that a plain text may start with.
    _Compression(
        "bzip2",
        tuple(b"BZh%d%s" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
        bz2.BZ2Decompressor,
    ),
    # A frame of text, or one to be skipped, as pzstd puts first.
    _Compression(
        "zstd",
        (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"),
        lambda: import_module("zstandard").ZstdDecompressor().decompressobj(),
    ),
)
_LONGEST_START = max(len(start) for each in _COMPRESSIONS for start in each.starts)


def file_parts(path: PathLike, size: int | None = None) -> Iterator[bytes]:
    """The content of a file, decompressed, by :func:`whole_lines`; "-" is standard input.

    Args:
        path: the file.
        size: of the parts, as in :func:`read_chunks`; None: :data:`CHUNK`.
    """
    return whole_lines(path, file_chunks(path, size or CHUNK))


def file_chunks(path: PathLike, size: int) -> Iterator[bytes]:
    """The content of a file, decompressed, as :func:`read_chunks` gives it; "-" is standard input."""
    check_type(path, str | os.PathLike, "a file must be given by its path")
    with reading(path), nullcontext(sys.stdin.buffer) if os.fspath(path) == "-" else open(path, "rb") as stream:
        yield from read_chunks(path, stream, size)


def read_chunks(path: PathLike, stream: IO[bytes], size: int) -> Iterator[bytes]:
    """The rest of an open file in chunks, decompressed if its first bytes say gzip, xz, bzip2 or zstd.

    Args:
        path: its name, for messages.
        stream: the file.
        size: of a chunk, in bytes; -1: all in one; 0: what is there, without waiting for more.

    Raises:
        InputError: it cannot be read, is damaged or truncated, or is zstd without the package for it.
    """
    read = getattr(stream, "read1", stream.read) if size == 0 else stream.read
    with reading(path):
        chunks, first = iter(lambda: read(size or STREAM_CHUNK) or b"", b""), b""
        for chunk in chunks:
            first += chunk
            # Wait for more only if this may start a compressed file: a typed line must not wait for the next.
            may_be = any(start.startswith(first) for each in _COMPRESSIONS for start in each.starts)
            if len(first) >= _LONGEST_START or not may_be:
                break
        content = chain([first] if first else [], chunks)
        compression = next((each for each in _COMPRESSIONS if first.startswith(each.starts)), None)
        if compression is None:
            yield from content
            return
        damaged = f"damaged or truncated {compression.name} file"
        decompressor: Any = None  # of a stream; a file may have several: pbzip2, pzstd and cat write them
        for chunk in content:
            while chunk:
                if decompressor is None:
                    chunk = chunk.lstrip(b"\0")  # files may be padded with zeros
                    if not chunk:
                        break
                try:
                    decompressor = decompressor or compression.decompressor()
                    part = decompressor.decompress(chunk)
                except ImportError as error:
                    raise InputError(path, "is compressed with zstd", remedy="pip install zstandard") from error
                except Exception as error:  # zstandard's own error has no base but this
                    raise InputError(path, f"{damaged} ({error})") from error
                yield part
                if not decompressor.eof:
                    break
                chunk, decompressor = decompressor.unused_data, None
        if decompressor is not None:
            raise InputError(path, f"{damaged} (it ends within a stream)")


def whole_lines(path: PathLike, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A text without its byte order mark, cut after line ends only; the last part may lack its own.

    Raises:
        InputError: the text is empty; or what :func:`read_chunks` raises, if the chunks come from there.
    """
    waiting: list[bytes] = []  # the beginning of a line
    mark = BOM
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*waiting, chunk[:cut]]).removeprefix(mark)
            waiting, mark = [], b""
        if cut < len(chunk):
            waiting.append(chunk[cut:])
    last = b"".join(waiting).removeprefix(mark)
    if last:
        yield last
    elif mark:
        raise InputError(path, "is empty")


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
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if encoding_errors == "strict":
            remedy = _REMEDIES.get(data[:2], "convert it with iconv, or go on with --encoding-errors replace")
            line = data.count(b"\n", 0, error.start) + first_line
            raise InputError(path, "is not valid UTF-8", line=line, remedy=remedy) from error
        data = data.decode("utf-8", "replace").encode("utf-8")
    if not lowercase:
        return data
    parts, low = [], 0
    while low < len(data):
        high = data.find(b"\n", low + _LOWERED) + 1 or len(data)
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
    lines = [line.removesuffix("\r") for line in data.decode("utf-8").split("\n")]
    return lines[:-1] if data.endswith(b"\n") or not data else lines


def read_lines(path: PathLike, *, encoding_errors: str = "strict", lowercase: bool = False) -> list[str]:
    """The lines of a text file, without their ends; arguments and errors as :func:`read_utf8`."""
    return split_lines(read_utf8(path, encoding_errors, lowercase))


def encode_text(data: bytes) -> Corpus:
    """The corpus of a text in UTF-8: a sentence per line, tokens between white space.

    Ids are given in order of first appearance. A line without a visible character has no tokens.

    >>> encode_text(b"the house\\nthe cat\\n")
    Corpus(2 sentences, 4 tokens, 3 types)
    """
    from alignkit.kernels import text

    if not data:
        return Corpus.from_sentences([])
    if _IDEOGRAPHIC_SPACE[:1] in data:  # a byte is found sooner
        data = data.replace(_IDEOGRAPHIC_SPACE, b" ")
    view = np.frombuffer(data, np.uint8)
    # Room for all the tokens that these bytes can hold; pages that are never written take no memory.
    tokens = np.empty(len(data) // 2 + 1, np.int32)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))  # the last may lack its end
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
    corpus = Corpus.unchecked(tokens, offsets, Vocabulary(letters, type_offsets))
    shown = np.ones(len(starts), bool)
    for v in np.flatnonzero(_MAYBE_INVISIBLE[letters[type_offsets[:-1]]]).tolist():
        shown[v] = VISIBLE.search(corpus.vocabulary.decoded(v)) is not None
    if shown[tokens[offsets[:-1][corpus.lengths > 0]]].all():  # the first token of each line
        return corpus
    kept = np.repeat(np.diff(offsets_of(shown[tokens])[offsets]) > 0, corpus.lengths)
    return corpus if kept.all() else kept_tokens(corpus, kept).with_own_words()
