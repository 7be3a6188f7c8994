"""The sentence pairs of files, counted, and read some at a time: in blocks, a range of them, or a sample."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.text.bitext import Bitext
from alignkit.text.pair_formats import SeparatedLines, pair_format
from alignkit.text.reading import check_counts, encode_text, open_input, read_chunks
from alignkit.text.utf8 import valid_text, whole_lines
from alignkit.types import PathLike

CHUNK = 1 << 22  # bytes read at a time
SAMPLED_BLOCK = 1 << 16  # pairs that a sample is taken from at a time


@dataclass(frozen=True)
class PairFiles:
    """Files of sentence pairs, which are read as often as need be, and never as a whole.

    Attributes:
        source, target: as of :func:`alignkit.text.reading.read_bitext`, but neither standard input nor a pipe.
        encoding_errors, lowercase: as of the same.

    Raises:
        AlignkitError: a file can be read only once.
    """

    source: PathLike
    target: PathLike | None = None
    encoding_errors: str = "strict"
    lowercase: bool = False

    def __post_init__(self) -> None:
        for path in self.paths:
            special = os.path.exists(path) and not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode)
            if special or os.fspath(path) == "-":
                problem = "can be read only once, and this reads the text several times"
                raise InputError(path, problem, remedy="give a file")

    @property
    def paths(self) -> tuple[PathLike, ...]:
        """The one file or the two."""
        return (self.source,) if self.target is None else (self.source, self.target)

    def count(self) -> int:
        """The number of pairs; raises AlignkitError if the two files have different numbers of lines."""
        counts = [_count_lines(path) for path in self.paths]
        check_counts(self.source, self.target, (counts[0], counts[-1]))
        return counts[0]

    def blocks(self, size: int, low: int = 0, high: int | None = None) -> Iterator[Bitext]:
        """The pairs low <= m < high (None: all others) in blocks of ``size``, the last may be smaller.

        Each block has vocabularies of its own, numbered as :func:`alignkit.text.reading.encode_text` does.

        Raises:
            InputError: a file cannot be read, or is damaged or invalid, with file and line.
        """
        for _, source, target in self._texts(size, low, high):
            yield Bitext(encode_text(source), encode_text(target))

    def sample(self, pairs: np.ndarray) -> Bitext:
        """The pairs with these numbers, int64, rising; all lines are read and checked.

        Raises:
            InputError: as of :meth:`blocks`.
        """
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        for first, *texts in self._texts(SAMPLED_BLOCK, 0, None):
            chosen = pairs[slice(*np.searchsorted(pairs, [first, first + SAMPLED_BLOCK]))] - first
            for side, text in zip(sides, texts, strict=True):
                ends = _line_ends(text)
                starts = np.concatenate([np.zeros(1, np.int64), ends])
                side.extend(text[starts[m] : ends[m]] for m in chosen.tolist())
        return Bitext(*(encode_text(_joined(side)) for side in sides))

    def _texts(self, size: int, low: int, high: int | None) -> Iterator[tuple[int, bytes, bytes]]:
        """(number of the first pair from 0, source lines, target lines) of blocks, as valid UTF-8."""
        blocks = [_line_blocks(path, size, low, high) for path in self.paths]
        known = None if self.target is not None else self._format()
        for first, *texts in zip(range(low, low + (1 << 62), size), *blocks, strict=False):
            valid = [
                valid_text(path, text, self.encoding_errors, self.lowercase, first + 1)
                for path, text in zip(self.paths, texts, strict=True)
            ]
            source, target = known.split(self.source, valid[0], first + 1) if known is not None else valid
            yield first, source, target

    def _format(self) -> SeparatedLines:
        """What separates the sides of a file with both."""
        with open_input(self.source) as stream:
            known = pair_format(whole_lines(self.source, read_chunks(self.source, stream, CHUNK)))
        if not isinstance(known, SeparatedLines):
            raise InputError(self.source, "has a format that cannot be read in parts", remedy="give two files")
        return known


def shard_range(count: int, shard: tuple[int, int], unit: int = 1) -> tuple[int, int]:
    """The range [low, high) of ``count`` pairs that is the i-th of n parts, whose sizes are as equal as may be.

    Args:
        count: of all pairs.
        shard: i, from 1, and n.
        unit: parts start at multiples of this; if there are fewer of them than parts, some are empty.

    Raises:
        AlignkitError: there is no such part.
    """
    i, n = shard
    if not 1 <= i <= n:
        raise AlignkitError(f"the number of a shard goes from 1 to {n}, not {i}")
    units = -(-count // unit)
    low, high = (min(k * units // n * unit, count) for k in (i - 1, i))
    return low, high


def sampled_pairs(count: int, size: int, seed: int = 0) -> np.ndarray:
    """int64 (size,), rising: a sample of 0..count-1 without repetition, the same for the same arguments.

    Each number is hashed together with the seed, and those with the smallest hashes are the sample: that of a
    smaller size is a part of it.

    Raises:
        AlignkitError: the seed is negative, or has more than 64 bits.
    """
    if not 0 <= seed < 1 << 64:
        raise AlignkitError(f"the seed of a sample must be a whole number from 0 to 2**64 - 1, not {seed}")
    if size >= count:
        return np.arange(count)
    share = size / count
    most = share + 8 * np.sqrt(share / count) + 64 / count  # the size-th smallest hash is hardly ever above this
    found = _smallest_hashes(count, seed, most)
    if len(found[0]) < size:
        found = _smallest_hashes(count, seed, 1.0)
    numbers, hashes = found
    return np.sort(numbers[np.argsort(hashes, kind="stable")[:size]])


def _smallest_hashes(count: int, seed: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The numbers below ``count`` whose hash is in this share of all hashes, and those hashes."""
    bound = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    start = _mixed(np.array([seed], np.uint64) + np.uint64(0x9E3779B97F4A7C15))[0]
    numbers, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for low, high in pairwise([*range(0, count, 1 << 20), count]):
        part = np.arange(low, high)
        mixed = _mixed(_mixed(part.astype(np.uint64)) ^ start)
        chosen = mixed <= bound
        numbers.append(part[chosen])
        hashes.append(mixed[chosen])
    return np.concatenate(numbers), np.concatenate(hashes)


