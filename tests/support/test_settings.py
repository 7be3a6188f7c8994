"""Settings given as text."""

import pytest

from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.settings import DiagonalSettings, IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.neural.settings import Reading, RunSettings
from alignkit.support.settings import assigned


def test_values_are_json_or_text():
    texts = ["dirichlet=null", "tension = 2", "optimize_tension=false", "prune=1e-4", "null_probability=.5"]
    found = DiagonalSettings(dirichlet=None, tension=2.0, optimize_tension=False, prune=1e-4, null_probability=0.5)
    assert assigned(DiagonalSettings(), texts) == found
    assert assigned(HMMSettings(), ["affixes=2,4"]).affixes == (2, 4)
    assert assigned(IBM1Settings(), []) == IBM1Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations", "sets nothing; use NAME=VALUE with a name of iterations, null,"),
        ("size=3", "'size=3' sets nothing"),
        ("null=1", "null: '1' is not true or false"),
        ("prune=true", "prune: 'true' is not a finite number"),
        ("iterations=2.5", "iterations: '2.5' is not a whole number"),
        ("tolerance=NaN", "tolerance: 'NaN' is not a finite number"),
        ("tolerance=1e999", "tolerance: '1e999' is not"),
        (f"tolerance=1{'0' * 400}", "tolerance: '1000"),
        ("dirichlet=[1]", "dirichlet: '[1]' is not a finite number or null"),
        ("prune=2", "pruning must lie between"),
    ],
)
def test_what_is_no_setting(text, message):
    with pytest.raises(AlignkitError, match=message.replace("[", r"\[")):
        assigned(IBM1Settings(), [text])


def test_fields_of_all_parts_are_set():
    settings = RunSettings().change(network={"architecture": "transformer"})
    texts = ["network.layers=2", "training.label-smoothing=0.1", "text.pieces=77", "text.tokens=words"]
    found = assigned(settings, [*texts, "network.reading.shifted=true", "training.steps=5"])
    assert found == settings.change(
        text={"pieces": 77, "tokens": "words"},
        network={"layers": 2, "reading": Reading(shifted=True)},
        training={"label_smoothing": 0.1, "steps": 5},
    )
    assert assigned(settings, ["training.steps=null"]) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network.layers", "'network.layers' sets nothing; use NAME=VALUE"),
        ("layers=2", "sets nothing; use NAME=VALUE with a name of text.tokens"),
        ("network.reading=2", "sets nothing"),
        ("network.architecture=transformer", "sets nothing"),
        ("network.layers=two", "setting network.layers: 'two' is not a whole number"),
        ("training.label_smoothing=1", "label_smoothing must be a number in"),
        ("network.reading.layer=2", "there is no layer 2 of 1 to read"),
    ],
)
def test_others_are_refused(text, message):
    with pytest.raises(AlignkitError, match=message):
        assigned(RunSettings(), [text])
