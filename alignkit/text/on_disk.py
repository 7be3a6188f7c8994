"""Bitexts larger than memory: read a part at a time, their ids in files that the system maps into memory.

The files have no name, so nothing is left behind however the process ends. A mapped array is an array like any
other; pages that were read count as memory in use only until :func:`release`, or until the system reclaims them.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.decompression import compressed_format
from alignkit.text.pair_formats import SeparatedLines, pair_format
from alignkit.text.reading import check_counts, encode_text, open_input, read_both, read_chunks
from alignkit.text.utf8 import valid_text, whole_lines
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

CHUNK = 1 << 22  # bytes read at a time
#: Numbers of a mapped array to go through between calls of :func:`release`.
RELEASED = 1 << 21
_RATIO = 6  # of the size of a text to its compressed size; rather too high


def temporary_file(folder: str | None) -> IO[bytes]:
    """A file without a name in a folder; None: the system's folder for temporary files.

    Raises:
        AlignkitError: it cannot be made.
    """
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise no_room(folder, error) from error


def no_room(folder: str | None, error: OSError) -> AlignkitError:
    """The error of a temporary file that cannot be written."""
    place = folder or tempfile.gettempdir()
    return AlignkitError(f"cannot write temporary files in {place}: {error.strerror or error}; see --temp-dir")


class DiskArray:
    """A one-dimensional array that grows on disk, and is mapped into memory when it is complete."""

    def __init__(self, dtype: Any, folder: str | None) -> None:
        self.dtype, self.folder = np.dtype(dtype), folder
        self._file = temporary_file(folder)

    def append(self, part: np.ndarray) -> None:
        """Append values; raises AlignkitError if there is no room for them."""
        try:
            self._file.write(np.ascontiguousarray(part, self.dtype).data)
        except OSError as error:
            raise no_room(self.folder, error) from error

    def finish(self) -> np.ndarray:
        """The mapped array; changes to it stay in memory and never reach the file."""
        with self._file as file:
            try:
                file.flush()
            except OSError as error:
                raise no_room(self.folder, error) from error
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return np.empty(0, self.dtype)
            return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY), self.dtype)


def scratch_array(size: int, dtype: Any, folder: str | None) -> np.ndarray:
    """Zeros (size,) in a file without a name, mapped into memory; the file goes when the array does.

    Raises:
        AlignkitError: there is no room for it.
    """
    dtype = np.dtype(dtype)
    if size == 0:
        return np.zeros(0, dtype)
    with temporary_file(folder) as file:
        try:
            # Reserved at once: a disk that is full later would end the process without a word.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
            else:
                for low in range(0, size * dtype.itemsize, CHUNK):
                    file.write(bytes(min(CHUNK, size * dtype.itemsize - low)))
                file.flush()
        except OSError as error:
            raise no_room(folder, error) from error
        return np.frombuffer(mmap.mmap(file.fileno(), size * dtype.itemsize, access=mmap.ACCESS_WRITE), dtype)


def release(*arrays: np.ndarray) -> None:
    """Give back the memory of mapped arrays, which are read again when they are used again.

    Arrays that are not mapped are left alone.
    """
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            with suppress(OSError):
                base.madvise(mmap.MADV_DONTNEED)


def release_bitext(bitext: Bitext) -> None:
    """:func:`release` the tokens and offsets of both sides."""
    release(*(a for side in (bitext.source, bitext.target) for a in (side.tokens, side.offsets)))


class GrowingVocabulary:
    """A vocabulary that grows, in order of first appearance as that of :func:`.encode_text`."""

    def __init__(self) -> None:
        self.count = 0
        self._letters = np.empty(1 << 16, np.uint8)
        self._offsets = np.zeros(1 << 12, np.int64)
        self._table = np.full(1 << 13, -1, np.int32)

    def ids(self, words: Vocabulary) -> np.ndarray:
        """int32 (len(words),): the id of each word; words that are new get one."""
        from alignkit.kernels import text

        letters, types = int(self._offsets[self.count]) + len(words.text), self.count + len(words)
        if letters > len(self._letters):
            self._letters = _enlarged(self._letters, letters)
        if types + 1 > len(self._offsets):
            self._offsets = _enlarged(self._offsets, types + 1)
        if 2 * types > len(self._table):
            self._table = np.full(1 << (4 * types - 1).bit_length(), -1, np.int32)
            text.fill_table(self._letters, self._offsets[:-1], self._offsets[1:], self.count, self._table)
        ids = np.empty(len(words), np.int32)
        known = (self._letters, self._offsets, self.count, self._table)
        self.count = text.number_tokens(words.text, words.offsets, *known, ids)
        return ids

    def finish(self) -> Vocabulary:
        """The vocabulary of all words so far."""
        offsets = self._offsets[: self.count + 1].copy()
        return Vocabulary(self._letters[: offsets[-1]].copy(), offsets)


def _enlarged(array: np.ndarray, size: int) -> np.ndarray:
    larger = np.empty(max(size, len(array) + len(array) // 2), array.dtype)
    larger[: len(array)] = array
    return larger


class _Side:
    """One side of a bitext that is being read."""

    def __init__(self, folder: str | None) -> None:
        self.vocabulary = GrowingVocabulary()
        self.tokens, self.offsets = DiskArray(np.int32, folder), DiskArray(np.int64, folder)
        self.offsets.append(np.zeros(1, np.int64))
        self.size = 0

    def add(self, text: bytes) -> None:
        """Add whole lines of valid UTF-8."""
        part = encode_text(text)
        self.tokens.append(self.vocabulary.ids(part.vocabulary)[part.tokens])
        self.offsets.append(part.offsets[1:] + self.size)
        self.size += len(part.tokens)

    def finish(self) -> Corpus:
        corpus = Corpus(self.tokens.finish(), self.offsets.finish(), self.vocabulary.finish())
        release(corpus.tokens, corpus.offsets)
        return corpus


def _parts(path: PathLike, stream: IO[bytes]) -> Iterator[bytes]:
    """Whole lines of an open file, a chunk at a time; raises InputError if there are none."""
    return whole_lines(path, read_chunks(path, stream, CHUNK))


def _valid_parts(
    path: PathLike, stream: IO[bytes], encoding_errors: str, lowercase: bool
) -> Iterator[tuple[int, bytes]]:
    """Whole lines of an open file as (number of the first line, valid UTF-8), a chunk at a time."""
    first = 1
    for data in _parts(path, stream):
        yield first, valid_text(path, data, encoding_errors, lowercase, first)
        first += data.count(b"\n")


def text_size(source: PathLike, target: PathLike | None, unknown: int) -> int:
    """An estimate of the bytes of text in the files: a compressed one is taken to hold ``_RATIO`` times its size.

    Args:
        source, target: files; one that cannot be read counts as nothing, and is left to whoever reads it.
        unknown: bytes that a stream counts for.
    """
    size = 0
    for path in (source, target):
        if path is None:
            continue
        with suppress(OSError, ValueError):
            if os.fspath(path) == "-":
                known = os.fstat(sys.stdin.fileno())
                size += known.st_size if stat.S_ISREG(known.st_mode) else unknown
                continue
            known = os.stat(path)
            if not stat.S_ISREG(known.st_mode):
                size += unknown
                continue
            with open(path, "rb") as stream:
                plain = compressed_format(stream.read(16)) is None
            size += known.st_size * (1 if plain else _RATIO)
    return size


def read_bitext_to_disk(
    source: PathLike,
    target: PathLike | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    threads: int = 2,
    folder: str | None = None,
) -> Bitext:
    """The bitext that :func:`alignkit.text.reading.read_bitext` reads, with its ids on disk.

    In memory are the vocabularies and a few chunks of ``CHUNK`` bytes.

    Args:
        source, target, encoding_errors, lowercase, threads: as of ``read_bitext``.
        folder: of the files; None: where the system has temporary files.

    Raises:
        InputError, AlignkitError: as ``read_bitext``; or there is no room in the folder.
    """

    def read(path: PathLike) -> Corpus:
        side = _Side(folder)
        with open_input(path) as stream:
            for _, text in _valid_parts(path, stream, encoding_errors, lowercase):
                side.add(text)
        return side.finish()

    if target is None:
        sides = _read_joined(source, encoding_errors, lowercase, folder)
    else:
        sides = read_both(source, target, read, threads)
    check_counts(source, target, (len(sides[0]), len(sides[1])))
    return Bitext(*sides)


def _read_joined(
    path: PathLike, encoding_errors: str, lowercase: bool, folder: str | None
) -> tuple[Corpus, Corpus]:
    """Both sides of one file, which is read twice: for its format, and for its content."""
    sides = _Side(folder), _Side(folder)
    with open_input(path) as given:
        stream = given if given.seekable() else _copied(given, folder)
        start = stream.tell()
        known = pair_format(_parts(path, stream))
        stream.seek(start)
        if isinstance(known, SeparatedLines):
            lines = _valid_parts(path, stream, encoding_errors, lowercase)
            for first, text in lines:
                _add(sides, known.split(path, text, first))
        else:  # it can only be read whole
            data = b"".join(read_chunks(path, stream, CHUNK))
            _add(sides, known.sides(path, data, encoding_errors, lowercase))
    return sides[0].finish(), sides[1].finish()


def _add(sides: tuple[_Side, _Side], texts: tuple[bytes, bytes]) -> None:
    for side, text in zip(sides, texts, strict=True):
        side.add(text)


def _copied(stream: IO[bytes], folder: str | None) -> IO[bytes]:
    """A temporary file with the rest of a stream."""
    copy = temporary_file(folder)
    try:
        shutil.copyfileobj(stream, copy, CHUNK)
        copy.seek(0)
    except OSError as error:
        raise no_room(folder, error) from error
    return copy
