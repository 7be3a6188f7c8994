"""Rollout and flow, against sums over paths and linear programs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from alignkit.errors import AlignkitError
from alignkit.heads.self_attention import attention_flow, attention_rollout, mixed_layers

RNG = np.random.default_rng(5)


def random_weights(layers, length, heads=None):
    shape = (layers, length) if heads is None else (layers, heads, length)
    return RNG.dirichlet(np.full(length, 0.5), shape)


@pytest.mark.parametrize(("layers", "length", "heads"), [(1, 4, None), (3, 3, 2), (2, 5, 3)])
def test_rollout_is_the_sum_over_all_paths(layers, length, heads):
    weights = random_weights(layers, length, heads)
    mixed = mixed_layers(weights)
    expected = np.zeros((length, length))
    for path in product(range(length), repeat=layers + 1):  # from the input to the last layer
        steps = [mixed[n, path[n + 1], path[n]] for n in range(layers)]
        expected[path[-1], path[0]] += np.prod(steps)
    found = attention_rollout(weights)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(1), 1)


def maximum_flow_by_linear_program(mixed, i, j):
    layers, length = mixed.shape[:2]
    edges = [(n, a, b) for n in range(layers) for a in range(length) for b in range(length)]
    balance = np.zeros((layers + 1, length, len(edges)))
    for k, (n, a, b) in enumerate(edges):
        balance[n + 1, a, k] -= 1  # leaves a token of the layer above
        balance[n, b, k] += 1
    kept = np.ones((layers + 1, length), bool)
    kept[layers, i] = kept[0, j] = False
    solved = linprog(
        -balance[0, j],
        A_eq=balance[kept],
        b_eq=np.zeros(kept.sum()),
        bounds=[(0, mixed[n, a, b]) for n, a, b in edges],
    )
    assert solved.success
    return -solved.fun


@pytest.mark.parametrize(("layers", "length", "heads"), [(1, 4, None), (2, 4, 2), (4, 3, None)])
def test_flow_solves_the_linear_program(layers, length, heads):
    weights = random_weights(layers, length, heads)
    weights[weights < 0.02] = 0
    mixed = mixed_layers(weights)
    found = attention_flow(weights)
    for i, j in np.ndindex(length, length):
        assert found[i, j] == pytest.approx(maximum_flow_by_linear_program(mixed, i, j), abs=1e-7)


def test_no_layers_and_no_tokens():
    for method in (attention_rollout, attention_flow):
        np.testing.assert_array_equal(method(np.zeros((0, 3, 3))), np.eye(3))
        assert method(np.zeros((2, 0, 0))).shape == (0, 0)
        with pytest.raises(AlignkitError, match="has the shape"):
            method(np.zeros((2, 3, 4)))
        with pytest.raises(AlignkitError, match="between 0 and 1"):
            method(np.zeros((2, 3, 3)), residual=1.5)
