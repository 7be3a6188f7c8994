"""Files, compressed files and streams to lines, corpora and bitexts; every input error has its file and line.

Only ``\\n`` and ``\\r\\n`` end a line, and only ASCII space and tab separate tokens: U+2028, U+0085, a no-break
space, form feed or NUL are part of their token. So N lines of input are N sentences, for every tool that counts
lines as ``wc -l`` does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.decompression import unpacked
from alignkit.text.vocabulary import Vocabulary

Path = str | os.PathLike[str]
BOM = b"\xef\xbb\xbf"
_BARS = re.compile(rb"(?<![^ \t\n])\|\|\|(?![^ \t\r\n])")  # ||| as a token of its own
_TABLE_START = 1 << 15


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if it is gzip, xz, bzip2 or zstd (told by its first bytes);
    "-" is standard input.

    Raises:
        InputError: it cannot be read, is empty, or is damaged.
    """
    try:
        if os.fspath(path) == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as stream:
                data = stream.read()
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from error
    data = b"".join(unpacked(path, [data]))
    if not data:
        raise InputError(path, "is empty")
    return data


def _clean(path: Path, data: bytes, encoding_errors: str, lowercase: bool) -> bytes:
    """A whole text as valid UTF-8 without BOM, lower-cased on request."""
    data = data.removeprefix(BOM)
    if not data:
        raise InputError(path, "is empty")
    return valid_text(path, data, encoding_errors, lowercase)


def valid_text(
    path: Path, data: bytes, encoding_errors: str = "strict", lowercase: bool = False, first_line: int = 1
) -> bytes:
    """``data``, which starts at line ``first_line`` of a text, as valid UTF-8, lower-cased on request.

    Raises:
        InputError: invalid UTF-8, with its line, unless ``encoding_errors`` is "replace".
    """
    if encoding_errors not in ("strict", "replace"):
        raise AlignkitError(f"encoding_errors must be strict or replace, not {encoding_errors!r}")
    if data.isascii():
        return data.lower() if lowercase else data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if encoding_errors == "strict":
            utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
            remedy = (
                "it looks like UTF-16: convert it with iconv"
                if utf16
                else "convert it with iconv, or go on with --encoding-errors replace"
            )
            line = data.count(b"\n", 0, error.start) + first_line
            raise InputError(path, "is not valid UTF-8", line=line, remedy=remedy) from error
        text = data.decode("utf-8", "replace")
        data = text.encode("utf-8")
    return text.lower().encode("utf-8") if lowercase else data


