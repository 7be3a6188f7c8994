"""Sentence pairs of a stream, passed on as soon as they arrive, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from alignkit.errors import InputError
from alignkit.text.decompression import decompressed
from alignkit.text.pair_formats import BARS, TAB, SeparatedLines
from alignkit.text.utf8 import valid_text, whole_lines
from alignkit.types import PathLike

CHUNK = 1 << 16  # bytes
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")  # only \n ends one


@dataclass(frozen=True)
class PairBatch:
    """Consecutive sentence pairs, as valid UTF-8 with a line each.

    Attributes:
        first: number of the first pair, from 1.
        source, target: the two sides.
    """

    first: int
    source: bytes
    target: bytes


def available_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """The content of a binary stream in chunks, each without waiting for more than the stream has."""
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK):
        yield chunk


def pair_batches(
    path: PathLike,
    stream: IO[bytes],
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    single: bool = False,
) -> Iterator[PairBatch]:
    """Sentence pairs of a stream of lines ``source ||| target`` or source TAB target, as soon as they arrive.

    The first line that is not blank decides which of the two separates the sides.

    Args:
        path: name of the stream, for messages.
        stream: plain, or compressed in any format that files may have.
        encoding_errors, lowercase: as of :func:`alignkit.text.reading.read_bitext`.
        single: one pair in each batch, instead of all that are there.

    Raises:
        InputError: as for files; the pairs before the bad line have been passed on.
    """
    separated: SeparatedLines | None = None
    first = 1

    def batch_of(part: bytes) -> PairBatch:
        nonlocal separated
        text = valid_text(path, part, encoding_errors, lowercase, first)
        if separated is None:
            content = next((line for line in text.split(b"\n") if line.strip(b" \t\r")), None)
            separated = None if content is None else BARS if BARS.recognizes(content) else TAB
        return PairBatch(first, *(separated or TAB).split(path, text, first))

    for data in whole_lines(path, decompressed(path, available_chunks(stream))):
        for part in _LINE.findall(data) if single else [data]:
            try:
                batch = batch_of(part)
            except InputError as error:
                good = _first_lines(part, (error.line or first) - first)
                if good:
                    yield batch_of(good)
                raise
            yield batch
            first += part.count(b"\n") + (not part.endswith(b"\n"))


def _first_lines(data: bytes, count: int) -> bytes:
    """The first ``count`` lines of ``data``."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return data[:end]
