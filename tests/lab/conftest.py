"""A planted text, and runs on it."""

from __future__ import annotations

import pytest
from planted import permuted_copy

from alignkit.lab.translation import train_lab_runs
from alignkit.neural.settings import PRESETS
from alignkit.text.pairs import LinePairs


def planted():
    return permuted_copy(3, pairs=300, types=12, longest=5)


@pytest.fixture(scope="session")
def lines():
    """A permuted-copy text with an identity lexicon: which word translates which is known."""
    pairs, _ = planted()
    return [" ".join(x) for x, _ in pairs], [" ".join(y) for _, y in pairs]


@pytest.fixture(scope="session")
def gold_lines():
    """The links of that text."""
    return [" ".join(f"{s}-{t}" for s, t in links) for links in planted()[1]]


def settings_of(**training):
    return PRESETS["small"].change(
        text={"tokens": "words"}, network={"embedding": 24, "hidden": 24}, training={"epochs": 4, **training}
    )


@pytest.fixture(scope="session")
def folder(lines, tmp_path_factory):
    """The three runs of a lab: 250 training and 50 validation pairs."""
    place = tmp_path_factory.mktemp("lab")
    texts = [LinePairs(*(side[part] for side in lines)) for part in (slice(0, 250), slice(250, 300))]
    train_lab_runs(place, *texts, settings_of(), device="cpu")
    return place
