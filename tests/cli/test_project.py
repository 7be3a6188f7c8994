"""``alignkit project``."""

import pytest


@pytest.fixture
def call(alignkit, tmp_path, monkeypatch):
    """Writes files, and runs the command in their folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **files):
        for name, text in files.items():
            (tmp_path / name).write_bytes(text.encode())
        return alignkit("project", "src", "tgt", *arguments)

    return run


def test_tags(call, tmp_path):
    links = "0-1:0.9 1-0:0.3\n\n0-0\n"
    result = call("links", "-o", "out", src="<b>a</b> b\n\n<i>x</i> {0} y\n", tgt="B  A\r\n \n\tz", links=links)
    assert (result.code, result.out) == (0, b"")
    assert (tmp_path / "out").read_bytes() == b"B  <b>A</b>\r\n \n\t<i>z</i>{0}\n"
    assert result.err == "3 sentences; labels or tags without a place in the links: 0\n"
    result = call("links", "--least", "0.95")
    assert result.out == b"B  <b></b>A\r\n \n\t<i>z</i>{0}\n"
    warning = 'warning: no place in the links: {"line": 1, "tag": "<b>", "text": "a"}\n'
    assert result.err == warning + "3 sentences; labels or tags without a place in the links: 1\n"
    assert call("links", "--least", "0.95", "-q").err == warning


def test_labels(call):
    source = "a\tB-X\nb\tI-X\n\n\nc\tO\n"
    result = call("links", "--format", "conll", src=source, tgt="u v w\nx\ny\n", links="0-0 1-2\n\n0-0\n")
    assert result.out == b"u\tB-X\nv\tI-X\nw\tI-X\n\nx\tO\n\ny\tO\n\n"
    result = call("links", "--format", "conll", "--rule", "unsplit")
    assert result.out.startswith(b"u\tO\nv\tO\n")
    assert "; labels or tags without a place in the links: 1" in result.err


def test_a_text_without_tags_is_noticed(call):
    result = call("links", "-q", src='{"text": "a", "spans": []}\n', tgt="x\n", links="0-0\n")
    assert result.out == b"x\n"
    assert result.err == "warning: src has no tags; labels and spans need the format conll or json\n"
    assert call("links", "-q", "--format", "json").err == ""


def test_half_a_character_in_json_is_written_as_it_was(call):
    result = call(
        "links", "--format", "json", src='{"text": "a", "spans": [], "id": "\\ud83dé"}\n', tgt="x\n", links="0-0\n"
    )
    assert result.out.decode() == '{"text": "x", "spans": [], "id": "\\ud83dé", "unplaced": []}\n'


def test_without_links_the_text_is_aligned(call):
    pairs = [
        ("das haus", "the house"),
        ("das buch", "the book"),
        ("ein buch", "a book"),
        ("haus ein", "house a"),
    ] * 5
    source = "".join(f"{x.split()[0]} <b>{x.split()[1]}</b>\n" for x, _ in pairs)
    result = call(src=source, tgt="".join(f"{y}\n" for _, y in pairs))
    assert result.out.decode() == "".join("{} <b>{}</b>\n".format(*y.split()) for _, y in pairs)


def test_raw_text(call):
    """Tags, labels and spans at the characters of words, through the links of the raw text."""
    pytest.importorskip("icu4py")
    target = "Yes,  the house (of Anna&amp;Max)...\r\n\n你好世界。\n"
    source = "<i>Ja</i>, das <b>Haus</b> (von <u>Anna</u>&amp;<em>Max</em>){0}...\n\nHallo <b>Welt</b>.\n"
    given = " ".join(f"{k}-{k}" for k in range(11)) + "\n\n0-0 1-1 2-2\n"
    result = call("links", "--tokenize", src=source, tgt=target, links=given)
    first, second, third = result.out.decode().split("\n")[:-1]
    assert first == ("<i>Yes</i>,  the <b>house</b> (of <u>Anna</u>&amp;<em>Max</em>){0}...\r")
    assert (second, third) == ("", "你好<b>世界</b>。")
    assert result.err.endswith("in the links: 0\n")
    record = '{"text": "Hallo Welt.", "spans": [{"start": 6, "end": 10}]}\n'
    result = call("links", "--tokenize", "--format", "json", src=record, tgt="你好世界。\n", links="0-0 1-1 2-2\n")
    assert '"spans": [{"start": 2, "end": 4, "probability": 1.0}]' in result.out.decode()
    result = call("links", "--tokenize", "--format", "conll", src="Hallo O\nWelt B-X\n. O\n", tgt="你好世界。\n")
    assert result.out.decode() == "你好\tO\n世界\tB-X\n。\tO\n\n"


def test_a_file_of_translators(alignkit, failure, tmp_path, write):
    """Links count the words that `align` reads of it; aligned or with given links, only elements are put in."""
    unit = "<trans-unit><source>{}</source><target>{}</target></trans-unit>"
    texts = [("das Haus", "the house"), ("das <g>Buch</g>", "the book"), ("ein Buch", "a book"), ("", "")] * 4
    wanted = [("das Haus", "the house"), ("das <g>Buch</g>", "the <g>book</g>"), *texts[2:4]] * 4
    given, done = (f"<xliff>{''.join(unit.format(*each) for each in rows)}</xliff>" for rows in (texts, wanted))
    job, out = write("job.xlf", given), tmp_path / "out.xlf"
    assert alignkit("align", "-q", job, "-o", tmp_path / "links").code == 0
    for links in ([], [tmp_path / "links"]):
        outcome = alignkit("project", job, *links, "-o", out)
        assert (outcome.code, out.read_text()) == (0, done)
        assert "16 sentences; labels or tags without a place in the links: 0\n" in outcome.err
    plain = write("plain", "a\n")
    failure(alignkit("project", job, plain), "job.xlf: is TMX or XLIFF, which has both sides; give no TGT")
    failure(alignkit("project", plain), "plain: is neither TMX nor XLIFF", "SRC TGT")
    failure(alignkit("project", job, "--format", "json"), "--format goes only with TGT")


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        ({"src": "a\n<b>a\n"}, [], "src, line 2: <b> is not closed on its line"),
        ({"tgt": "x\n{1}\n"}, [], "tgt, line 2: has the tag '{1}'"),
        ({"links": "0-0\n0-1\n"}, [], "links, line 2: link 0-1 points outside a pair of 1 source and 1 target"),
        ({"links": "0-0\n"}, [], "links: has links for 1 pair, the text has 2"),
        ({"links": "0-0\n0-0:2\n"}, [], "links, line 2: '0-0:2' has no probability"),
        ({"src": "a\n"}, [], "src: has 1 sentence, tgt has 2"),
        ({"src": "a O\n\nb O 1\n"}, ["--format", "conll"], "src, line 3: has 3 columns, not 2 columns"),
        ({"src": "a O\nb O\n"}, ["--format", "conll"], "src: has 1 sentence, tgt has 2"),
        ({"src": '{"text": "a", "spans": []}\n{"text"\n'}, ["--format", "json"], "src, line 2: damaged: not JSON"),
        ({}, ["--rule", "best"], "'best' is not one of 'hull', 'contiguous', 'head', 'unsplit'"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(call, tmp_path, files, options, problem):
    everything = {"src": "<b>a</b>\nb\n", "tgt": "x\ny\n", "links": "0-0\n0-0\n"} | files
    result = call("links", *options, "-o", "out", **everything)
    assert (result.code, result.out) == (2, b"")
    assert problem in result.err.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == everything.keys()
