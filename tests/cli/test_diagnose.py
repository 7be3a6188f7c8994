"""alignkit diagnose, through real files."""

from __future__ import annotations

import csv
import io
import json

import pytest

import alignkit_data

FILES = [alignkit_data.path("test.de"), alignkit_data.path("test.en")]


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    from alignkit_cli.main import run

    path = tmp_path_factory.mktemp("diagnose") / "links"
    assert run(["align", "-q", *map(str, FILES), "--format", "probabilities", "-o", str(path)]) == 0
    return path


def test_text(alignkit, links):
    outcome = alignkit("diagnose", *FILES, links)
    assert outcome.code == 0
    assert outcome.lines[0].startswith("estimated AER ")
    text = outcome.out.decode()
    for part in (
        "frequency of the rarer word",
        "links of punctuation with words",
        "most errors expected in lines:",
    ):
        assert part in text
    (check,) = [line for line in outcome.lines if line.startswith("links that are more likely wrong")]
    assert len(check.split("  ")[-1].split(", ")) <= 5


def test_two_files_without_links(alignkit, failure, links, write):
    failure(
        alignkit("diagnose", *FILES), "Missing argument LINKS (without TGT, SRC must be one file of both sides)"
    )
    failure(alignkit("diagnose", FILES[0], links), "test.de, line 1: has 0 separators")
    text = write("text", "a ||| b\n" * 3)
    failure(alignkit("diagnose", text, write("bad", "0-0\nx\n0-0\n")), "bad, line 2: 'x' is not a link")


def test_json_and_pairs(alignkit, links, tmp_path):
    pairs = tmp_path / "pairs.csv"
    outcome = alignkit("diagnose", "-q", *FILES, links, "--json", "--per-sentence", pairs)
    found = json.loads(outcome.out)
    estimate = found["estimate"]
    assert 0 < estimate["aer"] < 1
    assert 0 <= estimate["aer_with_possible"] < 1
    assert estimate["pairs"] == 100
    assert estimate["links"] == sum(len(line.split()) for line in links.open())
    assert {"check", "count", "of", "share", "lines"} == set(found["findings"][0])
    assert {"by", "class", "aer", "links"} <= set(found["classes"][0])
    rows = list(csv.DictReader(io.StringIO(pairs.read_text())))
    assert [int(row["line"]) for row in rows] == list(range(1, 101))
    assert [int(row["links"]) for row in rows] == [len(line.split()) for line in links.open()]


def test_one_file_with_both_sides(alignkit, links, write):
    sides = [path.read_text(encoding="utf-8").splitlines() for path in FILES]
    both = write("both", "".join(f"{s} ||| {t}\n" for s, t in zip(*sides, strict=True)))
    assert alignkit("diagnose", both, links, "--json").out == alignkit("diagnose", *FILES, links, "--json").out


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0-0\n0-99\n", "line 2: link 0-99 points outside a pair of"),
        ("0-0:2\n", "has no probability from 0 to 1 after its colon"),
        ("", "is empty"),
    ],
)
def test_bad_links_are_one_line(alignkit, write, tmp_path, lines, message):
    outcome = alignkit("diagnose", *FILES, write("bad", lines), "--per-sentence", tmp_path / "x.csv")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, b"", 1)
    assert message in outcome.err
    assert not (tmp_path / "x.csv").exists()
