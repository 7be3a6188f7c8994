"""The kernels of the chain against enumeration of all its paths."""

import itertools
import math

import naive_hmm as naive
import numpy as np
import pytest

from alignkit.classical.hmm.estimation import WIDTH, Direction
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.kernels import forward_backward as kernels
from alignkit.kernels.lanes import LANES


def run_kernel(emission, null, jumps, start, p0, shares=False):
    """(log-likelihood, posteriors, NULL's, {jump: expected number}) by the kernel."""
    T, L = emission.shape
    direction = Direction((1, 1), T, HMMSettings(null_probability=p0))
    direction.jumps, direction.start = jumps, start
    stride = kernels.padded(L)
    most = kernels.padded(max(T, L)) + LANES
    weights, counts = kernels.widened(direction.arrays, most)
    # What is not written before it is read would show.
    f, g = (np.full(T * stride, np.nan, np.float32) for _ in range(2))
    e = np.zeros(T * stride, np.float32)
    rows = (np.full((kernels.ROWS, most), np.nan, np.float32), np.empty(most, np.int32))
    work = (f, g, rows, np.empty(T, np.float32))
    e.reshape(T, stride)[:, :L] = emission
    e_null = null.copy()
    likelihood = kernels.posteriors(T, L, e, e_null, direction.arrays, weights, work, counts)
    middle = (len(counts[0]) - 1) // 2
    if shares:
        return {d: counts[1][middle + d] for d in range(1 - L, L)}
    found = {d: counts[0][middle + d] for d in range(1 - L, L)}
    return likelihood, e.reshape(T, stride)[:, :L], e_null, found


@pytest.mark.parametrize(
    ("T", "L", "seed"), [(1, 1, 0), (1, 4, 1), (4, 1, 2), (3, 3, 3), (4, 3, 4), (3, 4, 5), (5, 2, 6)]
)
def test_forward_backward_is_enumeration(T, L, seed):
    rng = np.random.default_rng(seed)
    emission = rng.random((T, L)).astype(np.float32)
    null = rng.random(T).astype(np.float32)
    jumps = rng.random(2 * WIDTH + 1).astype(np.float32) + np.float32(0.05)
    start = rng.random(WIDTH + 1).astype(np.float32) + np.float32(0.05)
    found = run_kernel(emission, null, jumps, start, 0.3)
    expected = naive.posteriors(
        emission.tolist(), null.tolist(), lambda d: float(jumps[WIDTH + d]), lambda j: float(start[j]), 0.3
    )
    assert found[0] == pytest.approx(expected[0], abs=1e-4)
    assert np.allclose(found[1], expected[1], atol=2e-4)
    assert np.allclose(found[2], expected[2], atol=2e-4)
    for d, number in expected[3].items():
        assert found[3][d] == pytest.approx(number, abs=5e-4)


def test_jumps_beyond_the_width_share_a_weight():
    """Sentences longer than the table of jumps: far jumps take the weight of the last."""
    weights = np.arange(1, 2 * WIDTH + 2, dtype=np.float32)
    reach = WIDTH + 7
    wide = np.zeros(2 * reach + 1, np.float32)
    kernels.widen(weights, -reach, reach, wide)
    assert wide[0] == wide[7] == weights[0]
    assert wide[8] == weights[1]
    assert wide[-1] == wide[-8] == weights[-1]
    folded = np.zeros_like(weights, dtype=np.float64)
    kernels.fold(np.ones(2 * reach + 1), -reach, folded)
    assert folded[0] == folded[-1] == 8
    assert (folded[1:-1] == 1).all()


