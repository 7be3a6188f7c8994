"""Classifiers of labelled sentences that experiments train in memory; see alignkit.neural.networks.classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import ExperimentSettings
from alignkit.lab.experiments.curves import follow
from alignkit.lab.experiments.networks import bitext_lines
from alignkit.metrics.intervals import ratio
from alignkit.metrics.kendall import sum_tau
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.settings import ClassifierRunSettings, ClassifierSettings, ClassifierTraining
from alignkit.neural.training.classification import ClassificationTask, Loss, label_loss
from alignkit.neural.training.trainer import Trainer
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines, LabelledText, read_labelled, two_labels
from alignkit.text.tokenization import Tokenizer, learn_words, split_words
from alignkit.types import Progress

PLACE_WORDS = frozenset({"in", "on", "at"})  #: prepositions by which the sentences of the sample are labelled
FEWEST = 20  #: labelled sentences


def labelled_lines(path: str, sentences: int = 0, longest: int = 0) -> LabelledLines:
    """Labelled sentences in a fixed random order, in lower case, with punctuation marks as words of their own.

    Args:
        path: as :func:`alignkit.text.labelled.read_labelled`. Empty for the sample, which has no labels: its
            German sentences, labelled by whether the English one has a preposition of place (in, on or at).
        sentences: the number to take; 0 for all.
        longest: sentences with more words are truncated; 0 for no limit.

    Raises:
        InputError: the file cannot be read or is malformed.
        AlignkitError: fewer than two labels, or fewer than 20 sentences with words.
    """
    lines = (read_labelled(path, lowercase=True) if path else _labelled_sample()).split_punctuation()
    with_words = np.flatnonzero([bool(split_words(text)) for text in lines.texts])
    order = np.random.default_rng([0, 11]).permutation(len(with_words))[: sentences or None]
    lines = lines.take(with_words[order])
    if len(lines.names) < 2 or len(lines) < FEWEST:
        raise AlignkitError(
            f"{path or 'the sample'}: at least {FEWEST} sentences and two labels are needed, not {len(lines)} "
            f"with {', '.join(lines.names) or 'none'}"
        )
    return lines.cut(longest) if longest else lines


def _labelled_sample() -> LabelledLines:
    german, english = bitext_lines("", "")
    return LabelledLines(german, ["place" if PLACE_WORDS & set(line.split()) else "none" for line in english])


@dataclass(frozen=True)
class ClassifierPlan(ExperimentSettings):
    """The labelled text, the size of the classifiers, and their training.

    Attributes:
        labelled: a file of lines LABEL TAB TEXT with two labels; the sample if empty.
        sentences: the number to read; 0 for all. Nine in ten are for training, the others are held out.
        minimum: a word seen fewer times is unknown.
        longest: sentences are truncated to this length.
        held: held-out sentences that are scored, at most.
        embedding, hidden: sizes of a word's embedding and of each LSTM direction.
        rate, batch, epochs: learning rate and batch size of Adam, and its passes over the training text.
        seeds: pairs of classifiers; each pair is trained from its own seed.
    """

    least = dict.fromkeys(("sentences", "longest"), 0)
    labelled: str = ""
    sentences: int = 0
    minimum: int = 3
    longest: int = 40
    held: int = 300
    embedding: int = 100
    hidden: int = 64
    rate: float = 2e-3
    batch: int = 32
    epochs: int = 4
    seeds: int = 3


@dataclass(frozen=True, eq=False)
class Split:
    """Labelled text for training and held-out text, in the vocabulary of one tokenizer."""

    training: LabelledText
    held: LabelledText
    tokenizer: Tokenizer


def read_split(plan: ClassifierPlan) -> Split:
    """The text of a plan.

    Raises:
        AlignkitError: there are not two labels; other errors as :func:`labelled_lines`.
    """
    lines, names = two_labels(labelled_lines(plan.labelled, plan.sentences, plan.longest))
    tokenizer = learn_words(lines.texts, plan.minimum)
    cut = len(lines) * 9 // 10
    training = lines.take(np.arange(cut)).encode(tokenizer, names)
    held = lines.take(np.arange(cut, len(lines))[: plan.held]).encode(tokenizer, names)
    return Split(training, held, tokenizer)


def classifier_settings(
    plan: ClassifierPlan, split: Split, seed: int, epochs: int, attention: str = "feed-forward"
) -> ClassifierRunSettings:
    """The settings of one classifier of a plan."""
    network = ClassifierSettings(
        embedding=plan.embedding, hidden=plan.hidden, attention_hidden=plan.hidden, attention=attention
    )
    steps = epochs * -(-len(split.training) // plan.batch)
    training = ClassifierTraining(batch=plan.batch, learning_rate=plan.rate, steps=steps, seed=seed, keep="best")
    return ClassifierRunSettings(network=network, training=training)


def train_in_memory(
    split: Split,
    settings: ClassifierRunSettings,
    progress: Progress,
    *,
    prepare: Callable[[Classifier], None] | None = None,
    loss: Loss = label_loss,
    look: Callable[[ClassifierAligner], None] | None = None,
) -> Classifier:
    """Trains a classifier on the CPU; the same seed gives the same initial weights and the same batches.

    Args:
        split: held-out text is measured in training, for ``progress``.
        settings: of :func:`classifier_settings`.
        progress: of the steps.
        prepare, loss: as in :func:`alignkit.neural.training.classification.ClassificationTask`.
        look: as in :func:`alignkit.lab.experiments.curves.follow`.

    Returns:
        the classifier after the last step, which does not depend on held-out text.
    """
    task = ClassificationTask(
        split.training, split.held, settings, split.tokenizer, prepare=prepare, loss=loss, device="cpu"
    )
    trainer = Trainer(task)
    follow(trainer, look, progress)
    return trainer.network.eval()


def sentence_taus(u: Scores, v: Scores) -> np.ndarray:
    """Kendall's tau-b of u and v within each of M sentences, float64 (M,); NaN where it is undefined.

    Args:
        u, v: scores of the same sentences; of a matrix with several rows, the mean of their tau-b.
    """
    sums = sum_tau(u, v)
    return ratio(sums.total, sums.rows)
