"""A string where a list is expected is an error: its letters would be taken for words or for lines."""

from __future__ import annotations

import pytest

import alignkit
from alignkit.errors import AlignkitError, check_list
from alignkit.links.links import parse_links
from alignkit.text.labelled import LabelledLines
from alignkit.text.tokenization import (
    encode_bitext,
    encode_lines,
    learn_words,
    style_of,
    train_subwords,
    word_groups,
)

TEXT = "das Haus"
WORDS = learn_words([TEXT, "the house"])


@pytest.mark.parametrize(
    "call",
    [
        lambda: alignkit.Bitext.from_sentences([TEXT], ["the house"]),
        lambda: alignkit.Bitext.from_sentences([["das", "Haus"]], ["the house"]),
        lambda: alignkit.Bitext.from_sentences([TEXT.encode()], [["the", "house"]]),
        lambda: alignkit.Corpus.from_sentences(TEXT),
        lambda: alignkit.Corpus.from_sentences(iter([TEXT])),
        lambda: alignkit.Vocabulary.from_tokens("das"),
        lambda: alignkit.Links.from_strings("0-0 1-1"),
        lambda: parse_links("x", "0-0 1-1"),
        lambda: encode_lines(WORDS, TEXT),
        lambda: encode_bitext(WORDS, TEXT, ["the house"]),
        lambda: encode_bitext(WORDS, [TEXT], "the house"),
        lambda: learn_words(TEXT),
        lambda: train_subwords(TEXT, 20),
        lambda: style_of([TEXT]),
        lambda: word_groups(TEXT, "words"),
        lambda: LabelledLines(TEXT, ["1"]),
        lambda: LabelledLines([TEXT], "1"),
        lambda: alignkit.align([TEXT], "the house"),
        lambda: alignkit.align(TEXT, ["the house"]),
        lambda: alignkit.align(TEXT, "the house"),
    ],
    ids=range(20),
)
def test_a_string_is_no_list(call):
    with pytest.raises(AlignkitError, match=r"list|give two"):
        call()


def test_the_message_quotes_the_string_and_says_what_to_do():
    with pytest.raises(AlignkitError) as caught:
        alignkit.Bitext.from_sentences([TEXT], ["the house"])
    assert str(caught.value) == (
        "the sentence at index 0 must be a list of words, not the string 'das Haus'; "
        "split it, as sentence.split() does"
    )
    with pytest.raises(AlignkitError) as caught:
        check_list("x" * 10**6, "a")
    assert len(str(caught.value)) < 100
