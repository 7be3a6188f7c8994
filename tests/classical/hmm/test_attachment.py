"""Frequent words without a counterpart are linked to the partner of the word beside them."""

from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from alignkit import Bitext, load
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.link_probabilities import FLOOR, FREQUENT, PRIOR, RATIO, Attachment, raised, unattached
from alignkit.classical.hmm.settings import LINK_CHOICES
from alignkit.classical.hmm.views import View
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.scores import Scores
from alignkit.uses.diagnose.diagnosis import diagnose_links

THRESHOLD = np.float32(0.5)


def random_text(seed):
    """Words of few types and marks, with probabilities of which some are those of links."""
    draw = np.random.default_rng(seed)
    words = [*"abcdefghijklmnopqrstuvwxyz", "!", "?", *(f"{letter}{letter}" for letter in "abcdefgh")]
    chances = 1 / np.arange(1, len(words) + 1)
    lengths = draw.integers(0, 9, (60, 2))
    source, target = (
        [draw.choice(words, n, p=chances / chances.sum()).tolist() for n in side] for side in lengths.T
    )
    shapes = [(len(y), len(x)) for x, y in zip(source, target, strict=True)]
    matrices = [
        draw.choice(np.float32([0, 0.002, 0.05, 0.1, 0.11, 0.25, 0.3, 0.45, 0.5, 0.9]), shape) for shape in shapes
    ]
    return source, target, matrices


def naive_directions(sentences, matrices):
    """{word: 1 or -1} of one side; matrices have a row for each of its words."""
    counts = Counter(word for words in sentences for word in words if word.isalnum())
    ids = Counter()
    for words in sentences:
        for word in words:
            ids.setdefault(word, len(ids))
    frequent = sorted(counts, key=lambda word: (-counts[word], ids[word]))[:FREQUENT]
    shared = {word: [0, 0] for word in frequent}
    for words, matrix in zip(sentences, matrices, strict=True):
        for k, word in enumerate(words):
            for which, q in enumerate((k + 1, k - 1)):
                if word in shared and 0 <= q < len(words) and words[q].isalnum() and words[q] not in shared:
                    shared[word][which] += bool(((matrix[k] >= THRESHOLD) & (matrix[q] >= THRESHOLD)).any())
    whole = np.sum(list(shared.values()), axis=0)
    found = {}
    for word, counted in shared.items():
        after, before = counted + PRIOR * whole / whole.sum()
        found[word] = 1 if after >= RATIO * before else -1 if before >= RATIO * after else 0
    return found


def naive_attached(words, others, directions, matrix):
    """The elements of a matrix that change, as (row, column)."""
    changed = []
    for k, word in enumerate(words):
        q = k + directions.get(word, 0)
        if q == k or not 0 <= q < len(words) or not words[q].isalnum() or (matrix[k] >= THRESHOLD).any():
            continue
        changed += [
            (k, o)
            for o, other in enumerate(others)
            if matrix[q, o] >= THRESHOLD
            and other.isalnum()
            and matrix[k, o] > 0
            and matrix[k, o] >= 0.8 * matrix[k].max()
        ]
    return changed


@pytest.mark.parametrize("seed", range(6))
def test_by_plain_loops(seed):
    source, target, matrices = random_text(seed)
    bitext, scores = Bitext.from_sentences(source, target), Scores.from_matrices(matrices)
    by_word = naive_directions(source, [m.T for m in matrices]), naive_directions(target, matrices)
    found, sides = Attachment.of_links(bitext, scores, 2), (bitext.source, bitext.target)
    for side, directions, naive in zip(sides, (found.source, found.target), by_word, strict=True):
        assert {w: d for w, d in zip(side.vocabulary, directions.tolist(), strict=True) if d} == {
            w: d for w, d in naive.items() if d
        }
    # Whatever was learned, every frequent word is tried in both directions.
    tried = [{word: 1 - 2 * (n % 2) for n, word in enumerate(naive)} for naive in by_word]
    directions = [
        np.array([own.get(word, 0) for word in side.vocabulary], np.int8)
        for side, own in zip(sides, tried, strict=True)
    ]
    changed = Scores.from_matrices(matrices)
    Attachment(*directions).apply(bitext, changed, 2)
    number = 0
    for x, y, before, after in zip(source, target, matrices, changed, strict=True):
        expected = before.copy()
        cells = naive_attached(y, x, tried[1], before) + [
            (t, s) for s, t in naive_attached(x, y, tried[0], before.T)
        ]
        for cell in cells:
            expected[cell] = FLOOR + (1 - FLOOR) * before[cell]
        number += len(cells)
        assert after == pytest.approx(expected, abs=1e-6)
    assert number > 5


