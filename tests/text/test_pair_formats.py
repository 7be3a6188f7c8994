"""Sentence pairs in JSON lines, tables with a header, and Parquet."""

import csv
import gzip
import io
import json
import sys

import numpy as np
import pytest

from alignkit.errors import AlignkitError, InputError
from alignkit.text.blocks import block_bounds, read_blocks, read_sample
from alignkit.text.pair_formats import json_records
from alignkit.text.pairs import PairFiles, read_bitext, read_line_pairs

PAIRS = [
    ("das Haus", "the house"),
    ("a\nb ||| c", ""),
    ('ein "Wort"', 'one "word", or two\tor three'),
    ("ä", "é"),
] * 3
LINES = [tuple(side.replace("\n", " ").replace("\t", " ") for side in pair) for pair in PAIRS]


def table(delimiter, names=("src", "tgt")):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([names, *PAIRS])
    return text.getvalue()


def objects(records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


FILES = {
    "short": objects({"id": k, "src": x, "tgt": y} for k, (x, y) in enumerate(PAIRS)),
    "long": objects({"source": x, "target": y, "note": "z"} for x, y in PAIRS),
    "two": objects({"id": 1, "de": x, "en": y} for x, y in PAIRS),
    "nested": objects({"translation": {"de": x, "en": y}} for x, y in PAIRS),
    "words": objects({"src": x.split(), "tgt": y.split() or None} for x, y in LINES),
    "tsv": "".join(f"{x}\t{y}\n" for x, y in [("src", "tgt"), *LINES]),
    "csv": table(","),
    "carriage return": table(",").replace('"a\nb ||| c"', "a\rb ||| c").replace('"\n', '"\r\n'),
    "semicolons": table(";", ("source", "target")),
}


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("name", FILES)
def test_records_are_read_whole_and_in_blocks(name, tmp_path):
    """N records are N pairs, however many lines they take."""
    check(PairFiles(write(tmp_path / name, gzip.compress(FILES[name].encode()))))


def check(files):
    assert list(zip(*read_line_pairs(files.source, files.target), strict=True)) == LINES
    bounds = block_bounds(files, 5)
    assert bounds.tolist() == [0, 5, 10, 12]
    blocks = [*read_blocks(files, bounds), read_sample(files, np.array([3, 7]))]
    words = [(block.source.words(m), block.target.words(m)) for block in blocks for m in range(len(block))]
    assert words == [(x.split(), y.split()) for x, y in [*LINES, LINES[3], LINES[7]]]


def test_fields_are_chosen_by_name(tmp_path):
    path = write(tmp_path / "x:y.jsonl", objects({"a": x, "b": "-", "c": y} for x, y in PAIRS))
    check(PairFiles(f"{path}:a,c"))
    with pytest.raises(
        InputError, match=r"line 1: has no pair of texts .a, b, c.; name the fields, as FILE:SOURCE,TARGET"
    ):
        read_line_pairs(path)
    with pytest.raises(InputError, match=r"line 1: has no pair of texts .a, d."):
        read_line_pairs(f"{path}:a,d")
    check(PairFiles(f"{write(tmp_path / 'x.csv', table(',', ('de', 'en')))}:de,en"))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x", '{"src": "a", "tgt": "b"}\n{"src": "a"}\n', "line 2: has no pair of texts .src, tgt."),
        (
            "x",
            '{"src": "a", "tgt": "b"}\n\n{"src": 1, "tgt": "b"}\n',
            "line 3: has 1 as src; a sentence is text, a list of words",
        ),
        ("x", '{"src": "a", "tgt": {"b": "c"}}\n', "line 1: has {'b': 'c'} as tgt"),
        ("x", '{"src": "a", "tgt": ["b c"]}\n', r"line 1: has \['b c'\] as tgt"),
        ("x", '{"src": "a", "tgt": ["b", 5]}\n', r"line 1: has \['b', 5\] as tgt"),
        ("x", '{"src": "a", "tgt": ["b", ""]}\n', r"line 1: has \['b', ''\] as tgt"),
        ("x", '{"src": "a", "tgt": false}\n', "line 1: has False as tgt"),
        ("x", '{"src": "a", "tgt": "b"}\na b\n', "line 2: is not JSON: .*; the file was taken for JSON lines"),
        ("x", '{"src": "a", "tgt": "\\ud83d"}\n', "line 1: is not valid UTF-8"),
        ("x", b'{"src": "a", "tgt": "b"}\n{"src": "\xff", "tgt": "b"}\n', "line 2: is not valid UTF-8"),
        ("x", "src,tgt\na,b\na\n", "line 3: 1 value for 2 columns; the file was taken for a table"),
        ("x", 'src,tgt\n"a" b,c\n', "line 2: .*expected after"),
        ("x.csv.gz", "de,en\na,b\n", r"line 1: is a table by its name \(.csv\), but names no columns"),
        ("x", b"PAR1", "cannot be read|need pyarrow"),
        ("x", "[]\n", "has 0 separators"),
        ("x", "src,tgt\n", "has no records"),
    ],
)
def test_a_malformed_file_is_an_error(name, data, message, tmp_path):
    with pytest.raises(AlignkitError, match=message):
        read_line_pairs(write(tmp_path / name, data))


