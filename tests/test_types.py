"""Settings given as text."""

import pytest

from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.settings import DiagonalSettings, IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.types import assigned


def test_values_are_json_or_text():
    found = assigned(DiagonalSettings(), ["dirichlet=null", "tension = 2", "optimize_tension=false", "prune=1e-4"])
    assert found == DiagonalSettings(dirichlet=None, tension=2.0, optimize_tension=False, prune=1e-4)
    assert assigned(HMMSettings(), ["decode=viterbi"]).decode == "viterbi"
    assert assigned(HMMSettings(), ["affixes=2,4"]).affixes == (2, 4)
    assert assigned(IBM1Settings(), []) == IBM1Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations", "sets nothing; use NAME=VALUE with a name of iterations, null,"),
        ("size=3", "'size=3' sets nothing"),
        ("null=1", "null cannot be '1'"),
        ("prune=true", "prune cannot be 'true'"),
        ("iterations=2.5", "iterations cannot be '2.5'"),
        ("tolerance=NaN", "tolerance cannot be 'NaN'"),
        ("dirichlet=[1]", "dirichlet cannot be"),
        ("prune=2", "pruning must lie between"),
    ],
)
def test_what_is_no_setting(text, message):
    with pytest.raises(AlignkitError, match=message.replace("[", r"\[")):
        assigned(IBM1Settings(), [text])
