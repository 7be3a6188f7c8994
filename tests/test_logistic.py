"""Logistic regression: the optimum it claims, the sweep, and its scores."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.classification import STRENGTHS, fit_logistic, mean_of_words, word_scores
from alignkit.neural.scoring.classifier import judge_logits
from alignkit.text.bitext import Corpus
from alignkit.text.labelled import LabelledText
from alignkit.text.vocabulary import Vocabulary

WORDS = [f"w{i}" for i in range(12)]


def planted(count: int, seed: int) -> LabelledText:
    """Labels drawn from a logistic model of the texts' words; one text in ten is empty."""
    rng = np.random.default_rng(seed)
    texts = [rng.choice(WORDS, 0 if m % 10 == 9 else rng.integers(1, 9)).tolist() for m in range(count)]
    weights = dict(zip(WORDS, np.linspace(-4, 4, len(WORDS)), strict=True))
    means = np.array([np.mean([weights[w] for w in text]) if text else 0.0 for text in texts])
    labels = (rng.random(count) < 1 / (1 + np.exp(-means))).astype(np.int32)
    return LabelledText(Corpus.from_sentences(texts, Vocabulary.from_tokens(WORDS)), labels, ("n", "y"))


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_the_gradient_of_the_objective_vanishes(strength: float) -> None:
    text = planted(200, 1)
    model = fit_logistic(text, planted(50, 2), [strength])
    x = np.zeros((len(text), len(WORDS)))
    for m, ids in enumerate(text.corpus):
        for i in ids:
            x[m, i] += 1 / len(ids)
    used = text.corpus.lengths > 0
    x, y = x[used], text.labels[used]
    p = 1 / (1 + np.exp(-(x @ model.weights + model.bias)))
    np.testing.assert_allclose(model.weights + strength * x.T @ (p - y), 0, atol=1e-3)
    assert strength * (p - y).sum() == pytest.approx(0, abs=1e-3)


def test_the_sweep_keeps_the_highest_validation_accuracy() -> None:
    text, valid = planted(400, 1), planted(200, 2)
    model = fit_logistic(text, valid)
    sweep = model.sweep.set_index("strength")
    assert list(sweep.index) == list(STRENGTHS)
    assert sweep.accuracy.nunique() > 1
    chosen = tuple(sweep.loc[model.strength])
    best = sweep[sweep.accuracy == sweep.accuracy.max()]
    assert chosen == (best.loss.min(), best.accuracy.max())
    assert judge_logits(model.logits(valid), valid.labels) == pytest.approx(chosen)
    assert np.corrcoef(model.weights, np.linspace(-4, 4, len(WORDS)))[0, 1] > 0.8


def test_scores_and_means_of_words() -> None:
    text = planted(20, 3)
    weights = np.linspace(-1, 2, len(WORDS))
    means, scores = mean_of_words(weights, text), word_scores(weights, text)
    for m, ids in enumerate(text.corpus):
        if not len(ids):
            assert np.isnan(means[m])
            continue
        assert means[m] == pytest.approx(weights[ids].mean())
        np.testing.assert_allclose(scores[m], (weights if text.labels[m] else -weights)[ids][None], rtol=1e-6)


def test_what_it_refuses() -> None:
    text = planted(20, 1)
    other = LabelledText(Corpus.from_sentences([["a"]]), np.zeros(1, np.int32), ("n", "y"))
    with pytest.raises(AlignkitError, match="share their vocabulary"):
        fit_logistic(text, other)
    with pytest.raises(AlignkitError, match="both labels"):
        fit_logistic(LabelledText(text.corpus, np.zeros(20, np.int32), ("n", "y")), text)
