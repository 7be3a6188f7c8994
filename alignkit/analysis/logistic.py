"""Logistic regression on bags of words, with a sweep of its penalty: beta_log (Snell et al., appendix A.10).

It is the proxy without the factorisation W e(x): one weight per word, on the same means of a text's words.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.neural.scoring.classifier import judge_logits
from alignkit.scores import Scores, flat_offsets
from alignkit.text.labelled import LabelledText

#: inverse strengths C of the penalty that are tried: |w|^2 / 2 + C · sum of the losses
STRENGTHS = tuple(10.0**power for power in range(-3, 6))


@dataclass(frozen=True, eq=False)
class Logistic:
    """p(y = 1 | x) = sigmoid(mean over l of w[x_l] + b).

    Attributes:
        weights: float64 (V,), w.
        bias: b.
        strength: the C that was chosen.
        sweep: (C, validation loss, validation accuracy) of all that were tried.
        tried: float64 (C values, V), the weights of all that were tried.
    """

    weights: np.ndarray = field(repr=False)
    bias: float
    strength: float
    sweep: tuple[tuple[float, float, float], ...]
    tried: np.ndarray = field(repr=False)

    def logits(self, text: LabelledText) -> np.ndarray:
        """float64 (M,): log p(y = 1) - log p(y = 0); NaN for a text without words."""
        return mean_of_words(self.weights, text) + self.bias

    def score(self, text: LabelledText) -> Scores:
        """beta (1, L) of each text, as :func:`word_scores`."""
        return word_scores(self.weights, text)


def mean_of_words(weights: np.ndarray, text: LabelledText) -> np.ndarray:
    """float64 (M,): the mean over each text's words of ``weights`` (V,); NaN for a text without words."""
    lengths = text.corpus.lengths
    sums = np.bincount(np.repeat(np.arange(len(text)), lengths), weights[text.corpus.tokens], len(text))
    return np.where(lengths > 0, sums / np.maximum(lengths, 1), np.nan)


def word_scores(weights: np.ndarray, text: LabelledText) -> Scores:
    """(1, L) matrices of (2y - 1) w[x_l], which depend on a word and the label only.

    They order words as beta = sigmoid((2y - 1) w[x_l]) does, which itself would round to 1 for many words of a
    model of means, whose weights are large: on SMS spam that tied the top of every third text.
    """
    signs = np.repeat(2.0 * text.labels - 1, text.corpus.lengths)
    values = signs * weights[text.corpus.tokens]
    shapes = text.bitext.shapes
    return Scores(values.astype(np.float32), flat_offsets(shapes), shapes)


def fit_logistic(
    text: LabelledText, valid: LabelledText, strengths: Sequence[float] = STRENGTHS, iterations: int = 5000
) -> Logistic:
    """Fit one regression per strength by L-BFGS and keep the one with the highest validation accuracy.

    Of those with the same accuracy, the one with the lowest validation loss is kept.

    Args:
        text: training text.
        valid: held-out text with the same vocabulary.
        strengths: values of C.
        iterations: the most of L-BFGS.

    Raises:
        AlignkitError: scikit-learn is not installed; another vocabulary; all texts have the same label.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise AlignkitError("logistic regression needs scikit-learn: pip install 'alignkit[lab]'") from error
    if text.corpus.vocabulary != valid.corpus.vocabulary:
        raise AlignkitError("training and validation text must share their vocabulary")
    used = np.flatnonzero(text.corpus.lengths)
    if len(np.unique(text.labels[used])) != 2:
        raise AlignkitError("logistic regression needs texts of both labels")
    x, y = _means(text, used), text.labels[used]
    found = []
    for strength in strengths:
        model: Any = LogisticRegression(C=strength, max_iter=iterations, tol=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a weak penalty may not converge; its validation loss decides
            model.fit(x, y)
        weights, bias = model.coef_[0].astype(np.float64), float(model.intercept_[0])
        loss, accuracy = judge_logits(mean_of_words(weights, valid) + bias, valid.labels)
        found.append(((strength, loss, accuracy), weights, bias))
    best = min(found, key=lambda one: (-one[0][2], one[0][1]))
    return Logistic(
        best[1], best[2], best[0][0], tuple(one[0] for one in found), np.stack([one[1] for one in found])
    )


def _means(text: LabelledText, used: np.ndarray) -> Any:
    """Sparse (M', V): the share of each word in each of the ``used`` texts."""
    from scipy.sparse import csr_matrix

    corpus = text.corpus.take(used)
    values = 1.0 / np.repeat(corpus.lengths, corpus.lengths)
    matrix = csr_matrix((values, corpus.tokens, corpus.offsets), (len(used), len(corpus.vocabulary)))
    matrix.sum_duplicates()
    return matrix
