"""ibm1, align, cooc, evaluate and symmetrize, through real files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys

import pytest

import alignkit_data
from alignkit.links.heuristics import method_names
from alignkit_cli.main import COMMANDS

# A bitext whose words translate one to one, each in varied company, so that IBM 1 has one answer.
SOURCE = "a b c\nb a\nc a\nb c d\nd a\nd b\n"
TARGET = "A B C\nB A\nC A\nB C D\nD A\nD B\n"
DIAGONAL = ["0-0 1-1 2-2", "0-0 1-1", "0-0 1-1", "0-0 1-1 2-2", "0-0 1-1", "0-0 1-1"]


@pytest.fixture
def text(write):
    return write("s.txt", SOURCE), write("t.txt", TARGET)


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help(alignkit, name):
    outcome = alignkit(*([name] if name else []), "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(b"Usage: alignkit")
    if name is None:
        assert all(command.encode() in outcome.out for command in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_every_option_does(name):
    from importlib import import_module

    command = import_module(COMMANDS[name][0]).command
    assert command.help
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert parameter.help, f"{name} {parameter.name}"


def test_help_loads_neither_numba_nor_torch():
    code = "import sys; from alignkit_cli.main import run; run(['--help']); run(['ibm1', '--help']);"
    code += "print([m for m in ('numba', 'torch', 'numpy', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_ibm1_loads_no_torch(text):
    code = "import sys; from alignkit_cli.main import run; assert run(sys.argv[1:]) == 0; "
    code += "assert 'numba' in sys.modules; assert 'torch' not in sys.modules; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, "ibm1", *map(str, text)], capture_output=True, check=True)


def test_module_is_the_same_program(text):
    command = [sys.executable, "-m", "alignkit", "ibm1", "-q", *map(str, text)]
    result = subprocess.run(command, capture_output=True)
    assert result.returncode == 0
    assert result.stdout.decode().splitlines() == DIAGONAL


def test_ibm1(alignkit, text):
    outcome = alignkit("ibm1", *text, "--iterations", 10)
    assert (outcome.code, outcome.lines) == (0, DIAGONAL)
    likelihoods = [float(line.split()[-1]) for line in outcome.err.splitlines()]
    assert len(likelihoods) == 10
    assert likelihoods == sorted(likelihoods)


def test_reverse_prints_source_first(alignkit, write):
    # Two target words for one source word: forwards both link to it, backwards only one of them can.
    pair = write("s", "x y\nx\ny\n"), write("t", "X Y Z\nX\nY Z\n")
    forward, reverse = (alignkit("ibm1", "-q", "--no-null", *pair, *extra) for extra in ([], ["--reverse"]))
    assert forward.lines[0] == "0-0 1-1 1-2"
    assert all(link.split("-")[0] in "01" for link in reverse.lines[0].split())
    assert len(reverse.lines[0].split()) == 2


@pytest.mark.parametrize("method", method_names(needs_scores=False))
def test_symmetrize_option_equals_the_command(alignkit, write, method):
    pair = write("s", "x y\nx\ny\nz x\n"), write("t", "X Y Z\nX\nY Z\nX\n")
    at_once = alignkit("ibm1", "-q", *pair, "--symmetrize", method)
    forward = write("f", alignkit("ibm1", "-q", *pair).out)
    reverse = write("r", alignkit("ibm1", "-q", *pair, "--reverse").out)
    apart = alignkit("symmetrize", forward, reverse, "-m", method)
    assert at_once.code == apart.code == 0
    assert at_once.out == apart.out


def test_ibm1_by_product(alignkit):
    counts = []
    for threshold in (0, 0.2, 0.9, 1):
        outcome = alignkit("ibm1", "-q", "--sample", "--symmetrize", "product", "--threshold", threshold)
        assert (outcome.code, len(outcome.lines)) == (0, 940)
        counts.append(len(outcome.out.split()))
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 4
    default = alignkit("ibm1", "-q", "--sample", "--symmetrize", "product")
    assert len(default.out.split()) == counts[1]


def test_ibm1_formats(alignkit, tmp_path):
    """Forward, reverse and both: the same writer as align's."""
    for options, columns in ([], 1), (["--reverse"], 1), (["--symmetrize", "grow-diag-final-and"], 2):
        plain = alignkit("ibm1", "-q", "--sample", *options)
        scores = ["--sentence-scores", tmp_path / "s"]
        probable = alignkit("ibm1", "-q", "--sample", *options, "--format", "probabilities", *scores)
        assert [[item.split(":")[0] for item in line.split()] for line in probable.lines] == [
            line.split() for line in plain.lines
        ]
        values = [float(item.split(":")[1]) for line in probable.lines for item in line.split()]
        assert 0.3 < sum(values) / len(values) < 1
        rows = (tmp_path / "s").read_text().splitlines()
        assert len(rows) == 940
        assert {row.count("\t") for row in rows} == {columns - 1}
        giza = alignkit("ibm1", "-q", "--sample", *options, "--format", "giza").lines
        assert len(giza) == 3 * 940
        assert giza[0].startswith("# Sentence pair (1) source length")


