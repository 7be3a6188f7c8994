import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import count_links, evaluate


def gold_of(sure, possible):
    return GoldLinks(Links.from_lists(sure), Links.from_lists(possible))


def test_nothing_to_divide_by():
    empty = Links.from_lists([[]])
    gold = gold_of([[(0, 0)]], [[(0, 0)]])
    result = evaluate(gold, empty)
    assert math.isnan(result.precision)
    assert math.isnan(result.f1)
    assert (result.recall, result.aer, result.links) == (0, 1, 0)
    assert math.isnan(evaluate(GoldLinks(empty, empty), empty).aer)


def test_unequal_counts():
    with pytest.raises(AlignkitError, match="gold has 1 pair, the alignment has 2"):
        evaluate(gold_of([[]], [[]]), Links.from_lists([[], []]))


def random_case(seed, sentences=40):
    draw = np.random.default_rng(seed)

    def one(count):
        return {tuple(map(int, draw.integers(0, 5, 2))) for _ in range(draw.integers(0, count))}

    def links(count):
        return [one(count) for _ in range(sentences)]

    sure, extra, found = links(5), links(3), links(6)
    return sure, [s | p for s, p in zip(sure, extra, strict=True)], found


def test_intervals_need_two_sentences_and_something_to_divide_by():
    one = count_links(gold_of([[(0, 0)]], [[(0, 0)]]), Links.from_lists([[(0, 0)]]))
    assert all(math.isnan(end) for ends in one.intervals().values() for end in ends)
    two = count_links(gold_of([[(0, 0)]] * 2, [[(0, 0)]] * 2), Links.from_lists([[(0, 0)]] * 2))
    assert two.intervals() == {"aer": (0, 0), "precision": (1, 1), "recall": (1, 1), "f1": (1, 1)}
    nothing = count_links(gold_of([[], []], [[], []]), Links.from_lists([[], []]))
    assert all(math.isnan(end) for ends in nothing.intervals().values() for end in ends)


link_sets = st.lists(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), min_size=3, max_size=3)


@given(link_sets, link_sets, link_sets)
@settings(max_examples=60, deadline=None)
def test_equals_the_naive_count(sure, possible, found):
    sure[0] |= {(9, 9)}
    found[2] |= {(8, 9)}
    result = evaluate(gold_of(sure, possible), Links.from_lists(found))
    aer, precision, recall = naive.evaluate(sure, possible, found)
    f1 = 2 * precision * recall / ((precision + recall) or 1)
    wanted = pytest.approx((aer, precision, recall, f1))
    assert (result.aer, result.precision, result.recall, result.f1) == wanted
    assert result.links == sum(map(len, found))
