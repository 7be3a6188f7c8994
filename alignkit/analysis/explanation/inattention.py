"""Networks trained not to attend to given words, and where what those words say went (Pruthi et al. 2020)."""

from __future__ import annotations

import numpy as np

from alignkit.analysis.explanation.decisions import Decision
from alignkit.analysis.explanation.rows import Row, mean_row
from alignkit.analysis.explanation.subject import Subject, network_decisions, network_probabilities
from alignkit.errors import AlignkitError
from alignkit.neural.batching import text_batches
from alignkit.neural.devices import device_of
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.mechanisms import UNIFORM
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.neural.training.attention_losses import inattention_loss
from alignkit.text.labelled import LabelledText

ENCODERS = {"recurrent": "lstm", "embeddings": "embeddings"}  #: what the rows call them -> settings


def inattention_rows(subject: Subject) -> list[Row]:
    """Accuracy, attention mass and leakage of networks of both encoders, one for every lambda.

    Raises:
        AlignkitError: none of the words to avoid is in the text.
    """
    training, words = subject.training_text, avoided_words(subject)
    marks = [np.isin(text, words) for text in training.corpus]
    here = [np.isin(text, words) for text in subject.text.corpus]
    if not any(mark.any() for mark in marks) or not any(mark.any() for mark in here):
        raise AlignkitError("none of the words to avoid occurs in both the training text and the text to explain")
    attention = "feed-forward" if subject.network.attention is None else subject.network.settings.attention
    assert attention != UNIFORM
    rows, number = [], 0
    for name, encoder in ENCODERS.items():
        for weight in subject.settings.avoid_weights:
            settings = subject.run_settings(number, encoder=encoder, attention=attention)
            loss = inattention_loss(marks, weight)
            network = subject.train(f"inattentive, {name}, lambda {weight:g}", settings, loss, best=True)
            rows += _leaks(f"{name}, lambda {weight:g}", network, subject.text, here)
            number += 1
    return rows


def _leaks(name: str, network: Classifier, text: LabelledText, marks: list[np.ndarray]) -> list[Row]:
    """Rows about one network."""
    decided = network_decisions(network, text)
    norms = state_norms(network, text)
    has = np.array([mark.any() and not mark.all() for mark in marks])
    wanted = text.labels == 1

    def where(values: list[float]) -> np.ndarray:
        return np.where(has, values, np.nan)

    mass = [one.alpha @ mark / one.alpha.sum() for one, mark in zip(decided, marks, strict=True)]
    weighted = [one.alpha * norm for one, norm in zip(decided, norms, strict=True)]
    by_norm = [each @ mark / each.sum() for each, mark in zip(weighted, marks, strict=True)]
    size = [
        norm[mark].mean() / norm[~mark].mean() if known else np.nan
        for norm, mark, known in zip(norms, marks, has, strict=True)
    ]
    right = (np.array([one.logit for one in decided]) > 0) == wanted
    hidden = (np.array([_logit_without(*pair) for pair in zip(decided, marks, strict=True)]) > 0) == wanted
    gone = (network_probabilities(network, text.without_words(marks)) > 0.5) == wanted
    few = "in texts with such words and others"
    return [
        mean_row(f"{name}, accuracy", right, "accuracy of the network"),
        mean_row(f"{name}, mass", where(mass), f"attention on the words to avoid, {few}"),
        mean_row(f"{name}, mass by norm", where(by_norm), "the same of attention times the norm of the state"),
        mean_row(f"{name}, norm", size, "norm of their states, as a multiple of that of the other states"),
        mean_row(f"{name}, accuracy here", np.where(has, right, np.nan), f"accuracy {few}"),
        mean_row(f"{name}, hidden", np.where(has, hidden, np.nan), "the same with no attention on them at all"),
        mean_row(f"{name}, removed", np.where(has, gone, np.nan), "the same with these words taken out"),
    ]


def _logit_without(decision: Decision, mark: np.ndarray) -> float:
    """The logit if the attention on marked words were 0 and the rest divided by its sum."""
    rest = decision.alpha * ~mark
    total = rest.sum()
    return float(rest @ decision.strength / total + decision.bias) if total > 0 else decision.bias


def avoided_words(subject: Subject) -> np.ndarray:
    """int64: the words to avoid, those of the settings or those that tell most about the label."""
    vocabulary, words = subject.classifier.tokenizer.vocabulary, subject.settings.avoid
    if not words:
        return telling_words(subject.training_text, subject.settings.avoided)
    return np.array([vocabulary.id(word) for word in words], np.int64)


def telling_words(text: LabelledText, count: int) -> np.ndarray:
    """int64 (count,): the words whose presence tells most about the label, the most telling ones first.

    By the size of z, the log odds ratio of a text with the word having the label, over its standard error, with
    one half added to each count (Haldane 1956; Anscombe 1956). At most half of the words that occur.
    """
    table = np.zeros((2, len(text.corpus.vocabulary)))
    for words, label in zip(text.corpus, text.labels, strict=True):
        table[label, np.unique(words)] += 1
    sums = np.bincount(text.labels, minlength=2).astype(float)[:, None]
    having, lacking = table + 0.5, sums - table + 0.5
    odds = np.log(having[1] / lacking[1]) - np.log(having[0] / lacking[0])
    z = np.abs(odds) / np.sqrt((1 / having + 1 / lacking).sum(0))
    z[table.sum(0) == 0] = -1
    most = max(1, int((table.sum(0) > 0).sum()) // 2)
    return np.argsort(-z, kind="stable")[: min(count, most)]


def state_norms(network: Classifier, text: LabelledText) -> list[np.ndarray]:
    """Per text float64 (L,): the Euclidean norms of the encoder's states h_l."""
    out: list[np.ndarray] = [np.zeros(0)] * len(text)
    with evaluation_mode(network):
        for texts, words, lengths in text_batches(text, device_of(network)):
            h, _ = network.encode(words, lengths)
            norms = h.norm(dim=2).double().cpu().numpy()
            for m, row in zip(texts, norms, strict=True):
                out[m] = row[: text.corpus.lengths[m]]
    return out
