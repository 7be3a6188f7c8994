"""Settings changed by texts."""

from __future__ import annotations

import pytest

from alignkit.errors import AlignkitError
from alignkit.neural.settings import Reading, RunSettings, assign


def test_fields_of_all_parts_are_set():
    settings = RunSettings().change(network={"architecture": "transformer"})
    texts = ["network.layers=2", "network.norm=post", "training.label_smoothing=0.1", "text.pieces=77"]
    found = assign(settings, [*texts, "network.reading.shifted=true", "training.steps=5"])
    assert found == settings.change(
        text={"pieces": 77},
        network={"layers": 2, "norm": "post", "reading": Reading(shifted=True)},
        training={"label_smoothing": 0.1, "steps": 5},
    )
    assert assign(settings, ["training.steps=null"]) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network.layers", "'network.layers' sets nothing; use NAME=VALUE"),
        ("layers=2", "sets nothing; use NAME=VALUE with a name of text.tokens"),
        ("network.reading=2", "sets nothing"),
        ("network.norm=post", "sets nothing"),
        ("network.layers=two", "setting network.layers: 'two' is not a whole number"),
        ("training.label_smoothing=1", "label_smoothing must lie in"),
        ("network.reading.layer=2", "there is no layer 2 of 1 to read"),
    ],
)
def test_others_are_refused(text, message):
    with pytest.raises(AlignkitError, match=message):
        assign(RunSettings(), [text])
