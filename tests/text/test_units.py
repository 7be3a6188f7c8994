"""Words that stand together as one unit, against a slow obvious reference."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from alignkit.classical.hmm.spelling import is_word
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.units import (
    LEAST_COUNT,
    LEAST_DICE,
    ROUNDS,
    find_collocations,
    folded_counts,
    folded_text,
    joined,
    units_of,
)
from alignkit.text.vocabulary import Vocabulary


def slow(sentences: list[list[str]], choose) -> tuple[list[list[str]], set[str]]:
    """One round, word by word."""
    units = Counter(unit for sentence in sentences for unit in sentence)
    pairs = Counter(pair for sentence in sentences for pair in pairwise(sentence))
    chosen = {pair for pair, count in pairs.items() if choose(pair, count, units)}
    found, names = [], set()
    for sentence in sentences:
        rest, units_of_sentence = list(sentence), []
        while rest:
            both = tuple(rest[:2])
            if both in chosen:
                names.add(" ".join(both))
            units_of_sentence.append(" ".join(both) if both in chosen else rest[0])
            del rest[: 2 if both in chosen else 1]
        found.append(units_of_sentence)
    return found, names


def slow_collocations(sentences: list[list[str]]) -> set[str]:
    def choose(pair, count, units):
        dice = 2 * count / (units[pair[0]] + units[pair[1]])
        return "," not in pair and count >= LEAST_COUNT and dice >= LEAST_DICE

    found: set[str] = set()
    sentences = [list(sentence) for sentence in {tuple(sentence) for sentence in sentences}]
    for _ in range(ROUNDS):
        sentences, names = slow(sentences, choose)
        found |= names
    return found


def slow_joined(sentences: list[list[str]], known: set[str]) -> list[list[str]]:
    for _ in range(ROUNDS):
        sentences, _ = slow(sentences, lambda pair, count, units: " ".join(pair) in known)
    return sentences


def random_sentences(seed: int, number: int = 60) -> list[list[str]]:
    """Of words of which some follow each other as a rule, with commas and empty sentences."""
    draw = np.random.default_rng(seed)
    words = np.array([*"abcdefgh", ","])
    return [
        [word for w in draw.integers(0, 9, draw.integers(0, 6)) for word in (words[w], *words[[1, 2][: w % 3]])]
        for _ in range(number)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_as_the_reference(seed):
    sentences = random_sentences(seed)
    corpus = Corpus.from_sentences(sentences)
    known = find_collocations(corpus, is_word)
    assert set(known) == slow_collocations(sentences)
    assert len(known) > 5
    assert any(name.count(" ") > 1 for name in known)
    for text in (sentences, random_sentences(seed + 8), []):
        units, widths = joined(Corpus.from_sentences(text), known)
        assert [units.words(m) for m in range(len(units))] == slow_joined(text, set(known))
        assert widths.tolist() == [1 + units.vocabulary[unit].count(" ") for unit in units.tokens]


@pytest.mark.parametrize(
    "split", [list, str.split, lambda word: [word[:1].lower()]], ids=["letters", "words", "one"]
)
def test_units_of_a_text_are_those_of_its_words(split):
    corpus = Corpus.from_sentences(
        [["ab", "Ba"], [], ["c", "ab", "cab"]], Vocabulary.from_tokens(["x", "Ba", "ab", "c", "cab"])
    )
    units, sizes = units_of(corpus, split)
    assert sizes.tolist() == [len(split(word)) for m in range(3) for word in corpus.words(m)]
    expected = [[unit for word in corpus.words(m) for unit in split(word)] for m in range(3)]
    assert [units.words(m) for m in range(3)] == expected
    assert [*units.vocabulary] == [*dict.fromkeys(unit for word in corpus.vocabulary for unit in split(word))]


def test_lower_case():
    source, target = [["Das", "das", "Ä"], [], ["DAS"]], [["the"], ["a"], ["the", "a"]]
    bitext = Bitext.from_sentences(source, target)
    found = folded_text(bitext)
    assert [found.source.words(m) for m in range(3)] == [["das", "das", "ä"], [], ["das"]]
    assert [*found.source.vocabulary] == ["das", "ä"]
    assert found.target is bitext.target
    assert folded_counts(bitext.source) == {"das": 3, "ä": 1}
    assert folded_counts(bitext.source.block(0, 1)) == {"das": 2, "ä": 1}
    assert "das" not in folded_counts(bitext.source.block(1, 2))
