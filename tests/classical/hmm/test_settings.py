import pytest

from alignkit.classical.hmm.settings import HMMSettings
from alignkit.errors import AlignkitError


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"lexical_iterations": -1},
        {"null_probability": 0.0},
        {"dirichlet": -1.0},
        {"fertility_prior": 0.0},
        {"affixes": (0,)},
        {"affixes": (3, -2)},
        {"fertility": 1.1},
        {"dirichlet": float("nan")},
        {"dirichlet": float("inf")},
        {"reach": float("inf")},
        {"least_own": 1.5},
    ],
)
def test_settings_outside_their_range_are_errors(wrong):
    with pytest.raises(AlignkitError):
        HMMSettings(**wrong)


def test_priors_make_it_more_than_maximum_likelihood():
    assert HMMSettings(reach=5.0, tolerance=0.1).is_maximum_likelihood
    assert (HMMSettings().least_own, HMMSettings().fold_case) == (0, False)
    for prior in ({"dirichlet": 0.1}, {"transition_prior": 0.1}, {"fertility": 0.5}, {"leave_one_out": True}):
        assert not HMMSettings(**prior).is_maximum_likelihood
