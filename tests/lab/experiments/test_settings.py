"""Settings of experiments: given as text, and refused with a line that names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import EXPERIMENTS
from alignkit.lab.experiments.copying import QUICK_COPYING, CopyingSettings


def test_settings_come_as_text():
    copying = EXPERIMENTS["copying"]
    assert copying.settings() == CopyingSettings()
    assert copying.settings(quick=True) == QUICK_COPYING
    changes = ["seeds=3", "learning-rate=0.5", "kinds=subset,mixture", "products=bfloat16", "length = 9"]
    expected = replace(
        QUICK_COPYING, seeds=3, learning_rate=0.5, kinds=("subset", "mixture"), products="bfloat16", length=9
    )
    assert copying.settings(True, changes) == expected
    found = EXPERIMENTS["deceptive-attention"].settings(changes=["fresh=true", "weights=0,0.5"])
    assert (found.fresh, found.weights) == (True, (0.0, 0.5))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("copying", "seed=3", "'seed=3' sets nothing; use NAME=VALUE with a name of hidden"),
        ("copying", "seeds=x", "seeds: 'x' is not a whole number"),
        ("copying", "learning_rate=nan", "'nan' is not a finite number"),
        ("deceptive-attention", "fresh=maybe", "'maybe' is not true or false"),
        ("initial-gradient", "seeds=0", "seeds must be above 0"),
        ("initial-gradient", "widths=", "widths must not be empty"),
        ("initial-gradient", "widths=4,0", "widths must be above 0"),
        ("initial-gradient", "widths=4,8,4", "widths has a value twice: 4 8 4"),
        ("copying", "kinds=subset,subset", "kinds has a value twice: subset subset"),
        ("optimal-attention", "tolerance=-1", "tolerance must be above 0"),
        ("toy-classifier", "step=0", "step must be above 0"),
        ("deceptive-attention", "copy_epochs=0", "copy_epochs must be above 0"),
        ("deceptive-attention", "weights=", "at least one more"),
        ("gold-links", "pairs=-1", "pairs must be at least 0, not -1"),
        ("written-lexicon", "doses=0,-1", "doses must be at least 0"),
    ],
)
def test_bad_settings(name, change, message):
    with pytest.raises(AlignkitError, match=message):
        EXPERIMENTS[name].settings(True, [change])


def test_the_size_is_the_papers_or_says_how_it_differs():
    copying = EXPERIMENTS["copying"]
    assert copying.settings().size_text() == "the paper's size"
    assert copying.settings(changes=["seeds=3"]).size_text().startswith("seeds 3 (paper: 20), length 40, ")
    best = EXPERIMENTS["optimal-attention"].settings(changes=["scored=3", "batch=8"])
    assert best.size_text() == "preset small, batch 8, scored 3"
    assert replace(best, run="runs/sum-1", scored=0, epochs=3).size_text() == "run sum-1, scored all"
    assert replace(best, pieces=50, epochs=2).size_text() == "preset small, pieces 50, batch 8, epochs 2, scored 3"
    order = EXPERIMENTS["word-order-of-learning"].settings(changes=["steps=0", "scored=0"])
    assert order.size_text() == "sizes 8000 16000 29000, seeds 3, scored all, epochs 10, batch 32"
    plan = EXPERIMENTS["initial-gradient"].settings(changes=["words=0", "widths=4", "seeds=2"])
    assert plan.size_text() == "words 0, widths 4, seeds 2"
    gold = EXPERIMENTS["gold-links"].settings(changes=["pairs=0"])
    assert gold.size_text().startswith("sets all, pairs all, ")
    for name, experiment in EXPERIMENTS.items():
        settings = experiment.settings()
        assert settings.size, name
        assert {*settings.size, *settings.paper} <= set(vars(settings))
        assert set(settings.trained) <= set(settings.size)
        assert set(settings.paper) <= set(settings.size)
        assert "full size" not in settings.size_text()
