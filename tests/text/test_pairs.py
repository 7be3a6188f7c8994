import pandas as pd
import pytest

from alignkit import Bitext, align, fit_ibm1
from alignkit.errors import AlignkitError, InputError
from alignkit.text.bitext import Corpus
from alignkit.text.blocks import pair_batches
from alignkit.text.pairs import (
    LinePairs,
    check_has_words,
    read_bitext,
    read_line_pairs,
    read_text,
    read_training_pairs,
    sides_of,
)
from alignkit.text.raw_text import raw_example


@pytest.mark.parametrize(("count", "held", "said"), [(39, 1, "1 pair at"), (40, 2, "2 pairs at")])
def test_one_pair_in_twenty_at_the_end_is_held_out(tmp_path, caplog, count, held, said):
    (tmp_path / "text").write_text("".join(f"a{m} ||| b{m}\n" for m in range(count)))
    with caplog.at_level("INFO", "alignkit"):
        training, validation = read_training_pairs((tmp_path / "text", None), None)
    assert validation.source == [f"a{m}" for m in range(count - held, count)]
    assert len(training.source) == count - held
    assert f"no validation text: {said} the end held out as one" in caplog.text


def test_pairs_or_a_frame_have_both_sides():
    frame = pd.DataFrame({"x": ["a b", "d"], "y": ["c", "e"]})
    for given in ([("a b", "c"), ("d", "e")], frame, frame.set_axis(["src", "tgt"], axis=1)[["tgt", "src"]]):
        assert [list(side) for side in sides_of(given)] == [["a b", "d"], ["c", "e"]]
    assert sides_of([("a", ["c"])]) == (("a",), (["c"],))
    for wrong in ([], [("a b", "c", "d")], [("a b", "c"), ["d", "e"]], [["a b", "c"]], {("a b", "c"): 1}, "ab", 5):
        with pytest.raises(AlignkitError, match="give two files"):
            sides_of(wrong)
    with pytest.raises(AlignkitError, match="two single words"):
        sides_of([("a", "b"), ("c", None)])
    for columns in ("xx", "xxy", "x"):
        with pytest.raises(AlignkitError, match=f"two columns, source and target, not {len(columns)}"):
            sides_of(pd.DataFrame([["a b"] * len(columns)], columns=[*columns]))


def test_texts_that_do_not_fit():
    with pytest.raises(AlignkitError, match="there are 1 source and 2 target sentences"):
        read_text(["a"], ["b", "c"])
    with pytest.raises(AlignkitError, match="no pair with words on both sides to learn from"):
        check_has_words(LinePairs(["a", " ", ""], ["\u200b", "b", ""]), "learn from")
    check_has_words(LinePairs(["", "a"], ["b", "c"]), "learn from")


LINES = ["das Haus", "ein\u2028Haus ", "", "das\u3000Buch", "\u200b", "Haus\x85 ja"]


def test_open_files_have_the_words_and_links_of_their_paths(tmp_path):
    paths = tmp_path / "src", tmp_path / "tgt"
    for end in ("\n", "\r\n"):
        for path, mark in zip(paths, ("\ufeff", ""), strict=True):
            path.write_bytes((mark + "".join(line + end for line in LINES)).encode())
        wanted = align(*paths, method="ibm1")
        assert wanted.bitext.source.words(0) == ["das", "Haus"]

        def opened(path, **how):
            with open(path, encoding="utf-8", **how) as file:
                return list(file)

        ways = [
            [path.open(encoding="utf-8") for path in paths],
            [path.open("rb") for path in paths],
            [path.open(encoding="utf-8", newline="") for path in paths],
            [opened(path) for path in paths],
            [path.read_text(encoding="utf-8").split("\n")[:-1] for path in paths],
            [path.read_bytes().decode().split("\n")[:-1] for path in paths],
            [path.read_bytes().splitlines() for path in paths],
        ]
        for way in ways:
            found = align(*way, method="ibm1")
            assert found.bitext == wanted.bitext
            assert found.links == wanted.links
            assert fit_ibm1(wanted.bitext).align_batch(LINES, LINES) == wanted.links.to_strings()
        for file in (*ways[0], *ways[1], *ways[2]):
            file.close()


