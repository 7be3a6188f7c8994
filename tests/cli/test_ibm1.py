"""alignkit ibm1."""

from __future__ import annotations

from .conftest import DIAGONAL, SOURCE, TARGET


def test_ibm1(alignkit, text, tmp_path):
    outcome = alignkit("ibm1", *text, "--iterations", 10)
    assert (outcome.code, outcome.lines) == (0, DIAGONAL)
    assert len(outcome.err.splitlines()) == 2  # a warning and what was done; a bar is for terminals
    assert alignkit("ibm1", *text, "--trace", tmp_path / "t").code == 0
    likelihoods = [float(line.split("\t")[3]) for line in (tmp_path / "t").read_text().splitlines()[1:]]
    assert len(likelihoods) > 3
    assert likelihoods == sorted(set(likelihoods))


def test_reverse_prints_source_first(alignkit, write):
    # Two target words for one source word: forwards both link to it, backwards only one of them can.
    pair = write("s", "x y\nx\ny\n"), write("t", "X Y Z\nX\nY Z\n")
    forward, reverse = (alignkit("ibm1", "-q", "--no-null", *pair, *extra) for extra in ([], ["--reverse"]))
    assert forward.lines[0] == "0-0 1-1 1-2"
    assert all(link.split("-")[0] in "01" for link in reverse.lines[0].split())
    assert len(reverse.lines[0].split()) == 2


def test_ibm1_by_product(alignkit, tmp_path):
    model, counts = tmp_path / "m.npz", []
    default = alignkit("ibm1", "-q", "--sample", "--symmetrize", "product", "--save-model", model)
    for threshold in (0, 0.2, 0.9, 1):
        outcome = alignkit("align", "-q", "--sample", "--model", model, "--threshold", threshold)
        assert (outcome.code, len(outcome.lines)) == (0, 1040)
        counts.append(len(outcome.out.split()))
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 4
    assert len(default.out.split()) == counts[1]


def test_ibm1_formats(alignkit):
    """Forward, reverse and both: the same writer as align's."""
    for options in [], ["--reverse"], ["--symmetrize", "grow-diag-final-and"]:
        plain = alignkit("ibm1", "-q", "--sample", *options)
        probable = alignkit("ibm1", "-q", "--sample", *options, "--format", "probabilities")
        assert [[item.split(":")[0] for item in line.split()] for line in probable.lines] == [
            line.split() for line in plain.lines
        ]
        values = [float(item.split(":")[1]) for line in probable.lines for item in line.split()]
        assert 0.3 < sum(values) / len(values) < 1
        giza = alignkit("ibm1", "-q", "--sample", *options, "--format", "giza").lines
        assert len(giza) == 3 * 1040
        assert giza[0].startswith("# Sentence pair (1) source length")


def test_symmetrize_excludes_reverse(alignkit, failure, text):
    failure(alignkit("ibm1", *text, "--symmetrize", "union", "--reverse"), "symmetrization", "reverse")


def test_scores(alignkit, text, tmp_path):
    from alignkit import Bitext, Scores, fit_ibm1

    assert alignkit("ibm1", "-q", *text, "--save-scores", tmp_path / "x.npz").code == 0
    bitext = Bitext.from_sentences(*[[line.split() for line in side.splitlines()] for side in (SOURCE, TARGET)])
    assert (Scores.load(tmp_path / "x.npz").values == fit_ibm1(bitext).score(bitext, "alpha").values).all()


def test_output_file_and_threads_change_nothing(alignkit, tmp_path):
    expected = alignkit("ibm1", "-q", "--sample").out
    assert len(expected.splitlines()) == 1040
    for threads in (1, 2, 3, 8):
        outcome = alignkit("ibm1", "-q", "--sample", "--threads", threads, "-o", tmp_path / "links")
        assert (outcome.code, outcome.out) == (0, b"")
        assert (tmp_path / "links").read_bytes() == expected
