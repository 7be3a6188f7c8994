import random

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.text import tokenization
from alignkit.text.tokenization import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    check_shared,
    encode_bitext,
    encode_lines,
    learn_words,
    reencode,
    split_words,
    tokenizer_from_state,
    train_subwords,
)

WORDS = [
    "Haus",
    "Hund",
    "Hunde",
    "geht",
    "gehen",
    "laufen",
    "läuft",
    "schnell",
    "über",
    "Straße",
    "10\u00a0km",
    "der",
]


def make_lines(seed=1, count=300):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 8))) for _ in range(count)]


@pytest.fixture(scope="module")
def subwords():
    return train_subwords(make_lines(), 60)


@pytest.fixture(scope="module")
def words():
    return learn_words(make_lines())


def test_the_special_ids_are_those_of_the_papers_code():
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)


@given(st.text(alphabet="ab \t\u00a0\u2028\r\v\u3000"))
@settings(max_examples=100, deadline=None)
def test_words_are_those_of_a_file(line):
    assert [word.encode() for word in split_words(line)] == naive.tokenize(line.encode() + b"\n")[0]


# Words.


def test_words_by_frequency_then_by_appearance():
    tokenizer = learn_words(["b a c", "c b", "d"])
    assert list(tokenizer.vocabulary) == [*SPECIALS, "b", "c", "a", "d"]
    assert list(learn_words(["b a c", "c b", "d"], minimum=2).vocabulary) == [*SPECIALS, "b", "c"]


def test_word_encoding(words):
    line = "der Hund\tgeht  zick"
    ids = words.encode(line)
    assert words.decode(ids[:3]) == "der Hund geht"
    assert ids[3] == UNK
    assert words.words(line) == [0, 1, 2, 3]
    assert words.decode([BOS, *ids[:1], EOS, PAD, PAD]) == "der"
    assert words.encode(" ") == []


def test_text_that_spells_a_special_does_not_become_one():
    tokenizer = learn_words(["<s> a <pad> </s> <unk>"] * 3)
    assert list(tokenizer.vocabulary) == [*SPECIALS, "a"]
    assert tokenizer.encode("<s> a <pad> </s> <unk>") == [UNK, 4, UNK, UNK, UNK]


# Subwords.


def test_subwords_come_back_as_text(subwords):
    for line in ("der Hund läuft schnell über der Straße", "Haus"):
        ids = subwords.encode(line)
        assert subwords.decode(ids) == line
        assert subwords.decode([BOS, *ids, EOS, PAD]) == line
        assert min(ids) > UNK
    assert subwords.encode("") == []


def test_subwords_are_what_sentencepiece_makes_of_the_line(subwords):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(subwords.model)
    for line in [*make_lines(5, 100), "  der\tHund  ", "der\u3000Hund", "unbekannte Wörter: xyz!", "", " "]:
        assert subwords.encode(line) == processor.EncodeAsIds(line), line


@pytest.mark.parametrize(
    "line",
    [
        "10\u00a0km der Hund",
        "der\u3000Hund der",
        "der\u2028Hund Haus",
        "a\u2581b der",
        "der \u200b Hund",
        "xyz Hund",
        " der  Hund ",
    ],
)
def test_subwords_know_their_word(subwords, line):
    """SentencePiece takes a no-break space for a space; here it is part of its word."""
    index, whole = subwords.words(line), split_words(line)
    ids = subwords.encode(line)
    assert len(index) == len(ids)
    assert index == sorted(index)
    for place, word in enumerate(whole):
        assert [i for i, w in zip(ids, index, strict=True) if w == place] == subwords.encode(word)


def test_pieces_are_the_word_with_its_mark(subwords):
    for word in ("laufen", "Xylo", "\u2581"):
        for _ in range(2):  # found, and remembered
            pieces = subwords.pieces(word)
            assert "".join(pieces) == "\u2581" + word.removeprefix("\u2581")
            assert pieces[0] != "\u2581" or len(pieces) == 1
    assert subwords.pieces("") == ("\u2581",)
    assert subwords.pieces("a\0b")[-1].endswith("b")


def test_words_are_repeated_as_often_as_they_occur(monkeypatch):
    """On short lines, the most frequent first; of a large text a part, but each word."""
    monkeypatch.setattr(tokenization, "train_subwords", lambda lines, *how: (list(map(str.split, lines)), *how))
    counts = {"c": 1, "b": 3, "a": 120, "d": 3}
    expected = [["a"] * 50, ["a"] * 50, ["a"] * 20, ["b"] * 3, ["d"] * 3, ["c"]]
    assert tokenization.train_word_pieces(counts, 7) == (expected, 7, "bpe")
    monkeypatch.setattr(tokenization, "MOST_WORDS", 127 / 2)
    expected = [["a"] * 50, ["a"] * 10, ["b"] * 2, ["d"] * 2, ["c"]]
    assert tokenization.train_word_pieces(counts, 7)[0] == expected


