"""Posteriors and likelihoods against enumeration of all paths, and products of matrices."""

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, hmm_of_one_pair, random_pairs

from alignkit.classical.hmm.e_step import BLOCKS, pair_blocks
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.inference import ROUNDS, posteriors
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.model import WIDTH
from alignkit.classical.hmm.views import View
from alignkit.kernels.hmm_e_step import BOTH, FORWARD, REVERSE
from alignkit.kernels.hmm_rows import DENSE

SHAPES = [(1, 1), (1, 4), (4, 1), (3, 3), (4, 3), (3, 4), (5, 2)]


def draw(T, L, seed):
    """Emission (T, L), NULL's (T,), transition and initial weights."""
    rng = np.random.default_rng(100 * seed + 10 * T + L)
    emission, null = rng.random((T, L)) + 1e-6, rng.random(T) + 1e-6
    return tuple(
        array.astype(np.float32)
        for array in (emission, null, rng.random(2 * WIDTH + 1) + 0.05, rng.random(WIDTH + 1) + 0.05)
    )


def as_functions(emission, null, transition, initial):
    """The same as the enumeration takes it."""
    jump, start = (lambda d: float(transition[WIDTH + d])), (lambda j: float(initial[j]))
    return emission.tolist(), null.tolist(), jump, start


@pytest.mark.parametrize(("T", "L"), SHAPES)
def test_posteriors_and_likelihood_are_enumeration(T, L):
    numbers = draw(T, L, 0)
    hmm, bitext = hmm_of_one_pair(*numbers, 0.3)
    expected = naive.posteriors(*as_functions(*numbers), 0.3)
    assert hmm.log_probabilities(bitext)[0] == pytest.approx(expected[0], abs=1e-4)
    found = hmm.score(bitext, "alpha")[0]
    assert np.allclose(found, expected[1], atol=2e-4)
    assert np.allclose(1 - found.sum(axis=1), expected[2], atol=2e-4)


@pytest.mark.parametrize(("T", "L"), [(5, 8), (4, 24), (6, 25), (9, 41), (3, 120)])
def test_posteriors_are_those_of_matrices(T, L):
    """Sentences of whole and broken vectors, short ones, long ones where negligible states pass nothing on, one
    with jumps and first positions beyond the width, which take the weight of the last."""
    rng = np.random.default_rng(L)
    emission, null = rng.random((T, L)) ** 8 + 1e-8, rng.random(T) * 0.1 + 1e-8
    numbers = emission, null, *draw(T, L, 1)[2:]
    hmm, bitext = hmm_of_one_pair(*numbers, 0.2)
    likelihood, posteriors, _, _ = naive.posteriors_by_matrices(*numbers, 0.2)
    assert hmm.log_probabilities(bitext)[0] == pytest.approx(likelihood, abs=1e-3)
    assert np.allclose(hmm.score(bitext, "alpha")[0], posteriors, atol=1e-3)


def test_blocks_of_a_small_text_are_as_large_as_asked_for():
    bitext = bitext_of([(["a"] * 2, ["b"] * 3)] * 40)  # a pair is work of 2 * 3 * (2 + 3)
    assert pair_blocks(bitext, 1201) == [(0, 40)]
    assert pair_blocks(bitext, 300) == [(0, 10), (10, 20), (20, 30), (30, 40)]
    assert pair_blocks(bitext) == [(m, m + 1) for m in range(40)]
    assert len(pair_blocks(bitext.take(np.arange(40).repeat(50)), 1)) == BLOCKS
    assert pair_blocks(bitext.take(np.arange(0)), 300) == [(0, 0)]


def test_the_likelihood_of_both_directions_is_their_sum():
    bitext = bitext_of(random_pairs(3, pairs=20))
    model = fit_joint(bitext, views=(View(),)).words.plain
    both, forward, reverse = (posteriors(bitext, model, pool, 1)[1] for pool in (BOTH, FORWARD, REVERSE))
    assert both == pytest.approx(forward + reverse, rel=1e-6)
    assert not np.allclose(forward, reverse)


@pytest.mark.parametrize("seed", range(5))
def test_short_sentences_lose_nothing(seed):
    """Words that contradict each other, and sharp jumps: the likeliest path goes through states that look next to
    impossible from before."""
    rng = np.random.default_rng(seed)
    T, L = 60, DENSE
    emission, null = np.exp(-20 * rng.random((T, L))), np.exp(-20 * rng.random(T))
    transition = np.exp(-4 * np.abs(np.arange(-WIDTH, WIDTH + 1) - 1)) + 1e-12
    numbers = emission, null, transition, np.ones(WIDTH + 1)
    hmm, bitext = hmm_of_one_pair(*numbers, 0.01)
    assert np.allclose(hmm.score(bitext)[0], naive.posteriors_by_matrices(*numbers, 0.01)[1], atol=1e-5)


def test_very_long_pairs_are_aligned_without_transitions():
    T, L = 600, 3800
    rng = np.random.default_rng(0)
    emission, null = rng.random((T, L)) + 1e-3, rng.random(T)
    transition = np.full(2 * WIDTH + 1, 1e-6)
    transition[WIDTH + 1] = 1  # which would have the diagonal aligned
    hmm, bitext = hmm_of_one_pair(emission, null, transition, np.ones(WIDTH + 1), 0.1)
    expected = 0.9 / L * emission
    expected /= expected.sum(axis=1, keepdims=True) + 0.1 * null[:, None]
    assert np.allclose(hmm.score(bitext)[0], expected, rtol=1e-3)
    positions = np.where(expected.max(axis=1) >= 1 - expected.sum(axis=1), emission.argmax(axis=1), -1)
    assert hmm.links(bitext)[0].tolist() == sorted([s, t] for t, s in enumerate(positions.tolist()) if s >= 0)
    assert len(hmm.links(bitext)[0])


def test_fertility_is_interpolated_between_whole_numbers_of_other_links():
    rng = np.random.default_rng(2)
    T, L = 6, 3
    emission, null = 0.9 * rng.random((T, L)) + 0.1, rng.random(T) * 0.01 + 1e-3
    fertility = np.exp(2 * rng.normal(size=(L, 8)))
    weights = np.ones(2 * WIDTH + 1), np.ones(WIDTH + 1)  # all positions are equally likely
    hmm, bitext = hmm_of_one_pair(emission, null, *weights, 0.2, fertility=fertility)
    expected = naive.links_with_fertility(emission, null, fertility, 0.2, ROUNDS)
    plain = naive.links_with_fertility(emission, null, fertility, 0.2, 0)
    assert np.abs(expected - plain).max() > 0.1
    assert np.allclose(hmm.score(bitext)[0], expected, atol=1e-3)
    # A likelihood has no fertility.
    likelihood = np.log(0.8 / L * emission.sum(axis=1) + 0.2 * null).sum()
    assert hmm.log_probabilities(bitext)[0] == pytest.approx(likelihood, rel=1e-5)


def test_threads_change_no_link():
    bitext = bitext_of(random_pairs(9, pairs=120))
    links = [fit_hmm(bitext, threads=n).links(bitext) for n in (1, 3)]
    assert links[0].pairs.tobytes() == links[1].pairs.tobytes()


def test_a_long_sentence_opposite_a_blank_one():
    """It may be longer than any pair of words on both sides, by which the space for all is measured."""
    model = fit_joint(bitext_of(random_pairs(3, pairs=20)), views=(View(),))
    long = ["s0"] * 100_000
    found = model.links(bitext_of([(long, []), (["s0"], ["t0"]), ([], long)]))
    assert [len(pair) for pair in found][::2] == [0, 0]
