"""Sentence pairs in records with named fields: JSON lines, tables with a header (CSV, TSV), and Parquet."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import Any, Literal

from alignkit.errors import InputError, abbreviated, counted, first_line
from alignkit.support.packages import need
from alignkit.text.reading import valid_text
from alignkit.types import PathLike

#: The names that source and target may have where ``FILE:SOURCE,TARGET`` does not give them.
NAMES = (("src", "tgt"), ("src", "trg"), ("source", "target"))
RECORDS = 1 << 12  # that are turned into lines at a time
_REMEDY = "name the fields, as FILE:SOURCE,TARGET"
_BREAKS = re.compile(r"[\t\r\n]")  # each becomes a space, so that characters keep their numbers
_WORD = re.compile(r"[^ \t\r\n]+")


def split_fields(path: PathLike) -> tuple[PathLike, tuple[str, ...]]:
    """The file and the two fields of ``FILE:SOURCE,TARGET``; the path and () if it has none, or is a file."""
    name, _, end = os.fspath(path).rpartition(":")
    fields = tuple(end.split(","))
    return (name, fields) if name and len(fields) == 2 and not os.path.exists(path) else (path, ())


def record_lines(path: PathLike, parts: Iterable[bytes], encoding_errors: str) -> Iterator[bytes] | None:
    """The records of a file as lines of source, tab and target, in parts; None if it is a text of another form.

    Parquet is told by its first bytes; JSON lines by a first line that is an object; a table by a first line with
    names of source and target. A sentence is text, a list of words, or null; its tabs and line breaks become
    spaces. Fields are those that the path names, :data:`NAMES`, or the only two texts of the first record. They
    may be within ``translation``, as in data sets of Hugging Face.

    Args:
        path: the file, perhaps with its fields.
        parts: its content, as :func:`alignkit.text.reading.file_parts` gives it.
        encoding_errors: "strict" or "replace".

    Raises:
        InputError: the file is named CSV and its first line has no names of source and target. While the lines are
            read: it is damaged, or a record has no such fields.
    """
    name, fields = split_fields(path)
    parts = iter(parts)
    first = next(parts, b"")
    head = re.match(rb"\s*([^\n]*)", first)[1]  # type: ignore[index]
    if first.startswith(b"PAR1"):
        pairs = _pairs(name, _parquet(name), fields)
    elif delimiter := _delimiter(name, head, fields):
        lines = _text_lines(name, chain([first], parts), encoding_errors)
        pairs = _pairs(name, _table(name, lines, delimiter), fields)
    elif object_fields(head) is not None:
        pairs = object_lines(name, chain([first], parts), fields, encoding_errors)
    elif fields:
        raise InputError(name, f"has no columns or fields {' and '.join(fields)}", remedy="name those that it has")
    else:
        return None
    return iter(lambda: b"".join(islice(pairs, RECORDS)), b"")


def object_lines(
    path: PathLike, parts: Iterable[bytes], fields: tuple[str, ...], encoding_errors: str, first: int = 1
) -> Iterator[bytes]:
    """A line of source, tab and target for each line of JSON.

    Args:
        path, parts, encoding_errors: as of :func:`record_lines`.
        fields: the names of both texts; (): as the first record has them.
        first: the number of the first line.

    Raises:
        InputError: a line is no JSON, or has no such fields.
    """
    records = _json(path, _text_lines(path, parts, encoding_errors, first), first)
    return _pairs(path, records, fields, first)


def object_fields(line: bytes) -> tuple[str, ...] | None:
    """The names of both texts of a line of JSON, or more or fewer names if they cannot be told; None: it is no
    object."""
    record = object_of(line)
    return None if record is None else _fields(_texts(record))


def object_of(line: bytes) -> dict[str, Any] | None:
    """The object that a line of JSON is, with U+FFFD for what is not UTF-8; None: it is none."""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _texts(record: dict[str, Any]) -> dict[str, Any]:
    """The part of a record that has the texts."""
    inner = record.get("translation")
    return inner if isinstance(inner, dict) else record


def _fields(texts: dict[str, Any]) -> tuple[str, ...]:
    names = next((each for each in NAMES if texts.keys() >= set(each)), ())
    return names or tuple(name for name, value in texts.items() if isinstance(value, str))


def _text_lines(path: PathLike, parts: Iterable[bytes], encoding_errors: str, first: int = 1) -> Iterator[str]:
    for part in parts:
        for line in BytesIO(valid_text(path, part, encoding_errors, False, first)):
            yield line.decode("utf-8")
        first += part.count(b"\n")


def _pairs(
    path: PathLike, records: Iterator[Any], fields: tuple[str, ...], first: int | None = None
) -> Iterator[bytes]:
    """A line for each record; one that is None, of a blank line, is a blank pair.

    Args:
        first: the number of the first record's line, if each has one of its own.
    """
    number = 0
    for number, record in enumerate(records, first or 1):
        if record is None:
            yield b"\t\n"
            continue
        texts = _texts(record) if isinstance(record, dict) else {}
        fields = fields or _fields(texts)
        problem, remedy = f"no pair of texts ({', '.join(fields or NAMES[0])})", _REMEDY
        if len(fields) == 2 and texts.keys() >= set(fields):
            wrong = next((name for name in fields if not _is_text(texts[name])), None)
            if wrong is None:
                line = "\t".join(_BREAKS.sub(" ", _joined(texts[name])) for name in fields)
                # Half a character, as "\ud83d", is legal in JSON; what reads the lines says that it is no text.
                yield f"{line}\n".encode("utf-8", "surrogatepass")
                continue
            problem = f"{abbreviated(repr(texts[wrong]))} as {abbreviated(wrong)}"
            remedy = "a sentence is text, a list of words without spaces, or null"
        place = f"record {number} has" if first is None else "has"
        raise InputError(path, f"{place} {problem}", line=first and number, remedy=remedy)
    if not number:
        raise InputError(path, "has no records")


def _is_text(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(word, str) and _WORD.fullmatch(word) for word in value)
    return value is None or isinstance(value, str)


def _joined(value: str | list[str] | None) -> str:
    return value if isinstance(value, str) else " ".join(value or ())


def _delimiter(path: PathLike, head: bytes, fields: tuple[str, ...]) -> str | None:
    """What separates the columns of a table with this first line; None: it is a text of another form."""
    for delimiter in "\t,;":
        columns = {name.strip('" \r') for name in head.decode("utf-8", "replace").split(delimiter)}
        if any(columns >= set(each) for each in ((fields,) if fields else NAMES)):
            return delimiter
    if not fields and re.search(r"\.csv(\.\w+)?\Z", os.fspath(path)):
        problem = "is a table by its name (.csv), but names no columns of source and target"
        raise InputError(path, problem, line=1, remedy=_REMEDY)
    return None


def _table(path: PathLike, lines: Iterator[str], delimiter: str) -> Iterator[dict[str, str] | None]:
    # Between tabs, a quotation mark is one.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        names = [name.strip('" ') for name in next((row for row in rows if row), [])]
        for row in rows:
            if len(row) not in (0, len(names)):
                raise csv.Error(f"{counted(len(row), 'value')} for {counted(len(names), 'column')}")
            yield dict(zip(names, row, strict=True)) if row else None
    except csv.Error as error:
        remedy = "the file was taken for a table, because its first line names columns"
        raise InputError(path, str(error), line=rows.line_num, remedy=remedy) from error


def _json(path: PathLike, lines: Iterator[str], first: int) -> Iterator[Any]:
    for number, line in enumerate(lines, first):
        try:
            yield json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            remedy = "the file was taken for JSON lines, because its first line is an object"
            raise InputError(path, f"is not JSON: {first_line(error)}", line=number, remedy=remedy) from error


def _parquet(path: PathLike) -> Iterator[dict[str, Any]]:
    need("pyarrow")
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(RECORDS):
            yield from batch.to_pylist()
    except Exception as error:  # pyarrow's own errors have several bases
        raise InputError(path, f"starts like Parquet, but cannot be read: {first_line(error)}") from error
