"""Two directed alignments into one, against the published steps."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.links.symmetrization import (
    METHODS,
    symmetrize,
    symmetrize_places,
    symmetrize_product,
)
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext


def as_sets(links):
    return [{tuple(pair) for pair in sentence.tolist()} for sentence in links]


def both(forward, reverse, method):
    return as_sets(symmetrize(Links.from_lists(forward), Links.from_lists(reverse), method))


points = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


@given(st.lists(st.tuples(points, points), max_size=4))
@settings(max_examples=400, deadline=None)
@pytest.mark.parametrize("method", METHODS)
def test_equals_the_published_steps(method, pairs):
    found = both([f for f, _ in pairs], [r for _, r in pairs], method)
    assert found == [naive.symmetrise(f, r, 7, 7, method) for f, r in pairs]


@pytest.mark.parametrize("longest", [40, 65, 90])
def test_directed_alignments_of_long_sentences(longest):
    """One source word for each target word, and the other way round: what models give. Longer sentences than 64
    source words go another way."""
    draw = np.random.default_rng(longest)
    for round in range(30):
        length, width = (
            (longest - round % 2, draw.integers(1, longest)) if longest > 40 else draw.integers(1, 40, 2)
        )
        near = np.clip(np.arange(width) * length // width + draw.integers(-2, 3, width), 0, length - 1)
        back = np.clip(np.arange(length) * width // length + draw.integers(-2, 3, length), 0, width - 1)
        forward = {(int(s), t) for t, s in enumerate(near) if draw.random() < 0.9}
        reverse = {(s, int(t)) for s, t in enumerate(back) if draw.random() < 0.9}
        sources = np.full(width, -1, np.int32)
        targets = np.full(length, -1, np.int32)
        for s, t in forward:
            sources[t] = s
        for s, t in reverse:
            targets[s] = t
        bitext = Bitext.from_sentences([["x"] * length], [["y"] * width])
        for method in METHODS:
            expected = [naive.symmetrise(forward, reverse, length, width, method)]
            assert both([forward], [reverse], method) == expected
            assert as_sets(symmetrize_places(sources, targets, bitext, method)) == expected


def test_more_target_words_than_rows():
    """One source word, thousands of target words: what is chosen can be said without the steps."""
    forward, reverse = {(0, t) for t in range(5000)}, {(0, 4999), (1, 4998)}
    assert both([forward], [reverse], "union") == [forward | reverse]
    assert both([forward], [reverse], "intersection") == [forward & reverse]
    grown = {(0, 4999), (1, 4998)}
    assert both([forward], [reverse], "grow-diag") == [grown | forward]


def test_the_methods_differ_where_they_should():
    # 0-0 is agreed. 1-1 touches it (diagonally) and is free. 3-3 is far and both its words are free. 4-3 is
    # far and only its source word is free once 3-3 is in.
    forward, reverse = {(0, 0), (1, 1), (3, 3)}, {(0, 0), (4, 3)}
    expected = {
        "intersection": {(0, 0)},
        "union": {(0, 0), (1, 1), (3, 3), (4, 3)},
        "grow-diag": {(0, 0), (1, 1)},
        "grow-diag-final": {(0, 0), (1, 1), (3, 3), (4, 3)},
        "grow-diag-final-and": {(0, 0), (1, 1), (3, 3)},
    }
    assert {method: both([forward], [reverse], method)[0] for method in METHODS} == expected


def test_the_forward_direction_goes_first():
    assert both([{(0, 1)}], [{(1, 1)}], "grow-diag-final-and") == [{(0, 1)}]
    assert both([{(1, 1)}], [{(0, 1)}], "grow-diag-final-and") == [{(1, 1)}]


def test_errors():
    one, two = Links.from_lists([[]]), Links.from_lists([[], []])
    with pytest.raises(AlignkitError, match="unknown method 'best'; known are intersection"):
        symmetrize(one, one, "best")
    with pytest.raises(AlignkitError, match="1 sentence pairs in one alignment, 2 in the other"):
        symmetrize(one, two)


# By the product of posteriors.


def random_alphas(seed, shapes):
    draw = np.random.default_rng(seed)
    forward = [draw.random((t, s)) ** 3 for t, s in shapes]
    reverse = [draw.random((s, t)) ** 3 for t, s in shapes]
    return forward, reverse


SHAPES = [(3, 5), (0, 4), (4, 0), (0, 0), (1, 1), (12, 7)]


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.25, 0.6, 1.0])
def test_product_equals_the_formula(threshold):
    forward, reverse = random_alphas(1, SHAPES)
    forward[0][0, :] = 0
    found = symmetrize_product(Scores.from_matrices(forward), Scores.from_matrices(reverse), threshold)
    expected = []
    for f, r in zip(forward, reverse, strict=True):
        mean = np.sqrt(f.astype(np.float32).astype(float) * r.astype(np.float32).astype(float).T)
        expected.append(sorted((s, t) for t, s in np.argwhere((mean >= threshold) & (mean > 0)).tolist()))
    assert [[tuple(link) for link in pair.tolist()] for pair in found] == expected


def test_product_takes_what_reaches_the_threshold_exactly():
    for value in (0.2, 0.3, 0.7, 1.0):
        scores = Scores.from_matrices([np.full((1, 1), value)])
        assert len(symmetrize_product(scores, scores, float(np.float32(value))).pairs) == 1


def test_product_errors():
    scores = Scores.from_matrices([np.ones((2, 3))])
    with pytest.raises(AlignkitError, match="one of them reversed"):
        symmetrize_product(scores, scores)
    turned = Scores.from_matrices([np.ones((3, 2))])
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(AlignkitError, match=r"must lie in \[0, 1\]"):
            symmetrize_product(scores, turned, threshold)


def test_bidirectional_product_in_blocks(monkeypatch, planted):
    from alignkit.classical import symmetrized as bidirectional
    from alignkit.classical.ibm1 import fit_ibm1

    bitext, links = planted
    fitted = bidirectional.fit_bidirectional(bitext, lambda text: fit_ibm1(text, iterations=10), "product")
    assert [[tuple(link) for link in pair.tolist()] for pair in fitted.links(bitext)] == links
    alphas = fitted.forward.score(bitext, "alpha"), fitted.reverse.score(bitext.reversed, "alpha")
    whole = symmetrize_product(*alphas)
    monkeypatch.setattr(bidirectional, "BLOCK", 7)
    parts = fitted.links(bitext)
    assert np.array_equal(parts.pairs, whole.pairs)
    assert np.array_equal(parts.offsets, whole.offsets)
    assert len(fitted.links(bitext.take(np.arange(0)))) == 0


def test_product_needs_posteriors(planted):
    from alignkit.classical.symmetrized import Bidirectional

    class Linker:
        def links(self, bitext):
            return Links.from_lists([[]] * len(bitext))

    with pytest.raises(AlignkitError, match="product needs aligners with alpha scores"):
        Bidirectional(Linker(), Linker(), "product").links(planted[0])


def test_an_index_of_millions_is_refused():
    one, wild = Links.from_lists([[(0, 0)]]), Links.from_lists([[(2**30, 0)]])
    with pytest.raises(AlignkitError, match="token 1073741824"):
        symmetrize(one, wild)