def test_symmetrize_excludes_reverse(alignkit, failure, text):
    failure(alignkit("ibm1", *text, "--symmetrize", "union", "--reverse"), "--symmetrize", "--reverse")


@pytest.mark.parametrize("command", ["ibm1", "diagonal", "hmm"])
@pytest.mark.parametrize("method", ["grow-diag-final-and", "product"])
def test_symmetrized_scores_and_model(alignkit, text, tmp_path, command, method):
    from alignkit import Scores, load_aligner, read_bitext

    model, scores = tmp_path / "m", tmp_path / "x.npz"
    written = alignkit(command, *text, "-q", "--symmetrize", method, "--model", model, "--scores", scores)
    assert (written.code, written.lines) == (0, DIAGONAL)
    again = alignkit("align", "-q", "--model", model, *text, "--format", "probabilities")
    assert [" ".join(item.split(":")[0] for item in line.split()) for line in again.lines] == DIAGONAL
    expected = load_aligner(model).score(read_bitext(*text), "alpha")
    assert (Scores.load(scores).values == expected.values).all()


def test_diagonal(alignkit, text, tmp_path):
    outcome = alignkit("diagonal", *text, "--model", tmp_path / "m", "--scores", tmp_path / "x.npz")
    assert (outcome.code, outcome.lines) == (0, DIAGONAL)
    assert "tension" in outcome.err
    assert alignkit("align", "-q", "--model", tmp_path / "m", *text).lines == DIAGONAL
    assert (tmp_path / "x.npz").stat().st_size > 0
    for options in (["--reverse"], ["--no-null", "--no-prior"], ["--symmetrize", "union", "--fixed-tension"]):
        assert alignkit("diagonal", "-q", *text, *options).lines == DIAGONAL


@pytest.mark.parametrize("command", ["ibm1", "diagonal"])
def test_options_reach_the_model(alignkit, text, tmp_path, command):
    from alignkit import load_aligner

    def fitted(*options):
        assert alignkit(command, "-q", *text, "--model", tmp_path / "m", *options).code == 0
        return load_aligner(tmp_path / "m")

    plain = fitted()
    assert fitted("--null-probability", 0.3).null_probability == pytest.approx(0.3)
    assert fitted("--no-null").null is None
    assert not (fitted("--alpha", 0.5).table.values == plain.table.values).all()
    assert len(fitted("--prune", 0.2).table.values) < len(plain.table.values)
    assert len(fitted("--iterations", 30, "--tolerance", 0.01).log_likelihood) < 30
    if command == "diagonal":
        assert fitted("--tension", 2.5, "--fixed-tension").tension == 2.5
        assert not (fitted("--no-prior").table.values == plain.table.values).all()


@pytest.mark.parametrize("command", ["ibm1", "diagonal"])
@pytest.mark.parametrize(
    ("option", "value"), [("--null-probability", 1), ("--alpha", 0), ("--prune", 1), ("--tolerance", -1)]
)
def test_options_out_of_range(alignkit, failure, text, command, option, value):
    failure(alignkit(command, *text, option, value), option)


def test_model_aligns_new_text(alignkit, text, write, tmp_path):
    assert alignkit("ibm1", "-q", *text, "--model", tmp_path / "m").code == 0
    new = write("s2", "d c\nunseen a\n\n"), write("t2", "D C\nA new\nA\n")
    outcome = alignkit("align", "-q", "--model", tmp_path / "m", *new)
    assert (outcome.code, outcome.lines) == (0, ["0-0 1-1", "1-0", ""])


def test_align_without_model(alignkit, text):
    outcome = alignkit("align", *text)
    assert (outcome.code, outcome.lines) == (0, DIAGONAL)


