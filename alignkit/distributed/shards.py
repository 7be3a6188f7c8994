"""Which lines of which files each rank reads: byte ranges that meet at line ends in both sides of a text."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.distributed.arrays import ArrayGroup
from alignkit.errors import AlignkitError, InputError
from alignkit.text.decompression import compressed_format
from alignkit.text.reading import check_counts, open_input, read_bytes

#: Bytes between two entries of the index of line ends.
STEP = 1 << 20


@dataclass(frozen=True)
class LineRange:
    """Consecutive lines of one file.

    Attributes:
        path: of the file.
        low, high: the bytes [low, high); None of a compressed file, which is read whole.
        first_line: the number of the first line in the file, from 1.
    """

    path: str
    low: int | None
    high: int | None
    first_line: int

    def read(self) -> bytes:
        """The lines, decompressed; the last one has an end. Raises InputError if the file cannot be read."""
        if self.low is None or self.high is None:
            data = read_bytes(self.path)
        else:
            with open_input(self.path) as stream:
                stream.seek(self.low)
                data = stream.read(self.high - self.low)
        return data if data.endswith(b"\n") or not data else data + b"\n"


def shard_paths(sides: Sequence[str]) -> list[list[str]]:
    """The files of each side: those that a pattern with ``*``, ``?`` or ``[...]`` matches, in alphabetical order;
    those that ``@FILE`` lists, one per line; or one file.

    Raises:
        AlignkitError: there are none, or not as many of one side as of the other.
    """
    found = [_paths(text) for text in sides]
    if len({len(paths) for paths in found}) > 1:
        numbers = " and ".join(f"{len(paths)} ({text})" for text, paths in zip(sides, found, strict=True))
        raise AlignkitError(
            f"the numbers of files are {numbers}; file n of one must belong to file n of the other"
        )
    return found


def _paths(text: str) -> list[str]:
    if text == "-":
        raise AlignkitError("standard input cannot be shared out among ranks; give files")
    if text.startswith("@"):
        lines = read_bytes(text[1:]).decode("utf-8", "replace").splitlines()
        found = [line.strip() for line in lines if line.strip()]
        if not found:
            raise InputError(text[1:], "lists no files")
        return found
    if os.path.exists(text) or not glob.has_magic(text):
        return [text]
    found = sorted(glob.glob(text))
    if not found:
        raise AlignkitError(f"no file matches {text}")
    return found


def assigned(group: ArrayGroup, sides: Sequence[Sequence[str]]) -> list[list[LineRange]]:
    """What this rank reads of each side; together, in their order, the ranks read all of the text.

    Args:
        group: the ranks, all of which call this.
        sides: the files of each side; file n of one belongs to file n of the other.

    Raises:
        InputError: a file cannot be read.
        AlignkitError: two files that belong together differ in their numbers of lines.
    """
    sizes = [[_size(path) for path in paths] for paths in sides]
    if any(_is_compressed(path) for paths in sides for path in paths):
        return _whole_files(group, sides, np.array(sizes[0], np.int64))
    indexes = [
        [_LineIndex(group, path, size) for path, size in zip(*side, strict=True)]
        for side in zip(sides, sizes, strict=True)
    ]
    ranges: list[list[LineRange]] = [[] for _ in sides]
    files_of_each = list(zip(*indexes, strict=True))
    group.agreed(lambda: _check_counts(files_of_each))
    total = sum(each.lines for each in indexes[0])
    low, high = (total * part // group.world_size for part in (group.rank, group.rank + 1))
    start = 0
    for files in files_of_each:
        lines = files[0].lines
        a, b = max(low - start, 0), min(high - start, lines)
        if a < b:
            for own, each in zip(ranges, files, strict=True):
                own.append(LineRange(each.path, each.place(a), each.place(b), a + 1))
        start += lines
    return ranges


def _check_counts(files_of_each: Sequence[Sequence[_LineIndex]]) -> None:
    """Raises AlignkitError if two files that belong together differ in their numbers of lines."""
    for files in files_of_each:
        if len(files) == 2:
            check_counts(files[0].path, files[1].path, (files[0].lines, files[1].lines))


class _LineIndex:
    """Where the lines of a plain file are: each rank counts the line ends of one part of it."""

    def __init__(self, group: ArrayGroup, path: str, size: int) -> None:
        self.path, self.size = path, size
        steps = -(-size // STEP)
        low, high = (steps * part // group.world_size for part in (group.rank, group.rank + 1))
        counts = np.zeros(steps, np.int64)
        ends_with_line = 0
        with open_input(path) as stream:
            stream.seek(low * STEP)
            for step in range(low, high):
                data = stream.read(STEP)
                counts[step] = data.count(b"\n")
                ends_with_line = int(step == steps - 1 and data.endswith(b"\n"))
        found = group.all_reduce(np.append(counts, ends_with_line), "line ends")
        self.before = np.concatenate([[0], np.cumsum(found[:-1])])
        self.lines = int(self.before[-1]) + (size > 0 and not found[-1])

    def place(self, line: int) -> int:
        """The byte where a line starts, counted from 0; the size of the file for the one after the last."""
        if line == 0:
            return 0
        if line > self.before[-1]:
            return self.size
        step = int(np.searchsorted(self.before, line)) - 1  # the line end before this line is in this step
        with open_input(self.path) as stream:
            stream.seek(step * STEP)
            data = np.frombuffer(stream.read(STEP), np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        return step * STEP + int(ends[line - 1 - self.before[step]]) + 1


def _whole_files(group: ArrayGroup, sides: Sequence[Sequence[str]], sizes: np.ndarray) -> list[list[LineRange]]:
    """Runs of whole files, of about the same size for each rank."""
    middles = np.cumsum(sizes) - sizes / 2
    ranks = np.minimum(middles * group.world_size // max(int(sizes.sum()), 1), group.world_size - 1)
    mine = np.flatnonzero(ranks == group.rank).tolist()
    return [[LineRange(paths[n], None, None, 1) for n in mine] for paths in sides]


def _size(path: str) -> int:
    with open_input(path) as stream:
        try:
            return os.fstat(stream.fileno()).st_size
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror or error}") from error


def _is_compressed(path: str) -> bool:
    with open_input(path) as stream:
        try:
            return compressed_format(stream.read(16)) is not None
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror or error}") from error
