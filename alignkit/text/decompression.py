"""Compressed text, told by its first bytes: gzip, xz, bzip2 and zstd, whole or as a stream."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from alignkit.errors import InputError

_MAGIC = 10  # bytes that tell every format


def _zstd_decompressor() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


@dataclass(frozen=True)
class Packing:
    """A compressed format: its name, the bytes its files may start with, and what makes a decompressor of one
    stream (an object with ``decompress``, ``eof`` and ``unused_data``)."""

    name: str
    starts: tuple[bytes, ...]
    decompressor: Callable[[], Any]

    def unpack(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """All streams of a file given in pieces (pbzip2, pzstd and cat write several); the libraries' own
        functions take whatever damage comes after the first stream for its end.

        Raises whatever the libraries raise on damaged data, or EOFError.
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


PACKINGS = (
    Packing("gzip", (b"\x1f\x8b",), lambda: zlib.decompressobj(wbits=31)),
    Packing("xz", (b"\xfd7zXZ\x00",), lzma.LZMADecompressor),
    # Longer than the "BZh" that a plain text may start with.
    Packing(
        "bzip2",
        tuple(b"BZh%d%s" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
        bz2.BZ2Decompressor,
    ),
    # A frame of text, or one to be skipped, as pzstd puts first.
    Packing("zstd", (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"), _zstd_decompressor),
)


def packing_of(data: bytes) -> Packing | None:
    """The compressed format that ``data`` starts as, or None."""
    return next((packing for packing in PACKINGS if data.startswith(packing.starts)), None)


def unpacked(path: str | os.PathLike[str], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of a file, decompressed if its first bytes say that it is compressed.

    Args:
        path: where they come from, for messages.
        chunks: the file in pieces of any size.

    Raises:
        InputError: damaged or truncated, or zstd without the package for it.
    """
    waiting = iter(chunks)
    first = b""
    for chunk in waiting:
        first += chunk
        # Waiting for more is only worth it where what came so far may be the start of a compressed file: a line
        # that somebody typed must not wait for the next.
        if len(first) >= _MAGIC or not any(start.startswith(first) for p in PACKINGS for start in p.starts):
            break
    packing = next((packing for packing in PACKINGS if first.startswith(packing.starts)), None)
    pieces = chain([first], waiting) if first else waiting
    if packing is None:
        yield from pieces
        return
    try:
        yield from packing.unpack(pieces)
    except ImportError as error:
        raise InputError(path, "is compressed with zstd", remedy="pip install zstandard") from error
    except InputError:
        raise
    # zstandard's own error has no base but Exception, and the package is only imported where it is needed
    except Exception as error:
        raise InputError(path, f"damaged or truncated {packing.name} file ({error})") from error
