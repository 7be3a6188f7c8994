"""The tests of one decision against brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import jensenshannon
from scipy.special import expit, logit

from alignkit.lab.explain.interventions import (
    adversarial_attention,
    permutation_change,
    uniform_change,
)
from alignkit.lab.explain.subject import Decision, jensen_shannon, sums_to_one


def random_decision(seed, length=6):
    rng = np.random.default_rng(seed)
    return Decision(rng.dirichlet(np.ones(length) * 0.7), rng.normal(size=length) * 2, float(rng.normal()))


def test_which_attention_is_a_distribution():
    assert sums_to_one(np.array([[0.25, 0.75], [1.0, 1e-5]], np.float32))
    assert not sums_to_one(np.array([[0.25, 0.75], [0.5, 0.51]]))
    assert not sums_to_one(np.array([0.5, np.nan]))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_the_adversary_is_allowed_and_no_other_corner_is_further(seed, epsilon):
    """Corners of the allowed attentions, found by linear programs in random directions."""
    decision = random_decision(seed)
    value, attention = adversarial_attention(decision, epsilon)
    assert attention.min() >= 0
    assert attention.sum() == pytest.approx(1)
    assert abs(decision.probability(attention) - expit(decision.logit)) <= epsilon + 1e-9
    assert jensen_shannon(decision.alpha, attention) == pytest.approx(value)
    p = expit(decision.logit)
    ends = [min(max(p + sign * epsilon, 1e-12), 1 - 1e-12) for sign in (-1, 1)]
    low, high = (np.log(end / (1 - end)) - decision.bias for end in ends)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        corner = linprog(
            rng.normal(size=6),
            A_ub=[decision.strength, -decision.strength],
            b_ub=[high, -low],
            A_eq=[np.ones(6)],
            b_eq=[1],
            bounds=(0, 1),
        ).x
        assert jensen_shannon(decision.alpha, np.clip(corner, 0, None)) <= value + 1e-7


def test_attention_moves_to_the_other_word_as_far_as_the_output_may():
    """There is no lower bound, and the first word alone is the attention already."""
    decision = Decision(np.array([1.0, 0.0]), np.array([0.0, 10.0]), -4.0)
    most = (logit(expit(-4) + 0.1) + 4) / 10
    value, attention = adversarial_attention(decision, 0.1)
    assert attention == pytest.approx([1 - most, most])
    assert value == pytest.approx(jensenshannon([1, 0], attention) ** 2)


def test_uniform_and_permuted_attention():
    decision = Decision(np.array([0.9, 0.1, 0.0]), np.array([3.0, -3.0, -3.0]), 0.0)
    change, flips = uniform_change(decision)
    assert change == pytest.approx(1 / (1 + np.exp(-2.4)) - 1 / (1 + np.exp(1)))
    assert flips
    assert uniform_change(decision._replace(bias=2.0))[0] > 0.1
    assert not uniform_change(decision._replace(bias=2.0))[1]  # less sure of the same
    even = Decision(np.full(4, 0.25), np.arange(4.0), 0.0)
    assert uniform_change(even) == (0.0, False)
    assert permutation_change(even, np.random.default_rng(0)) == pytest.approx(0)


@pytest.mark.parametrize("seed", range(4))
def test_permuted_attention_against_all_permutations(seed):
    """The median of a sample lies at or next to the middle of the 24 orders of four weights."""
    decision = random_decision(seed, 4)
    changes = sorted(
        abs(expit(np.array(order) @ decision.strength + decision.bias) - expit(decision.logit))
        for order in permutations(decision.alpha)
    )
    found = permutation_change(decision, np.random.default_rng(seed), 20_001)
    assert changes[11] > 0
    assert changes[11] - 1e-12 <= found <= changes[12] + 1e-12
