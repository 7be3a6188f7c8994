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
        errors: those of malformed lines, which are blank pairs here.
    """

    first: int
    source: bytes
    target: bytes
    errors: tuple[InputError, ...] = ()


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
    skip: bool = False,
) -> Iterator[PairBatch]:
    """Sentence pairs of a stream of lines ``source ||| target`` or source TAB target, as soon as they arrive.

    The first line that is neither blank nor malformed decides which of the two separates the sides.

    Args:
        path: name of the stream, for messages.
        stream: plain, or compressed in any format that files may have.
        encoding_errors, lowercase: as of :func:`alignkit.text.reading.read_bitext`.
        single: one pair in each batch, instead of all that are there.
        skip: pass a malformed line on as a blank pair with its error, and go on after it.

    Raises:
        InputError: as for files; the pairs before the bad line have been passed on. With ``skip``, only if the
            stream is empty or a damaged archive.
    """
    reader = _PairReader(path, encoding_errors, lowercase)
    for data in whole_lines(path, decompressed(path, available_chunks(stream))):
        for part in _LINE.findall(data) if single else [data]:
            first = reader.first
            try:
                yield reader.read(part)
            except InputError as error:
                if skip:
                    yield reader.read_skipping(part)
                    continue
                good = _first_lines(part, (error.line or first) - first)
                if good:
                    yield reader.read(good)
                raise


class _PairReader:
    """Reads the lines of a stream, part after part.

    Args:
        path, encoding_errors, lowercase: as of :func:`pair_batches`.
    """

    def __init__(self, path: PathLike, encoding_errors: str, lowercase: bool) -> None:
        self.path, self.encoding_errors, self.lowercase = path, encoding_errors, lowercase
        self.separated: SeparatedLines | None = None
        self.first = 1  # number of the next line

    def read(self, part: bytes) -> PairBatch:
        """The pairs of the next lines; raises InputError, and reads none of them, if one is malformed."""
        text = valid_text(self.path, part, self.encoding_errors, self.lowercase, self.first)
        if self.separated is None:
            content = next((line for line in text.split(b"\n") if line.strip(b" \t\r")), None)
            found = None if content is None else BARS if BARS.recognizes(content) else TAB
        else:
            found = self.separated
        batch = PairBatch(self.first, *(found or TAB).split(self.path, text, self.first))
        self.separated = found
        self.first += part.count(b"\n") + (not part.endswith(b"\n"))
        return batch

    def read_skipping(self, part: bytes) -> PairBatch:
        """The pairs of the next lines, blank ones and their errors for those that are malformed."""
        first, batches = self.first, []
        for line in _LINE.findall(part):
            try:
                batches.append(self.read(line))
            except InputError as error:
                batches.append(PairBatch(self.first, b"\n", b"\n", (error,)))
                self.first += 1
        source, target = b"".join(each.source for each in batches), b"".join(each.target for each in batches)
        return PairBatch(first, source, target, tuple(error for batch in batches for error in batch.errors))


def _first_lines(data: bytes, count: int) -> bytes:
    """The first ``count`` lines of ``data``."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return data[:end]
