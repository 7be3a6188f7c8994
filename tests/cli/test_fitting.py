"""What the commands that fit share: both directions, --prior, --start, settings of the model."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import alignkit_data
from alignkit import read_bitext
from alignkit.aligner import load_aligner

from .conftest import DIAGONAL


@pytest.mark.parametrize("command", ["ibm1", "diagonal", "hmm"])
@pytest.mark.parametrize("method", ["grow-diag-final-and", "product"])
def test_symmetrized_scores_and_model(alignkit, text, tmp_path, command, method):
    from alignkit import Scores

    model, scores = tmp_path / "m", tmp_path / "x.npz"
    written = alignkit(
        command, *text, "-q", "--symmetrize", method, "--save-model", model, "--save-scores", scores
    )
    assert (written.code, written.lines) == (0, DIAGONAL)
    again = alignkit("align", "-q", "--model", model, *text, "--format", "probabilities")
    assert [" ".join(item.split(":")[0] for item in line.split()) for line in again.lines] == DIAGONAL
    expected = load_aligner(model).score(read_bitext(*text), "alpha")
    assert (Scores.load(scores).values == expected.values).all()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["ibm1", "--set", "iterations=3"], "--set iterations has an option of its own"),
        (["diagonal", "--set", "null=a=b"], "--set null has an option of its own"),
        (["ibm1", "--reverse", "--save-scores", "x.npz"], "it goes not with --reverse"),
        (["align", "--adapt"], "--adapt goes only with --model"),
        (["ibm1", "--no-null", "--set", "null_probability=0.1"], "does not go with --no-null"),
        (["diagonal", "--no-null", "--set", "null-probability=0.1"], "does not go with --no-null"),
        (["align", "-o", "x", "--sentence-scores", "./x"], "Two outputs cannot both go to"),
        (["ibm1", "--save-model", "x.npz", "--save-scores", "x.npz"], "Two outputs cannot both go to"),
        (["ibm1", "-o", "s.txt"], "would replace the input"),
        (["hmm", "--save-model", "t.txt"], "would replace the input"),
        (["align", "--sentence-scores", "-"], "Two outputs cannot both go to standard output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_would_do_nothing_or_harm(alignkit, failure, text, tmp_path, monkeypatch, arguments, part):
    monkeypatch.chdir(tmp_path)
    failure(alignkit(*arguments, "-q", *text), part)
    assert not (tmp_path / "x").exists()


TEXT = "das haus ||| the house\ndas buch ||| the book\nein buch ||| a book\n ||| x\n"
OPEN = "das haus ||| house the\n" * 3


@pytest.mark.parametrize("options", [["--reverse"], ["--symmetrize", "intersection"]])
def test_a_prior_is_turned_with_the_text(alignkit, write, options):
    lexicon = write("lexicon", "das\tthe\t1\t0.9\nhaus\thouse\t0.8\t1\n")
    for name in ("ibm1", "hmm"):
        assert alignkit(name, "-q", write("open", OPEN), "--prior", lexicon, *options).lines == ["0-1 1-0"] * 3


@pytest.mark.parametrize("name", ["ibm1", "hmm", "align"])
def test_a_prior_of_which_the_text_has_no_pair_is_noticed(alignkit, write, name):
    # Fits of one text after another, or of both directions, say it once.
    for lexicon, noticed in (("das\tthe\n", False), ("the\tdas\n", True), ("das\tno\n", True)):
        done = alignkit(name, write("open", OPEN), "--prior", write("lexicon", lexicon))
        assert (done.code, done.err.count("are its sides exchanged?")) == (0, noticed)


def test_a_start_of_another_kind_says_what_to_give(alignkit, failure, write, tmp_path):
    text, model = write("text", TEXT), tmp_path / "m.npz"
    assert alignkit("ibm1", "-q", text, "--save-model", model).code == 0
    for name, maker in (("align", "align --save-model"), ("hmm", "hmm --save-model")):
        failure(alignkit(name, "-q", "--start", model, text), "is a model of kind ibm1", f"`alignkit {maker}`")


@pytest.mark.parametrize("name", ["ibm1", "hmm", "align"])
def test_a_start_of_the_other_direction_is_refused(alignkit, failure, write, tmp_path, name):
    text, model = write("text", TEXT), tmp_path / "m.npz"
    turned = write("turned", "".join(" ||| ".join(line.split(" ||| ")[::-1]) + "\n" for line in TEXT.splitlines()))
    assert alignkit(name, "-q", text, "--save-model", model).code == 0
    assert alignkit(name, "-q", text, "--start", model).code == 0
    failure(alignkit(name, "-q", turned, "--start", model), "knows no source word of this text")
    if name != "align":
        failure(
            alignkit(name, "-q", text, "--reverse", "--start", model),
            "is a model of source to target",
            "--reverse",
        )


@pytest.mark.parametrize("name", ["ibm1", "diagonal", "hmm"])
def test_a_saved_model_of_target_to_source_knows_its_direction(alignkit, failure, write, tmp_path, name):
    text = (
        write("s", "a b c e\nb a e\nc a\nb c d e\nd a\nd b\n"),
        write("t", "A B C\nB A\nC A A\nB C D\nD A\nD B\n"),
    )
    model, again = tmp_path / "m.npz", tmp_path / "again.npz"
    for output_format in ("pharaoh", "probabilities", "giza"):
        options = ["--format", output_format]
        fitted = alignkit(name, "-q", *text, "--reverse", "--save-model", model, *options)
        assert fitted.code == 0, fitted.err
        assert alignkit("align", "-q", *text, "--model", model, *options).out == fitted.out
    bitext = read_bitext(*text)
    aligner = load_aligner(model)
    assert np.array_equal(aligner.score(bitext, "alpha").shapes, bitext.shapes)
    assert aligner.links(bitext).to_pharaoh() == alignkit("align", "-q", *text, "--model", model).out
    if name != "diagonal":
        forward = tmp_path / "forward.npz"
        assert alignkit(name, "-q", *text, "--reverse", "--start", model, "--save-model", again).code == 0
        failure(alignkit(name, "-q", *text, "--start", model), "target to source", "fitted without --reverse")
        assert alignkit(name, "-q", *text, "--save-model", forward).code == 0
        failure(alignkit(name, "-q", *text, "--reverse", "--start", forward), "fitted with --reverse")


def test_a_prior_that_is_a_model_is_not_taken_for_text(alignkit, failure, write, tmp_path):
    text, model, scores = write("text", TEXT), tmp_path / "m.npz", tmp_path / "s.npz"
    assert alignkit("ibm1", "-q", text, "--save-model", model, "--save-scores", scores).code == 0
    failure(alignkit("ibm1", text, "--prior", model), "m.npz: is a saved model, not a lexicon; write", "lexicon`")
    failure(alignkit("ibm1", text, "--prior", scores), "s.npz: holds alignkit.scores, not a lexicon")


@pytest.mark.parametrize(
    "name", ["align", "ibm1", "diagonal", "hmm", "project", "phrases", "terms", "gold", "show", "omissions"]
)
def test_few_pairs_are_told_by_every_command_that_fits(alignkit, text, name):
    outcome = alignkit(name, "-q", *text)
    assert outcome.code == 0
    assert "warning: only 6 sentence pairs to learn from: expect many wrong links; `alignkit align`" in outcome.err


def test_every_word_of_both_sides_is_linked(alignkit):
    """As docs/guides/align-a-corpus.md says."""
    files = [alignkit_data.path(f"test.{side}") for side in ("de", "en")]
    lines = alignkit("diagonal", "-q", *files, "--no-null", "--symmetrize", "grow-diag-final").lines
    sides = [[len(line.split()) for line in path.read_text().splitlines()] for path in files]
    for line, *sizes in zip(lines, *sides, strict=True):
        links = [link.split("-") for link in line.split()]
        assert [{int(link[side]) for link in links} for side in (0, 1)] == [set(range(size)) for size in sizes]


def test_parquet_without_pyarrow(alignkit, failure, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    links = tmp_path / "links"
    calling = alignkit("ibm1", "-", "-o", links, "--save-scores", tmp_path / "s.parquet", stdin=b"a ||| b\n")
    failure(calling, "Parquet files need pyarrow, which is not installed: pip install -e")
    assert not links.exists()
