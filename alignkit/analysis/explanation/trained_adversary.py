"""Trained adversaries: networks with the classifier's outputs and other attention (Wiegreffe and Pinter 2019)."""

from __future__ import annotations

import numpy as np

from alignkit.analysis.explanation.decisions import LARGEST_DISTANCE, attention_distance
from alignkit.analysis.explanation.rows import Row, mean_row
from alignkit.analysis.explanation.subject import Subject, network_probabilities
from alignkit.errors import AlignkitError
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.training.attention_losses import adversarial_loss, copy_but_attention


def trained_adversary_rows(subject: Subject) -> list[Row]:
    """The frontier of the distance of attention (JSD) against that of outputs (TVD), a network for every lambda.

    Each network starts from the classifier's weights, apart from those of its attention: the gradient of TVD dies
    where a fresh network is confident and wrong, and from the classifier's own attention KL would not move.

    Raises:
        AlignkitError: the classifier has no attention to be far from.
    """
    if subject.network.attention is None or not subject.distributions:
        raise AlignkitError(
            "the trained adversary needs a classifier whose attention is learned, with rows that sum to 1"
        )
    rows = []
    for number, weight in enumerate(subject.settings.adversary_weights):
        rows += _frontier(subject, weight, train_adversary(subject, weight, number))
    return rows


def train_adversary(subject: Subject, weight: float, number: int) -> Classifier:
    """A network with the classifier's outputs on the training text and attention far from its own.

    Args:
        subject: the classifier.
        weight: lambda.
        number: of the network among those that are trained, for its seed.
    """
    training = subject.training_text
    logits = classifier_logits(subject.network, training)
    loss = adversarial_loss(logits, classifier_scores(subject.network, training, "alpha"), weight)
    name = f"adversary, lambda {weight:g}"
    return subject.train(name, subject.run_settings(number), loss, copy_but_attention(subject.network))


def _frontier(subject: Subject, weight: float, adversary: Classifier) -> list[Row]:
    alpha, own = classifier_scores(adversary, subject.text, "alpha"), subject.scores("alpha")
    p = network_probabilities(adversary, subject.text)
    apart = [attention_distance(own[m][0], alpha[m][0]) / LARGEST_DISTANCE for m in subject.distributions]
    name = f"lambda {weight:g}"
    return [
        mean_row(f"{name}, TVD", np.abs(subject.probabilities - p), "distance of the adversary's outputs"),
        mean_row(f"{name}, JSD", apart, "distance of the adversary's attention, of log 2"),
        mean_row(
            f"{name}, same decision",
            (subject.probabilities > 0.5) == (p > 0.5),
            "share of decisions that are the same",
        ),
        mean_row(f"{name}, accuracy", (p > 0.5) == (subject.text.labels == 1), "accuracy of the adversary"),
    ]
