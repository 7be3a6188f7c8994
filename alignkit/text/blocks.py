"""Texts that are not read whole: files in blocks, samples of files, parts of files, and streams."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.support.stages import Stage
from alignkit.text.bitext import Bitext
from alignkit.text.pair_formats import (
    BLANK,
    LINE,
    TAB,
    SeparatedLines,
    json_fields,
    json_object,
    json_records,
    pair_lines,
    record_lines,
    separator_of,
    split_fields,
)
from alignkit.text.pairs import PairFiles
from alignkit.text.raw_text import warn_of_raw_text
from alignkit.text.reading import file_parts, whole_lines
from alignkit.types import PathLike

COUNTED_BLOCK = 1 << 16  # pairs that are counted or sampled at a time


def block_bounds(files: PairFiles, pairs: int, elements: int | None = None) -> np.ndarray:
    """int64 (B + 1,): the numbers of the pairs at which the blocks of a text start, and that of all pairs.

    Args:
        files: of the text.
        pairs: in a block, if ``elements`` is None.
        elements: in a block, that is the sum of (T + 1)(L + 1) of its pairs, unless one pair has more.

    Raises:
        AlignkitError: as :class:`PairFiles` says; or a file can be read only once.
    """
    path = path_read_once(files)
    if path is not None:
        problem = "can be read only once, and this reads the text several times"
        raise InputError(path, problem, remedy="give a file")
    with Stage("reading"):
        if files.target is not None:
            files.check_counts(*(sum(map(count_lines, file_parts(path))) for path in files.paths))
        sides = _sides_of_blocks(files, range(0, 1 << 62, COUNTED_BLOCK))
        if elements is not None:
            return element_bounds((Bitext(*map(files.corpus, each)) for each in sides), elements)
        count = sum(count_lines(source) for source, _ in sides)
        return np.array([*range(0, count, pairs), count])


def path_read_once(files: PairFiles) -> PathLike | None:
    """A path that can be read only once, as a pipe; None: there is none."""
    for path in (split_fields(each)[0] for each in files.paths):
        special = os.path.exists(path) and not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode)
        if special or os.fspath(path) == "-":
            return path
    return None


def element_bounds(texts: Iterable[Bitext], most: int) -> np.ndarray:
    """The :func:`block_bounds` of consecutive parts of a text, in blocks of at most so many elements."""
    bounds, held, count = [0], 0, 0
    for text in texts:
        for size in ((text.source.lengths + 1) * (text.target.lengths + 1)).tolist():
            if held and held + size > most:
                bounds.append(count)
                held = 0
            held += size
            count += 1
    return np.array([*bounds, count])


def read_blocks(files: PairFiles, bounds: np.ndarray) -> Iterator[Bitext]:
    """The pairs from each of these numbers to the next, with vocabularies of their own; errors as of
    :func:`block_bounds`."""
    return (Bitext(*map(files.corpus, sides)) for sides in _sides_of_blocks(files, bounds.tolist()))


def read_sample(files: PairFiles, pairs: np.ndarray) -> Bitext:
    """The pairs with these numbers, int64, rising; all lines are read and checked, errors as of
    :func:`block_bounds`."""
    chosen: tuple[list[bytes], list[bytes]] = ([], [])
    for n, sides in enumerate(_sides_of_blocks(files, range(0, 1 << 62, COUNTED_BLOCK))):
        first = n * COUNTED_BLOCK
        places = pairs[slice(*np.searchsorted(pairs, [first, first + COUNTED_BLOCK]))] - first
        for lines, text in zip(chosen, sides, strict=True):
            bounds = _line_bounds(text)
            lines.extend(text[bounds[m] : bounds[m + 1]] for m in places.tolist())
    # The last line of a file may lack its end.
    texts = [b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines) for lines in chosen]
    return Bitext(*map(files.corpus, texts))


def _sides_of_blocks(files: PairFiles, bounds: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    """Both sides of the pairs from each of these numbers to the next, as valid UTF-8; those that a file lacks are
    left out."""
    if files.target is not None:
        texts = (line_blocks(file_parts(path), bounds) for path in files.paths)
        for first, source, target in zip(bounds, *texts, strict=False):
            yield files.side(files.source, source, first + 1), files.side(files.target, target, first + 1)
        return
    path = split_fields(files.source)[0]
    lines, form = record_lines(files.source, file_parts(path), files.encoding_errors), TAB
    if lines is None:
        lines, form = file_parts(path), separator_of(file_parts(path))
    for first, text in zip(bounds, line_blocks(lines, bounds), strict=False):
        yield form.sides(files.source, text, files.encoding_errors, files.lowered, first + 1)


def line_blocks(parts: Iterable[bytes], bounds: Sequence[int]) -> Iterator[bytes]:
    """The lines of a text, given in parts of whole lines, from each number of ``bounds`` to the next."""
    waiting: list[bytes] = []
    place, n = 0, 0  # the number of the part's first line; the block to be found
    for part in parts:
        ends = _line_bounds(part)
        stop = place + len(ends) - 1
        while n + 1 < len(bounds) and bounds[n + 1] <= stop:
            waiting.append(part[ends[max(bounds[n], place) - place] : ends[bounds[n + 1] - place]])
            yield b"".join(waiting)
            waiting, n = [], n + 1
        if n + 1 == len(bounds):
            return
        if bounds[n] < stop:
            waiting.append(part[ends[max(bounds[n], place) - place] :])
        place = stop
    if waiting:
        yield b"".join(waiting)


def count_lines(text: bytes) -> int:
    """The number of lines of a text, the last of which may lack its end."""
    return text.count(b"\n") + (text != b"" and not text.endswith(b"\n"))


def _line_bounds(text: bytes) -> np.ndarray:
    """int64: where each line of a text begins, and where the last ends, which may lack its line end."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    last = [] if text.endswith(b"\n") or not text else [len(text)]
    return np.concatenate([np.zeros(1, np.int64), ends, np.array(last, np.int64)])


