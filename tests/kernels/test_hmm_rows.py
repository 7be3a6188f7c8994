"""Functions of rows in vectors of eight numbers: bit for bit what plain loops give, at several lengths."""

import naive_hmm as naive
import numpy as np
import pytest

from alignkit.classical.hmm.e_step import uniform_direction
from alignkit.kernels import hmm_rows as rows
from alignkit.kernels.hmm_e_step import States, prepare_states, state_space

STRIDES = pytest.mark.parametrize("stride", [8, 16, 24, 40])


def draw(stride, *shape):
    """Float32 numbers of all sizes, some zero: a row of this length, or as many as the shape says."""
    rng = np.random.default_rng(stride)
    numbers = rng.random((*shape, stride)) ** 6
    return np.where(rng.random(numbers.shape) < 0.2, 0, numbers).astype(np.float32)


@STRIDES
def test_sums_and_scaling(stride):
    row, other = draw(stride, 2)
    assert rows.sum_row(row) == naive.sum_row(row)
    assert rows.sum_changes(row, other) == naive.sum_row(abs(row - other))
    out = np.empty(stride, np.float32)
    rows.scale_row(row, np.float32(0.3), out)
    assert np.array_equal(out, row * np.float32(0.3))
    rows.add_row(other, out)
    assert np.array_equal(out, row * np.float32(0.3) + other)
    product = row.copy()
    assert rows.emit(product, other) == naive.sum_row(row * other)
    assert np.array_equal(product, row * other)


@pytest.mark.parametrize("L", [1, 7, 8, 9, 24])
def test_padding_is_cleared_whatever_it_was(L):
    stride = rows.padded(L)
    row = np.full(stride, np.nan, np.float32)
    row[:L] = draw(stride)[:L]
    expected = np.append(row[:L], np.zeros(stride - L, np.float32))
    rows.clear_end(row, L)
    assert np.array_equal(row, expected)
    matrix = np.full((4, stride), np.nan, np.float32)
    rows.clear_ends(3, stride, matrix.reshape(-1))
    assert not matrix[:3, -rows.VECTOR_WIDTH :].any()
    assert np.isnan(matrix[:3, : -rows.VECTOR_WIDTH]).all()
    assert np.isnan(matrix[3]).all()


@pytest.mark.parametrize("L", [5, rows.DENSE, rows.DENSE + 1, 60])
def test_a_list_of_what_is_above_a_bound(L):
    values, places = draw(rows.padded(L)), np.empty(rows.padded(L), np.int32)
    count = rows.list_above(L, np.float32(0.1), values, places)
    expected = naive.list_above(L, 0.1, values, rows.DENSE)
    assert places[:count].tolist() == expected
    assert (count < L) == (L > rows.DENSE)


@STRIDES
def test_messages_are_spread_by_the_weights_of_jumps(stride):
    values, weights = draw(stride), draw(2 * stride + 1)
    for places in (np.arange(stride, dtype=np.int32), np.arange(0, stride, 3, dtype=np.int32)):
        out = np.empty(stride, np.float32)
        rows.spread(values, places, weights, out)
        assert np.array_equal(out, naive.spread(values, places, weights, stride))
        ahead, moves = np.zeros(3 * stride, np.float32), draw(2 * stride)
        ahead[stride : 2 * stride] = draw(stride)
        expected = naive.add_moves(stride, values, places, ahead, moves)
        rows.add_moves(stride, values, places, ahead, moves)
        assert np.array_equal(moves, expected)


@STRIDES
def test_steps_of_the_two_passes(stride):
    f, g, leave, coming, b, e = draw(stride, 6)
    mass, leaving = np.empty((2, stride), np.float32)
    rows.depart(f, g, leave, mass, leaving)
    assert np.array_equal(mass, f + g)
    assert np.array_equal(leaving, (f + g) * leave)
    ahead, e_row = np.empty(stride, np.float32), e.copy()
    found = rows.meet(f, g, b, np.float32(0.7), e_row, ahead)
    expected_ahead, expected_row, *expected = naive.meet(f, g, b, np.float32(0.7), e)
    assert np.array_equal(ahead, expected_ahead)
    assert np.array_equal(e_row, expected_row)
    assert found == tuple(expected)
    departures = draw(stride)
    expected = naive.count_departures(f, g, leave, coming, np.float32(0.05), departures)
    rows.count_departures(f, g, leave, coming, np.float32(0.05), mass, departures)
    assert np.array_equal(mass, expected[0])
    assert np.array_equal(departures, expected[1])
    after = b.copy()
    rows.step_back(coming, leave, np.float32(0.4), after)
    assert np.array_equal(after, coming * leave + np.float32(0.4) * b)


@STRIDES
@pytest.mark.parametrize(("own", "least"), [(0, 0), (1, 0), (1, 0.3), (3, 1)])
def test_emissions_of_a_row(stride, own, least):
    """In the forward direction each column has its state, in the reverse one all have that of the row."""
    forward, reverse, links, counts, *source = draw(stride, 9)
    states, t, owns = States(*source), 2, tuple(np.float32([own, own + 1, least]))
    target = States(*draw(stride, 5)[::-1])
    own_links = np.maximum(links, np.float32(least))
    found = forward.copy(), reverse.copy()
    rows.emission_rows(t, *found, links, counts, owns, states, target)
    assert np.array_equal(found[0], naive.emission(forward, links, counts, owns[0] * own_links, *source))
    of_row = [numbers[t] for numbers in target]
    assert np.array_equal(found[1], naive.emission(reverse, links, counts, owns[1] * own_links, *of_row))


@pytest.mark.parametrize("expected", [0.0, 0.4, 1.0, 1.7, 3.2, 9.5])
def test_factors_are_interpolated_between_whole_numbers_of_other_links(expected):
    """Of a word that is expected to have so many links, for every link that may be one of them."""
    factors = np.array([[1.0, 0.5, 0.3, 0.7, 0.2]], np.float32)
    direction = uniform_direction(1, 1, 1, 0.2)._replace(fertility=factors)
    states = state_space(8)
    states.beyond[0] = expected
    prepare_states(np.zeros(1, np.int32), direction, states)
    links = np.linspace(0, min(expected, 1), 8, dtype=np.float32)
    _, *of_state = (numbers[0] for numbers in states)
    one, zero = np.ones(8, np.float32), np.zeros(8, np.float32)
    found = naive.emission(one, links, zero, zero, one, *of_state)
    assert np.allclose(found, np.interp(expected - links, range(5), factors[0]), atol=1e-6)


@STRIDES
def test_numbers_of_links(stride):
    links, numbers = draw(stride, 20), np.empty(8 * rows.FERTILITIES, np.float32)
    for place in range(0, stride, 8):
        rows.link_numbers(links.ravel(), 20, stride, place, numbers)
        expected = naive.link_numbers(links[:, place : place + 8], rows.FERTILITIES - 1)
        assert np.array_equal(numbers.reshape(-1, 8), expected)
    assert np.allclose(numbers.reshape(-1, 8).sum(axis=0), 1, atol=1e-5)
