"""The report of a classifier's explanation tests: tables and pictures, and every text as a heat map."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from alignkit.analysis.explanation.subject import Subject
from alignkit.metrics.registry import compare
from alignkit.report.model import Report, score_set

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("alpha", "beta", "delta", "loo")  #: of the classifier's scores that are shown


def explanation_report(subject: Subject, table: pd.DataFrame, title: str | None = None) -> Report:
    """The report of a subject and its explanation tests.

    Each text is shown as a sentence pair whose only target word is the label.

    Args:
        subject: the classifier and its texts.
        table: of :func:`alignkit.analysis.explanation.explain.explanation_table`.
        title: of the page.
    """
    bitext = subject.text.bitext
    scores = {f"classifier.{kind}": subject.scores(kind) for kind in KINDS}
    sets = [score_set(name, found, aligner="classifier") for name, found in scores.items()]
    for number, other in enumerate(subject.others, 2):
        name = f"classifier{number}.alpha"
        scores[name] = other.score(bitext, "alpha")
        sets.append(score_set(name, scores[name], aligner="classifier", suffix=f"classifier {number}"))
    learned = subject.training if subject.training is not None else subject.text
    counts = np.bincount(learned.corpus.tokens, minlength=len(bitext.source.vocabulary))
    classifier = subject.classifier
    measured = {name: f"{value:.4g}" for name, value in sorted(classifier.metrics.items())}
    return Report(
        title=title or f"Does attention explain {' or '.join(classifier.labels)}?",
        bitext=bitext,
        sets=tuple(sets),
        table=compare(scores, seed=subject.settings.seed),
        counts=counts,
        specials=False,
        marked=False,
        facts={
            "classifier": {"step": f"{classifier.step:,}", **measured, **asdict(classifier.settings)},
            "tests": asdict(subject.settings),
        },
        seed=subject.settings.seed,
        explanation=table,
    )
