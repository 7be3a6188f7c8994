"""The forms of a file with both sides of a text: lines with a separator, or records with named fields.

Records are JSON lines, tables with a header (CSV, TSV), Parquet, or units of TMX and XLIFF. They become lines of
source, tab and target.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice
from typing import Any, Literal

from alignkit.errors import InputError, abbreviated, counted, first_line
from alignkit.support.packages import need
from alignkit.text.reading import valid_text
from alignkit.text.translators import has_units, read_units, text_of
from alignkit.types import PathLike

LINE = re.compile(rb"[^\n]*\n|[^\n]+")  # only \n ends one
BLANK = b" \t\r\n"
LINE_FORMS = (
    "give two files, or one form of lines: SOURCE ||| TARGET, or SOURCE<tab>TARGET, "
    'or {"src": "SOURCE", "tgt": "TARGET"}'
)
#: The names that source and target may have where ``FILE:SOURCE,TARGET`` does not give them.
NAMES = (("src", "tgt"), ("src", "trg"), ("source", "target"))
RECORDS = 1 << 12  # that are turned into lines at a time
_REMEDY = "name the fields, as FILE:SOURCE,TARGET"
_BREAKS = re.compile(r"[\t\r\n]")  # each becomes a space, so that characters keep their numbers
_WORD = re.compile(r"[^ \t\r\n\u3000]+")


@dataclass(frozen=True)
class SeparatedLines:
    """Lines of source, separator and target.

    Attributes:
        name: of the separator, for messages.
        separator: matches it.
    """

    name: str
    separator: re.Pattern[bytes]

    def sides(
        self,
        path: PathLike,
        data: bytes,
        encoding_errors: str = "strict",
        lowercase: bool = False,
        first_line: int = 1,
    ) -> tuple[bytes, bytes]:
        """The two sides of whole lines, of which the first has the number ``first_line``.

        Both sides of a blank line are blank.

        Raises:
            InputError: invalid UTF-8; a line without the separator, or with more than one.
        """
        lines = valid_text(path, data, encoding_errors, lowercase, first_line).split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        source, target = [], []
        for number, line in enumerate(lines, first_line):
            parts = self.separator.split(line) if line.strip(BLANK) else [b"", b""]
            if len(parts) != 2:
                problem = f"has {len(parts) - 1} separators ({self.name}) where one is needed"
                raise InputError(path, problem, line=number, remedy=LINE_FORMS)
            source.append(parts[0] + b"\n")
            target.append(parts[1] + b"\n")
        return b"".join(source), b"".join(target)


#: ``|||`` as a token of its own, with the space on each side
BARS = SeparatedLines("|||", re.compile(rb" ?(?<![^ \t\n])\|\|\|(?![^ \t\r\n]) ?"))
TAB = SeparatedLines("tab", re.compile(rb"\t"))


def separator_of(parts: Iterable[bytes]) -> SeparatedLines:
    """How lines are separated: the first that has one separator and not the other decides.

    Args:
        parts: the file without byte order mark, cut after line ends only.
    """
    for part in parts:
        for line in LINE.finditer(part):
            has_bars, has_tab = (each.separator.search(line[0]) is not None for each in (BARS, TAB))
            if has_bars != has_tab and line[0].strip(BLANK):
                return BARS if has_bars else TAB
    return BARS


def split_fields(path: PathLike) -> tuple[PathLike, tuple[str, ...]]:
    """The file and the two fields of ``FILE:SOURCE,TARGET``; the path and () if it has none, or is a file."""
    name, _, end = os.fspath(path).rpartition(":")
    fields = tuple(end.split(","))
    return (name, fields) if name and len(fields) == 2 and not os.path.exists(path) else (path, ())


def record_lines(path: PathLike, parts: Iterable[bytes], encoding_errors: str) -> Iterator[bytes] | None:
    """The records of a file as lines of source, tab and target, in parts; None if it is a text of another form.

    Parquet is recognized by its first bytes; TMX and XLIFF by their first element; JSON lines by a first line that
    is an object; a table by a first line with names of source and target. A sentence is text, a list of words, or
    null; its tabs and line breaks become spaces. Fields are those that the path names, :data:`NAMES`, or the only
    two texts of the first record; they may be within ``translation``, as in data sets of Hugging Face. Those of
    TMX are languages (:func:`alignkit.text.translators.read_units`).

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
    parts = chain([first], parts)
    head = re.match(rb"\s*([^\n]*)", first)[1]  # type: ignore[index]
    # A table's first line has the names of both texts, with this between them.
    columns = {each: {c.strip('" \r') for c in head.decode("utf-8", "replace").split(each)} for each in "\t,;"}
    wanted = [set(each) for each in ([fields] if fields else NAMES)]
    delimiter = next((each for each, its in columns.items() if any(its >= names for names in wanted)), None)
    if has_units(first):
        units = (dict(zip(NAMES[2], map(text_of, unit), strict=True)) for unit in read_units(name, parts, fields))
        pairs = pair_lines(name, units, NAMES[2])
    elif first.startswith(b"PAR1"):
        pairs = pair_lines(name, _parquet_records(name), fields)
    elif delimiter is not None:
        pairs = pair_lines(name, _table_records(name, parts, encoding_errors, delimiter), fields)
    elif not fields and re.search(r"\.csv(\.\w+)?\Z", os.fspath(name)):
        problem = "is a table by its name (.csv), but names no columns of source and target"
        raise InputError(name, problem, line=1, remedy=_REMEDY)
    elif json_object(head) is not None:
        pairs = pair_lines(name, json_records(name, parts, encoding_errors), fields, 1)
    elif fields:
        raise InputError(name, f"has no columns or fields {' and '.join(fields)}", remedy="name those that it has")
    else:
        return None
    return iter(lambda: b"".join(islice(pairs, RECORDS)), b"")


