"""The alignment error rate of each aligner against gold links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.links.from_scores import best_links
from alignkit.metrics.aer import count_links
from alignkit.report.model import Report
from alignkit.scores.word_groups import merge_to_words

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
    for each in report.sets:
        if report.gold is None or each.kind != "alpha":
            continue
        words = merge_to_words(each.scores, report.groups[1], report.groups[0])
        counts = count_links(report.gold, best_links(words).block(0, len(report.gold)))
        total, (low, high) = counts.total(), counts.intervals(report.seed)["aer"]
        shares = (total.precision, total.recall, total.f1, total.aer, low, high)
        rows.append((each.name, *shares, total.links))
    return pd.DataFrame(rows, columns=list(COLUMNS))
