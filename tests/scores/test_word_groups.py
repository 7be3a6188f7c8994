"""Scores between subwords and between words."""

import numpy as np

from alignkit.scores import Scores, merge_probabilities, merge_to_words, spread_to_tokens


def test_merging_and_spreading_by_hand():
    """Merging adds columns and averages rows; spreading divides columns and repeats rows."""
    subwords = Scores.from_matrices([np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.0, 0.5, 0.2]])])
    rows, columns = [(np.array([0, 0]), 1)], [(np.array([-1, 0, 0, 1]), 2)]
    merged = merge_to_words(subwords, rows, columns)
    assert np.allclose(merged[0], [[0.5, 0.3]])
    spread = spread_to_tokens(merged, rows, columns)
    assert np.allclose(spread[0], [[0, 0.25, 0.25, 0.3]] * 2)
    assert np.allclose(merge_to_words(spread, rows, columns)[0], merged[0])


def test_the_probability_of_a_word_is_the_product_of_its_tokens():
    matrix = np.array([[0.5, 0.1, 0.3, 0.9], [0.2, 0.4, 0.0, 0.9], [0.7, 0.7, 0.6, 0.9]], np.float32)
    rows, columns = (np.array([0, 0, 2]), 3), (np.array([0, 0, 1, -1]), 2)
    wanted = [[(0.5 * 0.2 + 0.1 * 0.4) / 2, 0], [0, 0], [0.7, 0.6]]
    assert np.allclose(merge_probabilities(matrix, rows, columns), wanted, atol=1e-9)
