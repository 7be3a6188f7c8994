"""Which attention is read, and what is refused; what is read is tested with the networks."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from alignkit.errors import AlignkitError
from alignkit.neural.settings import Reading


def test_without_a_choice_the_mean_of_all_is_read():
    assert asdict(Reading()) == {"layer": 0, "head": 0, "shifted": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer": -1}, "setting layer must be a whole number of at least 0, not -1"),
        ({"head": 1.0}, "setting head must be a whole number of at least 0, not 1.0"),
        ({"shifted": 1}, "setting shifted must be true or false"),
    ],
)
def test_impossible_readings(given, message):
    with pytest.raises(AlignkitError, match=message):
        Reading(**given)
