"""Errors by class against a naive count, link by link."""

from __future__ import annotations

import math
import unicodedata

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import FERTILITIES, WordFacts, error_table, occurrences
from alignkit.text.bitext import Bitext, Corpus

DASH = "\N{EN DASH}"


def make(seed, pairs=30):
    """Random text of rare and frequent words and marks, random sure, possible and proposed links."""
    draw = np.random.default_rng(seed)
    types = [*(f"w{i}" for i in range(40)), ",", ".", "«»"]
    weights = 1 / np.arange(1, len(types) + 1)
    sides, links = ([], []), ([], [], [])
    for _ in range(pairs):
        sizes = draw.integers(1, 24, 2)
        for side, size in zip(sides, sizes, strict=True):
            side.append([str(w) for w in draw.choice(types, size, p=weights / weights.sum())])
        grid = [(s, t) for s in range(sizes[0]) for t in range(sizes[1])]
        chosen = [[grid[i] for i in np.flatnonzero(draw.random(len(grid)) < share)] for share in (0.1, 0.05, 0.12)]
        for found, kind in zip(links, (chosen[0], chosen[0] + chosen[1], chosen[2] + chosen[0][::2]), strict=True):
            found.append(sorted(set(kind)))
    return sides, links


def band(value, ends):
    """The name of the band of a number, by trying all."""
    low = 0
    for end in ends:
        if low <= value <= end:
            return str(low) if low == end else f"{low:,}{DASH}{end:,}"
        low = end + 1
    return f"{low:,}+"


def is_mark(word):
    return all(unicodedata.category(c)[0] in "PS" for c in word)


def naive_classes(m, s, t, sides, sure, counts):
    """partition -> the class of one link."""
    x, y = sides[0][m], sides[1][m]
    of_s, of_t = sum(link[0] == s for link in sure[m]), sum(link[1] == t for link in sure[m])
    if of_s == 0 or of_t == 0:
        kind = "word without sure link"
    else:
        kind = ("one" if of_t == 1 else "many") + "-to-" + ("one" if of_s == 1 else "many")
    marks = is_mark(x[s]) + is_mark(y[t])
    rarer = min(counts[0].get(x[s], 0), counts[1].get(y[t], 0))
    length = max(len(x), len(y))
    return {
        "frequency of the rarer word": band(rarer, (0, 1, 5, 20, 100, 1000)),
        "gold links of the two words": kind,
        "punctuation": ["two words", "word and punctuation", "two punctuation marks"][marks],
        "words on the longer side": band(length, (5, 10, 15, 20, 30, 50)).replace(f"0{DASH}5", f"1{DASH}5"),
    }


def count_words(side):
    counts = {}
    for sentence in side:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    return counts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("other_text", [False, True])
def test_against_a_naive_count(seed, other_text):
    sides, (sure, possible, found) = make(seed)
    learned = make(seed + 100, 5)[0] if other_text else sides
    counts = [count_words(side) for side in learned]
    facts = WordFacts.of(Bitext.from_sentences(*sides), Bitext.from_sentences(*learned))
    gold = GoldLinks(Links.from_lists(sure), Links.from_lists(possible))
    table = error_table(gold, Links.from_lists(found), facts)
    wanted = {}
    for m in range(len(sure)):
        for s, t in set(found[m]) | set(possible[m]):
            in_a, in_s, in_p = ((s, t) in group[m] for group in (found, sure, possible))
            for key in naive_classes(m, s, t, sides, sure, counts).items():
                one = wanted.setdefault(key, dict.fromkeys(("a", "s", "as", "ap"), 0))
                one["a"] += in_a
                one["s"] += in_s
                one["as"] += in_a and in_s
                one["ap"] += in_a and in_p
    rows = table.to_dict("records")
    assert {(row["by"], row["class"]) for row in rows} == set(wanted)
    fertilities = [row["class"] for row in rows if row["by"] == "gold links of the two words"]
    assert fertilities == [name for name in FERTILITIES if name in fertilities]
    for row in rows:
        one = wanted[row["by"], row["class"]]
        assert (row["links"], row["sure"]) == (one["a"], one["s"])
        assert (row["wrong"], row["missed"]) == (one["a"] - one["ap"], one["s"] - one["as"])
        shares = [(one["ap"], one["a"]), (one["as"], one["s"])]
        precision, recall = (up / down if down else math.nan for up, down in shares)
        assert row["precision"] == pytest.approx(precision, nan_ok=True)
        assert row["recall"] == pytest.approx(recall, nan_ok=True)
        aer = 1 - (one["as"] + one["ap"]) / (one["a"] + one["s"]) if one["a"] + one["s"] else math.nan
        assert row["aer"] == pytest.approx(aer, nan_ok=True)
        errors = [each["wrong"] + each["missed"] for each in rows if each["by"] == row["by"]]
        assert row["share_of_errors"] == pytest.approx((row["wrong"] + row["missed"]) / sum(errors))


def test_bands_of_probability():
    """A band begins with its lower end; a gold link that was not proposed has no probability and no recall."""
    links = Links.from_lists([[(0, 0), (1, 1), (2, 2), (3, 3)]])
    gold = Links.from_lists([[(0, 0), (1, 1), (4, 4)]])
    chances = np.array([np.float32(0.7), 1.0, 0.0, np.nan])
    table = error_table(GoldLinks(gold, gold), links, probabilities=chances)
    rows = {row["class"]: row for row in table[table["by"] == "probability"].to_dict("records")}
    assert set(rows) == {f"0.0{DASH}0.1", f"0.7{DASH}0.8", f"0.9{DASH}1.0", "not proposed"}
    assert [rows[name]["precision"] for name in rows] == [0, 1, 1, 0]
    assert (rows["not proposed"]["links"], rows["not proposed"]["missed"]) == (1, 1)
    assert all(math.isnan(row["recall"]) for row in rows.values())


def test_nothing_and_what_does_not_fit():
    assert occurrences(Corpus.from_sentences([]), Corpus.from_sentences([["a"]])).tolist() == [0]
    empty = Links.from_lists([[], []])
    assert len(error_table(GoldLinks(empty, empty), empty, probabilities=np.empty(0))) == 0
    with pytest.raises(AlignkitError, match="gold has 2 pairs, the alignment has 1"):
        error_table(GoldLinks(empty, empty), Links.from_lists([[]]))
