"""Links from scores and from positions."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links import from_scores
from alignkit.links.from_scores import (
    best_links,
    links_above,
    links_from_positions,
    scores_of_links,
    with_every_word,
)
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


def as_lists(links):
    return [[tuple(pair) for pair in sentence.tolist()] for sentence in links]


def test_best_links_take_the_first_maximum_unless_null_is_stronger():
    scores = Scores.from_matrices(
        [
            np.array([[0.2, 0.4, 0.4], [0.1, 0.1, 0.1], [0.0, 0.0, 0.0], [0.3, 0.1, 0.0]]),
            np.zeros((2, 0)),
            np.zeros((0, 2)),
            np.array([[0.5]]),
        ]
    )
    # Row 1 lacks 0.7, row 2 is NULL's, row 3 lacks 0.6.
    assert as_lists(best_links(scores)) == [[(1, 0)], [], [], [(0, 0)]]
    assert as_lists(best_links(scores, null=False)) == [[(0, 1), (0, 3), (1, 0)], [], [], [(0, 0)]]


def test_the_best_links_of_logarithms_are_those_of_what_they_are_of():
    chances = np.array([[0.2, 0.5, 0.3], [0.3, 0.0, 0.3], [0.1, 0.2, 0.7]])
    with np.errstate(divide="ignore"):
        scores = Scores.from_matrices([np.log(chances)])
    assert as_lists(best_links(scores, null=False)) == [[(0, 1), (1, 0), (2, 2)]]
    assert as_lists(best_links(scores)) == [[]]  # as an aligner's, they would be probabilities


values = st.sampled_from([-1.0, 0.0, 0.1, 0.5, 0.7, 1.0])
matrices = st.tuples(st.integers(0, 4), st.integers(0, 4)).flatmap(
    lambda shape: st.lists(
        st.lists(values, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    ).map(lambda rows: np.array(rows, np.float32).reshape(shape))
)


@given(st.lists(matrices, max_size=5), st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_links_above_equal_the_naive_ones(found, threshold, threads):
    assert as_lists(links_above(Scores.from_matrices(found), threshold, threads)) == naive.links_above(
        found, threshold
    )


@given(st.lists(matrices, max_size=5), st.sampled_from([0.1, 0.7, 2.0]))
@settings(max_examples=60, deadline=None)
def test_words_without_a_link_get_their_best_one(found, threshold):
    scores = Scores.from_matrices(found)
    links = links_above(scores, threshold)
    for matrix, before, after in zip(
        found, as_lists(links), as_lists(with_every_word(links, scores)), strict=True
    ):
        T, L = matrix.shape
        linked_s, linked_t = ({link[side] for link in before} for side in (0, 1))
        best = {(s, max(range(T), key=lambda t: matrix[t, s])) for s in range(L) if T and s not in linked_s}
        best |= {(max(range(L), key=lambda s: matrix[t, s]), t) for t in range(T) if L and t not in linked_t}
        assert after == sorted({*before, *best})
        if T and L:
            assert [{link[side] for link in after} for side in (0, 1)] == [set(range(L)), set(range(T))]
    with pytest.raises(AlignkitError, match="not of the same sentence pairs"):
        with_every_word(Links.from_lists([]), Scores.from_matrices([np.ones((1, 1))]))


lengths = st.tuples(st.integers(0, 5), st.integers(0, 5))
sentences = lengths.flatmap(
    lambda sides: st.tuples(
        st.just(sides[0]), st.lists(st.integers(-1, sides[0] - 1), min_size=sides[1], max_size=sides[1])
    )
)


@given(st.lists(sentences, max_size=6), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_links_from_positions_equal_the_naive_ones(text, threads):
    bitext = Bitext.from_sentences([["x"] * length for length, _ in text], [["y"] * len(row) for _, row in text])
    flat = np.array([s for _, row in text for s in row], np.int32)
    expected = [sorted((s, t) for t, s in enumerate(row) if s >= 0) for _, row in text]
    assert as_lists(links_from_positions(flat, bitext, threads)) == expected


@pytest.mark.parametrize("threshold", [0.2, 0.7])
def test_a_score_reaches_a_threshold_of_the_same_decimal_number(threshold):
    assert len(links_above(Scores.from_matrices([np.full((1, 1), threshold)]), threshold).pairs) == 1


def test_scores_of_links_need_scores_of_the_same_pairs():
    for link in ((1, 0), (0, 1)):
        for wrong in ([np.ones((1, 1))], [np.ones((2, 2))] * 2):
            with pytest.raises(AlignkitError, match="not of the same sentence pairs"):
                scores_of_links(Links.from_lists([[link]]), Scores.from_matrices(wrong))


def test_scores_of_links_are_those_of_their_elements(monkeypatch):
    """In blocks of one pair."""
    blocks = from_scores.blocks_of_size
    monkeypatch.setattr(from_scores, "blocks_of_size", lambda offsets, size: blocks(offsets, 1))
    draw = np.random.default_rng(1)
    matrices = [draw.random((T, L)).astype(np.float32) for T, L in ((2, 3), (0, 2), (4, 1), (1, 5))]
    links = Links.from_lists([[(2, 1), (0, 0)], [], [(0, 3)], [(4, 0)]])
    wanted = [matrices[m][t, s] for m, pairs in enumerate(links) for s, t in pairs.tolist()]
    assert scores_of_links(links, Scores.from_matrices(matrices)).tolist() == wanted
    turned = Scores.from_matrices([matrix.T for matrix in matrices])
    assert scores_of_links(links, turned, transposed=True).tolist() == wanted