def test_scores(alignkit, text, tmp_path):
    from alignkit import Bitext, Scores, fit_ibm1

    for kind in ("alpha", "beta"):
        assert alignkit("ibm1", "-q", *text, "--scores", tmp_path / "x.npz", "--kind", kind).code == 0
        bitext = Bitext.from_sentences(
            *[[line.split() for line in side.splitlines()] for side in (SOURCE, TARGET)]
        )
        assert (Scores.load(tmp_path / "x.npz").values == fit_ibm1(bitext).score(bitext, kind).values).all()


def test_output_file_and_threads_change_nothing(alignkit, tmp_path):
    expected = alignkit("ibm1", "-q", "--sample").out
    assert len(expected.splitlines()) == 940
    for threads in (1, 2, 3, 8):
        outcome = alignkit("ibm1", "-q", "--sample", "--threads", threads, "-o", tmp_path / "links")
        assert (outcome.code, outcome.out) == (0, b"")
        assert (tmp_path / "links").read_bytes() == expected


def test_sample_gold(alignkit, write):
    """The held-out pairs before the training text: the usual procedure, on the embedded sample."""
    sides = [
        alignkit_data.path(f"test.{side}").read_bytes() + alignkit_data.path(f"train.{side}").read_bytes()
        for side in ("de", "en")
    ]
    links = write("links", alignkit("ibm1", "-q", write("de", sides[0]), write("en", sides[1])).out)
    outcome = alignkit("evaluate", alignkit_data.path("test.gold"), links, "--json")
    result = json.loads(outcome.out)
    assert result["aer"] < 0.2
    assert result["aer_low"] < result["aer"] < result["aer_high"]


def test_cooc(alignkit, text, tmp_path):
    assert alignkit("cooc", *text, "-o", tmp_path / "c.tsv", "--weighting", "presence").code == 0
    counts = dict(line.rsplit("\t", 1) for line in (tmp_path / "c.tsv").read_text().splitlines())
    assert counts["a\tA"] == "4"
    assert counts["b\tA"] == "2"
    assert alignkit("cooc", *text, "-o", tmp_path / "c.npz").code == 0
    assert (tmp_path / "c.npz").stat().st_size > 0


@pytest.mark.parametrize(("name", "pack"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)])
def test_compressed_and_joined_input(alignkit, write, name, pack):
    joined = "".join(f"{s} ||| {t}\n" for s, t in zip(SOURCE.splitlines(), TARGET.splitlines(), strict=True))
    assert alignkit("ibm1", "-q", write(f"j.{name}", pack(joined.encode()))).lines == DIAGONAL
    table = write("table.tsv", joined.replace(" ||| ", "\t"))
    assert alignkit("ibm1", "-q", table).lines == DIAGONAL
    assert alignkit("ibm1", "-q", "-", stdin=joined.encode()).lines == DIAGONAL


def test_line_parity_on_odd_input(alignkit, write):
    """One output line per input line, however odd the lines are."""
    odd = "a b\n\n \t \na\u2028b\u0085c\n\0 a\n a\tb \nä\u00a0ö\u3000x\na\rb\n" + "a " * 100_000 + "\nlast"
    source, target = write("s", "\ufeff" + odd), write("t", odd.replace("\n", "\r\n"))
    outcome = alignkit("ibm1", source, target)
    assert outcome.code == 0
    assert len(outcome.out.split(b"\n")) - 1 == 10
    assert outcome.lines[1] == outcome.lines[2] == ""
    assert "2 pairs with a blank side" in outcome.err


@pytest.mark.parametrize("command", ["ibm1", "align", "cooc"])
def test_bad_input(alignkit, failure, write, tmp_path, command):
    good = write("good", "a\nb\n")
    out = tmp_path / "out.npz"

    def check(*arguments, parts):
        failure(alignkit(command, *arguments, "-o", out), *parts)
        assert not out.exists()

    check(parts=["SRC"])
    check(good, tmp_path / "absent", parts=["absent", "No such file"])
    check(good, tmp_path, parts=["directory"])
    check(good, write("empty", ""), parts=["empty"])
    check(good, write("short", "a\n"), parts=["2 lines", "1"])
    check(good, write("latin", "a\nb\xe4\n".encode("latin-1")), parts=["latin", "line 2", "UTF-8"])
    check(good, write("cut.gz", gzip.compress(b"a\nb\n" * 1000)[:-9]), parts=["cut.gz", "gzip"])
    check(write("joined", "a ||| b\nc\n"), parts=["joined", "line 2"])
    check("--sample", good, good, parts=["--sample"])
    check("-", "-", parts=["standard input"])
    check(good, good, "--threads", 0, parts=["--threads"])


