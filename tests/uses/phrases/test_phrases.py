"""Phrase pairs beside an enumeration of all pairs of ranges, and phrase tables read back."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from alignkit.classical.lexicon import LinkedWords
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext
from alignkit.uses.phrases.extraction import PhraseText
from alignkit.uses.phrases.tables import phrase_table

SOURCE_WORDS, TARGET_WORDS = ["a", "b", "bb", "~", "||", "ß", "c!"], ["X", "Y", "YY", "~", "{", "é"]


def random_text(seed, pairs=100):
    """Sentences of few words, so that phrases come again, with links of any shape; some sides are blank."""
    draw = np.random.default_rng(seed)
    source, target, links = [], [], []
    for _ in range(pairs):
        L, T = draw.integers(0, 11, 2)
        source.append(draw.choice(SOURCE_WORDS, L).tolist())
        target.append(draw.choice(TARGET_WORDS, T).tolist())
        number = draw.integers(0, max(L, T) + 2) if L and T else 0
        links.append({(int(draw.integers(L)), int(draw.integers(T))) for _ in range(number)})
    return source, target, links


def phrase_text(source, target, links, longest=7):
    return PhraseText(LinkedWords(Bitext.from_sentences(source, target), Links.from_lists(links)), None, longest)


def naive_phrases(x, y, links, longest):
    """Koehn's definition, word for word: (source range, target range, links inside)."""
    for s in range(len(x)):
        for s_end in range(s + 1, min(s + longest, len(x)) + 1):
            for t in range(len(y)):
                for t_end in range(t + 1, min(t + longest, len(y)) + 1):
                    inside = [(i, j) for i, j in links if s <= i < s_end and t <= j < t_end]
                    touched = [(i, j) for i, j in links if s <= i < s_end or t <= j < t_end]
                    if inside and len(inside) == len(touched):
                        yield tuple(x[s:s_end]), tuple(y[t:t_end]), frozenset((i - s, j - t) for i, j in inside)


def as_moses(inside, size):
    """Links as Moses compares them: for each target word the list of its source words."""
    return [sorted(i for i, j in inside if j == t) for t in range(size)]


def naive_table(source, target, links, longest):
    """{(source phrase, target phrase): (p(s|t), lex(s|t), p(t|s), lex(t|s), links, counts)}."""
    found = defaultdict(Counter)
    words = {side: defaultdict(Counter) for side in "st"}  # given word -> words of the side
    for x, y, own in zip(source, target, links, strict=True):
        for s, t, inside in naive_phrases(x, y, own, longest):
            found[s, t][inside] += 1
        for i, j in own:
            words["t"][x[i]][y[j]] += 1
            words["s"][y[j]][x[i]] += 1
        for i in set(range(len(x))) - {i for i, _ in own}:
            words["t"][x[i]][None] += 1
            words["s"][None][x[i]] += 1
        for j in set(range(len(y))) - {j for _, j in own}:
            words["s"][y[j]][None] += 1
            words["t"][None][y[j]] += 1

    def lexical(side, phrase, given, inside):
        value = 1.0
        for j, word in enumerate(phrase):
            own = [given[i] for i, k in inside if k == j] or [None]
            value *= np.mean([words[side][each][word] / words[side][each].total() for each in own])
        return value

    counts = [Counter(), Counter()]
    for (s, t), ways in found.items():
        counts[0][s] += ways.total()
        counts[1][t] += ways.total()
    table = {}
    for (s, t), ways in found.items():
        best = max(ways, key=lambda inside: (ways[inside], as_moses(inside, len(t))))
        n = ways.total(), counts[0][s], counts[1][t]
        turned = frozenset((j, i) for i, j in best)
        weights = lexical("s", s, t, turned), lexical("t", t, s, best)
        table[s, t] = (n[0] / n[2], weights[0], n[0] / n[1], weights[1]), best, (n[2], n[1], n[0])
    return table


def parsed(data):
    """A phrase table as a reader of Moses' sees it: fields between bars, numbers between spaces."""
    table = {}
    for line in data.decode().splitlines():
        source, target, scores, links, counts, sparse, more = line.split(" |||")
        assert (sparse, more) == ("", "")
        points = [tuple(map(int, item.split("-"))) for item in links.split()]
        assert points == sorted(points, key=lambda point: point[::-1])
        key = tuple(source.split()), tuple(target.split())
        assert key not in table
        table[key] = tuple(map(float, scores.split())), frozenset(points), tuple(map(int, counts.split()))
    return table


@pytest.mark.parametrize(("seed", "longest"), [(1, 7), (2, 8), (3, 3)])
def test_tables_are_those_of_an_enumeration(seed, longest):
    text = random_text(seed)
    data = b"".join(phrase_table(phrase_text(*text, longest)))
    found, expected = parsed(data), naive_table(*text, longest)
    assert len(found) > 300
    assert found.keys() == expected.keys()
    for pair, (scores, links, counts) in expected.items():
        assert found[pair][1:] == (links, counts), pair
        assert found[pair][0] == pytest.approx(scores, rel=1e-5), pair
    assert data.splitlines() == sorted(data.splitlines())
    for side, number in ((0, 2), (1, 0)):
        totals = Counter()
        for pair, (scores, *_) in found.items():
            totals[pair[side]] += scores[number]
        assert list(totals.values()) == pytest.approx([1] * len(totals), abs=1e-4)


def test_many_files_have_the_same_bytes_as_one(monkeypatch):
    text = phrase_text(*random_text(4))
    whole = list(phrase_table(text))
    monkeypatch.setattr("alignkit.uses.phrases.extraction.BLOCK", 50)
    parts = list(phrase_table(text, part=300))
    assert len(parts) > 5 > len(whole)
    assert b"".join(parts) == b"".join(whole)
