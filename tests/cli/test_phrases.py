"""alignkit phrases and alignkit terms, through real files."""

import gzip
import io
import json
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from alignkit.errors import AlignkitError

DIAGONAL = "0-0 1-1 2-2\n0-0 1-1\n0-0 1-1\n0-0 1-1 2-2\n0-0 1-1\n0-0 1-1\n"


@pytest.fixture
def linked(text, write):
    return *text, write("links", DIAGONAL)


def test_a_phrase_table(alignkit, linked, tmp_path):
    outcome = alignkit("phrases", *linked)
    assert outcome.code == 0
    assert outcome.lines[0] == "a b c ||| A B C ||| 1 1 1 1 ||| 0-0 1-1 2-2 ||| 1 1 1 ||| |||"
    assert outcome.lines[2] == "a ||| A ||| 1 1 1 1 ||| 0-0 ||| 4 4 4 ||| |||"
    assert alignkit("phrases", *linked, "--threads", 2, "--max-length", 8).out == outcome.out
    for name in ("t.gz", "again.gz"):
        assert alignkit("phrases", *linked, "-o", tmp_path / name).out == b""
    assert gzip.decompress((tmp_path / "t.gz").read_bytes()) == outcome.out
    assert (tmp_path / "t.gz").read_bytes() == (tmp_path / "again.gz").read_bytes()
    assert len(alignkit("phrases", *linked, "--max-length", 1).lines) == 4
    assert alignkit("phrases", *linked, "--lowercase").lines[0].startswith("a b c ||| a b c |||")


def test_without_links_the_text_is_aligned(alignkit, text, write):
    assert alignkit("align", "-q", *text, "-o", text[0].parent / "own").code == 0
    expected = alignkit("phrases", *text, text[0].parent / "own").out
    assert expected
    assert alignkit("phrases", "-q", *text).out == expected
    sides = (path.read_text().splitlines() for path in text)
    both = write("both", "".join(f"{x} ||| {y}\n" for x, y in zip(*sides, strict=True)))
    assert alignkit("phrases", "-q", both).out == expected


def test_links_that_count_from_1_are_found_out(alignkit, linked, write):
    shifted = write("one", DIAGONAL.translate({ord("0") + i: str(i + 1) for i in range(9)}))
    outcome = alignkit("phrases", *linked[:2], shifted)
    assert outcome.out == alignkit("phrases", *linked).out
    assert "one: index 0 never occurs, and line 1 has an index past the end" in outcome.err
    assert outcome.err.count("\n") == 1


def test_words_that_would_break_a_line_are_left_out(alignkit, write):
    given = write("s", "a ||| b\n"), write("t", "A B\x0bC D\n"), write("l", "0-0 1-1 2-2\n")
    outcome = alignkit("phrases", *given)
    assert [line.split(" ||| ")[:2] for line in outcome.lines] == [["a", "A"], ["b", "D"]]
    assert outcome.err.startswith("warning: left out phrases of words that have ||| or a control")
    assert alignkit("phrases", *given[:2], write("none", "\n")).out == b""


def test_terms(alignkit, linked, write):
    outcome = alignkit("terms", *linked, "--min-count", 2, "--function-words", 1)
    rows = [line.split("\t") for line in outcome.lines]
    assert rows[0][:5] == ["source", "target", "count", "log_likelihood", "probability"]
    assert rows[1][:3] + rows[1][4:] == ["b c", "B C", "2", "", "1", "a b c", "A B C"]
    assert len(rows) == 2
    likely = write("p", DIAGONAL.replace("0-0", "0-0:0.5").replace("1-1", "1-1:0.25").replace("2-2", "2-2:1"))
    found = alignkit("terms", linked[0], linked[1], likely, "--min-count", 2, "--function-words", 1, "--json")
    assert [row["probability"] for row in json.loads(found.out)["terms"]] == [0.5]
    assert alignkit("terms", *linked).lines == ["\t".join(rows[0])]


def test_terms_as_tbx(alignkit, write, failure):
    files = (
        write("s", "x\x01 a < c\ufffe\na < c\ufffe\n"),
        write("t", "X A & C\nA & C\n"),
        write("l", "1-1 2-2 3-3\n0-0 1-1 2-2\n"),
    )
    call = ["terms", *files, "--min-count", 2, "--function-words", 1]
    outcome = alignkit(*call, "--tbx", "de,en-GB")
    assert outcome.out.startswith(b"<?xml ")
    root = ElementTree.fromstring(outcome.out)
    assert root.findtext("martifHeader/fileDesc/sourceDesc/p") == "alignkit terms"
    (entry,) = root.findall("text/body/termEntry")
    language = "{http://www.w3.org/XML/1998/namespace}lang"
    found = [(each.get(language), each.findtext(".//term"), each.findtext(".//descrip")) for each in entry]
    assert found == [("de", "a < c\ufffd", "x\ufffd a < c\ufffd"), ("en-GB", "A & C", "X A & C")]
    for wrong in ("de", "de,en,fr", "de,", "d\u00e4,en"):
        failure(alignkit(*call, "--tbx", wrong), "is not two languages with a comma between them, as de,en-GB")
    failure(alignkit(*call, "--tbx", "de,en", "--json"), "Give --json or --tbx, not both")
    if find_spec("translate"):
        from translate.storage.tbx import tbxfile

        (term,) = tbxfile(io.BytesIO(outcome.out), sourcelanguage="de", targetlanguage="en-GB").units
        assert (term.source, term.target) == ("a < c\ufffd", "A & C")


def test_function_words_are_a_share(linked):
    from alignkit.uses.phrases.extraction import PhraseText
    from alignkit.uses.phrases.tables import find_terms

    with pytest.raises(AlignkitError, match="function_words is a share from 0 to 1, not 50"):
        find_terms(PhraseText.read(*linked), function_words=50)


@pytest.mark.parametrize("command", ["phrases", "terms"])
def test_bad_input(alignkit, linked, write, failure, tmp_path, command, monkeypatch):
    source, target, links = linked
    target_file = tmp_path / "out.gz" if command == "phrases" else tmp_path / "out"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for given, *parts in (
        ((source, target, write("x", DIAGONAL.replace("2-2", "2-3", 1))), "x", "line 1", "2-3"),
        ((source, target, write("y", "0-0\n0_0\n" + "\n" * 4)), "y", "line 2", "0_0"),
        ((source, target, write("z", "0-0\n")), "z", "1 pair", "6"),
        ((source, write("short", "A\n"), links), "6 lines", "1"),
        ((source, target, tmp_path / "absent"), "absent"),
        ((source, target, links, "--max-length", 9), "--max-length", "8"),
        ((source, target, links, "-o", tmp_path / "no" / "x"), "no folder"),
        ((source, target, write("w", DIAGONAL.replace("0-0", "0-0:2"))), "line 1", "0-0:2"),
    ):
        failure(alignkit(command, *given, *(() if "-o" in given else ("-o", target_file))), *parts)
    assert not target_file.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("alignkit-", "."))]


def test_a_full_temporary_folder_leaves_nothing(alignkit, linked, failure, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("alignkit.uses.phrases.extraction.open", full, raising=False)
    failure(alignkit("phrases", *linked, "-o", tmp_path / "table"), "No space left", "TMPDIR")
    assert not (tmp_path / "table").exists()
