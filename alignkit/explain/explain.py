"""The explanation tests of a classifier, or of a run, as one table with intervals.

Jain and Wallace (2019), Serrano and Smith (2019), Wiegreffe and Pinter (2019) and others; see
:mod:`alignkit.explain.registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.explain.registry import ExplanationSettings, find_explanation_test
from alignkit.explain.subject import COLUMNS, Subject
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.training.classification import ClassifierRun
from alignkit.packages import imported
from alignkit.text.labelled import LabelledText
from alignkit.types import PathLike, Progress, no_progress, with_options

if TYPE_CHECKING:
    import pandas as pd


def explain_classifier(
    classifier: ClassifierAligner,
    text: LabelledText,
    others: Sequence[ClassifierAligner] = (),
    settings: ExplanationSettings | None = None,
    *,
    training: LabelledText | None = None,
    progress: Progress = no_progress,
    **options: Any,
) -> pd.DataFrame:
    """Test a classifier's attention as an explanation of its decisions.

    Args:
        classifier: the classifier.
        text: with its vocabulary and labels.
        others: of other seeds: how far their attention lies from this one's is a yardstick for adversaries.
        settings: defaults if not given.
        training: the classifier's training text, which some tests train networks on.
        progress: called with (training steps done, steps of all networks, message).
        **options: single settings.

    Returns:
        rows ``group`` (the name of the test), ``test``, ``value``, its 95 % interval ``low`` and ``high`` over
        texts, ``n`` (how many texts the mean is over), and ``meaning``.

    Raises:
        AlignkitError: no text has words, a setting is impossible, a word to avoid is unknown, or a test lacks the
            training text.
    """
    settings = with_options(settings or ExplanationSettings(), options)
    return explanation_table(new_subject(classifier, text, others, settings, training, progress))


def new_subject(
    classifier: ClassifierAligner,
    text: LabelledText,
    others: Sequence[ClassifierAligner],
    settings: ExplanationSettings,
    training: LabelledText | None = None,
    progress: Progress = no_progress,
) -> Subject:
    """The subject of tests: the texts with words among the first ones; arguments and errors as above."""
    with_words = np.flatnonzero(text.corpus.lengths > 0)[: settings.limit]
    if not len(with_words):
        raise AlignkitError("no text has words to explain")
    vocabulary = set(classifier.tokenizer.vocabulary.tokens)
    unknown = [word for word in settings.avoid if word not in vocabulary]
    if unknown:
        raise AlignkitError(f"the word {unknown[0]!r} to avoid is not in the classifier's vocabulary")
    chosen = [find_explanation_test(name) for name in settings.tests]
    networks = sum(test.networks(settings, classifier.network.encoder.depth) for test in chosen)
    text = LabelledText.from_bitext(text.bitext.take(with_words))
    return Subject(classifier, text, settings, others, training, progress, networks)


def explanation_table(subject: Subject) -> pd.DataFrame:
    """The rows of all tests that the subject's settings name; as :func:`explain_classifier`."""
    import pandas as pd

    rows = [
        {"group": name, **row}
        for name in subject.settings.tests
        for row in imported(find_explanation_test(name).rows)(subject)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def explain_run(
    run: PathLike,
    others: Sequence[PathLike] = (),
    settings: ExplanationSettings | None = None,
    *,
    progress: Progress = no_progress,
    device: str = "auto",
    **options: Any,
) -> pd.DataFrame:
    """:func:`explain_classifier` of the best classifier of a run, on the run's validation text.

    Args:
        run: the directory of a classifier's run.
        others: those of other seeds on the same text.
        settings, progress, **options: as of :func:`explain_classifier`.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: there is no such run, or another one has another text.
    """
    settings = with_options(settings or ExplanationSettings(), options)
    return explanation_table(run_subject(run, others, settings, progress, device))


def run_subject(
    run: PathLike,
    others: Sequence[PathLike],
    settings: ExplanationSettings,
    progress: Progress = no_progress,
    device: str = "auto",
) -> Subject:
    """The subject of :func:`explain_run`; arguments and errors as there."""
    own = ClassifierRun(Path(run))
    classifier = own.load(device=device)
    second = []
    for path in others:
        other = ClassifierRun(Path(path)).load(device=device)
        if other.tokenizer.vocabulary != classifier.tokenizer.vocabulary:
            raise AlignkitError(
                f"{path}: this classifier has other words; give a run of another seed on the same text"
            )
        second.append(other)
    return new_subject(classifier, own.valid, second, settings, own.train, progress)
