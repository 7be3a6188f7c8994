"""The settings of the paper, in one place: a change of any of them is a change of what is reproduced."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from alignkit.lab.experiments import EXPERIMENTS
from alignkit.lab.experiments.classifiers import ClassifierPlan
from alignkit.lab.experiments.copying import CopyingSettings, PermutationFunctionSettings, random_network
from alignkit.lab.experiments.optimal_attention import PUBLISHED
from alignkit.metrics.protocol import MetricSettings, top_share
from alignkit.neural.settings import CLASSIFIER_PRESETS, CLASSIFIER_PROXY, PRESETS, ProxySettings, logged_steps
from alignkit.text.tokenization import BOS, EOS, PAD, SPECIALS, UNK

#: settings -> (their object, the paper's values). Snell et al. 2021: translation (3.1), classification (2.4),
#: copying (3.3), the permutation function (6.2).
PAPER = {
    "translation text": (PRESETS["paper"].text, {"tokens": "subwords", "pieces": 8000}),
    "translation network": (
        PRESETS["paper"].network,
        {
            "architecture": "lstm",
            "embedding": 256,
            "hidden": 256,
            "layers": 2,
            "bidirectional": True,
            "attention": "general",
            "heads": 1,
            "output": "hidden",
            "dropout": 0.5,
        },
    ),
    "translation training": (
        PRESETS["paper"].training,
        {
            "batch": 16,
            "learning_rate": 1e-3,
            "epochs": 20,
            "steps": None,
            "word_dropout": 0.0,
            "warmup": 0,
            "beam": 5,
            "schedule": "paper",
            "keep": "logged",
        },
    ),
    "translation proxy": (
        ProxySettings(),
        {"embedding": 256, "learning_rate": 1e-3, "batch": 64, "epochs": 30, "bias": False},
    ),
    "classification text": (CLASSIFIER_PRESETS["paper"].text, {"tokens": "words", "minimum": 3}),
    "classification network": (
        CLASSIFIER_PRESETS["paper"].network,
        {
            "embedding": 300,
            "hidden": 256,
            "attention_hidden": 256,
            "attention": "feed-forward",
            "encoder": "lstm",
            "layers": 1,
        },
    ),
    "classification training": (
        CLASSIFIER_PRESETS["paper"].training,
        {
            "batch": 32,
            "learning_rate": 1e-3,
            "steps": 4000,
            "trained": "all",
            "schedule": "classification",
            "keep": "logged",
        },
    ),
    "classification": (CLASSIFIER_PRESETS["paper"], {"ends": False}),
    "classification proxy": (
        CLASSIFIER_PROXY,
        {"embedding": 256, "learning_rate": 2e-4, "batch": 64, "epochs": 30, "bias": False},
    ),
    "classifiers of experiments": (ClassifierPlan(), {"minimum": 3}),
    "copying": (
        CopyingSettings(),
        {
            "seeds": 20,
            "length": 40,
            "subset_types": 60,
            "hidden": 256,
            "batch": 128,
            "steps": 300,
            "every": 10,
            "learning_rate": 1e-3,
            "learned": 0.9,
            "solved": 0.99,
        },
    ),
    "copying network": (
        random_network(40, 256, 0).settings,
        {"embedding": 256, "hidden": 256, "layers": 1, "bidirectional": False, "dropout": 0.0},
    ),
    "permutation function": (
        PermutationFunctionSettings(),
        {
            "seeds": 20,
            "length": 40,
            "types": 60,
            "hidden": 256,
            "batch": 128,
            "steps": 300,
            "learning_rate": 1e-3,
            "learned": 0.9,
        },
    ),
}


@pytest.mark.parametrize("name", PAPER)
def test_settings_of_the_paper(name):
    settings, wanted = PAPER[name]
    values = asdict(settings)
    assert {field: values[field] for field in wanted} == wanted


def test_sizes_that_the_paper_gives():
    sizes = {name: paper for name, each in EXPERIMENTS.items() if (paper := each.settings().paper)}
    task = {"seeds": 20, "length": 40, "hidden": 256, "batch": 128, "steps": 300}
    assert sizes == {
        "copying": task | {"subset_types": 60},
        "permutation-function": task | {"types": 60},
        "multihead": {"samples": 50, "good_heads": 20, "bad_heads": 20, "trials": 3, "hidden": 256},
    }


def test_steps_that_the_paper_logs():
    assert logged_steps(7000) == [0, 50, 100, 500, 1000, 1500, 2000, 4000, 6000, 7000]
    assert logged_steps(800, "classification") == [0, 10, 50, 100, 150, 200, 250, 500, 750, 800]


def test_tokens_and_measure_of_the_paper():
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert SPECIALS == ("<pad>", "<s>", "</s>", "<unk>")
    assert 20 * top_share(MetricSettings().percent) == 1  # the top 5 %
    assert PUBLISHED == 0.53
