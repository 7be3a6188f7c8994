"""Phrase tables and terms beside an enumeration of all pairs of ranges."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import numpy as np
import pytest

from alignkit.classical.lexicon import LinkedWords
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary
from alignkit.uses.phrases.extraction import PHRASE_PAIR, PhraseSide, PhraseText, count_phrases
from alignkit.uses.phrases.tables import find_terms, log_likelihood_ratios, phrase_table

SOURCE_WORDS = ["a", "b", "bb", "~", "||", "ß", "c!", "d|||", "e\x0b"]
TARGET_WORDS = ["X", "Y", "YY", "~", "{", "é", "|||", "Z z"]


def random_text(seed):
    """Sentences of few words, so that phrases come again, with links of any shape and their probabilities; some
    sides are blank, and words at the end of the list are rare."""
    draw = np.random.default_rng(seed)
    sides, links = ([], []), []
    for _ in range(100):
        sizes = draw.integers(0, 11, 2)
        for side, own, size in zip(sides, (SOURCE_WORDS, TARGET_WORDS), sizes, strict=True):
            side.append([own[int(len(own) * place)] for place in draw.random(size) ** 2])
        number = draw.integers(0, max(sizes) + 2) if all(sizes) else 0
        links.append({tuple(draw.integers(sizes).tolist()): float(draw.random()) for _ in range(number)})
    return *sides, links


def text_of_terms(seed):
    """128 pairs of up to three of the same terms, with a function word and a full stop, in any order."""
    draw = np.random.default_rng(seed)
    words = [[f"{side}{n}" if n else '"' for n in range(250)] for side in "xy"]
    terms = [[draw.choice(own, draw.integers(1, 4)).tolist() for own in words] for _ in range(45)]
    terms += [[x[:2], y[:2]] for x, y in terms]
    sides, links = ([], []), []
    for _ in range(128):
        parts = [terms[n] for n in draw.integers(0, 90, draw.integers(1, 4))]
        parts += [(["the"], ["die"]), (["."], ["."])]
        order = draw.permutation(len(parts)).tolist()
        starts, own = np.cumsum([0, *(len(parts[n][1]) for n in order)]), {}
        for n, (x, y) in enumerate(parts):
            s, t = sum(len(x) for x, _ in parts[:n]), int(starts[order.index(n)])
            for k in range(max(len(x), len(y))):
                p = draw.random()  # some have none
                own[s + min(k, len(x) - 1), t + min(k, len(y) - 1)] = float(p) if p > 0.02 else np.nan
        sides[0].append([word for x, _ in parts for word in x])
        sides[1].append([word for n in order for word in parts[n][1]])
        links.append(own)
    return *sides, links


def phrase_text(source, target, links, **longest):
    words = LinkedWords(Bitext.from_sentences(source, target), Links.from_lists(map(list, links)))
    return PhraseText(words, np.array([own[link] for own in links for link in sorted(own)]), **longest)


def is_writable(phrase):
    return all(word and "|||" not in word and min(word) > " " for word in phrase)


def naive_phrases(text, longest):
    """Koehn's definition, word for word: {(source phrase, target phrase): [(links inside, their mean probability,
    number of the sentence pair) of each occurrence]}."""
    found = defaultdict(list)
    for m, (x, y, links) in enumerate(zip(*text, strict=True)):
        for s in range(len(x)):
            for s_end in range(s + 1, min(s + longest, len(x)) + 1):
                for t in range(len(y)):
                    for t_end in range(t + 1, min(t + longest, len(y)) + 1):
                        inside = [(i, j) for i, j in links if s <= i < s_end and t <= j < t_end]
                        touched = [(i, j) for i, j in links if s <= i < s_end or t <= j < t_end]
                        pair = tuple(x[s:s_end]), tuple(y[t:t_end])
                        if inside and len(inside) == len(touched) and all(map(is_writable, pair)):
                            known = [links[link] for link in inside if links[link] == links[link]]
                            mean = np.mean(known) if known else np.nan
                            found[pair].append((frozenset((i - s, j - t) for i, j in inside), mean, m))
    return found


def most_frequent(ways, size):
    """The links that a pair has most often; of equally frequent ones the last as Moses compares them, for each
    target word the list of its source words."""
    counts = Counter(inside for inside, *_ in ways)
    return max(counts, key=lambda own: (counts[own], [sorted(i for i, j in own if j == t) for t in range(size)]))


def phrase_counts(found):
    """How often there is each source phrase, and each target phrase."""
    counts = Counter(), Counter()
    for pair, ways in found.items():
        for own, phrase in zip(counts, pair, strict=True):
            own[phrase] += len(ways)
    return counts


def naive_table(text, longest):
    """{(source phrase, target phrase): (p(s|t), lex(s|t), p(t|s), lex(t|s), links, counts)}."""
    words = {side: defaultdict(Counter) for side in "st"}  # given word -> words of the side
    for x, y, own in zip(*text, strict=True):
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

    found, table = naive_phrases(text, longest), {}
    counts = phrase_counts(found)
    for (s, t), ways in found.items():
        best = most_frequent(ways, len(t))
        n = len(ways), counts[0][s], counts[1][t]
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


@pytest.mark.parametrize(("seed", "longest"), [(1, {}), (2, {"longest": 8}), (3, {"longest": 3})])
def test_tables_are_those_of_an_enumeration(monkeypatch, caplog, seed, longest):
    """Counted in many files, of many blocks."""
    text = random_text(seed)
    monkeypatch.setattr("alignkit.uses.phrases.extraction.BLOCK", 50)
    parts = list(phrase_table(phrase_text(*text, **longest), part=300))
    assert len(parts) > 5
    data = b"".join(parts)
    found, expected = parsed(data), naive_table(text, longest.get("longest", 7))
    assert len(found) > 200
    assert found.keys() == expected.keys()
    for pair, (scores, links, counts) in expected.items():
        assert found[pair][1:] == (links, counts), pair
        assert found[pair][0] == pytest.approx(scores, rel=1e-5), pair
    assert data.splitlines() == sorted(data.splitlines())
    bad = sum(not is_writable([word]) for side in text[:2] for sentence in side for word in sentence)
    assert caplog.messages == [f"left out phrases of words that have ||| or a control character; words: {bad}"]


def test_phrases_are_ranked_as_their_bytes_are():
    """The numbers of 5 words of so many do not fit into one of 64 bits."""
    words = [f"{n:05}" for n in range((1 << 16) - 5)]
    vocabulary = Vocabulary.from_tokens([*words, "a", "a!", "~", "{"])
    draw = np.random.default_rng(4)
    tokens = np.concatenate([[n, *range(len(words), len(words) + 4)] for n in draw.integers(0, len(words), 30)])
    side = PhraseSide.of("source", Corpus(tokens.astype(np.int32), np.array([0, len(tokens)]), vocabulary))
    pairs = np.zeros(300, PHRASE_PAIR)
    pairs["source"], pairs["source_size"] = draw.integers(0, len(tokens) - 7, 300), draw.integers(1, 9, 300)
    phrases = [(phrase + " |||").encode() for phrase in side.phrases(pairs)]
    order = sorted(set(phrases))
    assert side.ranks(pairs).tolist() == [order.index(phrase) for phrase in phrases]


def naive_terms(text, longest, least, share):
    """{(source, target): (count, log-likelihood ratio, mean probability, line)}."""
    found = naive_phrases(text, longest)
    counts, total = phrase_counts(found), sum(map(len, found.values()))
    often = [Counter(word for sentence in side for word in sentence) for side in text[:2]]

    def may_end(side, word):
        return often[side][word] <= share * len(text[0]) and any(letter.isalnum() for letter in word)

    terms = {}
    for pair, ways in found.items():
        ends = [may_end(side, word) for side, phrase in enumerate(pair) for word in (phrase[0], phrase[-1])]
        if len(ways) >= least and max(map(len, pair)) > 1 and all(ends):
            cells = np.array([[len(ways), counts[0][pair[0]]], [counts[1][pair[1]], total]])
            cells[0, 1] -= cells[0, 0]
            cells[1, 0] -= cells[0, 0]
            cells[1, 1] -= cells[0].sum() + cells[1, 0]
            chance = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / total
            ratio = 2 * sum(n * np.log(n / e) for n, e in zip(cells.flat, chance.flat, strict=True) if n)
            ratio *= np.sign(cells[0, 0] - chance[0, 0])
            best = most_frequent(ways, len(pair[1]))
            line = 1 + min(m for inside, _, m in ways if inside == best)
            terms[pair] = len(ways), ratio, np.mean([mean for _, mean, _ in ways]), line
    names = {pair: tuple(map(" ".join, pair)) for pair in terms}

    def is_part(pair):
        return any(
            other != pair
            and terms[other][0] >= terms[pair][0]
            and all(f" {part} " in f" {whole} " for part, whole in zip(names[pair], names[other], strict=True))
            for other in terms
        )

    return {names[pair]: term for pair, term in terms.items() if not is_part(pair)}


@pytest.mark.parametrize(("seed", "least", "share"), [(5, 3, 0.05), (6, 2, 5 / 128), (7, 1, 1)])
def test_terms_are_those_of_an_enumeration(monkeypatch, seed, least, share):
    """Some words are exactly as frequent as function words may be. The table is ranked."""
    text = text_of_terms(seed)
    monkeypatch.setattr("alignkit.uses.phrases.tables.count_phrases", partial(count_phrases, part=2000))
    options = {} if least == 3 else {"least": least, "function_words": share}
    given = phrase_text(*text, longest=4)
    table, expected = find_terms(given, **options), naive_terms(text, 4, least, share)
    columns = ("count", "log_likelihood", "probability", "line")
    found = {
        pair: tuple(row[column] for column in columns)
        for pair, row in table.set_index(["source", "target"], drop=False).iterrows()
    }
    assert len(found) == len(table) > 5
    assert found.keys() == expected.keys()
    for pair, term in expected.items():
        assert found[pair] == pytest.approx(term, rel=1e-5, nan_ok=True), pair
    known = {pair: (ratio, 1.0 if np.isnan(p) else p) for pair, (_, ratio, p, _) in found.items()}
    keys = [(-ratio * p, " ||| ".join(pair).encode()) for pair, (ratio, p) in known.items()]
    assert keys == sorted(keys)
    for row in table.itertuples():
        assert row.source_example == " ".join(text[0][row.line - 1])
        assert row.target_example == " ".join(text[1][row.line - 1])
    assert find_terms(given, **options, best=4).equals(table[:4])


def test_without_probabilities_terms_are_ranked_by_their_ratios():
    given = phrase_text(*text_of_terms(5), longest=4)
    table = find_terms(PhraseText(given.words, longest=4), least=2, function_words=0.2)
    assert table["probability"].isna().all()
    assert table["log_likelihood"].is_monotonic_decreasing
    assert len(table) > 5


def test_log_likelihood_ratios_are_those_of_dunning():
    """The first rows of his table, and one with a cell of 0."""
    cells = np.array([[110, 2442, 111, 29114], [29, 13, 123, 31612], [31, 23, 139, 31584], [10, 0, 3, 31764]])
    both, first, second, _ = cells.T
    ratios = log_likelihood_ratios(both, both + first, both + second, 31777)
    assert ratios.round(2).tolist() == [270.72, 263.90, 256.84, 167.23]
    assert log_likelihood_ratios(np.array([1]), np.array([900]), np.array([900]), 1800)[0] < 0
