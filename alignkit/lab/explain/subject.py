"""The subject of explanation tests, a classifier with texts and networks beside it, and the table of all tests.

The classifier's logit of a text is z = sum over l of alpha_l r_l + b, where r_l = W · h_l is what its encoder
state h_l would give by itself. With alpha and r known, tests that train no network are exact. A row of the table
has a mean over texts, its interval, and what it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from alignkit.errors import AlignkitError
from alignkit.lab.explain.registry import EXPLANATION_TESTS, ExplanationSettings
from alignkit.metrics.intervals import mean_interval
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.devices import device_of
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.settings import ClassifierRunSettings
from alignkit.neural.training.classification import ClassificationTask
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit.neural.training.trainer import Trainer
from alignkit.scores import Scores
from alignkit.support.packages import imported
from alignkit.support.stages import no_progress
from alignkit.text.labelled import LabelledText
from alignkit.types import PathLike, Progress

LARGEST_DIVERGENCE = float(np.log(2))  #: of :func:`jensen_shannon`, nats


class Decision(NamedTuple):
    """What the decision about a text rests on.

    Attributes:
        alpha: float64 (L,), the attention.
        strength: float64 (L,), r_l = W · h_l.
        bias: b.
    """

    alpha: np.ndarray
    strength: np.ndarray
    bias: float

    @property
    def logit(self) -> float:
        """z, log p(y = 1) - log p(y = 0)."""
        return float(self.alpha @ self.strength + self.bias)

    def probability(self, alpha: np.ndarray) -> np.ndarray:
        """p(y = 1) if the attention were alpha, (..., L) -> (...)."""
        return np.asarray(expit(alpha @ self.strength + self.bias))


def jensen_shannon(one: np.ndarray, other: np.ndarray) -> float:
    """The Jensen-Shannon divergence of two distributions (L,), nats; 0 if equal, log 2 if disjoint.

    Both sum to 1: otherwise the value means nothing.

    >>> round(jensen_shannon(np.array([0.5, 0.5]), np.array([1.0, 0.0])), 3)
    0.216
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    own = entropy_terms(one).sum() + entropy_terms(other).sum()
    return float(entropy_terms((one + other) / 2).sum() - own / 2)


def entropy_terms(p: np.ndarray) -> np.ndarray:
    """-p log p of every element, nats; 0 at 0."""
    return -p * np.log(np.where(p > 0, p, 1.0))


def sums_to_one(attention: np.ndarray) -> bool:
    """Whether the attention of each row of (..., L) is a distribution; that of sigmoids, for one, is not."""
    return bool((np.abs(attention.sum(-1) - 1) < 1e-4).all())


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

    def run_settings(self, number: int, **network: object) -> ClassifierRunSettings:
        """The classifier's settings with another seed, our number of steps, and changes of the network."""
        seed = 1000 * (self.settings.seed + 1) + number
        steps = self.settings.steps or max(self.classifier.settings.training.steps, 1)
        training = {"seed": seed, "steps": steps, "keep": "best", "trained": "all"}
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
        found = trainer.run(lambda done, total, _: self.progress(done, total, name))
        return found.network if best else trainer.network.eval()


def subject_of_run(
    run: PathLike,
    others: Sequence[PathLike] = (),
    settings: ExplanationSettings | None = None,
    *,
    progress: Progress = no_progress,
    device: str = "auto",
) -> Subject:
    """Load the best classifier of a run and the texts with words among the first of its validation text.

    Args:
        run: the directory of a classifier's run.
        others: those of other seeds on the same text: how far their attention lies from this one's is a yardstick
            for adversaries.
        settings: defaults if not given.
        progress: called with (training steps done, steps of a network, its name) by tests that train networks.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: there is no such run, one is given twice, another one has another text, no text has words,
            or a word to avoid is unknown.
    """
    settings = settings or ExplanationSettings()
    if len({Path(path).resolve() for path in (run, *others)}) <= len(others):
        raise AlignkitError("a run is given twice; those beside the first must be others, of other seeds")
    own = ClassifierRun(run)
    classifier = own.load(device=device)
    second = []
    for path in others:
        other = ClassifierRun(path).load(device=device)
        if other.tokenizer.vocabulary != classifier.tokenizer.vocabulary:
            remedy = "give a run of another seed on the same text"
            raise AlignkitError(f"{path}: this classifier has other words; {remedy}")
        second.append(other)
    vocabulary = set(classifier.tokenizer.vocabulary.tokens)
    unknown = [word for word in settings.avoid if word not in vocabulary]
    if unknown:
        raise AlignkitError(f"the word {unknown[0]!r} to avoid is not in the classifier's vocabulary")
    with_words = np.flatnonzero(own.valid.corpus.lengths > 0)[: settings.limit]
    if not len(with_words):
        raise AlignkitError("no text has words to explain")
    text = LabelledText.from_bitext(own.valid.bitext.take(with_words))
    return Subject(classifier, text, own.train, settings, second, progress)


def decisions(network: Classifier, text: LabelledText) -> list[Decision]:
    """What each decision of a classifier rests on; all texts have words."""
    alpha = classifier_scores(network, text, "alpha")
    towards = classifier_scores(network, text, "relevance")
    bias = float(network.output.bias.detach())
    rows = zip(alpha, towards, 2.0 * text.labels - 1, strict=True)
    return [Decision(a[0].astype(np.float64), sign * r[0].astype(np.float64), bias) for a, r, sign in rows]


def network_probabilities(network: Classifier, text: LabelledText) -> np.ndarray:
    """float64 (M,): p(y = 1) by a network; for a text without words, by its bias alone."""
    logits = classifier_logits(network, text)
    logits = np.where(np.isnan(logits), float(network.output.bias.detach()), logits)
    return np.asarray(expit(logits))


COLUMNS = ("group", "test", "value", "low", "high", "n", "meaning")  #: of the table; group is the test's name
Row = dict[str, Any]  #: test, value, low, high, n (how many the mean is over), meaning
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


def explanation_table(subject: Subject) -> pd.DataFrame:
    """Run all tests that the subject's settings name.

    Returns:
        rows ``group`` (the name of the test), ``test``, ``value``, its 95 % interval ``low`` and ``high`` over
        texts, ``n`` (how many texts the mean is over), and ``meaning``.

    Raises:
        AlignkitError: a test that trains networks cannot be made for this classifier or text.
    """
    # Before other tests are run: there must be attention to be far from.
    no_attention = subject.network.attention is None or not subject.distributions
    if "trained-adversary" in subject.settings.tests and no_attention:
        wanted = "a classifier whose attention is learned, with rows that sum to 1"
        raise AlignkitError(f"the trained adversary needs {wanted}")
    rows = []
    for name in subject.settings.tests:
        module = "trained" if EXPLANATION_TESTS[name].trains else "interventions"
        test = imported(f"alignkit.lab.explain.{module}:{name.replace('-', '_')}_rows")
        rows += [{"group": name, **row} for row in test(subject)]
    return pd.DataFrame(rows, columns=COLUMNS)
