"""Lines, corpora and bitexts from files, compressed files and standard input; errors name file and line.

Only ``\\n`` and ``\\r\\n`` end a line, and only ASCII space and tab separate tokens: U+2028, U+0085, a no-break
space, form feed or NUL are part of their token. So N lines of input are N sentences, for every tool that counts
lines as ``wc -l`` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, TypeVar

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.decompression import decompressed
from alignkit.text.line_pairs import LinePairs
from alignkit.text.pair_formats import pair_format
from alignkit.text.utf8 import BOM, split_lines, valid_text
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

Side = TypeVar("Side")
_FIRST_TABLE = 1 << 15


@contextmanager
def open_input(path: PathLike) -> Iterator[IO[bytes]]:
    """A file, or standard input for "-"; raises InputError if it cannot be opened."""
    if os.fspath(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise _unreadable(path, error) from error
    with stream:
        yield stream


def read_chunks(path: PathLike, stream: IO[bytes], size: int) -> Iterator[bytes]:
    """The rest of an open file in chunks of ``size`` bytes, decompressed if it is compressed.

    Raises:
        InputError: it cannot be read, or is damaged.
    """

    def raw() -> Iterator[bytes]:
        try:
            while chunk := stream.read(size):
                yield chunk
        except OSError as error:
            raise _unreadable(path, error) from error

    return decompressed(path, raw())


def read_raw_lines(path: PathLike) -> Iterator[bytes]:
    """The lines of a large file, one at a time, without their ends; decompressed if it is compressed.

    Raises:
        InputError: it cannot be read, or is damaged.
    """
    rest = b""
    with open_input(path) as stream:
        for chunk in read_chunks(path, stream, 1 << 20):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
    if rest:
        yield rest


def read_bytes(path: PathLike) -> bytes:
    """The content of a file, decompressed if it is gzip, xz, bzip2 or zstd (told by its first bytes);
    "-" is standard input.

    Raises:
        InputError: it cannot be read, is empty, or is damaged.
    """
    with open_input(path) as stream:
        try:
            data = stream.read()
        except OSError as error:
            raise _unreadable(path, error) from error
    data = b"".join(decompressed(path, [data]))
    if not data:
        raise InputError(path, "is empty")
    return data


def _unreadable(path: PathLike, error: OSError) -> InputError:
    return InputError(path, f"cannot be read: {error.strerror or error}")


def _without_mark(path: PathLike) -> bytes:
    """The content of a file without its byte order mark."""
    data = read_bytes(path).removeprefix(BOM)
    if not data:
        raise InputError(path, "is empty")
    return data


def read_utf8(path: PathLike, encoding_errors: str = "strict", lowercase: bool = False) -> bytes:
    """The content of a text file as valid UTF-8; arguments and errors as of :func:`read_bitext`."""
    return valid_text(path, _without_mark(path), encoding_errors, lowercase)


def encode_text(data: bytes) -> Corpus:
    """The corpus of a text in UTF-8: a sentence per line, tokens between spaces and tabs.

    Ids are given in order of first appearance.
    """
    from alignkit.kernels import text

    if not data:
        return Corpus.from_sentences([])
    view = np.frombuffer(data, np.uint8)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # Room for all the tokens that these bytes can hold; pages that are never written take no memory.
    tokens = np.empty(len(data) // 2 + 1, np.int32)
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
    type_offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=type_offsets[1:])
    letters = np.empty(type_offsets[-1], np.uint8)
    text.copy_tokens(view, starts, type_offsets, letters)
    return Corpus(tokens, offsets, Vocabulary(letters, type_offsets))


def read_sides(
    source: PathLike, target: PathLike | None = None, *, encoding_errors: str = "strict", lowercase: bool = False
) -> tuple[bytes, bytes]:
    """The two sides of a bitext as valid UTF-8 with a sentence per line, from two files or one with both.

    Raises:
        InputError: unreadable or invalid input (unequal line counts are found when the sides are joined).
    """
    if target is None:
        data = _without_mark(source)
        return pair_format([data]).sides(source, data, encoding_errors, lowercase)
    return read_both(source, target, lambda path: read_utf8(path, encoding_errors, lowercase), 2)


def read_both(
    source: PathLike, target: PathLike, read: Callable[[PathLike], Side], threads: int
) -> tuple[Side, Side]:
    """``read(source)`` and ``read(target)``, at the same time if there are threads for it.

    Raises:
        AlignkitError: both are standard input.
    """
    if os.fspath(source) == os.fspath(target) == "-":
        raise AlignkitError("standard input cannot be both sides; give it one SOURCE ||| TARGET text")
    with ThreadPoolExecutor(min(threads, 2)) as pool:
        first, second = pool.submit(read, source), pool.submit(read, target)
        return first.result(), second.result()


def check_counts(source: PathLike, target: PathLike | None, counts: tuple[int, int]) -> None:
    """Raise AlignkitError, with both numbers of lines, unless they are equal."""
    if counts[0] != counts[1]:
        raise AlignkitError(
            f"{os.fspath(source)} has {counts[0]} lines, {os.fspath(target or source)} has {counts[1]}; "
            "line n of one must belong to line n of the other"
        )


def read_bitext(
    source: PathLike,
    target: PathLike | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    threads: int = 2,
) -> Bitext:
    """Read a bitext of whitespace tokens, each side with its own vocabulary.

    Args:
        source, target: two files with a sentence per line; or one of :data:`.pair_formats.PAIR_FORMATS`, whose
            lines are ``source ||| target`` or source TAB target.
        encoding_errors: "strict" or "replace" (invalid UTF-8 becomes U+FFFD).
        lowercase: lower-case both sides (full Unicode).
        threads: with more than one, both sides are read at the same time.

    Raises:
        InputError: unreadable, empty, damaged or invalid input, with file and line.
        AlignkitError: unequal line counts.
    """

    def read(path: PathLike) -> Corpus:
        return encode_text(read_utf8(path, encoding_errors, lowercase))

    corpora: tuple[Corpus, Corpus]
    if target is None:
        sides = read_sides(source, encoding_errors=encoding_errors, lowercase=lowercase)
        with ThreadPoolExecutor(min(threads, 2)) as pool:
            first, second = pool.map(encode_text, sides)
        corpora = first, second
    else:
        corpora = read_both(source, target, read, threads)
    check_counts(source, target, (len(corpora[0]), len(corpora[1])))
    return Bitext(*corpora)


def read_lines(path: PathLike, *, encoding_errors: str = "strict", lowercase: bool = False) -> list[str]:
    """The lines of a text file, without their ends; errors as of :func:`read_bitext`."""
    return split_lines(read_utf8(path, encoding_errors, lowercase))


def read_line_pairs(
    source: PathLike, target: PathLike | None = None, *, encoding_errors: str = "strict", lowercase: bool = False
) -> LinePairs:
    """The lines of both sides of a bitext, equal in number; arguments and errors as of :func:`read_bitext`."""
    sides = read_sides(source, target, encoding_errors=encoding_errors, lowercase=lowercase)
    lines = LinePairs(split_lines(sides[0]), split_lines(sides[1]))
    check_counts(source, target, (len(lines.source), len(lines.target)))
    return lines


def blank_pairs(bitext: Bitext) -> int:
    """The number of pairs with a blank side, which have no links."""
    return int(((bitext.source.lengths == 0) | (bitext.target.lengths == 0)).sum())