def sampled_pairs(count: int, size: int, seed: int = 0) -> np.ndarray:
    """int64 (size,), rising: a sample of 0..count-1 without repetition; that of a smaller size is a part of it."""
    return np.sort(np.random.default_rng(seed).permutation(count)[:size])


def shard_range(units: int, shard: tuple[int, int]) -> tuple[int, int]:
    """The range [low, high) of so many units that is the i-th of n parts, whose sizes are as equal as may be.

    Raises:
        AlignkitError: there is no such part.

    >>> [shard_range(10, (i, 3)) for i in (1, 2, 3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    i, n = shard
    if not 1 <= i <= n:
        raise AlignkitError(f"the number of a shard goes from 1 to {n}, not {i}")
    return (i - 1) * units // n, i * units // n


class PairBatch(NamedTuple):
    """Consecutive sentence pairs of a stream.

    Attributes:
        bitext: the pairs, with vocabularies of their own.
        errors: those of malformed lines, which are blank pairs here.
        ids: of JSON lines, the field ``id`` of each pair or None; else empty.
    """

    bitext: Bitext
    errors: tuple[InputError, ...] = ()
    ids: tuple[Any, ...] = ()


def pair_batches(
    path: PathLike,
    chunks: Iterable[bytes],
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    tokenize: bool = False,
    single: bool = False,
    skip: bool = False,
) -> Iterator[PairBatch]:
    """Sentence pairs of a stream of lines, as soon as they arrive.

    The first line that is neither blank nor malformed decides whether they are ``source ||| target``, source TAB
    target, or JSON.

    Args:
        path: name of the stream, for messages.
        chunks: of any size, as of :func:`alignkit.text.reading.read_chunks`.
        encoding_errors, lowercase, tokenize: as in :class:`PairFiles`.
        single: one pair in each batch, instead of all that are there.
        skip: pass a malformed line on as a blank pair with its error, and go on after it.

    Raises:
        InputError: as for files; the pairs before the bad line have been passed on. With ``skip``, only if the
            stream is empty or a damaged archive.
    """
    files = PairFiles(path, None, encoding_errors, lowercase, tokenize)
    form: SeparatedLines | tuple[str, ...] | None = None  # a tuple: the fields of JSON lines; None: not known yet
    errors: tuple[InputError, ...]
    ids: tuple[Any, ...]
    first, warned = 1, False
    for data in whole_lines(path, chunks):
        parts = deque(LINE.findall(data) if single else [data])
        while parts:
            part = parts.popleft()
            found = form
            if form is None:
                line = next((line for line in part.split(b"\n") if line.strip(BLANK)), b"")
                fields = json_fields(line)  # None of a blank line, too
                found = fields if fields is not None else separator_of([part]) if line else None
            try:
                text, separated, ids = part, TAB if found is None else found, ()
                if isinstance(separated, tuple):
                    ids = tuple(map(_id, LINE.findall(part)))
                    records = json_records(path, [part], encoding_errors, first)
                    text, separated = b"".join(pair_lines(path, records, separated, first)), TAB
                sides = separated.sides(path, text, encoding_errors, files.lowered, first)
                errors, form = (), found
            except InputError as error:
                lines = LINE.findall(part)
                if len(lines) > 1:  # one of them is malformed
                    parts.extendleft(reversed(lines))
                    continue
                if not skip:
                    raise
                sides, errors, ids = (b"\n", b"\n"), (error,), (_id(part),)
            bitext = Bitext(*map(files.corpus, sides))
            warned = warned or warn_of_raw_text(bitext)
            yield PairBatch(bitext, errors, ids)
            first += count_lines(part)


def _id(line: bytes) -> Any:
    """The field ``id`` of a line of JSON, None if it has none."""
    return (json_object(line) or {}).get("id")
