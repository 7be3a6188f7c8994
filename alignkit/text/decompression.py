"""Decompression of gzip, xz, bzip2 and zstd, told by a file's first bytes, whole or as a stream.

The package xopen does this too, but does not pass all of our tests (version 2.1.0). Once one xz or bzip2 stream
was whole, it takes damage in the next for the end of the file, and gives a part of the text without an error, as
Python's own modules do. It refuses the zero padding that xz allows, takes the skippable frames of zstd for text,
and plain text that starts with "BZh" for bzip2.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from alignkit.errors import InputError
from alignkit.types import PathLike

_LONGEST_START = 10  # bytes


def _zstd_decompressor() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


@dataclass(frozen=True)
class CompressedFormat:
    """A compressed format.

    Attributes:
        name: for messages.
        starts: the bytes that its files may start with.
        decompressor: makes a decompressor of one stream: an object with ``decompress``, ``eof`` and
            ``unused_data``.
    """

    name: str
    starts: tuple[bytes, ...]
    decompressor: Callable[[], Any]

    def decompress(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The decompressed text of all streams of a file; pbzip2, pzstd and cat write several.

        Raises:
            EOFError: the file ends within a stream.
            Exception: the data is damaged; its type depends on the library.
        """
        stream: Any = None
        for chunk in chunks:
            while chunk:
                if stream is None:
                    chunk = chunk.lstrip(b"\0")  # files may be padded with zeros
                    if not chunk:
                        break
                    stream = self.decompressor()
                yield stream.decompress(chunk)
                if not stream.eof:
                    break
                chunk, stream = stream.unused_data, None
        if stream is not None:
            raise EOFError("it ends within a stream")


FORMATS = (
    CompressedFormat("gzip", (b"\x1f\x8b",), lambda: zlib.decompressobj(wbits=31)),
    CompressedFormat("xz", (b"\xfd7zXZ\x00",), lzma.LZMADecompressor),
    # Longer than the "BZh" that a plain text may start with.
    CompressedFormat(
        "bzip2",
        tuple(b"BZh%d%s" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
        bz2.BZ2Decompressor,
    ),
    # A frame of text, or one to be skipped, as pzstd puts first.
    CompressedFormat("zstd", (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"), _zstd_decompressor),
)


def decompressed(path: PathLike, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a file in chunks, decompressed if its first bytes say that it is compressed.

    Args:
        path: where it comes from, for messages.
        chunks: the file in chunks of any size.

    Raises:
        InputError: damaged or truncated, or zstd without the package for it.
    """
    waiting = iter(chunks)
    first = b""
    for chunk in waiting:
        first += chunk
        # Wait for more only if this may start a compressed file: a typed line must not wait for the next.
        if len(first) >= _LONGEST_START or not any(s.startswith(first) for known in FORMATS for s in known.starts):
            break
    known = next((each for each in FORMATS if first.startswith(each.starts)), None)
    content = chain([first], waiting) if first else waiting
    if known is None:
        yield from content
        return
    try:
        yield from known.decompress(content)
    except ImportError as error:
        raise InputError(path, "is compressed with zstd", remedy="pip install zstandard") from error
    except InputError:
        raise
    # zstandard's own error has no base but Exception, and the package is only imported where it is needed
    except Exception as error:
        raise InputError(path, f"damaged or truncated {known.name} file ({error})") from error
