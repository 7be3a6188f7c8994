"""Links of raw text: by words and by characters, from the fit to the saved model."""

import json

import pytest

from alignkit.errors import AlignkitError
from alignkit.pipeline.align import align, align_stream
from alignkit.pipeline.aligned_text import write_alignments
from alignkit.pipeline.models import load
from alignkit.text.bitext import Bitext, Corpus
from alignkit_cli.main import run

pytest.importorskip("icu4py")

SOURCE = ["Das ist  gut, ja.", "Nein.", "", "Ja, das ist gut."]
TARGET = ["That's good, yes.", "No.", "x", "Yes, that's good."]
OFFSETS = ["0:3-0:4 4:7-4:6 9:12-7:11 12:13-11:12 14:16-13:16 16:17-16:17", "0:4-0:2 4:5-2:3", ""]


@pytest.fixture(scope="module")
def aligned():
    return align(SOURCE, TARGET, tokenize=True)


@pytest.fixture
def text(tmp_path):
    files = [tmp_path / "s", tmp_path / "t"]
    for path, side in zip(files, (SOURCE, TARGET), strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    return files


def written(aligned, path, output_format):
    write_alignments([aligned], path, output_format)
    return path.read_text().splitlines()


def test_links_by_words_and_by_characters(aligned, tmp_path):
    pair = aligned[0]
    assert pair.target == ("That", "'s", "good", ",", "yes", ".")
    assert pair.target_spans == ((0, 4), (4, 6), (7, 11), (11, 12), (13, 16), (16, 17))
    assert [SOURCE[0][start:end] for start, end in pair.source_spans] == list(pair.source)
    assert aligned[1:][0].source_spans == ((0, 4), (4, 5))
    assert written(aligned, tmp_path / "x", "offsets")[:3] == OFFSETS
    records = [json.loads(line) for line in written(aligned, tmp_path / "x", "json")]
    assert [records[0][name] for name in ("src_offsets", "tgt_offsets")] == [
        [[0, 3], [4, 7], [9, 12], [12, 13], [14, 16], [16, 17]],
        [list(span) for span in pair.target_spans],
    ]
    places = [(records[0]["src_offsets"][s], records[0]["tgt_offsets"][t]) for s, t, _ in records[0]["links"]]
    assert " ".join(f"{a}:{b}-{c}:{d}" for (a, b), (c, d) in places) == OFFSETS[0]
    assert records[2] == {
        "scores": [None, None],
        "src": [],
        "tgt": ["x"],
        "links": [],
        "src_offsets": [],
        "tgt_offsets": [[0, 1]],
    }


def test_characters_are_those_of_both_sides(aligned, tmp_path):
    raw = aligned.bitext
    mixed = Bitext(raw.source, Corpus.from_sentences([raw.target.words(m) for m in range(len(raw))]))
    record = json.loads(written(align(mixed, method="ibm1"), tmp_path / "x", "json")[0])
    assert list(record) == ["src", "tgt", "links", "scores"]


def test_without_raw_text_there_are_no_characters(tmp_path):
    aligned = align(SOURCE, TARGET)
    with pytest.raises(AlignkitError, match="offsets is for raw text; it goes only with --tokenize"):
        aligned.write(tmp_path / "x", "offsets")
    assert not (tmp_path / "x").exists()
    assert "src_offsets" not in json.loads(written(aligned, tmp_path / "x", "json")[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "ibm1"},
        {"method": "diagonal"},
        {"method": "hmm", "reverse": True},
        {"method": "ibm1", "symmetrization": "union"},
    ],
)
def test_a_saved_model_remembers(options, tmp_path):
    fitted = align(SOURCE, TARGET, tokenize=True, **options)
    fitted.aligner.save(tmp_path / "m.npz")
    model = load(tmp_path / "m.npz")
    assert model.raw_text
    assert align(SOURCE, TARGET, model=model).bitext == fitted.bitext
    assert model.align_batch(SOURCE, TARGET) == align(SOURCE, TARGET, model=model).links.to_strings()
    assert align(SOURCE, TARGET, model=model, tokenize=False).bitext.target.words(1) == ["No."]
    streamed = align_stream([f"{x}\t{y}" for x, y in zip(SOURCE, TARGET, strict=True)], model)
    assert [pair.source_spans for part in streamed for pair in part] == [pair.source_spans for pair in fitted]


def test_other_models_say_nothing_of_it(tmp_path):
    for name, tokenize in (("a", None), ("b", False)):
        align(SOURCE, TARGET, method="ibm1", tokenize=tokenize).aligner.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b"raw_text" not in (tmp_path / "a").read_bytes()
    assert not load(tmp_path / "a").raw_text


def test_commands(text, tmp_path, capfd):
    model, out = tmp_path / "m.npz", tmp_path / "out"
    fit = ["align", "-q", *text, "--tokenize", "--save-model", model, "--format", "offsets", "-o", out]
    assert run([*map(str, fit)]) == 0
    assert out.read_text().splitlines()[:3] == OFFSETS
    again = ["align", "-q", "--model", model, *text, "--format", "offsets", "-o", out]
    assert run([*map(str, again)]) == 0
    assert out.read_text().splitlines()[:3] == OFFSETS
    assert run(["show", "-q", *map(str, text), "--tokenize", "--pairs", "2-2"]) == 0
    assert {"pair 2", "╭ Nein", "│ ╭ ."} <= set(capfd.readouterr().out.splitlines())
    for options, problem in (
        ([], "--format offsets goes only with --tokenize. See 'alignkit align --help'."),
        (["--model", model, "--no-tokenize"], "the format offsets is for raw text; it goes only with --tokenize"),
    ):
        assert run(["align", *map(str, [*text, *options, "--format", "offsets"])]) == 2
        assert capfd.readouterr().err.endswith(f"error: {problem}\n")


def test_icu_is_asked_for_before_the_text_is_aligned(text, monkeypatch, capfd):
    monkeypatch.setattr("alignkit.support.packages.is_here", lambda name: False)
    assert run(["ibm1", *map(str, text), "--tokenize"]) == 2
    assert "error: words of raw text need icu4py, which is not installed: pip install " in capfd.readouterr().err