def test_line_ends_are_spaces_and_byte_order_marks_are_no_letters():
    given = ["das\nHaus", "ein\r\nHaus\r\n", "\ufeffHaus\r", "das\rHaus", "\n"]
    words = [["das", "Haus"], ["ein", "Haus"], ["Haus"], ["das", "Haus"], []]
    assert read_text(given, given) == Bitext.from_sentences(words, words)
    assert read_text([*given, []], [*given, []]) == Bitext.from_sentences([*words, []], [*words, []])


@pytest.mark.parametrize("word", ["Haus\n", "Haus\r\n", "Haus\r", "das\nHaus", ""])
def test_a_word_has_no_line_end(word):
    rows, wrong = [["das"], ["das", word]], "the sentence at index 1 has .* as a word; .* as sentence.split()"
    for call in (
        lambda: Bitext.from_sentences(rows, rows),
        lambda: read_text([["a"], ["b"]], rows),
        lambda: fit_ibm1(Bitext.from_sentences([["a"]], [["b"]])).align_batch(rows, rows),
    ):
        with pytest.raises(AlignkitError, match=wrong):
            call()


def test_an_open_file_without_lines_is_an_error(tmp_path):
    path = tmp_path / "text"
    path.write_text("a\n")
    with path.open() as file:
        file.read()
        with pytest.raises(InputError, match="text: has no lines: it is empty, or was read before"):
            read_text(file, file)
    assert len(read_text([], [])) == 0


TOKENIZED = ["this is a house .", "\u6211 \u559c\u6b22 \u5403 \u82f9\u679c \u3002"] * 6


def test_raw_text_gets_one_warning_with_the_remedy(tmp_path, caplog):
    lines = ["This is a house."] * 10
    (tmp_path / "raw").write_text("\n".join(lines))
    (tmp_path / "fine").write_text("a house .\n" * 10)
    stream = b"".join(f"a house .\t{line}\n".encode() for line in lines)
    for call in (
        lambda: read_bitext(tmp_path / "raw", tmp_path / "fine"),
        lambda: align(tmp_path / "raw", tmp_path / "raw", method="ibm1"),
        lambda: read_text(["a"] * 10, lines),
        lambda: list(pair_batches("-", [stream] * 2)),
    ):
        caplog.clear()
        call()
        assert [record.levelname for record in caplog.records if "raw" in record.message] == ["WARNING"]
        for said in ('such as "house."', "--tokenize", "tokenize=True"):
            assert said in caplog.text
    caplog.clear()
    assert list(read_line_pairs(lines, lines).source) == lines  # for models of subwords
    assert not caplog.records


HAN, THAI = "\u6211", "\u0e01"  # a character of Chinese says as much as two letters of Thai


@pytest.mark.parametrize(
    ("lines", "example"),
    [
        (["a b."] * 6 + ["c d", ""] * 4, "b."),
        (["a b."] * 5 + ["c d"] * 5, None),
        (["a b."] * 9 + [""], None),
        (["a , b."] + ["a b.\u201d"] * 7 + ["c d"] * 2, "b."),
        (["a , b."] * 2 + ["a b."] * 6 + ["c d"] * 2, None),
        (["3."] * 10, None),
        (["c d"] * 99 + ["a b."] * 101, "b."),
        (["c d"] * 100 + ["a b."] * 200, None),
        ([HAN * 8], HAN * 8),
        ([HAN * 7], None),
        ([THAI * 16, THAI * 17], THAI * 16),
        ([THAI * 15], None),
        ([f"{HAN * 8} {'a' * 7}"], HAN * 8),
        ([f"{HAN * 8} {'a' * 8}"], None),
        ([HAN * 8] * 2 + [HAN] * 15, HAN * 8),
        ([HAN * 8] * 2 + [HAN] * 16, None),
        ([HAN * 8, HAN * 9, HAN * 10], HAN * 8),
    ],
)
def test_what_shows_that_a_text_is_raw(lines, example):
    assert raw_example(Corpus.from_sentences([line.split() for line in lines])) == example


def test_tokenized_text_gets_no_warning(caplog):
    read_text(TOKENIZED, TOKENIZED)
    read_text(["This is a house."] * 10, ["a"] * 10, tokenize=True)
    assert "raw" not in caplog.text
