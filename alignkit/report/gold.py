"""The alignment error rate of each aligner against gold links, and its errors by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.metrics.aer import count_links
from alignkit.metrics.error_classes import COLUMNS as CLASS_COLUMNS
from alignkit.metrics.error_classes import error_table
from alignkit.report.model import Report, ScoreSet
from alignkit.scores import Scores, merge_to_words

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("set", "precision", "recall", "f1", "aer", "aer_low", "aer_high", "links")


def gold_table(report: Report) -> pd.DataFrame:
    """Alpha scores against gold links: columns ``COLUMNS``, a row per set; none if the report has no gold.

    Scores of subwords are merged into those of words, and each target word is linked to its favourite source word
    (:func:`alignkit.links.from_scores.best_links`). Only pairs with gold links count.
    """
    import pandas as pd

    rows = []
    for each in linking_sets(report):
        assert report.gold is not None
        _, links = _words_and_links(report, each)
        counts = count_links(report.gold, links)
        total, (low, high) = counts.total(), counts.intervals(report.seed)["aer"]
        shares = (total.precision, total.recall, total.f1, total.aer, low, high)
        rows.append((each.name, *shares, total.links))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def gold_classes(report: Report, empty: bool = False) -> pd.DataFrame:
    """Errors by class: column set and those of :func:`alignkit.metrics.error_classes.error_table`.

    Classes without links are left out unless ``empty``. Links as of :func:`gold_table`. A link's probability
    is its score, if all scores of the set are from 0 to 1.
    """
    import pandas as pd

    parts = [pd.DataFrame(columns=["set", *CLASS_COLUMNS])]
    for each in linking_sets(report):
        assert report.gold is not None
        words, links = _words_and_links(report, each)
        table = error_table(report.gold, links, report.words, _chosen_scores(words, links), empty=empty)
        table.insert(0, "set", each.name)
        parts.append(table)
    return pd.concat(parts[1:] or parts, ignore_index=True)


def linking_sets(report: Report) -> list[ScoreSet]:
    """The alpha scores of a report with gold links; none without."""
    return [each for each in report.sets if report.gold is not None and each.kind == "alpha"]


def _words_and_links(report: Report, each: ScoreSet) -> tuple[Scores, Links]:
    """The scores between words, and each target word's link to its favourite source word."""
    assert report.gold is not None
    words = merge_to_words(each.scores, report.groups[1], report.groups[0])
    return words, best_links(words).block(0, len(report.gold))


def _chosen_scores(words: Scores, links: Links) -> np.ndarray | None:
    """float64 (K,): the score of each link; None if scores are not from 0 to 1."""
    if len(words.values) and not (words.values.min() >= 0 and words.values.max() <= 1 + 1e-6):
        return None
    chosen = [words[m][pairs[:, 1], pairs[:, 0]] for m, pairs in enumerate(links)]
    return np.concatenate([np.zeros(0), *chosen]).astype(np.float64)