def test_control_subwords_in_text_are_text(subwords):
    assert not {PAD, BOS, EOS} & set(subwords.encode("<s> <pad> </s> Hund"))


def test_nul_does_not_end_a_line(subwords):
    assert subwords.decode(subwords.encode("der\0x Hund")).endswith("Hund")
    assert len(subwords.words("der\0x Hund")) == len(subwords.encode("der\0x Hund"))


def test_sizes_that_do_not_fit():
    with pytest.raises(AlignkitError, match="empty text"):
        train_subwords(["", " \t"], 50)
    with pytest.raises(AlignkitError, match="cannot learn 5 subwords") as caught:
        train_subwords(make_lines(), 5)
    assert "\n" not in str(caught.value)
    with pytest.raises(AlignkitError, match="cannot learn 3 subwords: there must be more"):
        train_subwords(make_lines(), 3)
    assert 4 < len(train_subwords(["a b"] * 3, 1000).vocabulary) < 20


# Both.


@pytest.mark.parametrize("kind", ["words", "subwords"])
def test_state_round_trip(kind, words, subwords):
    tokenizer = {"words": words, "subwords": subwords}[kind]
    again = tokenizer_from_state(tokenizer.state())
    line = "der Hund läuft unbekannt"
    assert again.encode(line) == tokenizer.encode(line)
    assert again.vocabulary == tokenizer.vocabulary


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"tokens": "bytes"},
        {"tokens": "words"},
        {"tokens": "words", "vocabulary": ["a", "a"]},
        {"tokens": "words", "vocabulary": 3},
        {"tokens": "subwords"},
        {"tokens": "subwords", "model": "text"},
        {"tokens": "subwords", "model": b"no model"},
    ],
    ids=str,
)
def test_damaged_state(state):
    message = "damaged tokenizer|unknown kind|must be a list of words|damaged SentencePiece model"
    with pytest.raises(AlignkitError, match=message):
        _ = tokenizer_from_state(state).vocabulary


def test_another_vocabulary():
    """Tokens that are not in it are unk, specials stay; if nearly all are, it is another tokenizer's."""
    own, other = learn_words(["a b"]), learn_words(["c b a"])
    corpus = encode_lines(other, ["a c", "x b"], bos=True)
    again = reencode(corpus, own.vocabulary)
    assert [again.words(m) for m in range(2)] == [["<s>", "a", "<unk>"], ["<s>", "<unk>", "b"]]
    assert again.vocabulary is own.vocabulary
    assert reencode(corpus, other.vocabulary) is corpus
    for known, count in ((0, 19), (2, 20), (3, 30)):
        check_shared(known, count)
    with pytest.raises(AlignkitError, match="has 1 of the 20 distinct tokens"):
        check_shared(1, 20)
    few, words = learn_words(["a"]), [f"w{i}" for i in range(19)]
    with pytest.raises(AlignkitError, match="has 1 of the 20 distinct"):
        reencode(encode_lines(learn_words(["a", *words]), ["a", *words], bos=True), few.vocabulary)
    corpus = encode_lines(learn_words(words), words, bos=True, eos=True)  # specials are no words
    assert set(reencode(corpus, few.vocabulary).tokens) == {BOS, EOS, UNK}


def test_bos_and_eos_are_there_exactly_if_asked_for(words):
    lines = ["der Hund", ""]
    plain = [words.encode(line) for line in lines]
    for bos in (False, True):
        for eos in (False, True):
            corpus = encode_lines(words, lines, bos=bos, eos=eos)
            expected = [[BOS] * bos + ids + [EOS] * eos for ids in plain]
            assert [sentence.tolist() for sentence in corpus] == expected
            assert corpus.vocabulary is words.vocabulary
    assert len(encode_lines(words, [])) == 0


def test_a_bitext_for_the_network(words):
    bitext = encode_bitext(words, ["der", ""], ["Hund geht", ""])
    der, hund, geht = (words.vocabulary.id(word) for word in ("der", "Hund", "geht"))
    assert [x.tolist() for x in bitext.source] == [[BOS, der, EOS], [BOS, EOS]]
    assert [y.tolist() for y in bitext.target] == [[hund, geht, EOS], [EOS]]
    assert bitext.source.vocabulary is bitext.target.vocabulary
    assert bitext.source.tokens.dtype == np.int32