def articles(pairs, seed, backwards=False):
    """A text in which one side has an article before each noun, or after it, and the other side has none."""
    draw = np.random.default_rng(seed)
    source, target, links = [], [], []
    for _ in range(pairs):
        nouns = draw.choice(40, draw.integers(2, 6), replace=False)
        has_article = draw.random(len(nouns)) < 0.7
        x, y, gold = [], [], set()
        for noun, article in zip(nouns.tolist(), has_article.tolist(), strict=True):
            own = (["the"] if article else []) + [f"noun{noun}"]
            gold |= {(len(x) + k, len(y)) for k in range(len(own))}
            x += own[::-1] if backwards else own
            y.append(f"wort{noun}")
        source.append(x)
        target.append(y)
        links.append(sorted(gold))
    return Bitext.from_sentences(source, target), Links.from_lists(links)


@pytest.mark.parametrize("backwards", [False, True])
def test_articles_are_linked_to_their_nouns(backwards, tmp_path):
    bitext, links = articles(400, 1, backwards)
    gold = GoldLinks(links, links)
    model = fit_joint(bitext, threads=1)
    directions = dict(zip(model.source, model.attachment.source.tolist(), strict=True))
    assert directions["the"] == (-1 if backwards else 1)
    unknown = (np.full(len(words), -1) for words in (model.source, model.target))
    without = replace(model, attachment=model.attachment.of_words(*unknown))
    assert evaluate(gold, model.fitted_links).aer < 0.1
    new, links = articles(40, 2, backwards)
    gold = GoldLinks(links, links)
    assert evaluate(gold, model.links(new)).aer < 0.5 * evaluate(gold, without.links(new)).aer
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").links(new).to_strings() == model.links(new).to_strings()
    adapted = Adapter(model).adapt(new)
    assert evaluate(gold, adapted.fitted_links).aer < 0.5 * evaluate(gold, without.links(new)).aer
    assert dict(zip(adapted.source, adapted.attachment.source.tolist(), strict=True))["the"] == directions["the"]


def test_a_model_without_words_attaches_none(tmp_path):
    bitext, _ = articles(60, 3)
    model = fit_joint(bitext, views=(View(subwords=20),), threads=1)
    assert model.attachment is None
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").links(bitext).to_strings() == model.links(bitext).to_strings()
    assert len(Adapter(model).adapt(bitext).fitted_links) == 60


def long_articles(pairs, seed):
    """A text of articles, whose last pair is sixty in one, and long in small windows."""
    bitext, _ = articles(pairs + 60, seed)
    sides = [[*map(side.words, range(len(bitext)))] for side in (bitext.source, bitext.target)]
    return Bitext.from_sentences(*([*words[:pairs], [*chain(*words[pairs:])]] for words in sides))


@pytest.mark.usefixtures("small_windows")
def test_probabilities_without_attachment(monkeypatch):
    bitext, new = long_articles(200, 4), long_articles(20, 5)
    model = fit_joint(bitext, threads=1)
    plain = model.without_attachment
    found = [plain.fitted_probabilities.values, plain.probabilities(new).values]
    adapted = Adapter(model).adapt(new).without_attachment.fitted_probabilities
    monkeypatch.setattr(Attachment, "apply", lambda *_: np.empty(0, np.int64))
    without = fit_joint(bitext, threads=1)
    assert found[0] == pytest.approx(without.fitted_probabilities.values, abs=1e-6)
    assert found[1] == pytest.approx(without.probabilities(new).values, abs=1e-6)
    assert adapted.values == pytest.approx(Adapter(without).adapt(new).fitted_probabilities.values, abs=1e-6)
    assert np.abs(model.fitted_probabilities.values - found[0]).max() > 0.3


def test_raised_probabilities_are_lowered_again():
    before = np.linspace(0, 1, 11, dtype=np.float32)
    after = raised(before)
    assert after[[0, -1]] == pytest.approx([FLOOR, 1])
    scores = Scores.from_matrices([after[None]])
    assert unattached(scores, np.arange(11)).values == pytest.approx(before, abs=1e-6)


def test_diagnosis_expects_links_of_attached_words():
    """An alignment is better with the links of articles than without."""
    bitext, whole = articles(200, 6)
    the = bitext.source.vocabulary.id("the")
    pairs = zip(bitext.source, whole, strict=True)
    part = Links.from_lists([[(s, t) for s, t in pair.tolist() if words[s] != the] for words, pair in pairs])
    found = [diagnose_links(bitext, None, links, threads=1).expected for links in (whole, part)]
    assert found[0].aer < found[1].aer - 0.1


@pytest.mark.usefixtures("small_windows")
def test_sure_links_are_the_likely_ones_without_attachment_and_all_those_with():
    bitext, new = long_articles(200, 4), long_articles(20, 5)
    model = fit_joint(bitext, threads=1)
    for aligner in (model, Adapter(model).adapt(new)):
        for choice, threshold, expected in (("sure", 0.7, aligner.without_attachment), ("all", 0.4, aligner)):
            found = aligner.that_finds(choice)
            assert found.threshold == threshold == LINK_CHOICES[choice]
            assert found.fitted_links == links_above(expected.fitted_probabilities, threshold)
            assert found.links(new) == links_above(expected.probabilities(new), threshold)
        assert len(aligner.that_finds("sure").fitted_links.pairs) < len(aligner.fitted_links.pairs)
