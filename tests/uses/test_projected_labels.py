"""Labels in columns and in JSON lines, projected onto a translation."""

from __future__ import annotations

import json

import pytest

from alignkit.errors import InputError
from alignkit.uses.projection import LinkedPair
from alignkit.uses.projection_files import parse_columns, parse_json_lines, word_spans

PAIR = LinkedPair([(0, 3, 1.0), (1, 2, 0.5), (2, 0, 0.9), (3, 1, 0.8), (4, 2, 0.6)])
LAST = LinkedPair([(0, 1, 1.0)])
TARGET = "Angela Merkel won yesterday"
TEXT = "gestern hat Angela Merkel gewonnen"


def columns(*rows, target=TARGET, pair=PAIR):
    """The labels of the target's words, and what was not placed."""
    (sentence,) = parse_columns("source", list(rows))
    text, unplaced = sentence.onto("target", target, word_spans(target), pair)
    assert text.endswith("\n\n")
    words, labels = zip(*(row.split("\t") for row in text.splitlines()[:-1]), strict=True)
    assert list(words) == target.split()
    return " ".join(labels), unplaced


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ("B-T B-V B-PER I-PER O", "B-PER I-PER B-V B-T"),
        ("O O I-PER I-PER O", "B-PER I-PER O O"),  # IOB1
        ("O O B-PER B-PER O", "B-PER B-PER O O"),
        ("S-T O B-PER E-PER O", "B-PER I-PER O B-T"),
        ("O I-X I-X I-Y I-Y", "B-X B-Y I-Y O"),  # each has a word that the other claims
        ("O O B-PER I-LOC O", "B-PER B-LOC O O"),
        ("U-T U-T B-PER L-PER O", "B-PER I-PER B-T B-T"),
        ("S-T S-T B-PER I-PER O", "B-PER I-PER B-T B-T"),
        ("I-X O I-X O O", "B-X O O B-X"),
    ],
)
def test_the_ways_to_write_spans(labels, wanted):
    rows = [f"{word}\t_\t{label}" for word, label in zip(TEXT.split(), ("O", *labels.split()[1:]), strict=True)]
    rows[0] = f"gestern\t_\t{labels.split()[0]}"
    assert columns(*rows)[0] == wanted


def test_labels_of_words_go_to_the_most_probable_link():
    rows = [
        f"{word} {label}"
        for word, label in zip(TEXT.split(), ["ADV", "AUX", "PROPN", "PROPN", "VERB"], strict=True)
    ]
    labels, unplaced = columns(*rows)
    assert labels == "PROPN PROPN VERB ADV"
    assert unplaced == [{"line": 1, "label": "AUX", "text": "hat"}]
    assert columns(*rows, pair=LinkedPair(PAIR.links, least=0.8))[0] == "PROPN PROPN O ADV"


def test_of_equally_probable_links_the_first_gives_its_label():
    """Only spaces and tabs are between columns."""
    equal = LinkedPair([(0, 0, 1.0), (1, 0, 1.0)])
    assert columns("a\u00a0b  A", "c B", target="x", pair=equal) == ("A", [{"line": 1, "label": "B", "text": "c"}])


def test_what_has_no_place():
    labels, unplaced = columns("das B-X", "Haus I-X", "da B-Y", target="a b", pair=LinkedPair([(2, 1, 1.0)]))
    assert labels == "O B-Y"
    assert unplaced == [{"line": 1, "label": "X", "text": "das Haus"}]


def test_sentences_end_with_a_blank_line():
    found = parse_columns("source", ["a O", "b O", "\t", " ", "c\tO", ""])
    assert [sentence.words for sentence in found] == [["a", "b"], [], ["c"]]
    assert [len(parse_columns("source", lines)) for lines in (["a O"], ["a O", ""], ["a O", "", ""])] == [1, 1, 2]
    assert found[1].onto("t", "x y", word_spans("x y"), LinkedPair([])) == ("x\tO\ny\tO\n\n", [])
    assert found[0].onto("t", "", word_spans(""), LinkedPair([])) == ("\n", [])


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["a O", "b"], "line 2: has 1 column, not 2 columns, as the lines before"),
        (["a", "b O"], "line 1: has 1 column, not a word and its label"),
        (["a\t\tO", "b\tO"], "line 2: has 2 columns, not 3"),
        (["a\tO", "b\t"], "line 2: has 2 columns"),
        (["a B-X", "", "b LOC"], "line 3: the label 'LOC' is neither O nor like B-X"),
    ],
)
def test_columns_that_are_wrong(rows, problem):
    with pytest.raises(InputError, match=f"^source, {problem}"):
        parse_columns("source", rows)