def pair_lines(
    path: PathLike, records: Iterator[Any], fields: tuple[str, ...], first: int | None = None
) -> Iterator[bytes]:
    """A line of source, tab and target for each record; one that is None, of a blank line, is a blank pair.

    Args:
        path: the file of the records, for messages.
        records: dictionaries.
        fields: the names of both texts; (): as the first record has them.
        first: the number of the first record's line, if each has one of its own.

    Raises:
        InputError: a record has no such fields, or something else in them; there are no records.
    """
    number = 0
    for number, record in enumerate(records, first or 1):
        if record is None:
            yield b"\t\n"
            continue
        texts, names = _texts(record)
        fields = fields or names
        problem, remedy = f"no pair of texts ({', '.join(fields or NAMES[0])})", _REMEDY
        if len(fields) == 2 and texts.keys() >= set(fields):
            sentences = {name: _sentence(texts[name]) for name in fields}
            wrong = next((name for name, sentence in sentences.items() if sentence is None), None)
            if wrong is None:
                line = "\t".join(_BREAKS.sub(" ", sentences[name] or "") for name in fields)
                # Half a character, as "\ud83d", is legal in JSON; what reads the lines says that it is no text.
                yield f"{line}\n".encode("utf-8", "surrogatepass")
                continue
            problem = f"{abbreviated(repr(texts[wrong]))} as {abbreviated(wrong)}"
            remedy = "a sentence is text, a list of words without spaces, or null"
        place = f"record {number} has" if first is None else "has"
        raise InputError(path, f"{place} {problem}", line=first and number, remedy=remedy)
    if not number:
        raise InputError(path, "has no records")


def _texts(record: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The part of a record that has the texts, and the names of both, or more or fewer if they cannot be told."""
    if not isinstance(record, dict):
        return {}, ()
    inner = record.get("translation")
    texts = inner if isinstance(inner, dict) else record
    names = next((each for each in NAMES if texts.keys() >= set(each)), ())
    return texts, names or tuple(name for name, value in texts.items() if isinstance(value, str))


def _sentence(value: Any) -> str | None:
    """The sentence that a value stands for; None: it is none."""
    if isinstance(value, list):
        is_words = all(isinstance(word, str) and _WORD.fullmatch(word) for word in value)
        return " ".join(value) if is_words else None
    return "" if value is None else value if isinstance(value, str) else None


def json_object(line: bytes) -> dict[str, Any] | None:
    """The object that a line of JSON is, with U+FFFD for what is not UTF-8; None: it is none."""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def json_fields(line: bytes) -> tuple[str, ...] | None:
    """The names of both texts of a line of JSON, or more or fewer names if they cannot be told; None: it is no
    object."""
    record = json_object(line)
    return None if record is None else _texts(record)[1]


def json_records(path: PathLike, parts: Iterable[bytes], encoding_errors: str, first: int = 1) -> Iterator[Any]:
    """The records of JSON lines, the first of which has the number ``first``; None for a blank one.

    Raises:
        InputError: a line is not JSON, or not UTF-8.
    """
    for number, line in enumerate(_lines(path, parts, encoding_errors, first), first):
        try:
            yield json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            remedy = "the file was taken for JSON lines, because its first line is an object"
            raise InputError(path, f"is not JSON: {first_line(error)}", line=number, remedy=remedy) from error


def _lines(path: PathLike, parts: Iterable[bytes], encoding_errors: str, first: int = 1) -> Iterator[str]:
    for part in parts:
        for line in BytesIO(valid_text(path, part, encoding_errors, False, first)):
            yield line.decode("utf-8")
        first += part.count(b"\n")


def _table_records(
    path: PathLike, parts: Iterable[bytes], encoding_errors: str, delimiter: str
) -> Iterator[dict[str, str] | None]:
    # Between tabs, a quotation mark is one.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    # Only quoted line breaks are those of a text to the csv module.
    lines = (re.sub("\r(?!\n)", " ", line) for line in _lines(path, parts, encoding_errors))
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


def _parquet_records(path: PathLike) -> Iterator[dict[str, Any]]:
    need("pyarrow")
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(RECORDS):
            yield from batch.to_pylist()
    except Exception as error:  # pyarrow's own errors have several bases
        raise InputError(path, f"starts like Parquet, but cannot be read: {first_line(error)}") from error
