"""The tests that train classifiers: adversaries, guides, and networks that must not attend to given words.

Adversaries have the classifier's outputs and other attention (Wiegreffe and Pinter 2019). If attention were
arbitrary, a network whose states know nothing of their neighbours would gain nothing from it as a guide
(sections 4.1 and 4.3 there). Networks trained not to attend to given words show where what these say goes
(Pruthi et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.lab.explain.subject import (
    DIFFERENCES,
    LARGEST_DIVERGENCE,
    SIZES,
    Row,
    Subject,
    decisions,
    jensen_shannon,
    mean_row,
    network_probabilities,
)
from alignkit.neural.devices import device_of, evaluation_mode, text_batches
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores, imposed, judge_logits
from alignkit.neural.settings import UNIFORM
from alignkit.neural.training.classification import (
    ClassificationTask,
    adversarial_loss,
    copy_but_attention,
    inattention_loss,
)
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledText


def trained_adversary_rows(subject: Subject) -> list[Row]:
    """The frontier of the distance of attention (JSD) against that of outputs (TVD), a network for every lambda.

    Each network starts from the classifier's weights, apart from those of its attention: the gradient of TVD dies
    where a fresh network is confident and wrong, and from the classifier's own attention KL would not move.
    """
    rows, own, text = [], subject.scores("alpha"), subject.text
    for number, weight in enumerate(subject.settings.adversary_weights):
        adversary = train_adversary(subject, weight, number)
        alpha, p = classifier_scores(adversary, text, "alpha"), network_probabilities(adversary, text)
        apart = [jensen_shannon(own[m][0], alpha[m][0]) / LARGEST_DIVERGENCE for m in subject.distributions]
        same, right = (subject.probabilities > 0.5) == (p > 0.5), (p > 0.5) == (text.labels == 1)
        name = f"lambda {weight:g}"
        rows += [
            mean_row(f"{name}, TVD", np.abs(subject.probabilities - p), "distance of the adversary's outputs"),
            mean_row(f"{name}, JSD", apart, "distance of the adversary's attention, of log 2"),
            mean_row(f"{name}, same decision", same, "share of decisions that are the same"),
            mean_row(f"{name}, accuracy", right, "accuracy of the adversary"),
        ]
    return rows


def train_adversary(subject: Subject, weight: float, number: int) -> Classifier:
    """A network with the classifier's outputs on the training text and attention far from its own.

    Args:
        subject: the classifier.
        weight: lambda.
        number: of the network among those that are trained, for its seed.
    """
    training = subject.training
    logits = classifier_logits(subject.network, training)
    loss = adversarial_loss(logits, classifier_scores(subject.network, training, "alpha"), weight)
    name = f"adversary, lambda {weight:g}"
    copied = copy_but_attention(subject.network)
    return subject.train(name, subject.run_settings(number), criterion=loss, prepare=copied)


@dataclass(eq=False, repr=False)
class GuidedTask(ClassificationTask):
    """Training of a classifier with given attention.

    Attributes:
        guides: the attention in the training text and in the held-out text.
    """

    guides: tuple[Scores, Scores] = field(kw_only=True)

    def judge(self, network: Classifier, h: Tensor, mask: Tensor, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        alpha = imposed(self.guides[0], batch, h.device)
        return network.judge_with(h, alpha), alpha

    def measure(self, network: Classifier, step: int) -> list[tuple[str, float]]:
        loss, accuracy = judge_logits(classifier_logits(network, self.valid, self.guides[1]), self.valid.labels)
        return [("valid.loss", loss), ("valid.accuracy", accuracy)]


def guides_rows(subject: Subject) -> list[Row]:
    """Accuracy of networks without recurrence under several guides, and what each adds to that of uniform.

    Before them, the classifier's accuracy and that of the same network trained with attention of 1/L.
    """
    training, text = subject.training, subject.text

    def right_by(logits: np.ndarray) -> np.ndarray:
        return ((logits > 0) == (text.labels == 1)).astype(float)

    without = subject.train("with recurrence, uniform", subject.run_settings(5, attention=UNIFORM), best=True)
    own, even = (right_by(classifier_logits(each, text)) for each in (subject.network, without))
    rows = [
        mean_row("recurrent, accuracy", own, "accuracy of the classifier"),
        mean_row("recurrent, uniform", even, "that of the same network trained with attention of 1/L"),
        mean_row("recurrent, gain", own - even, "the former minus the latter", DIFFERENCES),
    ]
    # Without recurrence: name of the guide -> what it is, and which decisions are right.
    right: dict[str, tuple[str, np.ndarray]] = {}
    free = {
        "uniform": ("attention of 1/L", {"attention": UNIFORM}),
        "own": ("attention that it learns itself", {}),
    }
    for number, (name, (meaning, changes)) in enumerate(free.items()):
        settings = subject.run_settings(number, encoder="words", **changes)
        network = subject.train(f"without recurrence, {name}", settings, best=True)
        right[name] = meaning, right_by(classifier_logits(network, text))
    guides = {"classifier": ("the classifier's attention imposed on it", subject.network)}
    if subject.network.attention is not None and subject.distributions:
        weight = subject.settings.adversary_weights[-1]
        meaning = f"that of a trained adversary imposed on it, lambda {weight:g}"
        guides["adversary"] = meaning, train_adversary(subject, weight, len(guides) + len(free))
    for number, (name, (meaning, guide)) in enumerate(guides.items(), len(free)):
        pair = classifier_scores(guide, training, "alpha"), classifier_scores(guide, text, "alpha")
        network = train_guided(subject, name, number, pair)
        right[name] = meaning, right_by(classifier_logits(network, text, pair[1]))
    for name, (meaning, each) in right.items():
        rows.append(mean_row(f"{name}, accuracy", each, f"accuracy without recurrence: {meaning}"))
        if name != "uniform":
            gain, meaning = each - right["uniform"][1], "the same minus the accuracy with attention of 1/L"
            rows.append(mean_row(f"{name}, gain", gain, meaning, DIFFERENCES))
    return rows


def train_guided(subject: Subject, name: str, number: int, guides: tuple[Scores, Scores]) -> Classifier:
    """A network without recurrence under given attention, of its best measured step.

    Args:
        subject: for text and settings.
        name: of the guide.
        number: of the network, for its seed.
        guides: the attention in the training text and in the texts to explain.
    """
    settings = subject.run_settings(number, encoder="words", attention=UNIFORM)
    return subject.train(f"without recurrence, guided by {name}", settings, GuidedTask, best=True, guides=guides)


ENCODERS = {"recurrent": "lstm", "embeddings": "embeddings"}  #: what the rows call them -> settings


def inattention_rows(subject: Subject) -> list[Row]:
    """Accuracy, attention mass and leakage of networks of both encoders, one for every lambda.

    Raises:
        AlignkitError: none of the words to avoid is in the text.
    """
    training, words = subject.training, telling_words(subject.training, subject.settings.avoided)
    if subject.settings.avoid:
        vocabulary = subject.classifier.tokenizer.vocabulary
        words = np.array([vocabulary.id(word) for word in subject.settings.avoid], np.int64)
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
            network = subject.train(f"inattentive, {name}, lambda {weight:g}", settings, criterion=loss, best=True)
            rows += _leaks(f"{name}, lambda {weight:g}", network, subject.text, here)
            number += 1
    return rows


def _leaks(name: str, network: Classifier, text: LabelledText, marks: list[np.ndarray]) -> list[Row]:
    """Rows about one network."""
    decided = decisions(network, text)
    norms = state_norms(network, text)
    has = np.array([mark.any() and not mark.all() for mark in marks])
    wanted = text.labels == 1

    def where(values: list[float]) -> np.ndarray:
        return np.where(has, values, np.nan)

    mass = [one.alpha @ mark / one.alpha.sum() for one, mark in zip(decided, marks, strict=True)]
    weighted = [one.alpha * norm for one, norm in zip(decided, norms, strict=True)]
    by_norm = [each @ mark / each.sum() for each, mark in zip(weighted, marks, strict=True)]
    sizes = zip(norms, marks, has, strict=True)
    size = [norm[mark].mean() / norm[~mark].mean() if known else np.nan for norm, mark, known in sizes]
    right = (np.array([one.logit for one in decided]) > 0) == wanted
    logits = []  # if the attention on marked words were 0 and the rest divided by its sum
    for one, mark in zip(decided, marks, strict=True):
        rest = one.alpha * ~mark
        total = rest.sum()
        logits.append(float(rest @ one.strength / total + one.bias) if total > 0 else one.bias)
    hidden = (np.array(logits) > 0) == wanted
    gone = (network_probabilities(network, text.without_words(marks)) > 0.5) == wanted
    few = "in texts with such words and others"
    return [
        mean_row(f"{name}, accuracy", right, "accuracy of the network"),
        mean_row(f"{name}, mass", where(mass), f"attention on the words to avoid, {few}"),
        mean_row(f"{name}, mass by norm", where(by_norm), "the same of attention times the norm of the state"),
        mean_row(f"{name}, norm", size, "norm of their states, as a multiple of that of the other states", SIZES),
        mean_row(f"{name}, accuracy here", np.where(has, right, np.nan), f"accuracy {few}"),
        mean_row(f"{name}, hidden", np.where(has, hidden, np.nan), "the same with no attention on them at all"),
        mean_row(f"{name}, removed", np.where(has, gone, np.nan), "the same with these words taken out"),
    ]


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
