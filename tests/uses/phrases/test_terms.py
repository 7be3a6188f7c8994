"""Terms that were planted are found first."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.classical.lexicon import LinkedWords
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext
from alignkit.uses.phrases.extraction import PhraseText
from alignkit.uses.phrases.tables import find_terms, log_likelihood_ratios

TERMS = {"red tape": "Büro kratie", "hot dog stand": 'Wurst " bude', "fire truck": "Feuerwehrauto"}


def planted_text(probability=None):
    """Words that translate one to one in any order, "the" everywhere, and in every third pair one of the terms."""
    draw = np.random.default_rng(5)
    source, target, links = [], [], []
    for m in range(300):
        numbers = draw.integers(0, 200, 6)
        s, t = ([], []) if m % 3 else (each.split() for each in list(TERMS.items())[m % 9 // 3])
        source.append([*(f"w{n}" for n in numbers), "the", *s, "."])
        target.append([*(f"v{n}" for n in numbers), "die", *t, "."])
        own = [(i, i) for i in range(7)] + [(7 + i, 7 + min(i, len(t) - 1)) for i in range(len(s))]
        links.append([*own, (len(source[m]) - 1, len(target[m]) - 1)])
    words = LinkedWords(Bitext.from_sentences(source, target), Links.from_lists(links))
    known = None
    if probability is not None:
        is_tape = np.isin(words.links.sentences, range(0, 300, 9)) & (words.links.pairs[:, 0] > 6)
        known = np.where(is_tape, probability, 0.9)
    return PhraseText(words, known, 5)


def test_planted_terms_are_first():
    table = find_terms(planted_text(), function_words=0.2)
    assert dict(zip(table["source"][:3], table["target"][:3], strict=True)) == TERMS
    assert sorted(table["count"][:3]) == [33, 33, 34]
    assert table["log_likelihood"].is_monotonic_decreasing
    assert table["probability"].isna().all()
    for row in table.itertuples():
        words = {*row.source.split(), *row.target.split()}
        assert not words & {"the", "die", "."}
        assert row.source in row.source_example
        assert row.target in row.target_example
        assert row.count >= 3
    first = table.set_index("source")["line"]
    assert first[list(TERMS)].tolist() == [1, 4, 7]
    assert len(find_terms(planted_text(), function_words=0.2, best=2)) == 2
    assert find_terms(planted_text(), function_words=0.2, least=40).empty


def test_words_within_are_terms_if_they_are_also_elsewhere():
    source = [["hot", "dog", "stand"], ["hot", "dog"], ["x"]] * 3
    links = [[(i, i) for i in range(len(x))] for x in source]
    words = LinkedWords(Bitext.from_sentences(source, source), Links.from_lists(links))
    table = find_terms(PhraseText(words), function_words=1)
    assert dict(zip(table["source"], table["count"], strict=True)) == {"hot dog stand": 3, "hot dog": 6}


def test_terms_of_unlikely_links_come_later():
    table = find_terms(planted_text(0.1), function_words=0.2)
    assert table["source"].iloc[0] != "red tape"
    known = table.set_index("source")["probability"]
    assert known["red tape"] < 0.2 < 0.8 < known["fire truck"] == pytest.approx(0.9)


def test_log_likelihood_ratios_are_those_of_dunning():
    """The first rows of his table, and one with a cell of 0."""
    cells = np.array([[110, 2442, 111, 29114], [29, 13, 123, 31612], [31, 23, 139, 31584], [10, 0, 3, 31764]])
    both, first, second, _ = cells.T
    ratios = log_likelihood_ratios(both, both + first, both + second, 31777)
    assert ratios.round(2).tolist() == [270.72, 263.90, 256.84, 167.23]
    assert log_likelihood_ratios(np.array([1]), np.array([900]), np.array([900]), 1800)[0] < 0
