"""Expected precision, recall and AER against their formulas, written out element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.links.from_scores import links_above
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.uses.diagnose.evidence import CALIBRATION, SUPPORTED, Calibration, Evidence, expected_link_counts

NUMBERS = Calibration(shift=0.7, unlinked=0.4, correlation=0.25, trust=0.6)


def random_evidence(seed=0, pairs=6):
    draw = np.random.default_rng(seed)
    shapes = [(2, 3), *((int(draw.integers(0, 5)), int(draw.integers(0, 6))) for _ in range(pairs - 2)), (0, 3)]
    scores = Scores.from_matrices([draw.random(shape) ** 3 for shape in shapes])
    scores.values[:3] = SUPPORTED, 0.01, 0.0099  # at the bounds, and below
    return Evidence(scores, draw.random(len(scores.values)) < 0.3)


def random_links(evidence, seed=1):
    draw = np.random.default_rng(seed)
    lists = []
    for T, L in evidence.probabilities.shapes.tolist():
        lists.append([(s, t) for s in range(L) for t in range(T) if draw.random() < 0.4])
    return Links.from_lists(lists)


def right(p, numbers):
    p = min(max(p, 0.01), 0.99)
    return 1 / (1 + (math.exp(-numbers.shift) * (1 - p) / p) ** numbers.trust)


def naive(links, evidence, numbers):
    """(found, right, gold, possible, sure, in_sure) of each pair."""
    rows = []
    for m, matrix in enumerate(evidence.probabilities):
        T, L = matrix.shape
        low = evidence.probabilities.offsets[m]
        unanimous = evidence.unanimous[low : low + T * L].reshape(T, L)
        own = sum(right(float(p), numbers) for p in matrix.ravel() if p >= SUPPORTED)
        alone = 0.0
        for t in range(T):
            alone += math.prod(1 - min(float(matrix[t, s]), 0.9999) for s in range(L))
        for s in range(L):
            alone += math.prod(1 - min(float(matrix[t, s]), 0.9999) for t in range(T))
        gold = own + numbers.unlinked * alone if T and L else 0.0
        hit = possible = in_sure = 0.0
        for s, t in links[m].tolist():
            q = right(float(matrix[t, s]), numbers)
            hit += q
            possible += q + (1 - numbers.correlation) * q * (1 - q)
            in_sure += q * bool(unanimous[t, s])
        rows.append((len(links[m]), hit, gold, possible, int(unanimous.sum()), in_sure))
    return np.array(rows).T


@pytest.mark.parametrize("numbers", [NUMBERS, Calibration(20.0, 0.01, 0.25)])
@pytest.mark.parametrize("seed", range(3))
def test_counts_are_the_formulas(seed, numbers):
    """With the second numbers more links are right than there are gold links: measures end at 0 and 1."""
    evidence = random_evidence(seed)
    links = random_links(evidence, seed)
    found, expected = expected_link_counts(links, evidence, numbers), naive(links, evidence, numbers)
    columns = (found.found, found.right, found.gold, found.possible, found.sure, found.in_sure)
    for column, wanted in zip(columns, expected, strict=True):
        np.testing.assert_allclose(column, wanted, rtol=1e-6)
    a, hit, gold, possible, sure, in_sure = expected.sum(axis=1)
    total = found.total()
    assert total.precision == pytest.approx(hit / a)
    assert total.recall == pytest.approx(min(hit / gold, 1))
    assert total.aer == pytest.approx(max(1 - 2 * hit / (a + gold), 0))
    assert total.aer_with_possible == pytest.approx(1 - (in_sure + possible) / (a + sure))
    assert (total.links, total.gold) == (a, pytest.approx(gold))


def test_views_of_little_text_are_trusted_less():
    """Where words are seldom repeated, the views' own links are judged more severely, in a wider interval."""
    evidence = random_evidence(pairs=40)
    own = links_above(evidence.probabilities, 0.7)
    known = [NUMBERS.of_text(math.log(times)) for times in (1, 5, 16, 100)]
    assert known[0].trust == pytest.approx(0.1)
    assert known[1].trust == pytest.approx((math.log(5) / math.log(16)) ** 2)
    assert known[2].trust == known[3].trust == 1
    assert [each.unlinked for each in known] == pytest.approx([0.4 / each.trust**0.5 for each in known])
    aers = [expected_link_counts(own, evidence, numbers).total().aer for numbers in known]
    assert aers[0] > aers[1] > aers[2] == aers[3]
    margins = [0.05 / numbers.trust for numbers in known]
    assert [numbers.interval(0.5) for numbers in known] == [(0.5 - each, 0.5 + each) for each in margins]
    assert known[1].interval(0.01)[0] == 0
    assert known[1].interval(0.99)[1] == 1


def test_where_the_gold_links_are_expected():
    """Expected gold links by pair of words add up to those of all pairs; none are of pairs with a blank side."""
    evidence = random_evidence(4, pairs=40)
    keys, weights = evidence.likely_links(NUMBERS)
    counts = expected_link_counts(random_links(evidence), evidence, NUMBERS)
    blank = ~evidence.probabilities.shapes.all(axis=1)
    assert evidence.probabilities.shapes[blank].any()
    assert weights.sum() == pytest.approx(counts.gold.sum())
    values = [evidence.probabilities[m][t, s] for m, s, t in keys.tolist()]
    assert min(values) >= 0.01
    assert len(values) == int((evidence.probabilities.values >= 0.01).sum())
    others = [value for value in values if value < SUPPORTED]
    blank_tokens = evidence.probabilities.shapes[blank].sum()  # which stand alone for certain
    left = NUMBERS.unlinked * (sum(each.sum() for each in evidence.unlinked) - blank_tokens)
    for value, weight in zip(values, weights, strict=True):
        wanted = right(float(value), NUMBERS) if value >= SUPPORTED else left * value / sum(others)
        assert weight == pytest.approx(wanted, rel=1e-5)


def test_no_links_and_no_text():
    evidence = Evidence(Scores.from_matrices([]), np.zeros(0, bool))
    total = expected_link_counts(Links.from_lists([]), evidence).total()
    assert math.isnan(total.aer)
    assert math.isnan(total.precision)
    assert total.links == 0
    none = random_evidence()
    assert expected_link_counts(Links.from_lists([[]] * 6), none, CALIBRATION).total().aer == 1


def test_other_pairs_are_refused():
    evidence = random_evidence()
    with pytest.raises(AlignkitError, match="not of the same sentence pairs"):
        expected_link_counts(Links.from_lists([[(9, 9)]] + [[]] * 5), evidence)
    with pytest.raises(AlignkitError, match="not of the same sentence pairs"):
        expected_link_counts(Links.from_lists([[]]), evidence)
    with pytest.raises(ValueError, match="not of one text"):
        Evidence(evidence.probabilities, np.zeros(1, bool))
