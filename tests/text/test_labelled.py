"""Reading labelled text: three forms, one meaning; every error names its file and line."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from alignkit.errors import AlignkitError, InputError
from alignkit.text.labelled import (
    LabelledLines,
    LabelledText,
    hold_out,
    read_labelled,
    read_training_texts,
    two_labels,
)
from alignkit.text.tokenization import UNK, learn_words

ROWS = [("pos", "a fine, fine film"), ("neg", 'they said "no"'), ("pos", ""), ("neg", "two words")]


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_three_forms_give_the_same(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.tsv", "".join(f"{label}\t{text}\n" for label, text in ROWS))
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerows([("id", "review", "mood"), *((i, text, label) for i, (label, text) in enumerate(ROWS))])
    for i, (label, text) in enumerate(ROWS):
        write(tmp_path / "folder" / label / f"{i}.txt", (text or " ") + "\n")
    write(tmp_path / "folder" / "README.txt", "not a text")
    plain = read_labelled(lines)
    assert list(zip(plain.labels, plain.texts, strict=True)) == ROWS
    columns = {"columns": ("mood", "review")}
    from_table = read_labelled(write(tmp_path / "a.csv", table.getvalue()), **columns)
    assert (from_table.labels, from_table.texts) == (plain.labels, plain.texts)
    with_tabs = "\n".join(["mood\treview", *("\t".join(row) for row in ROWS if '"' not in row[1])])
    assert read_labelled(write(tmp_path / "b.tsv", with_tabs), **columns).texts == [ROWS[i][1] for i in (0, 2, 3)]
    folder = read_labelled(tmp_path / "folder")  # labels and files in order of their names
    in_order = zip(folder.labels, map(str.strip, folder.texts), strict=True)
    assert list(in_order) == [ROWS[i] for i in (1, 3, 0, 2)]
    packed = write(tmp_path / "a.tsv.gz", gzip.compress(lines.read_bytes()))
    assert read_labelled(packed) == plain


def test_what_a_line_may_hold(tmp_path: Path) -> None:
    data = "\ufeffA\tA\tb\u2028c\r\n\n \n 0 \tÜber\n"
    path = write(tmp_path / "x", data)
    assert read_labelled(path) == LabelledLines(["A\tb\u2028c", "Über"], ["A", "0"])
    assert read_labelled(path, lowercase=True) == LabelledLines(["a\tb\u2028c", "über"], ["A", "0"])
    table = 'l,t\n1,"two\n\nlines"\n\n0,x\n'
    columns = {"columns": ("l", "t")}
    assert read_labelled(write(tmp_path / "t", table), **columns).texts == ["two lines", "x"]
    assert read_labelled(write(tmp_path / "y", b"1\t\xff"), encoding_errors="replace").texts == ["\ufffd"]


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        ("1\ta\n2 b\n", None, "line 2: has no tab"),
        ("1\ta\n\tb\n", None, "line 2: has an empty label"),
        (b"1\ta\n1\t\xff\n", None, "line 2: is not valid UTF-8"),
        ("\n \n", None, "has no texts"),
        ("", None, "is empty"),
        ("a,b\n1,x\n", ("a", "c"), "line 1: has no column 'c'; its columns are a, b"),
        ("a,a\n1,x\n", ("a", "b"), "two columns named 'a'"),
        ('a,b\n1,"x\ny"\n2\n', ("a", "b"), "line 4: has 1 column, too few"),
        ('a,b\n1,x\n2,"y\nz\n', ("a", "b"), "line 3: is not a table"),
        ('a,"b\n', ("a", "b"), "line 1: is not a table"),
        ("a,b,c\n1,x\n", ("a", "c"), "line 2: has 2 columns, too few"),
        ("a,b\n1,x\n ,y\n", ("a", "b"), "line 3: has an empty label"),
        ("a,b\n", ("a", "b"), "has no texts"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, data: str | bytes, columns: tuple[str, str] | None, message: str
) -> None:
    path = write(tmp_path / "bad.tsv", data)
    with pytest.raises(InputError) as error:
        read_labelled(path, columns=columns)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_folder_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, which has no columns"):
        read_labelled(tmp_path, columns=("l", "t"))
    with pytest.raises(InputError, match="no subfolders"):
        read_labelled(tmp_path)
    place = write(tmp_path / "pos" / "1.txt", b"fine\nbad \xff")
    with pytest.raises(InputError, match=r"1\.txt, line 2: is not valid UTF-8"):
        read_labelled(tmp_path)
    place.write_bytes(b"")
    with pytest.raises(InputError, match=r"1\.txt: is empty"):
        read_labelled(tmp_path)
    with pytest.raises(InputError, match=r"none\.tsv: cannot be read"):
        read_labelled(tmp_path / "none.tsv")


def test_two_labels() -> None:
    news = LabelledLines(["a", "b", "c", "d"], ["World", "Sports", "Business", "World"])
    kept, names = two_labels(news, ["World", "Business"])
    assert names == ("World", "Business")
    assert kept == LabelledLines(["a", "c", "d"], ["World", "Business", "World"])
    assert two_labels(kept)[1] == ("Business", "World")
    with pytest.raises(AlignkitError, match=r"has 3 \(Business, Sports, World\); keep two of them with --labels"):
        two_labels(news)
    with pytest.raises(AlignkitError, match="all texts have x"):
        two_labels(LabelledLines(["a"], ["x"]))
    with pytest.raises(AlignkitError, match="no text has the label 'Weather'; there are Business"):
        two_labels(news, ["World", "Weather"])
    for wanted in (["World"], ["World", "World"]):
        with pytest.raises(AlignkitError, match="two different labels"):
            two_labels(news, wanted)


def test_encoding_and_back() -> None:
    lines = LabelledLines(["a b a", "", "a c"], ["y", "n", "y"])
    tokenizer = learn_words(lines.texts, minimum=2)
    text = lines.encode(tokenizer, ("n", "y"))
    a = tokenizer.vocabulary.id("a")
    assert text.corpus.tokens.tolist() == [a, UNK, a, a, UNK]
    assert text.labels.tolist() == [1, 0, 1]
    assert text.bitext.shapes.tolist() == [[1, 3], [1, 0], [1, 2]]
    again = LabelledText.from_bitext(text.bitext)
    assert again.names == text.names
    assert np.array_equal(again.labels, text.labels)
    with pytest.raises(AlignkitError, match="label 'y' is none of n, x"):
        lines.encode(tokenizer, ("n", "x"))
    with pytest.raises(AlignkitError, match="one label"):
        LabelledText.from_bitext(text.bitext.reversed)


def test_marked_words_are_taken_out() -> None:
    lines = LabelledLines(["a b a c", "b", "", "c a"], ["n", "y", "y", "n"])
    text = lines.encode(learn_words(lines.texts), ("n", "y"))
    wanted = text.corpus.vocabulary.id("a")
    less = text.without_words([words == wanted for words in text.corpus])
    assert [less.corpus.words(m) for m in range(4)] == [["b", "c"], ["b"], [], ["c"]]
    assert less.labels.tolist() == [0, 1, 1, 0]
    assert (less.names, less.corpus.vocabulary) == (text.names, text.corpus.vocabulary)
    none = LabelledText.from_bitext(text.bitext.block(0, 0))
    assert len(none.without_words([])) == 0


def test_words_and_held_out() -> None:
    text = LabelledLines([f"t{i}, it's" for i in range(48)], ["a"] * 24 + ["b"] * 24)
    assert text.split_punctuation().texts[3].split() == ["t3", ",", "it", "'", "s"]
    assert text.cut(1).texts[3] == "t3,"
    train, held = hold_out(text)
    assert (len(train), len(held)) == (44, 4)  # one in ten
    assert [len(hold_out(text, 3)[1]), len(hold_out(text.take(range(5)))[1])] == [3, 1]
    assert len(hold_out(LabelledLines(["t"] * 10_010, ["a"] * 10_010))[1]) == 1000
    for part in (train, held):
        assert part == text.take(sorted(map(text.texts.index, part.texts)))  # in their order
    assert sorted([*train.texts, *held.texts]) == sorted(text.texts)
    assert set(held.labels) == {"a", "b"}  # a file sorted by label does not hold out one label only
    assert hold_out(text) == (train, held)


def test_training_texts_and_validation_texts_are_read_alike(tmp_path: Path) -> None:
    rows = [f"L,T\n{label},It's {i}\n" for i, label in enumerate("xyz")]
    data = write(tmp_path / "data", rows[0] + "".join(row[4:] for row in rows[1:]) * 10)
    valid = write(tmp_path / "valid", "L,T\nz,A!\ny,B\nx,C\n")
    how = {"columns": ("L", "T"), "lowercase": True, "split_punctuation": True}
    text, held, names = read_training_texts(data, valid, ["z", "x"], **how)
    assert text == LabelledLines(["it ' s 0", *["it ' s 2"] * 10], ["x", *["z"] * 10])
    assert (held, names) == (LabelledLines(["a ! ", "c"], ["z", "x"]), ("z", "x"))
    text, held, _ = read_training_texts(data, None, ["y", "z"], columns=("L", "T"))
    assert (len(text), len(held), text.texts[0][:4]) == (18, 2, "It's")


def test_labels_of_validation_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data, other = write(tmp_path / "data", "no\ta\nyes\tb\n" * 30), write(tmp_path / "other", "yes\ta\nmaybe\tb\n")
    with pytest.raises(InputError, match="other: no training text has the label 'maybe'; they have no, yes; keep"):
        read_training_texts(data, other)
    read_training_texts(data, data)
    assert not caplog.records
    read_training_texts(data, write(tmp_path / "one", "yes\ta\nyes\tb\n"))
    read_training_texts(write(tmp_path / "few", "no\ta\n" * 50 + "yes\tb\n"), None)
    given, drawn = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert given == f"{tmp_path}/one: all have the label 'yes', so a constant answer is right; give both"
    assert drawn.startswith("held-out texts: all have the label 'no', ")
    assert drawn.endswith("; give others with --valid")


@pytest.mark.parametrize(
    "labels",
    [np.array([0, 1, 0], np.int64), np.zeros(2, np.int32), *(np.array([0, i, 0], np.int32) for i in (-1, 2))],
)
def test_impossible_labels(labels: np.ndarray) -> None:
    corpus = LabelledLines(["a", "b", ""], ["n", "y", "n"]).encode(learn_words(["a b"]), ("n", "y")).corpus
    with pytest.raises(ValueError):
        LabelledText(corpus, labels, ("n", "y"))
