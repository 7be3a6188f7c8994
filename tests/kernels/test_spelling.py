"""Edits of letters against an enumeration of all sequences of edits."""

import numpy as np
import pytest

from alignkit.kernels.spelling import LONGEST_WORD, Edits, Letters, SpelledWords, expected_edits, log_ratios

ALPHABET = 4


def sequences(x, y):
    """All sequences of edits that turn one word into the other."""
    if not x and not y:
        yield []
    if x and y:
        yield from ([("substituted", (x[0], y[0])), *rest] for rest in sequences(x[1:], y[1:]))
    if x:
        yield from ([("deleted", x[0]), *rest] for rest in sequences(x[1:], y))
    if y:
        yield from ([("inserted", y[0]), *rest] for rest in sequences(x, y[1:]))


def product(edits, sequence):
    return float(np.prod([getattr(edits, kind)[letters] for kind, letters in sequence]))


def letters(words):
    return Letters(
        np.array([letter for word in words for letter in word], np.int32),
        np.cumsum([0, *map(len, words)]).astype(np.int64),
    )


@pytest.fixture
def case():
    draw = np.random.default_rng(3)
    words = [[list(map(int, draw.integers(0, ALPHABET, n))) for n in (3, 1, 4)] for _ in range(2)]
    edits = Edits(draw.random((ALPHABET, ALPHABET)) / 20, draw.random(ALPHABET) / 9, draw.random(ALPHABET) / 9)
    chances = draw.dirichlet(np.ones(ALPHABET), 2)
    pairs = np.array([[0, 0], [2, 1], [1, 2], [2, 2]])
    return words, edits, chances, pairs


def enumerated(words, edits, chances, pair):
    """The probability of a pair as a transliteration, and as independent words; its sequences of edits."""
    x, y = words[0][pair[0]], words[1][pair[1]]
    found = list(sequences(x, y))
    independent = np.prod([chances[0][a] for a in x]) * np.prod([chances[1][b] for b in y])
    return sum(product(edits, each) for each in found), independent, found


def test_log_ratios_sum_over_all_sequences(case):
    words, edits, chances, pairs = case
    found = np.full(len(pairs), np.nan)
    table = np.full((LONGEST_WORD + 1,) * 2, np.nan)
    log_ratios(1, 4, pairs, SpelledWords(*map(letters, words), chances), edits, table, found)
    assert np.isnan(found[0])
    for k in (1, 2, 3):
        likelihood, independent, _ = enumerated(words, edits, chances, pairs[k])
        assert found[k] == pytest.approx(np.log(likelihood / independent))


def test_expected_edits_are_weighted_by_their_posterior(case):
    words, edits, chances, pairs = case
    share = 0.4
    wanted, transliterations = Edits(*map(np.zeros_like, edits)), 0.0
    for pair in pairs:
        likelihood, independent, found = enumerated(words, edits, chances, pair)
        posterior = share * likelihood / (share * likelihood + (1 - share) * independent)
        transliterations += posterior
        for sequence in found:
            for kind, place in sequence:
                getattr(wanted, kind)[place] += posterior * product(edits, sequence) / likelihood
    counts = Edits(*map(np.zeros_like, edits))
    tables = np.full((2, LONGEST_WORD + 1, LONGEST_WORD + 1), np.nan)
    total = expected_edits(pairs, SpelledWords(*map(letters, words), chances), share, edits, tables, counts)
    assert total == pytest.approx(transliterations)
    for count, each in zip(counts, wanted, strict=True):
        assert count == pytest.approx(each)


def test_the_longest_words_do_not_underflow():
    words = [[0, 1, 2, 3] * (LONGEST_WORD // 4)]
    edits = Edits(np.full((ALPHABET, ALPHABET), 1e-4), np.full(ALPHABET, 1e-4), np.full(ALPHABET, 1e-4))
    found, table = np.empty(1), np.empty((LONGEST_WORD + 1,) * 2)
    chances = np.full((2, ALPHABET), 1e-4)
    log_ratios(
        0, 1, np.array([[0, 0]]), SpelledWords(letters(words), letters(words), chances), edits, table, found
    )
    assert np.isfinite(found[0])
