"""Marks of subwords: which word each subword belongs to."""

from __future__ import annotations

import pytest

from alignkit.errors import InputError
from alignkit.text.bitext import Corpus
from alignkit.text.tokenization import check_words, corpus_groups, join_words, style_of, word_groups

#: a sentence -> its style, its words, and the subwords of each
SENTENCES = {
    "<s> ▁Don au ▁ dampf ▁. </s>": ("sentencepiece", ["Donau", "dampf", "."], [1, 2, 3, 4, 5]),
    "Ġa b Ġc@@ Ġ##d": ("sentencepiece", ["ab", "c@@", "##d"], [0, 1, 2, 3]),
    "<bos> Don@@ au @@ dam@@ pf <eos>": ("bpe", ["Donau", "@@dampf"], [1, 2, 3, 4, 5]),
    "[CLS] Don ##au dam ##pf ## . [SEP] [PAD] [PAD]": ("wordpiece", ["Donau", "dampf##", "."], [1, 2, 3, 4, 5, 6]),
    "<pad> <pad> ##a ##b c##": ("wordpiece", ["ab", "c##"], [2, 3, 4]),
    "@@ ## a": ("words", ["@@", "##", "a"], [0, 1, 2]),
    "<s> a </s> b <s>": ("words", ["a", "</s>", "b", "<s>"], [1, 2, 3, 4]),
    "<s> ▁a <unk> ▁b [UNK] ▁c": ("sentencepiece", [None, None, "c"], [1, 2, 3, 4, 5]),
    "<s> </s>": ("words", [], []),
    "</s>": ("words", [], []),
    "<s>": ("words", [], []),
    "<pad>": ("words", [], []),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_of_marked_subwords(sentence):
    (style, words, within), tokens = SENTENCES[sentence], sentence.split()
    assert style_of([[], tokens]) == style
    groups = word_groups(tokens, style)
    assert [place for place, word in enumerate(groups) if word >= 0] == within
    assert [*dict.fromkeys(groups[within])] == [*range(len(words))]
    assert join_words(tokens, groups, style) == words


def test_the_style_is_that_of_most_marks_and_of_equally_many_the_start_of_words_comes_first():
    assert style_of([["a@@"], ["##b"], ["▁c"]]) == "sentencepiece"
    assert style_of([["##b"], ["a@@"]]) == "bpe"
    assert style_of([["Ġunju"], ["a@@", "b@@", "▁▂▃", "##tag", "c@@"]]) == "bpe"
    assert style_of([["Ġorġ", "##a", "##b", "c@@", "##d"]]) == "wordpiece"
    assert style_of([["▁a", "##b", "▁c@@"]]) == "sentencepiece"


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ("Ġo@@ rġ ##a ▁▂@@ ▃", ["Ġorġ", "##a", "▁▂▃"]),
        ("Ġo ##rġ Ġun@@ ##ju ▁ ##x ##y", ["Ġorġ", "Ġun@@ju", "▁xy"]),
        ("▁Ġo rġ ▁a@@ ##b", ["Ġorġ", "a@@##b"]),
    ],
)
def test_words_that_look_marked_in_another_style_stay_as_they_are(tokens, wanted):
    style = style_of([tokens.split(), ["a@@", "b@@", "c@@"] if "o@@" in tokens else []])
    assert join_words(tokens.split(), word_groups(tokens.split(), style), style) == wanted


def test_specials_and_marks_may_be_words():
    assert word_groups(["<s>", "##a", "</s>"], "wordpiece", specials=False).tolist() == [0, 0, 1]
    corpus = Corpus.from_sentences([["<s>", "a", "##b"], ["c"]])
    assert [each.tolist() for each in corpus_groups(corpus)] == [[-1, 0, 0], [0]]
    assert [each.tolist() for each in corpus_groups(corpus, marked=False)] == [[-1, 0, 1], [0]]
    assert [each.tolist() for each in corpus_groups(corpus, specials=False)] == [[0, 1, 1], [0]]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([["a", "b"]], "has subwords of 1 sentence, the text has 2"),
        ([["a", "b"], ["c", "d"]], "x, line 2: number of words: 2 from its subwords, 1 in the text"),
        ([["a", "b"], ["d"]], "x, line 2: its subwords make the word 'd' where the text has 'c'"),
    ],
)
def test_joined_words_are_those_of_the_text(found, message):
    text = [["a", None], ["c"]]
    check_words("x", [[None, "b"], ["c"]], text)
    with pytest.raises(InputError, match=message):
        check_words("x", found, text)
