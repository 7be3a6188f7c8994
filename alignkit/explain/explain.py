"""The explanation tests of a classifier's run as one table with intervals.

Jain and Wallace (2019), Serrano and Smith (2019), Wiegreffe and Pinter (2019) and others; see
:mod:`alignkit.explain.registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.explain.registry import EXPLANATION_TESTS, ExplanationSettings
from alignkit.explain.subject import COLUMNS, Subject
from alignkit.neural.training.classification import ClassifierRun
from alignkit.packages import imported
from alignkit.text.labelled import LabelledText
from alignkit.types import PathLike, Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd


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
        AlignkitError: there is no such run, another one has another text, no text has words, or a word to avoid is
            unknown.
    """
    settings = settings or ExplanationSettings()
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
    vocabulary = set(classifier.tokenizer.vocabulary.tokens)
    unknown = [word for word in settings.avoid if word not in vocabulary]
    if unknown:
        raise AlignkitError(f"the word {unknown[0]!r} to avoid is not in the classifier's vocabulary")
    with_words = np.flatnonzero(own.valid.corpus.lengths > 0)[: settings.limit]
    if not len(with_words):
        raise AlignkitError("no text has words to explain")
    text = LabelledText.from_bitext(own.valid.bitext.take(with_words))
    return Subject(classifier, text, own.train, settings, second, progress)


def explanation_table(subject: Subject) -> pd.DataFrame:
    """Run all tests that the subject's settings name.

    Returns:
        rows ``group`` (the name of the test), ``test``, ``value``, its 95 % interval ``low`` and ``high`` over
        texts, ``n`` (how many texts the mean is over), and ``meaning``.

    Raises:
        AlignkitError: a test that trains networks cannot be made for this classifier or text.
    """
    import pandas as pd

    rows = [
        {"group": name, **row}
        for name in subject.settings.tests
        for row in imported(EXPLANATION_TESTS[name].rows)(subject)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