def test_jumps_are_divided_by_the_chances_they_had():
    """The M-step's divisor: for each jump that was possible, the jumps from a position by the weights from it."""
    rng = np.random.default_rng(4)
    T, L, p0 = 4, 3, 0.3
    emission, null = rng.random((T, L)).astype(np.float32), rng.random(T).astype(np.float32)
    jumps = rng.random(2 * WIDTH + 1).astype(np.float32) + np.float32(0.05)
    start = rng.random(WIDTH + 1).astype(np.float32) + np.float32(0.05)
    counts = run_kernel(emission, null, jumps, start, p0, shares=True)
    weight = lambda d: float(jumps[WIDTH + d])  # noqa: E731
    expected = dict.fromkeys(range(1 - L, L), 0.0)
    for path in naive.paths(T, L):
        chance = naive.path_probability(
            path, emission.tolist(), null.tolist(), weight, lambda j: float(start[j]), p0
        )
        for (before, _), (_, is_null) in itertools.pairwise(path):
            if not is_null:
                possible = range(-before, L - before)
                for d in possible:
                    expected[d] += chance / sum(map(weight, possible))
    total = math.exp(naive.posteriors(emission.tolist(), null.tolist(), weight, lambda j: float(start[j]), p0)[0])
    for d, share in expected.items():
        assert counts[d] == pytest.approx(share / total, rel=1e-3)
    direction = Direction((1, 1), T, HMMSettings())
    number, share = np.zeros((2, 2 * WIDTH + 1))
    number[WIDTH : WIDTH + 2], share[WIDTH : WIDTH + 2] = (3, 1), (6, 1)
    direction.update_chain((number, share, np.zeros(WIDTH + 1), np.zeros(WIDTH + 1)), 0.0)
    assert direction.jumps[WIDTH + 1] / direction.jumps[WIDTH] == pytest.approx(2)


def by_matrices(emission, null, jumps, start, p0):
    """What :func:`run_kernel` gives, by products of matrices in float64."""
    T, L = emission.shape
    places = np.arange(L)
    weight = jumps[np.clip(places - places[:, None], -WIDTH, WIDTH) + WIDTH].astype(float)
    first = start[np.minimum(places, WIDTH)].astype(float)
    move, first = weight / weight.sum(axis=1, keepdims=True), first / first.sum()
    # States: x_j, then NULL at x_j.
    step = np.block([[(1 - p0) * move, p0 * np.eye(L)]] * 2)
    emitted = np.concatenate([emission, np.repeat(null[:, None], L, axis=1)], axis=1).astype(float)
    ahead, scales = [np.concatenate([(1 - p0) * first, p0 * first]) * emitted[0]], []
    for t in range(T):
        if t:
            ahead.append(ahead[-1] @ step * emitted[t])
        scales.append(ahead[t].sum())
        ahead[t] /= scales[t]
    behind, moved = np.ones(2 * L), dict.fromkeys(range(1 - L, L), 0.0)
    posterior = np.empty((T, 2 * L))
    for t in range(T - 1, -1, -1):
        posterior[t] = ahead[t] * behind
        if t:
            coming = emitted[t] * behind / scales[t]
            pairs = ahead[t - 1][:, None] * step[:, :L] * coming[:L]
            for d in moved:
                moved[d] += np.trace(pairs[:L] + pairs[L:], d)
            behind = step @ coming
    return np.log(scales).sum(), posterior[:, :L], posterior[:, L:].sum(axis=1), moved


@pytest.mark.parametrize(("T", "L"), [(5, 8), (4, 24), (6, 25), (9, 41), (3, 120)])
def test_forward_backward_is_that_of_matrices(T, L):
    """Sentences of whole and broken vectors, short ones and ones where negligible states pass nothing on."""
    rng = np.random.default_rng(L)
    emission = (rng.random((T, L)) ** 8).astype(np.float32)
    null = (rng.random(T) * 0.1).astype(np.float32)
    jumps = rng.random(2 * WIDTH + 1).astype(np.float32) + np.float32(0.05)
    start = rng.random(WIDTH + 1).astype(np.float32) + np.float32(0.05)
    expected = by_matrices(emission, null, jumps, start, 0.2)
    found = run_kernel(emission, null, jumps, start, 0.2)
    assert found[0] == pytest.approx(expected[0], abs=1e-3)
    assert np.allclose(found[1], expected[1], atol=1e-3)
    assert np.allclose(found[2], expected[2], atol=1e-3)
    assert found[3] == pytest.approx(expected[3], abs=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_short_sentences_lose_nothing(seed):
    """Words that contradict each other, and sharp jumps: the likeliest path goes through states that look next to
    impossible from before."""
    rng = np.random.default_rng(seed)
    T, L = 60, kernels.DENSE
    emission = np.exp(-25 * rng.random((T, L))).astype(np.float32)
    null = np.exp(-25 * rng.random(T)).astype(np.float32)
    jumps = (np.exp(-4 * np.abs(np.arange(-WIDTH, WIDTH + 1) - 1)) + 1e-12).astype(np.float32)
    start = np.ones(WIDTH + 1, np.float32)
    expected = by_matrices(emission, null, jumps, start, 0.01)
    found = run_kernel(emission, null, jumps, start, 0.01)
    assert np.allclose(found[1], expected[1], atol=1e-5)
    assert found[3] == pytest.approx(expected[3], abs=1e-3)
