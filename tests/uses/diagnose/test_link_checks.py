"""Each check of an alignment against loops over words, and on texts where it is known what there is to find."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.uses.diagnose.checks import (
    Check,
    LinkedText,
    length_deviations,
    linked_information,
    run_checks,
)
from alignkit.uses.diagnose.evidence import Evidence

MARKS, NUMBERS = (".", ","), ("1", "22", "a3")
WORDS = ([*MARKS, *NUMBERS, "Anna", "Bob", "x", "y"], [*NUMBERS, *MARKS, "anna", "bob", "v", "w", "z"])


def text_of(source, target, links, evidence, unanimous=None):
    bitext = Bitext.from_sentences(source, target)
    scores = Scores.from_matrices(
        [np.reshape(matrix, shape) for matrix, shape in zip(evidence, bitext.shapes, strict=False)]
    )
    votes = scores.values > 0.5 if unanimous is None else unanimous
    return LinkedText(bitext, Links.from_lists(links), Evidence(scores, votes))


def random_text(seed, pairs=80):
    """Pairs of up to twelve words, a few of them ten times as long on one side, or without any evidence."""
    rng = np.random.default_rng(seed)
    sides, links, evidence = ([], []), [], []
    for m in range(pairs):
        L = int(rng.integers(0, 9))
        T = max(L + int(rng.integers(-1, 2)), 0) if rng.random() < 0.9 else 0
        if m % 20 == 7:
            L, T = (3, 30) if m % 40 == 7 else (30, 3)
        for side, words, size in zip(sides, WORDS, (L, T), strict=True):
            side.append([str(word) for word in rng.choice(words, size)])
        links.append([(s, t) for s in range(L) for t in range(T) if rng.random() < rng.choice([0, 0.1, 0.4])])
        links[-1] = links[-1] if m % 5 else []
        evidence.append(rng.random((T, L)) ** 3 * (0.01 if m % 20 == 3 else 1))
    size = sum(matrix.size for matrix in evidence)
    return text_of(*sides, links, evidence, rng.random(size) < 0.1)


def share_of_information(text, m):
    """Of the words of a pair that are linked, by the evidence; NaN without words."""
    linked = whole = 0.0
    for axis, side in enumerate((text.bitext.source, text.bitext.target)):
        counts, matrix = Counter(side.vocabulary[k] for k in side.tokens), text.evidence.probabilities[m]
        for k, word in enumerate(side.words(m)):
            if word not in MARKS:
                information = -math.log(counts[word] / counts.total())
                alone = np.prod([1 - min(p, 0.9999) for p in np.take(matrix, k, axis=1 - axis).tolist()])
                linked, whole = linked + information * (1 - alone), whole + information
    return linked / whole if whole else math.nan


def naive_deviations(shapes):
    """How far from its usual length each target is, in standard deviations, by the median."""
    ratio = sum(T for (T, L) in shapes if L) / sum(L for (T, L) in shapes if T)
    apart = [(T - ratio * L) / math.sqrt((T + ratio * L) / 2) if T and L else math.nan for T, L in shapes]
    return np.array(apart) / max(1.4826 * np.nanmedian(np.abs(apart)), 0.25)


def naive_checks(text):
    """[(counts, of)] of the checks, in order."""
    bitext, rows, of = text.bitext, [], Counter()
    shapes, shares = bitext.shapes.tolist(), [share_of_information(text, m) for m in range(len(bitext))]
    filled = [T > 0 < L for T, L in shapes]
    deviations = naive_deviations(shapes)
    usable = [not math.isnan(share) and min(shape) >= 4 for share, shape in zip(shares, shapes, strict=True)]
    known = [share for share, one in zip(shares, usable, strict=True) if one]
    lowest = np.median(known) - 4 * max(1.4826 * np.median(np.abs(known - np.median(known))), 0.02)
    for m, matrix in enumerate(text.evidence.probabilities):
        X, Y = bitext.source.words(m), bitext.target.words(m)
        links = [tuple(link) for link in text.links[m].tolist()]
        low, high = text.evidence.probabilities.offsets[m : m + 2]
        sure = [(s, t) for t, s in np.argwhere(text.evidence.unanimous[low:high].reshape(matrix.shape)).tolist()]
        marked = [(X[s] in MARKS) != (Y[t] in MARKS) for s, t in links]
        numbers, words = [], []
        for word in {word.lower() for word in X} - {*MARKS}:
            s, t = ([k for k, other in enumerate(side) if other.lower() == word] for side in (X, Y))
            if len(s) == len(t) == 1:
                if word in NUMBERS:
                    numbers.append((s[0], t[0]) not in links)
                else:
                    words.append(all(a != s[0] and b != t[0] for a, b in links))
        degrees = [*Counter(s for s, _ in links).values(), *Counter(t for _, t in links).values()]
        wrong = [matrix[t, s] < 1 / (1 + math.e) for s, t in links]
        unlikely, poor = abs(deviations[m]) > 4, usable[m] and shares[m] < lowest
        found = [sum(wrong), len({*sure} - {*links}), sum(marked), sum(numbers), sum(words)]
        found += [sum(count >= 5 for count in degrees), filled[m] and not links, unlikely, poor]
        rows.append(found)
        among = (links, sure, links, numbers, words, degrees)
        of.update(dict(enumerate(map(len, among))))
        of.update({6: filled[m], 7: filled[m], 8: usable[m]})
    return [(np.array(rows)[:, k].tolist(), of[k]) for k in range(9)]


@pytest.mark.parametrize("seed", range(3))
def test_checks_are_what_loops_find(seed):
    text = random_text(seed)
    checks, wanted = run_checks(text), naive_checks(text)
    for check, each in zip(checks, wanted, strict=True):
        assert (check.counts.tolist(), check.of) == each, check.name
        assert 0 < sum(each[0]) < each[1], check.name
    shares = [share_of_information(text, m) for m in range(len(text.bitext))]
    np.testing.assert_allclose(linked_information(text), shares, rtol=1e-5)
    np.testing.assert_allclose(length_deviations(text.bitext), naive_deviations(text.bitext.shapes.tolist()))


def test_without_words_to_compare():
    text = text_of([["."], [], []], [["."], ["b"], []], [[(0, 0)], [], []], [[[0.5]], [], []])
    assert [check.of for check in run_checks(text)] == [1, 0, 1, 0, 0, 2, 1, 1, 0]
    assert not any(check.counts[1:].any() for check in run_checks(text))
    assert np.isnan(length_deviations(text.bitext)).tolist() == [False, True, True]


def test_lines_are_those_with_most():
    check = Check("x", np.array([0, 2, 0, 5, *[2] * 30]), 99)
    assert check.lines(2) == [4, 2]
    assert check.lines(99) == [4, 2, *range(5, 35)]


def test_the_least_deviation_of_lengths():
    same = Bitext.from_sentences([["a"] * 9] * 9 + [["a"] * 3], [["a"] * 9] * 9 + [["a"] * 4])
    ratio = 85 / 84  # nearly all are alike: a quarter is the least deviation
    wanted = (4 - 3 * ratio) / math.sqrt((4 + 3 * ratio) / 2) / 0.25
    assert length_deviations(same)[-1] == pytest.approx(wanted)
