"""Two directed alignments into one, against the published steps."""

import tracemalloc

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.heuristics import HEURISTICS, Heuristic, Steps, method_names
from alignkit.links.links import Links
from alignkit.links.symmetrization import symmetrize, symmetrize_scores
from alignkit.scores import Scores

METHODS = method_names(needs_scores=False)


def as_sets(links):
    return [{tuple(pair) for pair in sentence.tolist()} for sentence in links]


def both(forward, reverse, method, threads=None):
    return as_sets(symmetrize(Links.from_lists(forward), Links.from_lists(reverse), method, threads))


points = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


@given(st.lists(st.tuples(points, points), max_size=4))
@settings(max_examples=50, deadline=None)
def test_equals_the_published_steps(pairs):
    for method in METHODS:
        found = both([f for f, _ in pairs], [r for _, r in pairs], method)
        assert found == [naive.symmetrize(f, r, 7, 7, method) for f, r in pairs]


def directed(draw, length, width):
    """Links from each target word to a source word near the diagonal, nine words out of ten."""
    near = np.clip(np.arange(width) * length // width + draw.integers(-2, 3, width), 0, length - 1)
    return {(int(s), t) for t, s in enumerate(near) if draw.random() < 0.9}


def scattered(draw, length, width):
    """Links anywhere, and many close to each other where a block of 64 source words ends."""
    anywhere = {(int(draw.integers(length)), int(draw.integers(width))) for _ in range(40)}
    edges = [s for edge in range(64, length + 1, 64) for s in range(edge - 2, min(edge + 2, length))] or [0]
    rows = draw.integers(max(width - 5, 1)) + np.arange(5)
    close = {(int(draw.choice(edges)), int(min(draw.choice(rows), width - 1))) for _ in range(40)}
    return anywhere | close


@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 200])
def test_sentences_of_any_length_equal_the_published_steps(length):
    draw = np.random.default_rng(length)
    pairs = []
    for width in [*draw.integers(1, 1 + min(2 * length, 150), 5).tolist(), length]:
        back = {(s, t) for t, s in directed(draw, width, length)}
        pairs.append((directed(draw, length, width), back, width))
        pairs.append((scattered(draw, length, width), scattered(draw, length, width), width))
    forward, reverse = [f for f, _, _ in pairs], [r for _, r, _ in pairs]
    for method in METHODS:
        expected = [naive.symmetrize(f, r, length, width, method) for f, r, width in pairs]
        for threads in (1, 3):
            assert both(forward, reverse, method, threads) == expected


def test_short_and_long_pairs_do_not_disturb_each_other():
    draw = np.random.default_rng(0)
    lengths = draw.choice([5, 64, 65, 130], 40).tolist()
    forward, reverse = ([scattered(draw, length, 70) for length in lengths] for _ in range(2))
    for method in METHODS:
        alone = [both([f], [r], method)[0] for f, r in zip(forward, reverse, strict=True)]
        assert both(forward, reverse, method, 1) == alone


def test_thousands_of_target_words():
    """One or two source words and thousands of target words, where the result is clear without the steps."""
    forward, reverse = {(0, t) for t in range(5000)}, {(0, 4999), (1, 4998)}
    assert both([forward], [reverse], "union") == [forward | reverse]
    assert both([forward], [reverse], "intersection") == [forward & reverse]
    grown = {(0, 4999), (1, 4998)}
    assert both([forward], [reverse], "grow-diag") == [grown | forward]


@pytest.mark.parametrize("method", ["union", "grow-diag-final-and"])
def test_memory_depends_on_the_links_and_not_on_the_area_of_a_pair(method):
    diagonal = np.repeat(np.arange(100_000, dtype=np.int32), 2).reshape(-1, 2)
    links = Links(diagonal, np.array([0, len(diagonal)]))
    assert len(symmetrize(links.block(0, 0), links.block(0, 0), method)) == 0  # compile first
    tracemalloc.start()
    found = symmetrize(links, links, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(found.pairs, diagonal)
    assert peak < 50_000_000  # a bit for every point would be 1.25 GB


def test_a_new_heuristic_is_one_entry(monkeypatch):
    monkeypatch.setitem(HEURISTICS, "grow", Heuristic(Steps(neighbours=4)))
    forward, reverse = {(1, 1), (2, 1), (3, 2)}, {(1, 1), (0, 0)}
    assert both([forward], [reverse], "grow") == [{(1, 1), (2, 1)}]
    assert both([forward], [reverse], "grow-diag") == [forward | reverse]


def one_to_one(forward, reverse):
    """The links of both directions whose words have no other link."""

    def alone(point, points):
        return not any(other != point and (other[0] == point[0] or other[1] == point[1]) for other in points)

    pairs = zip(as_sets(forward), as_sets(reverse), strict=True)
    return Links.from_lists([[point for point in f & r if alone(point, f | r)] for f, r in pairs])


def test_a_heuristic_may_be_a_function(monkeypatch):
    monkeypatch.setitem(HEURISTICS, "one-to-one", Heuristic(function=f"{__name__}:one_to_one"))
    assert "one-to-one" in method_names(needs_scores=False)
    forward, reverse = {(0, 0), (1, 1), (2, 3)}, {(0, 0), (1, 1), (1, 2)}
    assert both([forward, set()], [reverse, {(0, 1)}], "one-to-one") == [{(0, 0)}, set()]


def test_errors():
    one, two = Links.from_lists([[]]), Links.from_lists([[], []])
    with pytest.raises(AlignkitError, match="cannot symmetrize by 'best' here; choose one of intersection"):
        symmetrize(one, one, "best")
    with pytest.raises(AlignkitError, match="by 'product' here"):
        symmetrize(one, one, "product")
    with pytest.raises(AlignkitError, match="1 pair in one alignment, 2 in the other"):
        symmetrize(one, two)


def test_an_index_of_millions_is_refused():
    one, wild = Links.from_lists([[(0, 0)]]), Links.from_lists([[(2**30, 0)]])
    with pytest.raises(AlignkitError, match="token index 1073741824"):
        symmetrize(one, wild)


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
    found = symmetrize_scores(Scores.from_matrices(forward), Scores.from_matrices(reverse), "product", threshold)
    expected = []
    for f, r in zip(forward, reverse, strict=True):
        mean = np.sqrt(f.astype(np.float32).astype(float) * r.astype(np.float32).astype(float).T)
        expected.append(sorted((s, t) for t, s in np.argwhere((mean >= threshold) & (mean > 0)).tolist()))
    assert [[tuple(link) for link in pair.tolist()] for pair in found] == expected


def test_product_takes_what_reaches_the_threshold_exactly():
    for value in (0.2, 0.3, 0.7, 1.0):
        scores = Scores.from_matrices([np.full((1, 1), value)])
        assert len(symmetrize_scores(scores, scores, threshold=float(np.float32(value))).pairs) == 1


def test_product_errors():
    scores = Scores.from_matrices([np.ones((2, 3))])
    with pytest.raises(AlignkitError, match="one of them reversed"):
        symmetrize_scores(scores, scores)
    with pytest.raises(AlignkitError, match="by 'union' here; choose one of product"):
        symmetrize_scores(scores, scores, "union")
    turned = Scores.from_matrices([np.ones((3, 2))])
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(AlignkitError, match=r"must lie in \[0, 1\]"):
            symmetrize_scores(scores, turned, threshold=threshold)