def encode_text(data: bytes) -> Corpus:
    """The corpus of a text in UTF-8: a sentence per line, tokens between spaces and tabs.

    Ids are given in order of first appearance.
    """
    from alignkit.kernels import text

    if not data:
        return Corpus.from_sentences([])
    view = np.frombuffer(data, np.uint8)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # Room for all the tokens that these bytes can hold. What is never written to takes no memory.
    tokens = np.empty(len(data) // 2 + 1, np.int32)
    offsets = np.zeros(lines + 1, np.int64)
    state = np.zeros(4, np.int64)
    # A line that comes alone has few words, and should not wait for a large table.
    table = np.full(min(_TABLE_START, 1 << (len(data).bit_length() + 1)), -1, np.int32)
    types = np.empty((len(table) // 2, 2), np.int64)
    while True:
        text.encode(view, tokens, offsets, table, types, state)
        if state[0] >= len(view):
            break
        table = np.full(4 * len(table), -1, np.int32)
        types = np.concatenate([types, np.empty((len(table) // 2 - len(types), 2), np.int64)])
        text.rehash(view, types, state[3], table)
    tokens.resize(state[2], refcheck=False)
    types = types[: state[3]]
    type_offsets = np.zeros(len(types) + 1, np.int64)
    np.cumsum(types[:, 1], out=type_offsets[1:])
    letters = np.empty(type_offsets[-1], np.uint8)
    text.gather_types(view, types, type_offsets, letters)
    return Corpus(tokens, offsets, Vocabulary(letters, type_offsets))


def has_bars(data: bytes) -> bool:
    """Whether ``|||`` is a token of the text: then it, and not a tab, separates the two sides of its lines."""
    return _BARS.search(data) is not None


def split_joined(path: Path, data: bytes, bars: bool | None = None, first_line: int = 1) -> tuple[bytes, bytes]:
    """The two sides of a text whose lines are ``source ||| target`` or source TAB target.

    Args:
        path: where it comes from, for messages.
        data: clean UTF-8.
        bars: whether the separator is ``|||``; None: if it is a token anywhere in the text.
        first_line: number of its first line.

    Raises:
        InputError: a line without the separator, or with more than one.
    """
    shown = "|||" if (has_bars(data) if bars is None else bars) else "tab"
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for number, line in enumerate(lines, first_line):
        parts = [b"", b""]
        if line.strip(b" \t\r"):
            parts = _BARS.split(line) if shown == "|||" else line.split(b"\t")
        if len(parts) != 2:
            raise InputError(
                path,
                f"has {len(parts) - 1} separators ({shown}) where one is needed",
                line=number,
                remedy="give two files, or one with SOURCE ||| TARGET or SOURCE<tab>TARGET on each line",
            )
        for side, part in zip(sides, parts, strict=True):
            side.append(part)
    return b"".join(line + b"\n" for line in sides[0]), b"".join(line + b"\n" for line in sides[1])


def read_sides(
    source: Path, target: Path | None = None, *, encoding_errors: str = "strict", lowercase: bool = False
) -> tuple[bytes, bytes]:
    """The two sides of a bitext as clean UTF-8 with a sentence per line, from two files or a joined one.

    Raises:
        InputError: unreadable or invalid input (unequal line counts are found when the sides are joined).
    """
    if target is None:
        data = _clean(source, read_bytes(source), encoding_errors, lowercase)
        return split_joined(source, data)
    return on_both(source, target, lambda path: _clean(path, read_bytes(path), encoding_errors, lowercase), 2)


def on_both(source: Path, target: Path, read: Callable[[Path], Any], threads: int) -> tuple[Any, Any]:
    """What ``read`` makes of two files, at the same time if there are threads for it."""
    if os.fspath(source) == os.fspath(target) == "-":
        raise AlignkitError("standard input cannot be both sides; give it one SOURCE ||| TARGET text")
    with ThreadPoolExecutor(min(threads, 2)) as pool:
        first, second = pool.submit(read, source), pool.submit(read, target)
        return first.result(), second.result()


def check_counts(source: Path, target: Path | None, counts: tuple[int, int]) -> None:
    """Raises AlignkitError, with both, unless the numbers of lines are equal."""
    if counts[0] != counts[1]:
        raise AlignkitError(
            f"{os.fspath(source)} has {counts[0]} lines, {os.fspath(target or source)} has {counts[1]}; "
            "line n of one must belong to line n of the other"
        )


def read_bitext(
    source: Path,
    target: Path | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    threads: int = 2,
) -> Bitext:
    """Reads a bitext of whitespace tokens, each side with its own vocabulary.

    Args:
        source, target: two files; or one whose lines are ``source ||| target`` or source TAB target.
        encoding_errors: "strict" or "replace" (invalid UTF-8 becomes U+FFFD).
        lowercase: lower-case both sides (full Unicode).
        threads: with more than one, both sides are read at the same time.

    Raises:
        InputError: unreadable, empty, damaged or invalid input, with file and line.
        AlignkitError: unequal line counts.
    """

    def read(path: Path) -> Corpus:
        return encode_text(_clean(path, read_bytes(path), encoding_errors, lowercase))

    corpora: tuple[Corpus, Corpus]
    if target is None:
        sides = read_sides(source, encoding_errors=encoding_errors, lowercase=lowercase)
        with ThreadPoolExecutor(min(threads, 2)) as pool:
            first, second = pool.map(encode_text, sides)
        corpora = first, second
    else:
        corpora = on_both(source, target, read, threads)
    check_counts(source, target, (len(corpora[0]), len(corpora[1])))
    return Bitext(*corpora)


def split_lines(data: bytes) -> list[str]:
    """The lines of clean UTF-8, without their ends."""
    lines = data.decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
        return [line.removesuffix("\r") for line in lines]
    return [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]]


def read_lines(path: Path, *, encoding_errors: str = "strict", lowercase: bool = False) -> list[str]:
    """The lines of a text file, without their ends; errors as in :func:`read_bitext`."""
    return split_lines(_clean(path, read_bytes(path), encoding_errors, lowercase))


def read_line_pairs(
    source: Path, target: Path | None = None, *, encoding_errors: str = "strict", lowercase: bool = False
) -> tuple[list[str], list[str]]:
    """The lines of both sides of a bitext, equal in number; arguments and errors as in :func:`read_bitext`."""
    sides = read_sides(source, target, encoding_errors=encoding_errors, lowercase=lowercase)
    lines = (split_lines(sides[0]), split_lines(sides[1]))
    check_counts(source, target, (len(lines[0]), len(lines[1])))
    return lines


def blank_pairs(bitext: Bitext) -> int:
    """How many pairs have a blank side, and so no links."""
    return int(((bitext.source.lengths == 0) | (bitext.target.lengths == 0)).sum())
