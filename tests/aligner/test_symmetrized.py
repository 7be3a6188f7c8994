"""Two directions as one aligner (what every aligner must do is in test_contract.py)."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import bitext_of, random_pairs

import alignkit
from alignkit import aligner
from alignkit.aligner import Aligner, Reversed, Symmetrized, check_directions, load_aligner
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError, InputError
from alignkit.links.heuristics import method_names
from alignkit.links.symmetrization import symmetrize, symmetrize_scores
from alignkit.support.files import save_arrays
from alignkit.text.bitext import Bitext, Corpus

ODD = [([], ["t1"]), (["s1"], []), ([], []), (["s0"] * 50, ["t1", "t2"] * 40), (["only"], ["here", "here"])]
WORDS = st.lists(st.sampled_from("abcdefg"), max_size=9)


def both_ibm1s(text, method="grow-diag-final-and", threads=None, **options):
    sides = (text, text.reversed)
    return Symmetrized(*(fit_ibm1(side, threads=1, **options) for side in sides), method, threads=threads)


def check_links(both, text):
    """The links are those of the two models, symmetrized."""
    forward, reverse = both.forward.links(text), both.reverse.links(text.reversed).reversed
    expected = symmetrize(forward, reverse, both.method)
    assert both.links(text).to_pharaoh() == expected.to_pharaoh()


@pytest.fixture(scope="module")
def bitext():
    return bitext_of([*ODD, *random_pairs(31, pairs=200), *ODD])


@pytest.fixture(scope="module")
def models(bitext):
    return fit_ibm1(bitext, iterations=3), fit_ibm1(bitext.reversed, iterations=3)


@pytest.mark.parametrize("options", [{}, {"null": False}, {"null_probability": 0.2}, {"dirichlet": 0.01}], ids=str)
@pytest.mark.parametrize("method", method_names(needs_scores=False))
def test_links_are_those_of_the_two_models_symmetrized(bitext, options, method):
    for threads in (1, 3):
        check_links(both_ibm1s(bitext, method, threads, **options), bitext)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=12), st.integers(1, 2))
def test_links_whatever_the_text(pairs, iterations):
    text = bitext_of(pairs)
    check_links(both_ibm1s(text, iterations=iterations), text)


def test_two_models_of_one_direction_are_refused(bitext, models):
    forward, reverse = models
    for first, second in ((forward, forward), (reverse, reverse), (forward, Reversed(forward))):
        with pytest.raises(AlignkitError, match="not of the other direction"):
            alignkit.align(bitext, model=(first, second))
    assert alignkit.align(bitext, model=models).links == Symmetrized(*models).links(bitext)


@pytest.mark.parametrize(
    ("forward", "reverse", "fits"),
    [
        ("a b c", ("x", "a b"), True),
        ("a b c", ("a", "b c"), True),
        ("a b c", ("a b", "a c"), True),
        ("a b c", ("a b", "a"), False),
        ("a b c", ("x", "y"), False),
        ("", ("x", "y"), True),
    ],
)
def test_directions_are_told_by_the_words_that_they_share(forward, reverse, fits):
    one, other = (fit_ibm1(bitext_of([(x.split(), y.split())])) for x, y in ((forward, "x"), reverse))
    with nullcontext() if fits else pytest.raises(AlignkitError, match="not of the other direction"):
        check_directions(one, other)


def test_links_of_words_that_never_met():
    """The same words in other company: the table has no pair for some of them."""
    text = bitext_of([(["a", "b"], ["x"]), (["c"], ["y", "z"]), (["d"], ["x", "z"])])
    both = both_ibm1s(text, iterations=3)
    source, target = text.source, text.target
    other = Bitext(
        Corpus(np.array([0, 2, 3, 1, 0], np.int32), np.array([0, 3, 4, 5]), source.vocabulary),
        Corpus(np.array([1, 0, 2, 1, 2], np.int32), np.array([0, 2, 3, 5]), target.vocabulary),
    )
    check_links(both, other)
    check_links(both, bitext_of([(["a", "new"], ["x", "neu"])]))


def test_the_product_is_that_of_all_scores_whatever_the_blocks(bitext, models, monkeypatch):
    both = Symmetrized(*models, "product")
    whole = symmetrize_scores(models[0].score(bitext, "alpha"), models[1].score(bitext.reversed, "alpha"))
    monkeypatch.setattr(aligner, "BLOCK", 7)
    parts = both.links(bitext)
    assert np.array_equal(parts.pairs, whole.pairs)
    assert np.array_equal(parts.offsets, whole.offsets)
    assert len(both.links(bitext.take(np.arange(0)))) == 0
    more, fewer = (both.with_threshold(value).links(bitext) for value in (0.1, 0.4))
    assert len(more.pairs) > len(parts.pairs) > len(fewer.pairs)


def test_alpha_is_the_geometric_mean_and_beta_the_forward_one(bitext, models):
    alpha, beta = (Symmetrized(*models).score(bitext, kind) for kind in ("alpha", "beta"))
    one, other = models[0].score(bitext, "alpha"), models[1].score(bitext.reversed, "alpha")
    rescaled = 0
    for m in range(len(bitext)):
        mean = np.sqrt(one[m].astype(float) * other[m].T)
        sums = mean.sum(axis=1, keepdims=True)
        rescaled += int((sums > 1).sum())
        assert alpha[m] == pytest.approx(mean / np.maximum(sums, 1), rel=1e-5)
        assert np.array_equal(beta[m], models[0].score(bitext, "beta")[m])
    assert rescaled > 0


def test_directions_may_differ_in_kind(bitext, tmp_path):
    both = Symmetrized(fit_hmm(bitext), fit_diagonal(bitext.reversed), "gdf")
    both.save(tmp_path / "both")
    loaded = load_aligner(tmp_path / "both")
    assert (loaded.name, loaded.method) == ("symmetrized-hmm", "gdf")
    assert (loaded.forward.name, loaded.reverse.name) == ("hmm", "diagonal")
    assert loaded.links(bitext).to_pharaoh() == both.links(bitext).to_pharaoh()


def test_the_threshold_is_saved(models, tmp_path):
    Symmetrized(*models, "product", 0.3).save(tmp_path / "both")
    assert load_aligner(tmp_path / "both").threshold == 0.3


def test_a_damaged_file_is_one_clear_error(models, tmp_path):
    path = tmp_path / "both"
    Symmetrized(*models).save(path)
    whole = path.read_bytes()
    for place in (len(whole) // 4, len(whole) // 2):  # within the two models
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(InputError, match="both: damaged"):
            load_aligner(path)
    no_model = {side: np.zeros(9, np.uint8) for side in ("forward", "reverse")}
    good = {"method": "union", "threshold": None, "endings": {"forward": ".npz", "reverse": ".npz"}}
    for wrong in ({}, {"endings": {"forward": ".npz"}}, {"method": "xor"}, {"threshold": 7}):
        save_arrays(path, *aligner.SYMMETRIZED, no_model, good | wrong)
        with pytest.raises(InputError, match="both: damaged"):
            load_aligner(path)


class OnlyBeta(Aligner):
    name, kinds = "only-beta", ("beta",)

    def score(self, bitext, kind):
        raise NotImplementedError

    def save(self, path):
        raise NotImplementedError


def test_a_saved_model_of_target_to_source_is_the_second_of_two(bitext, models, tmp_path):
    Reversed(models[1]).save(tmp_path / "reverse")
    reverse = load_aligner(tmp_path / "reverse")
    expected = Symmetrized(*models).links(bitext)
    assert Symmetrized(models[0], reverse).links(bitext).to_pharaoh() == expected.to_pharaoh()
    with pytest.raises(AlignkitError, match="give it as the second"):
        Symmetrized(reverse, models[0])


def test_what_cannot_be_combined(models):
    with pytest.raises(AlignkitError, match="only-beta has no alpha scores"):
        Symmetrized(models[0], OnlyBeta())
    with pytest.raises(AlignkitError, match="cannot symmetrize by 'xor' here; choose one of intersection"):
        Symmetrized(*models, "xor")
    for method, threshold in (("union", 0.2), ("product", 1.5)):
        with pytest.raises(AlignkitError, match="a threshold lies in"):
            Symmetrized(*models, method, threshold)
