import numpy as np

from alignkit.kernels.hmm_m_step import NO_BACKGROUND, BackgroundClasses, BackOffClasses, add_back_off
from alignkit.kernels.inverted_index import TableRows


def test_back_off_of_a_model_and_a_text_is_that_of_both_as_one_text():
    """A table of twelve words a side in four classes, cut in two: the model's part may have words of its own."""
    draw = np.random.default_rng(5)
    words, classes, mine = 12, 4, 9  # the text has the first nine words of each side
    of = np.arange(words) % classes
    dense = draw.random((words, words)) * (draw.random((words, words)) < 0.7)
    model = dense * draw.random((words, words))
    model[mine:], model[:, mine:] = dense[mine:], dense[:, mine:]

    def rows_of(table):
        i, o = np.nonzero(np.ones_like(table))
        return TableRows(
            np.searchsorted(i, np.arange(len(table) + 1)), o.astype(np.int32), table.ravel().astype(np.float32)
        )

    def back_off(size):
        members = np.argsort(of[:size], kind="stable").astype(np.int32)
        first = np.searchsorted(of[:size][members], np.arange(classes + 1))
        factors = draw.random((2, words, 2)).astype(np.float32) if size == words else whole
        return factors, BackOffClasses(
            members, first, of[:size].astype(np.int32), factors[0][:size].copy(), factors[1][:size].copy()
        )

    whole, pairs = back_off(words)
    expected = np.zeros((words * words, 3), np.float32)
    space = np.zeros(classes), np.empty(200, np.uint32)
    add_back_off(0, classes, pairs, NO_BACKGROUND, rows_of(dense), *space, expected)

    # The model numbers its classes otherwise, and has one that the text does not.
    number = np.array([3, 0, 4, 1])
    sums = np.zeros((5, 5))
    np.add.at(sums, (number[of][:, None], number[of][None, :]), model)
    inverse = np.array([1, 3, -1, 0, 2], np.int32)
    known = BackgroundClasses(
        5 * number,
        5 * number + 5,
        np.tile(np.arange(5, dtype=np.int32), 5),
        sums.ravel().astype(np.float32),
        inverse,
        model[:mine, :mine].ravel().astype(np.float32),
    )
    _, pairs = back_off(mine)
    found = np.zeros((mine * mine, 3), np.float32)
    add_back_off(0, classes, pairs, known, rows_of(dense[:mine, :mine]), *space, found)
    assert np.allclose(found.reshape(mine, mine, 3), expected.reshape(words, words, 3)[:mine, :mine], atol=1e-5)
    assert found[:, 1:].min() > 0
    assert not space[0].any()
