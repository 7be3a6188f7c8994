"""Levels of likeness of the tokens of a sentence pair."""

from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of
from scipy.special import log_softmax

from alignkit.embeddings.levels import (
    LEVELS,
    STEP,
    TEMPERATURE,
    UNKNOWN,
    OfDoubtfulPairs,
    centred,
    fill_levels,
    likeness_levels,
)
from alignkit.scores import Scores


def unit_vectors(rng, count, size=6):
    vectors = rng.normal(size=(count, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_level_is_the_logarithm_of_both_softmaxes():
    rng = np.random.default_rng(1)
    target, source = unit_vectors(rng, 5), unit_vectors(rng, 7)
    cosines = (target @ source.T).astype(np.float64) / TEMPERATURE
    mean = (log_softmax(cosines, axis=1) + log_softmax(cosines, axis=0)) / 2
    wanted = np.minimum(-mean / STEP, LEVELS - 1)
    levels = likeness_levels(target, source)
    assert levels.shape == (5, 7)
    near = np.abs(wanted - np.round(wanted)) < 1e-3  # where rounding may decide
    assert (levels[~near] == wanted[~near].astype(int)).all()
    assert len(np.unique(levels)) > 5


def test_tokens_without_a_vector_are_unknown_and_leave_the_others_alone():
    rng = np.random.default_rng(2)
    target, source = unit_vectors(rng, 4), unit_vectors(rng, 5)
    blank = np.insert(target, 2, 0, axis=0), np.insert(source, 0, 0, axis=0)
    levels = likeness_levels(*blank)
    assert (levels[2] == UNKNOWN).all()
    assert (levels[:, 0] == UNKNOWN).all()
    assert (np.delete(levels, 2, axis=0)[:, 1:] == likeness_levels(target, source)).all()
    assert (likeness_levels(np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)) == UNKNOWN).all()
    assert likeness_levels(target[:0], source).shape == (0, 5)


@pytest.mark.parametrize("threads", [1, 3])
def test_all_pairs_of_a_text(threads):
    rng = np.random.default_rng(3)
    bitext = bitext_of([(["a", "b"], ["x"]), ([], ["x", "y"]), (["b", "a", "a"], ["y", "x", "x", "y"])])
    source, target = unit_vectors(rng, 5), unit_vectors(rng, 7)
    levels = np.full(2 + 0 + 12, 77, np.uint8)
    fill_levels(bitext, source, target, levels, threads)
    assert (levels[:2].reshape(1, 2) == likeness_levels(target[:1], source[:2])).all()
    assert (levels[2:].reshape(4, 3) == likeness_levels(target[3:], source[2:])).all()


def test_vectors_are_centred_and_of_length_one():
    vectors = np.array([[3.0, 1.0], [0.0, 0.0], [1.0, 4.0]], np.float32)
    found = centred(vectors, np.array([1.0, 1.0], np.float32))
    assert found == pytest.approx(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]))
    found = centred(vectors + np.float32(1), np.array([1.0, 1.0], np.float32), np.array([3.0, 1.0], np.float32))
    assert found == pytest.approx(np.array([[0.5**0.5, 0.5**0.5], [0.0, 0.0], [1 / 145**0.5, 12 / 145**0.5]]))


@pytest.mark.parametrize(("most", "pairs"), [(0, []), (1, [3]), (2, [3, 0]), (3, [3, 0, 1]), (9, [3, 0, 1, 2])])
def test_pairs_with_the_most_doubt_a_word_are_looked_at(most, pairs):
    text = bitext_of([(["a"], ["x"]), (["a"] * 4, ["y"]), (["b", "c"], ["x"]), (["d"], ["x", "y"])])
    # Of each word, 1/8, 1/8, 1/16 and 1/4 of a decision to be wrong: of equals, the first is looked at.
    doubts = [[[0.75]], [[0.125, 0.875, 0.25, 0.875]], [[0.0625, 0.875]], [[0.625], [0.375]]]
    probabilities = Scores.from_matrices([np.array(each, np.float32) for each in doubts])

    class Counting:
        """The levels 1, 2, 3 and so on."""

        def levels(self, bitext, threads, progress=None):
            for side, whole in ((bitext.source, text.source), (bitext.target, text.target)):
                assert [side.words(m) for m in range(len(side))] == [whole.words(m) for m in pairs]
                assert len(side.vocabulary) == len(np.unique(side.tokens))
            return np.arange(1, 1 + int(bitext.shapes.prod(axis=1).sum()), dtype=np.uint8)

    numbers, levels = iter(range(1, 100)), {}
    for m in pairs:
        levels[m] = [next(numbers) for _ in np.ravel(doubts[m])]
    wanted = [level for m, each in enumerate(doubts) for level in levels.get(m, [UNKNOWN] * np.size(each))]
    assert OfDoubtfulPairs(Counting(), probabilities, most).levels(text, 1).tolist() == wanted


def test_a_tenth_of_the_pairs_are_of_the_whole_text():
    """First come two of the long pairs, then those of one word, which are the most doubtful, in their order."""
    shapes = np.array([[6, 6], [1, 1], [6, 7], [1, 1], [7, 6]] * 6, np.int32)
    probabilities = Scores.zeros(shapes)
    doubtful = replace(
        probabilities,
        values=np.where(np.repeat(shapes[:, 0] == 1, shapes.prod(axis=1)), 0.5, 0).astype(np.float32),
    )
    short = np.flatnonzero(shapes[:, 0] == 1).tolist()
    assert OfDoubtfulPairs(None, doubtful, 20).pairs.tolist()[:14] == [0, 29, *short]
    assert OfDoubtfulPairs(None, doubtful, 5).pairs.tolist() == short[:5]