def test_lines_are_numbered_through_all_parts():
    parts = [b'{"a": 1}\n\n', b"[2]\n", b'{"c": 3}\n4\n']
    assert list(json_records("x", parts, "strict")) == [{"a": 1}, None, [2], {"c": 3}, 4]
    for wrong, message in ((b"{", "is not JSON"), (b'"\xff"', "is not valid UTF-8")):
        with pytest.raises(InputError, match=f"x, line 12: {message}"):
            list(json_records("x", [*parts, b"5\n" + wrong], "strict", first=6))


def test_blank_lines_are_blank_pairs(tmp_path):
    for data in ('{"src": "A", "tgt": "b"}\n\n', "src,tgt\nA,b\n\n"):
        lines = read_line_pairs(write(tmp_path / "x", data), lowercase=True)
        assert (list(lines.source), list(lines.target)) == (["a", ""], ["b", ""])
    for data in ('\n{"src": "A", "tgt": "b"}\n', "src,tgt\n\nA,b\n"):
        assert list(read_line_pairs(write(tmp_path / "x", data)).source) == ["", "A"]


def test_a_quotation_mark_between_tabs_is_one(tmp_path):
    rows = ['"Come here.\tKomm her.', 'Go."\tGeh.', '"Yes," he said.\t"Ja"']
    for head in ("source\ttarget", " source \ttarget"):
        lines = read_line_pairs(write(tmp_path / "x", "\n".join([head, *rows]) + "\n"))
        assert [f"{s}\t{t}" for s, t in zip(lines.source, lines.target, strict=True)] == rows


def test_fields_that_are_not_there_are_an_error(tmp_path):
    for name, text in (("x", "de\ten\na\tb\n"), ("x", "a ||| b\n"), ("x.csv", "de,en\na,b\n")):
        with pytest.raises(AlignkitError, match="has no columns or fields foo and bar"):
            read_line_pairs(f"{write(tmp_path / name, text)}:foo,bar")


def test_a_strange_first_line_is_text(tmp_path):
    """It is no table's, whatever is in it: a carriage return, a quote, or more than a table's field may have."""
    for first in ("a\rb", '"a', "a" * 200_000, '{"a": 1} b', "\0"):
        assert read_line_pairs(write(tmp_path / "x", f"{first}\tc\n")).source == [first]


@pytest.mark.parametrize("name", ["short", "nested"])
def test_records_are_not_one_of_two_files(name, tmp_path):
    path, sentences = write(tmp_path / "a", FILES[name]), write(tmp_path / "b", "a\n" * len(PAIRS))
    for files in ((path, sentences), (sentences, path)):
        for read in (
            read_bitext,
            read_line_pairs,
            lambda *files: list(read_blocks(PairFiles(*files), np.arange(3))),
        ):
            with pytest.raises(
                InputError, match="a: has JSON lines, not sentences; give one file with both sides"
            ):
                read(*files)
    code = write(tmp_path / "a", '{}\n{"a": 1}\n[1, "b"]\n')
    assert len(read_bitext(code, code)) == 3


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    records = [{"src": x, "tgt": y} for x, y in PAIRS]
    for rows in (records, [{"id": 1, "translation": record} for record in records]):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x", row_group_size=5)
        check(PairFiles(tmp_path / "x"))


def test_parquet_needs_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(AlignkitError, match="Parquet files need pyarrow"):
        read_line_pairs(write(tmp_path / "x", b"PAR1"))
