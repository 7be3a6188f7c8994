"""Is attention of use? A network trained without it, and its weights as a guide for a network without recurrence.

If attention were arbitrary, a network whose states know nothing of their neighbours would gain nothing from it
(Wiegreffe and Pinter 2019, sections 4.1 and 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from alignkit.analysis.explanation.rows import DIFFERENCES, Row, mean_row
from alignkit.analysis.explanation.subject import Subject
from alignkit.analysis.explanation.trained_adversary import train_adversary
from alignkit.neural.batching import text_batches
from alignkit.neural.devices import device_of, one_thread
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.mechanisms import UNIFORM
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores, judge_logits
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.neural.training.classification import ClassificationTask, trainer_of
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledText


class GuidedTask(ClassificationTask):
    """Training of a classifier with given attention.

    Args:
        guides: the attention in the training text and in the held-out text.
        **others: those of :class:`ClassificationTask`.
    """

    def __init__(self, guides: tuple[Scores, Scores], **others: Any) -> None:
        super().__init__(**others)
        self.guides = guides

    def judge(self, network: Classifier, h: Tensor, mask: Tensor, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        alpha = imposed(self.guides[0], batch, h)
        return network.judge_with(h, alpha), alpha

    def measure(self, network: Classifier, step: int) -> list[tuple[str, float]]:
        loss, accuracy = judge_logits(guided_logits(network, self.valid, self.guides[1]), self.valid.labels)
        return [("valid.loss", loss), ("valid.accuracy", accuracy)]


def imposed(guide: Scores, texts: np.ndarray, h: Tensor) -> Tensor:
    """The guide's attention of texts as (B, L), 0 at padding, for the states h (B, L, D)."""
    rows = [torch.from_numpy(guide[m][0].astype(np.float32)) for m in texts]
    return pad_sequence(rows, batch_first=True).to(h)


def guided_logits(network: Classifier, text: LabelledText, guide: Scores) -> np.ndarray:
    """float64 (M,): log p(y = 1) - log p(y = 0) with given attention; NaN for a text without words."""
    out = np.full(len(text), np.nan)
    device = device_of(network)
    with evaluation_mode(network):
        for texts, words, lengths in text_batches(text, device):
            h, _ = network.encode(words, lengths)
            with one_thread(device):
                out[texts] = network.judge_with(h, imposed(guide, texts, h)).double().cpu().numpy()
    return out


def guide_rows(subject: Subject) -> list[Row]:
    """Accuracy of networks without recurrence under several guides, and what each adds to that of uniform.

    Before them, the classifier's accuracy and that of the same network trained with attention of 1/L.
    """
    rows = _necessity(subject)
    training, text = subject.training_text, subject.text
    right: dict[str, np.ndarray] = {}
    free = {
        "uniform": ("attention of 1/L", {"attention": UNIFORM}),
        "own": ("attention that it learns itself", {}),
    }
    for number, (name, (_, changes)) in enumerate(free.items()):
        settings = subject.run_settings(number, encoder="words", **changes)
        network = subject.train(f"without recurrence, {name}", settings, best=True)
        right[name] = _right(classifier_logits(network, text), text)
    meanings = {name: meaning for name, (meaning, _) in free.items()}
    guides = {"classifier": (subject.network, "the classifier's attention imposed on it")}
    if subject.network.attention is not None and subject.distributions:
        weight = subject.settings.adversary_weights[-1]
        meaning = f"that of a trained adversary imposed on it, lambda {weight:g}"
        guides["adversary"] = (train_adversary(subject, weight, len(guides) + len(free)), meaning)
    for number, (name, (guide, meaning)) in enumerate(guides.items(), len(free)):
        pair = classifier_scores(guide, training, "alpha"), classifier_scores(guide, text, "alpha")
        network = train_guided(subject, name, number, pair)
        right[name], meanings[name] = _right(guided_logits(network, text, pair[1]), text), meaning
    return rows + [row for name in right for row in _compared(name, meanings[name], right)]


def _necessity(subject: Subject) -> list[Row]:
    """What attention is worth to the classifier itself."""
    text = subject.text
    settings = subject.run_settings(5, attention=UNIFORM)
    network = subject.train("with recurrence, uniform", settings, best=True)
    own, without = (_right(classifier_logits(each, text), text) for each in (subject.network, network))
    return [
        mean_row("recurrent, accuracy", own, "accuracy of the classifier"),
        mean_row("recurrent, uniform", without, "that of the same network trained with attention of 1/L"),
        mean_row("recurrent, gain", own - without, "the former minus the latter", DIFFERENCES),
    ]


def _compared(name: str, meaning: str, right: Mapping[str, np.ndarray]) -> list[Row]:
    rows = [mean_row(f"{name}, accuracy", right[name], f"accuracy without recurrence: {meaning}")]
    if name != "uniform":
        gain = right[name] - right["uniform"]
        rows.append(
            mean_row(f"{name}, gain", gain, "the same minus the accuracy with attention of 1/L", DIFFERENCES)
        )
    return rows


def _right(logits: np.ndarray, text: LabelledText) -> np.ndarray:
    return ((logits > 0) == (text.labels == 1)).astype(float)


def train_guided(subject: Subject, name: str, number: int, guides: tuple[Scores, Scores]) -> Classifier:
    """A network without recurrence under given attention, of its best measured step.

    Args:
        subject: for text and settings.
        name: of the guide.
        number: of the network, for its seed.
        guides: the attention in the training text and in the texts to explain.
    """
    task = GuidedTask(
        guides,
        text=subject.training_text,
        valid=subject.text,
        settings=subject.run_settings(number, encoder="words", attention=UNIFORM),
        tokenizer=subject.classifier.tokenizer,
        device=str(device_of(subject.network)),
    )
    progress = subject.next_progress(f"without recurrence, guided by {name}")
    return trainer_of(task).run(progress=progress).network