def _mixed(x: np.ndarray) -> np.ndarray:
    """uint64: the finaliser of SplitMix64 (Steele, Lea and Flood 2014), which maps no two numbers to one."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _count_lines(path: PathLike) -> int:
    count, is_whole = 0, True
    with open_input(path) as stream:
        for part in whole_lines(path, read_chunks(path, stream, CHUNK)):
            count += part.count(b"\n")
            is_whole = part.endswith(b"\n")
    return count + (not is_whole)


def _line_blocks(path: PathLike, size: int, low: int, high: int | None) -> Iterator[bytes]:
    """The lines low <= m < high of a file, ``size`` at a time."""
    waiting: list[bytes] = []
    held, skipped, left = 0, low, (1 << 62) if high is None else high - low
    with open_input(path) as stream:
        for part in whole_lines(path, read_chunks(path, stream, CHUNK)):
            if left <= 0:
                break
            if skipped:
                count = part.count(b"\n")
                if count <= skipped and part.endswith(b"\n"):
                    skipped -= count
                    continue
            ends = _line_ends(part)
            start, place, skipped = (int(ends[skipped - 1]) if skipped else 0), skipped, 0
            end = min(len(ends), place + left)
            left -= end - place
            while held + end - place >= size:
                cut = place + size - held
                waiting.append(part[start : ends[cut - 1]])
                yield b"".join(waiting)
                waiting, held, start, place = [], 0, int(ends[cut - 1]), cut
            if end > place:
                waiting.append(part[start : ends[end - 1]])
                held += end - place
    if held:
        yield b"".join(waiting)


def _line_ends(text: bytes) -> np.ndarray:
    """int64: the place after each line of a text, the last of which may lack its end."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    return ends if text.endswith(b"\n") or not text else np.append(ends, len(text))


def _joined(lines: list[bytes]) -> bytes:
    """The lines as a text; the last of a file may have lacked its end."""
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
