"""One direction, or both at the same time."""

import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.workflow.fitting import fit_symmetrized


@pytest.fixture(scope="module")
def bitext():
    return bitext_of(random_pairs(5))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_both_directions_at_once_are_those_fitted_apart(bitext, threads):
    def fit(text, share):
        assert 1 <= share <= threads
        return fit_ibm1(text, iterations=3, threads=share)

    at_once = fit_symmetrized(bitext, fit, threads=threads)
    apart = fit(bitext, 1), fit(bitext.reversed, 1)
    for one, other in zip(apart, (at_once.forward, at_once.reverse), strict=True):
        assert one.table.values.tobytes() == other.table.values.tobytes()
        assert one.null.tobytes() == other.null.tobytes()
        assert other.threads == threads


def test_an_error_in_one_direction_is_raised(bitext):
    def fit(text, share):
        if text is not bitext:
            raise RuntimeError("no")
        return fit_ibm1(text, iterations=1)

    for threads in (1, 2):
        with pytest.raises(RuntimeError, match="no"):
            fit_symmetrized(bitext, fit, threads=threads)
