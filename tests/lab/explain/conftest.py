"""A planted text, one word of which decides the label, and classifiers of it."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.lab.explain.registry import ExplanationSettings
from alignkit.lab.explain.subject import subject_of_run
from alignkit.neural.settings import ClassifierRunSettings, ClassifierSettings, ClassifierTraining, TextSettings
from alignkit.neural.training.classification import train_classifier
from alignkit.text.labelled import LabelledLines


def planted(count, seed):
    """Noise with one word that decides the label."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        words = list(rng.choice([f"w{i}" for i in range(10)], rng.integers(3, 9)))
        y = int(rng.integers(2))
        words.insert(int(rng.integers(len(words) + 1)), ("bad", "good")[y])
        texts.append(" ".join(words))
        labels.append("ny"[y])
    return LabelledLines(texts, labels)


def train(folder, seed, steps):
    """A run of a small classifier of planted texts."""
    settings = ClassifierRunSettings(
        TextSettings("words"),
        ClassifierSettings(embedding=8, hidden=8, attention_hidden=8),
        ClassifierTraining(batch=8, learning_rate=2e-2, steps=steps, seed=seed),
    )
    held = planted(50, 2)
    held = LabelledLines(["", *held.texts], ["y", *held.labels])  # one has no words
    train_classifier(folder, planted(150, 1), held, ("n", "y"), settings, device="cpu")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        train(folder / str(seed), seed, 120)
    return folder


@pytest.fixture
def subject_of(runs):
    """Makes the subject of a run of a test, with settings."""

    def make(steps=150, **options):
        settings = ExplanationSettings(steps=steps, **options)
        return subject_of_run(runs / "0", [runs / "1"], settings, device="cpu")

    return make
