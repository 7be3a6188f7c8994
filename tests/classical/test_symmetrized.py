"""Two directions as one aligner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import bitext_of, random_pairs

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.symmetrized import fit_bidirectional, fit_concurrently
from alignkit.errors import AlignkitError
from alignkit.links.symmetrization import METHODS, symmetrize, symmetrize_places
from alignkit.text.bitext import Bitext, Corpus

ODD = [([], ["t1"]), (["s1"], []), ([], []), (["s0"] * 50, ["t1", "t2"] * 40), (["only"], ["here", "here"])]
WORDS = st.lists(st.sampled_from("abcdefg"), max_size=9)


@pytest.fixture(scope="module")
def bitext():
    return bitext_of([*ODD, *random_pairs(5, pairs=200), *ODD])


def check_links(both, text):
    """The links are those of the two models, symmetrized."""
    forward, reverse = both.forward.links(text), both.reverse.links(text.reversed).reversed
    expected = symmetrize(forward, reverse, both.method)
    assert both.links(text).to_pharaoh() == expected.to_pharaoh()


@pytest.mark.parametrize("options", [{}, {"null": False}, {"null_probability": 0.2}, {"alpha": 0.01}], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_links_are_those_of_the_two_models_symmetrized(bitext, options, method):
    for threads in (1, 3):
        both = fit_concurrently(
            bitext, lambda text, share: fit_ibm1(text, threads=share, **options), method, threads
        )
        check_links(both, bitext)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=12), st.integers(1, 2))
def test_links_whatever_the_text(pairs, iterations):
    text = bitext_of(pairs)
    check_links(fit_bidirectional(text, lambda side: fit_ibm1(side, iterations=iterations)), text)


def test_links_of_words_that_never_met():
    """The same words in other company: the table has no pair for some of them."""
    text = bitext_of([(["a", "b"], ["x"]), (["c"], ["y", "z"]), (["d"], ["x", "z"])])
    both = fit_bidirectional(text, lambda side: fit_ibm1(side, iterations=3))
    source, target = text.source, text.target
    other = Bitext(
        Corpus(np.array([0, 2, 3, 1, 0], np.int32), np.array([0, 3, 4, 5]), source.vocabulary),
        Corpus(np.array([1, 0, 2, 1, 2], np.int32), np.array([0, 2, 3, 5]), target.vocabulary),
    )
    check_links(both, other)
    check_links(both, bitext_of([(["a", "new"], ["x", "neu"])]))


@pytest.mark.parametrize(
    "positions",
    [
        ([0], [0, 1]),
        ([0, 0], [0, 1, 0]),
        ([5_000_000, 0, 0], [0, 0, 0]),
        ([0, 0, 0], [0, 0, -2]),
        ([1, 0, 0], [0, 0, 0]),
    ],
)
def test_best_positions_of_another_text(positions):
    text = bitext_of([(["a"], ["x"]), (["b", "c"], ["y", "z"])])
    forward, reverse = (np.array(side, np.int32) for side in positions)
    with pytest.raises(AlignkitError, match="not those of this text"):
        symmetrize_places(forward, reverse, text)