def test_encoding_errors_replace(alignkit, write):
    latin = write("latin", "a b\nb\xe4\n".encode("latin-1"))
    outcome = alignkit("ibm1", "-q", latin, latin, "--encoding-errors", "replace")
    assert (outcome.code, len(outcome.lines)) == (0, 2)


def test_lowercase(alignkit, write, tmp_path):
    text = write("s", "ÄÖ É\nx ÄÖ\nÉ\n"), write("t", "äö é\nX äÖ\né\n")
    assert alignkit("ibm1", "-q", "--lowercase", *text, "--model", tmp_path / "m.npz").code == 0
    from alignkit import load_aligner

    assert load_aligner(tmp_path / "m.npz").target.tokens == ("äö", "é", "x")


@pytest.mark.parametrize(
    ("data", "parts"), [("0-0 x\n", ["'x'", "line 1"]), ("0-0\n1-\n", ["'1-'", "line 2"]), ("-1-0\n", ["line 1"])]
)
def test_malformed_links(alignkit, failure, write, data, parts):
    good, bad = write("good", "0-0\n" * data.count("\n")), write("bad", data)
    failure(alignkit("evaluate", good, bad), "bad", *parts)
    failure(alignkit("evaluate", bad, good), "bad", *parts)
    failure(alignkit("symmetrize", good, bad), "bad", *parts)


def test_different_numbers_of_lines(alignkit, failure, write):
    failure(alignkit("evaluate", write("two", "0-0\n0-0\n"), write("one", "0-0\n")), "2", "1")
    failure(alignkit("symmetrize", write("two", "0-0\n0-0\n"), write("one", "0-0\n")), "2", "1")


def test_model_file_must_be_a_model(alignkit, failure, text, write, tmp_path):
    failure(alignkit("align", "--model", tmp_path / "absent", *text), "absent")
    failure(alignkit("align", "--model", text[0], *text), "s.txt")
    alignkit("ibm1", "-q", *text, "--model", tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    for cut in (10, len(whole) // 2, len(whole) - 10):
        failure(alignkit("align", "--model", write("cut", whole[:cut]), *text), "cut")


def test_unwritable_output(alignkit, failure, text, tmp_path):
    failure(alignkit("ibm1", "-q", *text, "-o", tmp_path / "absent" / "x"), "cannot write")
    failure(alignkit("ibm1", "-q", *text, "-o", tmp_path), "cannot write")


def test_names_with_newlines_stay_on_one_line(alignkit, failure, tmp_path):
    failure(alignkit("ibm1", tmp_path / "a\nb", tmp_path / "c"), "No such file")


def test_closed_pipe_is_quiet(text):
    """Like `alignkit ... | head -0`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "alignkit", "ibm1", "-q", *map(str, text)]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert result.stderr == b""
    assert result.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["ibm1", "--threshold", "0.7"], "--threshold goes only with --symmetrize product"),
        (
            ["hmm", "--symmetrize", "union", "--threshold", "0.2"],
            "--threshold goes only with --symmetrize product",
        ),
        (["ibm1", "--kind", "beta"], "--kind goes only with --scores"),
        (["hmm", "--prior-weight", "5"], "--prior-weight goes only with --prior"),
        (["align", "--prior-weight", "5"], "--prior-weight goes only with --prior"),
        (["diagonal", "--no-prior", "--alpha", "0.1"], "--alpha goes only with a prior"),
        (["diagonal", "--no-null", "--null-probability", "0.1"], "--null-probability goes only with NULL"),
        (["ibm1", "-o", "x", "--sentence-scores", "./x"], "Two outputs cannot both go to"),
        (["ibm1", "--model", "x", "--scores", "x"], "Two outputs cannot both go to"),
        (["align", "--sentence-scores", "-"], "Two outputs cannot both go to standard output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_would_do_nothing_or_harm(alignkit, failure, text, tmp_path, monkeypatch, arguments, part):
    monkeypatch.chdir(tmp_path)
    failure(alignkit(*arguments, "-q", *text), part)
    assert not (tmp_path / "x").exists()


def test_no_arguments_show_the_help(alignkit):
    outcome = alignkit()
    assert (outcome.code, outcome.out) == (2, b"")
    assert outcome.err.splitlines()[0].startswith("Usage: alignkit")
    assert "\n  ibm1 " in outcome.err
