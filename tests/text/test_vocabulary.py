import numpy as np
import pytest

from alignkit.text.vocabulary import UNKNOWN, ExtendedVocabulary, Vocabulary, punctuation_types

MARKS, WORDS = [",", "...", "»", "€", "«»"], ["a.", "5", "", "x"]


def test_ids_are_places_and_tokens_come_back():
    tokens = ["der", "Hund", "ä\u2028ö", "", "\0", "|||"]
    vocabulary = Vocabulary.from_tokens(tokens)
    assert list(vocabulary) == tokens
    assert [vocabulary.id(token) for token in tokens] == list(range(6))
    assert [vocabulary[i] for i in range(6)] == tokens
    assert len(vocabulary) == 6
    assert "Hund" in vocabulary
    assert "hund" not in vocabulary
    assert vocabulary.id("hund") == UNKNOWN == -1


def test_new_tokens_follow_known_ones():
    known = Vocabulary.from_tokens(["a", "ä"])
    extended = ExtendedVocabulary(known, ["漢", "b", "b"])
    assert (len(extended), extended.known) == (5, known)
    assert extended.tokens == ("a", "ä", "漢", "b", "b")
    assert (extended[3], extended.decoded(2), extended.id("ä"), extended.id("c")) == ("b", "漢", 1, -1)
    assert ExtendedVocabulary(known, []).tokens == known.tokens


def test_the_same_token_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        Vocabulary.from_tokens(["a", "b", "a"])


def test_equality_is_of_tokens_and_order():
    a = Vocabulary.from_tokens(["ab", "c"])
    assert a == Vocabulary.from_tokens(["ab", "c"])
    assert a != Vocabulary.from_tokens(["c", "ab"])
    assert a != Vocabulary.from_tokens(["a", "bc"])  # the same bytes, cut elsewhere
    assert a != ["ab", "c"]


def test_translate():
    own, other = Vocabulary.from_tokens(list("abcd")), Vocabulary.from_tokens(list("dxa"))
    assert own.translate(other).tolist() == [3, UNKNOWN, 0]
    assert own.translate(other).dtype == np.int32
    assert own.translate(Vocabulary.from_tokens(list("abcd"))).tolist() == [0, 1, 2, 3]
    assert own.translate(Vocabulary.from_tokens([])).tolist() == []


@pytest.mark.parametrize(
    "offsets",
    [[1, 3], [0, 2], [0, 4], [0, 2, 1, 3], [], [0, 2**63 - 1, -2, 3]],
    ids=["start", "short", "long", "falling", "none", "wraps"],
)
def test_wrong_offsets_are_refused(offsets):
    with pytest.raises(ValueError):
        Vocabulary(np.zeros(3, np.uint8), np.array(offsets, np.int64))


def test_wrong_types_are_refused():
    with pytest.raises(TypeError):
        Vocabulary(np.zeros(1, np.int8), np.array([0, 1], np.int64))
    with pytest.raises(TypeError):
        Vocabulary(np.zeros(1, np.uint8), np.array([0, 1], np.int32))


def test_punctuation():
    vocabulary = Vocabulary.from_tokens([*MARKS, *WORDS])
    assert punctuation_types(vocabulary).tolist() == [True] * len(MARKS) + [False] * len(WORDS)
