"""Bad settings of the experiments are refused with a line that names them."""

from __future__ import annotations

import pytest

from alignkit.errors import AlignkitError
from alignkit.experiments.registry import find_experiment


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("initial-gradient", {"seeds": "0"}),
        ("initial-gradient", {"widths": ""}),
        ("initial-gradient", {"widths": "4,0"}),
        ("optimal-attention", {"tolerance": "-1"}),
        ("toy-classifier", {"step": "0"}),
        ("topic-words", {"topics": "0"}),
        ("topic-words", {"real_steps": "0"}),
        ("output-relevance", {"seeds": "0"}),
        ("deceptive-attention", {"copy_epochs": "0"}),
        ("ktiw-drives-attention", {"runs": "0"}),
    ],
)
def test_bad_settings(name, change):
    experiment = find_experiment(name)
    with pytest.raises(AlignkitError, match=f"{next(iter(change))} must (be above 0|not be empty)"):
        experiment.run(experiment.settings(True, change))


def test_deceptive_attention_needs_a_weight():
    experiment = find_experiment("deceptive-attention")
    with pytest.raises(AlignkitError, match="at least one more"):
        experiment.run(experiment.settings(True, {"weights": ""}))
