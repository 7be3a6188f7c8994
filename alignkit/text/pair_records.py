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

from alignkit.errors import InputError, first_line
from alignkit.packages import need
from alignkit.text.reading import valid_text
from alignkit.types import PathLike

#: The names that source and target may have where ``FILE:SOURCE,TARGET`` does not give them.
NAMES = (("src", "tgt"), ("src", "trg"), ("source", "target"))
RECORDS = 1 << 12  # that are turned into lines at a time
_REMEDY = "name the fields, as FILE:SOURCE,TARGET"
_BREAKS = re.compile(r"[\t\r\n]")  # each becomes a space, so that characters keep their numbers


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
    lines = _text_lines(name, chain([first], parts), encoding_errors)
    if first.startswith(b"PAR1"):
        records: Iterator[Any] = _parquet(name)
    elif delimiter := _delimiter(name, head, fields):
        records = _table(name, lines, delimiter)
    elif _is_object(head):
        records = _json(name, lines)
    elif fields:
        raise InputError(name, f"has no columns or fields {' and '.join(fields)}", remedy="name those that it has")
    else:
        return None
    pairs = _pairs(name, records, fields)
    return iter(lambda: b"".join(islice(pairs, RECORDS)), b"")


def _text_lines(path: PathLike, parts: Iterable[bytes], encoding_errors: str) -> Iterator[str]:
    for number, line in enumerate((line for part in parts for line in BytesIO(part)), 1):
        yield valid_text(path, line, encoding_errors, False, number).decode("utf-8")


def _pairs(path: PathLike, records: Iterator[Any], fields: tuple[str, ...]) -> Iterator[bytes]:
    """A line for each record; one that is None, of a blank line, is a blank pair."""
    number = 0
    for number, record in enumerate(records, 1):
        if record is None:
            yield b"\t\n"
            continue
        try:
            inner = record.get("translation")
            found = inner if isinstance(inner, dict) else record
            fields = fields or next((each for each in NAMES if found.keys() >= set(each)), ())
            fields = fields or tuple(name for name, value in found.items() if isinstance(value, str))
            source, target = (_text(found[name]) for name in fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"record {number} has no pair of texts ({', '.join(fields or NAMES[0])})"
            raise InputError(path, problem, remedy=_REMEDY) from error
        # Half a character, as "\ud83d", is legal in JSON; what reads the lines says that it is no text.
        yield f"{source}\t{target}\n".encode("utf-8", "surrogatepass")
    if not number:
        raise InputError(path, "has no records")


def _text(value: Any) -> str:
    return _BREAKS.sub(" ", value if isinstance(value, str) else " ".join(value or []))


def _delimiter(path: PathLike, head: bytes, fields: tuple[str, ...]) -> str | None:
    """What separates the columns of a table with this first line; None: it is a text of another form."""
    for delimiter in "\t,;":
        columns = {name.strip('" \r') for name in head.decode("utf-8", "replace").split(delimiter)}
        if any(columns >= set(each) for each in ((fields,) if fields else NAMES)):
            return delimiter
    if re.search(r"\.csv(\.\w+)?\Z", os.fspath(path)):
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
                raise csv.Error(f"{len(row)} values for {len(names)} columns")
            yield dict(zip(names, row, strict=True)) if row else None
    except csv.Error as error:
        remedy = "the file was taken for a table, because its first line names columns"
        raise InputError(path, str(error), line=rows.line_num, remedy=remedy) from error


def _is_object(head: bytes) -> bool:
    try:
        return isinstance(json.loads(head), dict)
    except (ValueError, RecursionError):
        return False


def _json(path: PathLike, lines: Iterator[str]) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
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
