"""The subject of explanation tests: a classifier with texts, what it does with them, and networks beside it.

Rows of the table of tests: a mean over texts, its interval, and what it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from alignkit.explain.decisions import Decision, sums_to_one
from alignkit.explain.registry import ExplanationSettings
from alignkit.metrics.intervals import mean_interval
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.devices import device_of
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.settings import ClassifierRunSettings
from alignkit.neural.training.classification import ClassificationTask
from alignkit.neural.training.trainer import Trainer
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledText
from alignkit.types import Progress, no_progress


@dataclass(eq=False)
class Subject:
    """A classifier and the texts whose decisions are to be explained.

    Attributes:
        classifier: the classifier.
        text: M texts, all of which have words.
        training: the classifier's training text, for tests that train networks.
        settings: of the tests.
        others: classifiers of other seeds.
        progress: of the training steps of each network.
    """

    classifier: ClassifierAligner
    text: LabelledText
    training: LabelledText
    settings: ExplanationSettings
    others: Sequence[ClassifierAligner] = ()
    progress: Progress = no_progress
    _kept: dict[str, Scores] = field(default_factory=dict, repr=False)

    @property
    def network(self) -> Classifier:
        """The classifier's network."""
        return self.classifier.network

    def scores(self, kind: str) -> Scores:
        """Scores of the texts (:func:`alignkit.neural.scoring.classifier.classifier_scores`), computed once."""
        if kind not in self._kept:
            self._kept[kind] = classifier_scores(self.network, self.text, kind)
        return self._kept[kind]

    @cached_property
    def decisions(self) -> list[Decision]:
        """What each decision rests on."""
        return decisions(self.network, self.text)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """float64 (M,): p(y = 1)."""
        return np.array([float(one.probability(one.alpha)) for one in self.decisions])

    @property
    def distributions(self) -> list[int]:
        """The texts whose attention sums to 1."""
        return [m for m, one in enumerate(self.decisions) if sums_to_one(one.alpha)]

    @property
    def steps(self) -> int:
        """Training steps of each network that a test trains."""
        return self.settings.steps or max(self.classifier.settings.training.steps, 1)

    def run_settings(self, number: int, **network: object) -> ClassifierRunSettings:
        """The classifier's settings with another seed, our number of steps, and changes of the network."""
        seed = 1000 * (self.settings.seed + 1) + number
        training = {"seed": seed, "steps": self.steps, "keep": "best", "trained": "all"}
        return self.classifier.settings.change(network=network, training=training)

    def train(
        self,
        name: str,
        settings: ClassifierRunSettings,
        task: type[ClassificationTask] = ClassificationTask,
        best: bool = False,
        **own: Any,
    ) -> Classifier:
        """Train a classifier in memory, on the training text.

        Args:
            name: of the network, for progress.
            settings: of :meth:`run_settings`.
            task: of training.
            best: the network of the measured step with the best accuracy on the texts to explain, as the
                classifier itself was chosen; otherwise that of the last step.
            own: further arguments of the task.
        """
        texts, tokenizer, device = (self.training, self.text), self.classifier.tokenizer, device_of(self.network)
        trainer = Trainer(task(*texts, settings, tokenizer, device=str(device), **own))
        found = trainer.run(progress=lambda done, total, _: self.progress(done, total, name))
        return found.network if best else trainer.network.eval()


def decisions(network: Classifier, text: LabelledText) -> list[Decision]:
    """What each decision of a classifier rests on; all texts have words."""
    alpha = classifier_scores(network, text, "alpha")
    towards = classifier_scores(network, text, "relevance")
    bias = float(network.output.bias.detach())
    signs = 2.0 * text.labels - 1
    return [
        Decision(a[0].astype(np.float64), sign * r[0].astype(np.float64), bias)
        for a, r, sign in zip(alpha, towards, signs, strict=True)
    ]


def network_probabilities(network: Classifier, text: LabelledText) -> np.ndarray:
    """float64 (M,): p(y = 1) by a network; for a text without words, by its bias alone."""
    logits = classifier_logits(network, text)
    logits = np.where(np.isnan(logits), float(network.output.bias.detach()), logits)
    return np.asarray(expit(logits))


Row = dict[str, Any]  #: test, value, low, high, n (how many the mean is over), meaning
COLUMNS = ("group", "test", "value", "low", "high", "n", "meaning")  #: of the table; group is the test's name

Bounds = tuple[float, float]  #: of the values that there can be
SHARES: Bounds = (0, 1)
DIFFERENCES: Bounds = (-1, 1)  #: of two shares
SIZES: Bounds = (0, math.inf)


def mean_row(test: str, values: Any, meaning: str, bounds: Bounds = SHARES) -> Row:
    """A row with the mean of the values that are defined, and its 95 % interval.

    Args:
        test: what is measured, in a few words.
        values: one for each text; NaN where there is none.
        meaning: what it says.
        bounds: where the values lie; so the interval does not reach further.
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    low, high = mean_interval(known, *bounds)
    value = float(known.mean()) if len(known) else float("nan")
    return {"test": test, "value": value, "low": low, "high": high, "n": len(known), "meaning": meaning}
