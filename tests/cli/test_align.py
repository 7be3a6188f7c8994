"""alignkit align with a saved model: new text from files and, line by line, from standard input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

import alignkit_data
from alignkit.links.formats import OUTPUT_FORMATS
from alignkit.pipeline import models
from alignkit.pipeline.settings import FitSettings
from alignkit_cli import align as program

from .conftest import DIAGONAL, SOURCE, TARGET


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from alignkit_cli.main import run

    path = tmp_path_factory.mktemp("model") / "m.npz"
    assert run(["ibm1", "-q", "--sample", "--save-model", str(path), "-o", os.devnull]) == 0
    return path


def joined(separator=" ||| ", count=None):
    sides = [alignkit_data.path(f"test.{side}").read_text().splitlines()[:count] for side in ("de", "en")]
    return "".join(f"{a}{separator}{b}\n" for a, b in zip(*sides, strict=True))


FILES = [alignkit_data.path("test.de"), alignkit_data.path("test.en")]


def format_options(name):
    if not OUTPUT_FORMATS[name].needs_spans:
        return ["--format", name]
    pytest.importorskip("icu4py")
    return ["--format", name, "--tokenize"]


@pytest.mark.parametrize("output_format", list(OUTPUT_FORMATS))
def test_a_stream_gives_what_files_give(alignkit, model, tmp_path, write, output_format):
    options = ["--model", model, *format_options(output_format)]
    files = alignkit("align", *options, *FILES, "--sentence-scores", tmp_path / "files")
    assert files.code == 0
    for data in (joined(), joined("\t"), "\ufeff" + joined().replace("\n", "\r\n")):
        outcome = alignkit("align", *options, "-", "--sentence-scores", tmp_path / "s", stdin=data.encode())
        assert (outcome.code, outcome.out) == (0, files.out)
        assert (tmp_path / "s").read_bytes() == (tmp_path / "files").read_bytes()
    packed = alignkit("align", *options, "-", "-o", tmp_path / "o", stdin=gzip.compress(joined().encode()))
    assert (packed.code, packed.out, (tmp_path / "o").read_bytes()) == (0, b"", files.out)
    assert alignkit("align", *options, write("joined", joined())).out == files.out


@pytest.mark.parametrize("output_format", list(OUTPUT_FORMATS))
def test_batches_leave_no_trace(alignkit, model, tmp_path, monkeypatch, set_blocks, output_format):
    """Numbers of pairs, in particular, go on from batch to batch."""
    from alignkit.text import reading

    options = [*format_options(output_format), "--sentence-scores", tmp_path / "s"]

    def results():
        fitted = [FILES] if output_format == "giza" else []
        for arguments in (["--model", model, *FILES], ["--model", model, "-"], *fitted):
            outcome = alignkit("align", *arguments, *options, stdin=joined().encode())
            assert outcome.code == 0
            yield outcome.out, (tmp_path / "s").read_bytes()

    whole = list(results())
    monkeypatch.setattr(reading, "STREAM_CHUNK", 1000)
    set_blocks(BLOCK=7)
    assert list(results()) == whole


def test_a_text_of_json_lines_with_its_fields(alignkit, model, failure, write):
    records = (line.split(" ||| ") for line in joined(count=20).splitlines())
    path = write("x.jsonl", "".join(json.dumps({"a": "-", "de": x, "en": y}) + "\n" for x, y in records))
    outcome = alignkit("align", "--model", model, f"{path}:de,en")
    assert outcome.lines == alignkit("align", "--model", model, *FILES).lines[:20]
    failure(alignkit("align", "--model", model, f"{path}:de,en", "-o", path), "would replace the input")
    failure(alignkit("align", "--model", model, f"{path}x:de,en"), "cannot be read")


def test_a_bad_line_ends_a_stream_after_the_lines_before(alignkit, model, tmp_path):
    outcome = alignkit("align", "--model", model, "-", stdin=b"der Hund ||| the dog\nno separator\n")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "line 2" in outcome.err
    alone = alignkit("align", "--model", model, "-", stdin=b"der Hund ||| the dog\n")
    assert outcome.out == alone.out
    assert b"-" in alone.out
    invalid = alignkit("align", "--model", model, "-", stdin=b"der Hund ||| the dog\n\na \xff ||| b\n")
    assert (invalid.code, invalid.out) == (2, alone.out + b"\n")
    to_file = alignkit("align", "--model", model, "-", "-o", tmp_path / "x", stdin=b"a ||| b\nbad\n")
    assert to_file.code == 2
    assert not (tmp_path / "x").exists()
    assert "empty" in alignkit("align", "--model", model, "-", stdin=b"").err


def test_a_request_in_json_is_answered_in_json(model):
    """A process that stays, as eflomal's users asked for: an object in, an object out, with the caller's id."""
    command = [sys.executable, "-m", "alignkit", "align", "-q", "--model", str(model), "-", "--format", "json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    requests = [
        {"id": 7, "src": "Ein Mann .", "tgt": "A man ."},
        {"id": "blank", "src": "", "tgt": "A man ."},
        {"id": None, "src": ["New\u00a0York", "."], "tgt": ["New\u00a0York", "."]},
    ]
    with subprocess.Popen([*command, "--on-error", "skip"], **pipes) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        answers = []
        for request in [*requests, "no object"]:
            print(json.dumps(request), file=process.stdin, flush=True)
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(60) == 0
        watchdog.cancel()
    assert [answer.get("id") for answer in answers] == [7, "blank", None, None]
    assert [answer["src"] for answer in answers] == [["Ein", "Mann", "."], [], ["New\u00a0York", "."], []]
    assert all(0 < p <= 1 for s, t, p in answers[0]["links"])
    assert answers[0]["links"]
    assert answers[1]["links"] == answers[3]["links"] == []


def test_memory_of_a_stream_does_not_grow(model):
    """Twenty times the text, the same peak (within a twentieth)."""
    code = (
        "import resource, sys; from alignkit_cli.main import run; assert run(sys.argv[1:]) == 0;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "align", "-q", "--model", str(model), "-"]
    peaks = []
    for times in (10, 200):
        data = joined().encode() * times
        result = subprocess.run(command, input=data, capture_output=True, check=True)
        assert result.stdout.count(b"\n") == data.count(b"\n")
        peaks.append(int(result.stderr))
    assert peaks[1] < 1.05 * peaks[0]  # 1.10 if the text is read whole


#: texts with blank sides, which leave a model without a word on one side or on both
BLANK = {
    "source": " ||| x y\n ||| x\n",
    "target": "x y ||| \nx ||| \n",
    "both": " ||| \n",
    "neither": "x z ||| x q\nx ||| x\n ||| y\n",
}
METHODS = [
    "ibm1",
    "ibm1 --reverse",
    "ibm1 --symmetrize product",
    "diagonal --symmetrize union",
    "hmm",
    "align",
]


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("method", METHODS)
def test_models_of_blank_texts_link_lines_one_by_one(alignkit, write, tmp_path, monkeypatch, blank, method):
    from alignkit.text import reading

    monkeypatch.setattr(reading, "STREAM_CHUNK", 1)  # each line comes alone
    model, text = tmp_path / "m", "x z ||| b q\n\nx ||| x\n ||| x\ny ||| \n ||| \nx z ||| y x x\n"
    assert alignkit(*method.split(), "-q", write("fitted", BLANK[blank]), "--save-model", model).code == 0
    for output_format in ("probabilities", "giza"):
        options = ["-q", "--model", model, "--format", output_format, "--sentence-scores", tmp_path / "s"]
        results = []
        for source in (write("text", text), "-"):
            outcome = alignkit("align", *options, source, stdin=text.encode())
            results.append((outcome, (tmp_path / "s").read_bytes()))
        assert results[0] == results[1]
        assert results[0][0].code == 0
        assert len(results[0][0].lines) == (21 if output_format == "giza" else 7)


def test_a_stream_goes_on_after_malformed_lines(alignkit, model, failure, tmp_path):
    good = joined(count=3).splitlines(keepends=True)
    broken = "".join([good[0], "nothing here\n", good[1], "a ||| b ||| c\n", " ||| x\n", good[2]])
    options = ["align", "--model", model, "-", "--sentence-scores", tmp_path / "s"]
    whole = alignkit(*options, stdin=joined(count=3).encode()).lines
    outcome = alignkit(*options, "--on-error", "skip", stdin=broken.encode())
    assert outcome.code == 0
    assert outcome.lines == [whole[0], "", whole[1], "", "", whole[2]]
    assert [line.startswith("nan") for line in (tmp_path / "s").read_text().splitlines()] == [
        *(False, True, False, True, True, False)
    ]
    assert "standard input, line 2" in outcome.err
    assert "\n6 pairs (1 with a blank side, 2 malformed and skipped), " in outcome.err
    quiet = alignkit(*options, "--on-error", "skip", "-q", stdin=broken.encode())
    assert [line.partition(",")[0] for line in quiet.err.splitlines()] == [
        *("warning: skipped standard input", "6 pairs (1 with a blank side")
    ]
    stopped = alignkit(*options, stdin=broken.encode())
    assert (stopped.code, stopped.lines) == (2, whole[:1])
    failure(alignkit("align", "--model", model, *FILES, "--on-error", "skip"), "--on-error goes only with --model")


def test_scores_of_align_are_those_of_the_library(alignkit, model, tmp_path, failure):
    import numpy as np

    from alignkit.aligner import load_aligner
    from alignkit.pipeline.align import align
    from alignkit.scores import Scores
    from alignkit.text.pairs import read_bitext

    place = tmp_path / "s.npz"
    for kind in ("alpha", "beta"):
        options = ["--save-scores", place, "--kind", kind]
        assert alignkit("align", "--model", model, *FILES, *options).code == 0
        wanted = load_aligner(model).score(read_bitext(*FILES), kind)
        assert np.array_equal(Scores.load(place).values, wanted.values)
    assert alignkit("align", *FILES, "--quality", "fast", "--save-scores", place).code == 0
    fitted = align(*FILES, quality="fast")
    assert np.array_equal(Scores.load(place).values, fitted.score("alpha").values)
    failure(alignkit("align", "--model", model, "-", "--save-scores", place, stdin=b"a ||| b\n"), "whole text")
    for option in (["--quality", "best"], ["--keep-case"], ["--start", model]):
        refused = alignkit("align", "--model", model, *FILES, *option)
        failure(refused, f"{option[0]} goes only with a fit, not with --model")
    failure(alignkit("align", *FILES, "--kind", "beta"), "--kind goes only with --save-scores")


def test_reading_in_lower_case_changes_no_byte_of_a_fit(alignkit, tmp_path):
    """The program reads a text in lower case where the library keeps its words; links and models are the same."""
    from alignkit import align

    source, target = (tmp_path / side for side in ("source", "target"))
    for path, given in zip((source, target), FILES, strict=True):
        text = given.read_text() + "\u039f\u03a3 \u03a3\u0399\u0393\u039c\u0391\u03a3. \u0130I \u1e9e\n"
        path.write_text(
            "".join(line.title() if m % 3 else line.upper() for m, line in enumerate(text.splitlines(True)))
        )
    aligned = align(source, target)
    aligned.aligner.save(tmp_path / "library.npz")
    aligned.write(tmp_path / "library", "probabilities")
    options = ["--save-model", tmp_path / "program.npz", "--format", "probabilities", "-o", tmp_path / "program"]
    assert alignkit("align", "-q", source, target, *options).code == 0
    assert (tmp_path / "program").read_bytes() == (tmp_path / "library").read_bytes()
    assert (tmp_path / "program.npz").read_bytes() == (tmp_path / "library.npz").read_bytes()
    shown = alignkit("align", "-q", source, target, "--format", "giza")
    assert source.read_text().split()[0].encode() in shown.out


def test_what_an_encoder_may_read_keeps_its_case(tmp_path, monkeypatch):
    """Two files have a line for each pair; XML may have many."""
    monkeypatch.setattr(models, "READ_TEXT", 2)
    monkeypatch.setattr(models, "is_here", lambda name: True)
    settings, source = FitSettings(), str(tmp_path / "s")
    cases = ("a", 2, "t", True), ("a", 3, "t", False), ("a\tb", 3, None, False), ("<tu>", 3, "t", False)
    for line, lines, target, read in (*cases, ("<tu>", 200, None, True), ("<tu>", 201, None, False)):
        (tmp_path / "s").write_text(f"{line}\n" * lines)
        assert program.has_embeddings(settings, source, target) == read
        assert program.has_embeddings(replace(settings, embeddings="e5"), source, target)
        assert not program.has_embeddings(replace(settings, embeddings="none"), source, target)
    assert program.has_embeddings(settings, "-", None)
    monkeypatch.setattr(models, "is_here", lambda name: False)
    (tmp_path / "s").write_text("a\n")
    assert not program.has_embeddings(settings, source, "t")


@pytest.mark.parametrize("output_format", ["pharaoh", "giza"])
def test_the_case_of_a_text_does_not_matter_to_a_model_to_start_from(alignkit, failure, tmp_path, output_format):
    upper = [tmp_path / side for side in ("source", "target")]
    for path, text in zip(upper, ("DAS HAUS\nDAS BUCH\n", "THE HOUSE\nTHE BOOK\n"), strict=True):
        path.write_text(text)
    usual, kept = tmp_path / "usual.npz", tmp_path / "kept.npz"
    assert alignkit("align", "-q", *upper, "--save-model", usual).code == 0
    assert alignkit("align", "-q", *upper, "--keep-case", "--save-model", kept).code == 0
    start = ["align", "-q", *upper, "--format", output_format, "--start"]
    assert alignkit(*start, usual).code == 0
    failure(alignkit(*start, kept), "knows no source word", "in another case")
    many = tmp_path / "many.npz"
    assert alignkit("align", "-q", *upper, "--quality", "best", "--save-model", many).code == 0
    lower = [tmp_path / "lower.source", tmp_path / "lower.target"]
    for path, given in zip(lower, upper, strict=True):
        path.write_text(given.read_text().lower())
    failure(alignkit("align", "-q", *lower, "--start", many, "--keep-case"), "ignores case")
    failure(alignkit("align", *upper, "--quality", "best", "--keep-case"), "leave out --keep-case")


def test_gold_links_teach_what_is_saved_and_streamed(alignkit, write, tmp_path):
    pytest.importorskip("lightgbm", reason="LightGBM, of the extra gold, is not installed")
    paths = write("src", SOURCE * 4), write("tgt", TARGET * 4)
    gold, model = write("gold", "\n".join([*DIAGONAL, "", *DIAGONAL[1:]]) + "\n"), tmp_path / "m.npz"
    found = alignkit("align", *paths, "--gold", gold, "--save-model", model, "-v")
    assert found.code == 0
    assert len(found.lines) == 24
    assert found.lines[:6] == DIAGONAL
    assert "11 gold pairs; AER in cross-validation: " in found.err
    assert len(alignkit("align", *paths, "--model", model, "-q").lines) == 24
    shifted = write("shifted", "1-1\n" * 12)
    assert "give --gold-base 1" in alignkit("align", *paths, "--gold", shifted).err
    found = alignkit("align", *paths, "--gold", shifted, "--gold-base", 1)
    assert ("--gold-base" in found.err, found.lines[:12]) == (False, ["0-0"] * 12)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0\n" * 25, "gold: has links for 25 pairs, the text has 24"),
        ("0-9\n" * 12, "gold, line 1: link 0-9 points outside a pair of 3 source and 3 target tokens"),
        ("0-0\n\n0-0\n", "gold: gold links of 2 pairs are too few to learn from; give 10 or more"),
    ],
)
def test_gold_links_that_are_not_of_the_text(alignkit, write, links, message):
    pytest.importorskip("lightgbm", reason="LightGBM, of the extra gold, is not installed")
    found = alignkit("align", write("src", SOURCE * 4), write("tgt", TARGET * 4), "--gold", write("gold", links))
    assert (found.code, found.out) == (2, b"")
    assert message in found.err
    assert found.err.count("\n") == 1
