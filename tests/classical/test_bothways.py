"""Both directions in one sweep have the bits of each fitted alone, for which test_ibm1.py has a slow reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import bitext_of, random_pairs

from alignkit.classical import inverted_index as bags
from alignkit.classical.bothways import fit_both_ways
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.symmetrized import Bidirectional
from alignkit.errors import AlignkitError
from alignkit.links.from_positions import links_from_positions
from alignkit.links.symmetrization import METHODS, symmetrize, symmetrize_places
from alignkit.text.bitext import Bitext, Corpus

ODD = [([], ["t1"]), (["s1"], []), ([], []), (["s0"] * 50, ["t1", "t2"] * 40), (["only"], ["here", "here"])]
OPTIONS = [
    {},
    {"iterations": 1},
    {"iterations": 1, "null": False},
    {"null": False},
    {"null_probability": 0.2},
    {"alpha": 0.01},
    {"alpha": 2.0, "null": False},
    {"prune": 0.05},
]


@pytest.fixture(scope="module")
def bitext():
    return bitext_of([*ODD, *random_pairs(5, pairs=200), *ODD])


def check_same(bitext, threads=None, **options):
    pair = fit_both_ways(bitext, threads=threads, **options)
    for found, text in zip(pair, (bitext, bitext.reversed), strict=True):
        alone = fit_ibm1(text, threads=1, **options)
        for name in ("offsets", "columns", "values"):
            one, other = getattr(found.table, name), getattr(alone.table, name)
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
        assert (found.null is None) == (alone.null is None)
        assert found.null is None or found.null.tobytes() == alone.null.tobytes()
        assert found.log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-12)
        assert (found.source, found.target) == (alone.source, alone.target)
        assert found.null_probability == alone.null_probability


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_bits_are_those_of_each_direction_alone(bitext, options, threads):
    check_same(bitext, threads, **options)


WORDS = st.lists(st.sampled_from("abcdefg"), max_size=9)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=12), st.integers(1, 4), st.booleans())
def test_whatever_the_text(pairs, threads, null):
    check_same(bitext_of(pairs), threads, iterations=3, null=null)


def check_links(pair, text, threads=None, method="grow-diag-final-and"):
    forward, reverse = pair
    expected = symmetrize(forward.links(text), reverse.links(text.reversed).reversed, method)
    found = Bidirectional(forward, reverse, method, threads=threads).links(text)
    assert found.to_pharaoh() == expected.to_pharaoh()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("threads", [1, 3])
def test_links_are_those_of_the_two_models_symmetrised(bitext, options, threads):
    pair = fit_both_ways(bitext, **options)
    for model, text in zip(pair, (bitext, bitext.reversed), strict=True):
        assert links_from_positions(model.places(text), text, 1).to_pharaoh() == model.links(text).to_pharaoh()
    for method in METHODS:
        check_links(pair, bitext, threads, method)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=12), st.integers(1, 2))
def test_links_whatever_the_text(pairs, iterations):
    text = bitext_of(pairs)
    check_links(fit_both_ways(text, iterations), text)


def test_links_of_words_that_never_met():
    """The same words in other company: the table has no pair for some of them."""
    text = bitext_of([(["a", "b"], ["x"]), (["c"], ["y", "z"]), (["d"], ["x", "z"])])
    pair = fit_both_ways(text, 3)
    source, target = text.source, text.target
    other = Bitext(
        Corpus(np.array([0, 2, 3, 1, 0], np.int32), np.array([0, 3, 4, 5]), source.vocabulary),
        Corpus(np.array([1, 0, 2, 1, 2], np.int32), np.array([0, 2, 3, 5]), target.vocabulary),
    )
    check_links(pair, other)
    check_links(pair, bitext_of([(["a", "new"], ["x", "neu"])]))


@pytest.mark.parametrize(
    "places",
    [
        ([0], [0, 1]),
        ([0, 0], [0, 1, 0]),
        ([5_000_000, 0, 0], [0, 0, 0]),
        ([0, 0, 0], [0, 0, -2]),
        ([1, 0, 0], [0, 0, 0]),
    ],
)
def test_places_of_another_text(places):
    text = bitext_of([(["a"], ["x"]), (["b", "c"], ["y", "z"])])
    forward, reverse = (np.array(side, np.int32) for side in places)
    with pytest.raises(AlignkitError, match="not those of this text"):
        symmetrize_places(forward, reverse, text)


def test_rows_that_outgrow_their_buffer(bitext, monkeypatch):
    monkeypatch.setattr(bags, "_ROOM", 8)
    check_same(bitext, 2)


def test_long_sentences_keep_their_likelihood():
    """Products of many probabilities leave the range of numbers."""
    words = [f"w{n}" for n in range(700)]
    check_same(bitext_of([(words, words[::-1]), (words[:5], words[:3])]), 1, iterations=4)


def test_progress_and_bad_settings(bitext):
    told = []
    fit_both_ways(bitext, 2, progress=lambda *args: told.append(args))
    assert [args[:2] for args in told] == [(1, 2), (2, 2)]
    assert all("reverse -" in message for _, _, message in told)
    with pytest.raises(AlignkitError, match="iterations"):
        fit_both_ways(bitext, 0)