def from_json(record, target=TARGET, pair=PAIR):
    (sentence,) = parse_json_lines("source", [json.dumps(record)])
    text, unplaced = sentence.onto("target", target, word_spans(target), pair)
    return json.loads(text), unplaced


def test_spans_of_characters():
    spans = [{"start": 12, "end": 25, "label": "PER", "id": 7}, {"start": 14, "end": 15}, {"start": 25, "end": 25}]
    found, unplaced = from_json({"id": 1, "text": TEXT, "spans": spans})
    assert {name: found[name] for name in ("id", "text", "unplaced")} == {"id": 1, "text": TARGET, "unplaced": []}
    assert found["spans"] == [
        {"start": 0, "end": 13, "label": "PER", "id": 7, "probability": 0.85},
        {"start": 0, "end": 6, "probability": 0.9},
        {"start": 14, "end": 14, "probability": 1.0},
    ]
    assert unplaced == []


def test_spans_of_tokens():
    spans = [{"start": 2, "end": 4}, {"start": 0, "end": 5}, {"start": 5, "end": 5}]
    found, _ = from_json({"tokens": TEXT.split(), "spans": spans})
    assert found["tokens"] == TARGET.split()
    assert [(span["start"], span["end"]) for span in found["spans"]] == [(0, 2), (0, 4), (3, 3)]
    found, unplaced = from_json(
        {"text": "a\nb", "spans": [{"start": 2, "end": 3}]}, "x y", LinkedPair([(0, 1, 1.0)])
    )
    assert (found["spans"], found["unplaced"]) == ([], [{"start": 2, "end": 3}])
    assert unplaced == [{"line": 1, "start": 2, "end": 3}]


@pytest.mark.parametrize(
    ("text", "span", "target", "wanted"),
    [
        ("in (Rom),", (4, 7), "(Rome), x", (1, 5)),
        ("aa\n(Rom)", (4, 7), "((Rome))\r", (1, 7)),  # as many as in the source, and none of the other line
    ],
)
def test_marks_that_are_not_in_the_span(text, span, target, wanted):
    record = {"text": text, "tokens": ["no"], "spans": [dict(zip(("start", "end"), span, strict=True))]}
    found, _ = from_json(record, target, LinkedPair([(1, 0, 1.0)]))
    assert (found["spans"][0]["start"], found["spans"][0]["end"]) == wanted
    assert found["text"] == target.removesuffix("\r")


def test_empty_spans():
    assert from_json({"text": "a", "spans": [{"start": 1, "end": 1}]}, "x y", LAST)[0]["spans"][0]["start"] == 3
    inner = {"text": "ab c", "spans": [{"start": 1, "end": 1}]}  # in front of the word that it is in
    assert from_json(inner, "x yy", LinkedPair([(0, 1, 1.0), (1, 0, 1.0)]))[0]["spans"][0].items() >= {
        ("start", 2),
        ("end", 2),
    }
    assert from_json({"text": "\u200b", "spans": []}, "\u200b", LinkedPair([]))[0]["text"] == "\u200b"
    assert word_spans("\u200b") == []
    assert from_json({"text": "", "spans": [{"start": 0, "end": 0}]}, "", LinkedPair([]))[0]["spans"] == []


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"text": "ab", "spans": [{"start": 0, "end": 3}]}, r"spans\[0\].end should be .* from 0 to 2"),
        ({"text": "ab", "spans": [{"start": 2, "end": 1}]}, r"spans\[0\].end should be .* from 2 to 2"),
        ({"tokens": ["ab"], "spans": [{"start": 0, "end": 2}]}, r"spans\[0\].end should be .* from 0 to 1"),
        ({"spans": []}, "text is missing"),
        ({"text": "a"}, "spans is missing"),
        ({"text": "a", "spans": ["a"]}, r"spans\[0\] should be values by name"),
        ([1], "its content should be values by name"),
    ],
)
def test_records_that_are_wrong(record, problem):
    with pytest.raises(InputError, match=rf"^source, line 2: damaged: {problem}"):
        parse_json_lines("source", ['{"text": "", "spans": []}', json.dumps(record)])
