"""Sentence pairs as they come from a stream: what is there is handed on at once, and no more is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from alignkit.errors import InputError
from alignkit.text.decompression import unpacked
from alignkit.text.reading import BOM, Path, has_bars, split_joined, valid_text

CHUNK = 1 << 16


@dataclass(frozen=True)
class PairBatch:
    """Some sentence pairs in a row: clean UTF-8 with a line each.

    Attributes:
        first: number of the first pair, from 1.
        source, target: the two sides.
    """

    first: int
    source: bytes
    target: bytes


def chunks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """What a binary stream has, piece by piece, without waiting for more than it has."""
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK):
        yield chunk


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes cut after line ends only; the last piece may lack its own."""
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


def pair_batches(
    path: Path,
    stream: IO[bytes],
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    single: bool = False,
) -> Iterator[PairBatch]:
    """Sentence pairs of a stream of lines ``source ||| target`` or source TAB target, as soon as they come.

    The first line that is not blank decides which of the two separates the sides.

    Args:
        path: name of the stream, for messages.
        stream: plain, or compressed in any way that files may be.
        encoding_errors, lowercase: as in :func:`alignkit.text.reading.read_bitext`.
        single: one pair in each batch, instead of all that are there.

    Raises:
        InputError: as for files; the pairs before the bad line have been handed on by then.
    """
    bars: bool | None = None
    first = 1
    begun = False

    def batch_of(part: bytes) -> PairBatch:
        nonlocal bars
        text = valid_text(path, part, encoding_errors, lowercase, first)
        if bars is None:
            content = next((line for line in text.split(b"\n") if line.strip(b" \t\r")), None)
            bars = None if content is None else has_bars(content)
        return PairBatch(first, *split_joined(path, text, bars, first))

    for data in whole_lines(unpacked(path, chunks_of(stream))):
        if not begun:
            data = data.removeprefix(BOM)
            begun = bool(data)
        for part in _parts(data, single):
            try:
                batch = batch_of(part)
            except InputError as error:
                good = _lines_before(part, (error.line or first) - first)
                if good:
                    yield batch_of(good)
                raise
            yield batch
            first += part.count(b"\n") + (not part.endswith(b"\n"))
    if not begun:
        raise InputError(path, "is empty")


def _lines_before(data: bytes, count: int) -> bytes:
    """The first ``count`` lines of ``data``."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return data[:end]


def _parts(data: bytes, single: bool) -> list[bytes]:
    """``data`` as it is, or its lines; only \\n ends one."""
    if not single:
        return [data] if data else []
    lines = data.split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended
