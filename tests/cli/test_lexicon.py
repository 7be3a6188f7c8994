"""alignkit lexicon, through real files."""

import pytest

SOURCE, TARGET = "a b c\nb a\nc a\nb c d\nd a\nd b\n", "A B C\nB A\nC A\nB C D\nD A\nD B\n"


@pytest.fixture
def models(alignkit, write, tmp_path):
    text = write("s", SOURCE), write("t", TARGET)
    for name, extra in (("f", []), ("r", ["--reverse"])):
        outcome = alignkit("ibm1", "-q", *text, "--iterations", 10, "--save-model", tmp_path / name, *extra)
        assert outcome.code == 0
    return tmp_path / "f", tmp_path / "r"


def test_tsv(alignkit, models, tmp_path):
    outcome = alignkit("lexicon", *models, "--best", 1)
    assert outcome.code == 0
    rows = [line.split("\t") for line in outcome.lines]
    assert [row[:2] for row in rows] == [["a", "A"], ["b", "B"], ["c", "C"], ["d", "D"]]
    assert all(float(row[2]) > 0.8 and float(row[3]) > 0.8 for row in rows)
    one = alignkit("lexicon", models[0], "--best", 1)
    assert [line.split("\t") for line in one.lines] == [row[:3] for row in rows]
    assert alignkit("lexicon", *models, "--best", 1, "-o", tmp_path / "x").out == b""
    assert (tmp_path / "x").read_bytes() == outcome.out


def test_moses(alignkit, models, tmp_path):
    assert alignkit("lexicon", *models, "--format", "moses", "-o", tmp_path / "lex").code == 0
    for name, model, first in (("f2e", models[0], "A a "), ("e2f", models[1], "a A ")):
        data = (tmp_path / f"lex.{name}").read_bytes()
        assert data.decode().startswith(first)
        assert b" NULL 0." in data
        assert alignkit("lexicon", model, "--format", "moses").out == data


def test_a_model_of_target_to_source_says_so(alignkit, models):
    outcome = alignkit("lexicon", models[1], "--best", 1)
    assert [line.split("\t")[:2] for line in outcome.lines] == [["A", "a"], ["B", "b"], ["C", "c"], ["D", "d"]]
    assert outcome.err == f"{models[1]}: a model of target to source (--reverse), and so is its lexicon\n"
    assert alignkit("lexicon", models[0]).err == alignkit("lexicon", "-q", models[1]).err == ""


def test_shortlist(alignkit, models):
    moses = alignkit("lexicon", models[0], "--format", "moses").lines
    short = alignkit("lexicon", models[0], "--format", "shortlist").lines
    assert short == [line for line in moses if " NULL " not in line]
    two = alignkit("lexicon", models[0], "--format", "shortlist", "--best", 2).lines
    assert len(two) == 8
    assert [line.split()[1] for line in two] == [x for x in "abcd" for _ in range(2)]


def test_a_lexicon_of_given_links(alignkit, write, tmp_path):
    given = write("s", "a b\n"), write("t", "A B\n"), write("links", "0-0 1-1\n")
    assert alignkit("lexicon", *given).lines == ["a\tA\t1\t1\t1", "b\tB\t1\t1\t1"]
    assert alignkit("lexicon", *given, "--format", "eflomal").lines[:2] == ["LEX\ta\tA\t1", "LEX\tb\tB\t1"]
    assert alignkit("lexicon", *given, "--format", "shortlist").lines == ["A a 1.0000000", "B b 1.0000000"]
    assert alignkit("lexicon", *given, "--format", "moses", "-o", tmp_path / "lex").code == 0
    assert (tmp_path / "lex.e2f").read_text() == "a A 1.0000000\nb B 1.0000000\n"


def test_errors(alignkit, models, failure, write, tmp_path):
    failure(alignkit("lexicon"), "MODEL")
    failure(alignkit("lexicon", tmp_path / "absent"), "absent")
    failure(alignkit("lexicon", write("text", "no model")), "text")
    failure(alignkit("lexicon", models[0], models[0]), "other direction")
    failure(alignkit("lexicon", models[1], models[0]), "target to source", "give it as REVERSE")
    failure(alignkit("lexicon", models[1], "--both"), "one direction only")
    failure(alignkit("lexicon", *models, "--format", "shortlist"), "one direction")
    failure(alignkit("lexicon", *models, "--format", "moses"), "-o PREFIX")
    (tmp_path / "lex.e2f").mkdir()
    given = [*models, "--format", "moses", "-o", tmp_path / "lex"]
    failure(alignkit("lexicon", *given), "lex.e2f: it is a folder")
    assert not (tmp_path / "lex.f2e").exists()
    failure(alignkit("lexicon", models[0], "--format", "eflomal"), "give SRC TGT LINKS")
    failure(alignkit("lexicon", models[0], "--best", 0), "--best")
    failure(alignkit("lexicon", models[0], "-o", tmp_path / "no" / "x"), "cannot write")


def test_both_directions_of_one_model(alignkit, models, write, tmp_path, failure):
    text = write("s", SOURCE), write("t", TARGET)
    options = ["--iterations", 10, "--symmetrize", "union", "--save-model", tmp_path / "both"]
    assert alignkit("ibm1", "-q", *text, *options).code == 0
    assert alignkit("lexicon", tmp_path / "both", "--both").out == alignkit("lexicon", *models).out
    for place, given in (("one", [tmp_path / "both", "--both"]), ("two", models)):
        assert alignkit("lexicon", *given, "--format", "moses", "-o", tmp_path / place).code == 0
    for suffix in ("f2e", "e2f"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    assert alignkit("align", "-q", *text, "--save-model", tmp_path / "joint").code == 0
    rows = [line.split("\t") for line in alignkit("lexicon", tmp_path / "joint", "--both", "--best", 1).lines]
    assert [row[:2] for row in rows] == [["a", "a"], ["b", "b"], ["c", "c"], ["d", "d"]]  # in lower case
    assert all(float(row[3]) > 0.5 for row in rows)
    failure(alignkit("lexicon", models[0], "--both"), "one direction only")
    failure(alignkit("lexicon", *models, "--both"), "one MODEL")
