"""Contextualised agreement."""

import math

import pytest

from alignkit.errors import AlignkitError
from alignkit.metrics.contextual import contextualised

ACCURACY = [0.1, 0.3, 0.5, 0.6]
AGREEMENT = [0.05, 0.2, 0.2, 0.7]


def test_it_is_the_performance_at_the_first_step_above_the_level():
    for level, xi in ((0.0, 0.1), (0.05, 0.3), (0.1, 0.3), (0.2, 0.6), (0.69, 0.6)):
        assert contextualised(ACCURACY, AGREEMENT, level) == xi


def test_a_level_that_no_step_exceeds_is_not_reached():
    assert contextualised(ACCURACY, AGREEMENT, 0.7) is None
    assert contextualised([], [], 0.1) is None
    assert contextualised(ACCURACY, AGREEMENT, math.nan) is None


def test_the_first_step_counts_even_if_a_later_one_falls_below():
    assert contextualised([1, 2, 3], [0.5, 0.1, 0.5], 0.3) == 1


def test_a_performance_that_was_not_measured_gives_none():
    assert contextualised([math.nan, 0.5], [0.5, 0.6], 0.3) is None
    assert contextualised([math.nan, 0.5], [0.5, 0.6], 0.55) == 0.5


def test_unlike_numbers_of_steps_are_refused():
    with pytest.raises(AlignkitError, match="4 and 3"):
        contextualised(ACCURACY, AGREEMENT[:3], 0.1)
