"""Agreement by word frequency and sentence length, weight by class of token, errors against gold links."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from alignkit.aligner import scores_of_links
from alignkit.lab.report.model import Report, ScoreSet
from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.metrics.aer import count_links
from alignkit.metrics.agreement import AgreementRows, agreement_rows
from alignkit.metrics.error_classes import COLUMNS as CLASS_COLUMNS
from alignkit.metrics.error_classes import LENGTHS, band_names, error_table
from alignkit.metrics.intervals import percentile_interval, ratio, resampled_sums
from alignkit.scores import Scores, merge_to_words
from alignkit.text.subword_marks import without_mark
from alignkit.text.tokenization import BOS, EOS, SPECIALS
from alignkit.text.vocabulary import is_punctuation

if TYPE_CHECKING:
    import pandas as pd

#: upper ends of the bands of how often a source word occurs in the training text
FREQUENCIES = (0, 3, 10, 30, 100, 300, 1000, 3000)
ENDS = "sentence ends"
CLASSES = ("sentence start", "sentence end", "punctuation", "words")


def frequency_bands(report: Report, rows: AgreementRows) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by how often the text learned from has the source token that u ranks first."""
    names = band_names(FREQUENCIES)
    source = report.bitext.source
    place = source.offsets[rows.sentence] + rows.best
    band = np.searchsorted(np.array(FREQUENCIES), report.counts[source.tokens[place]], side="left")
    if report.specials:
        specials = np.array([source.vocabulary.id(SPECIALS[i]) for i in (BOS, EOS)])
        band = np.where(np.isin(source.tokens[place], specials[specials >= 0]), len(names), band)
    return band, [*names, ENDS]


def length_bands(report: Report, rows: AgreementRows) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by the number of source words in its sentence."""
    lengths = report.word_shapes[:, 1]
    return np.searchsorted(np.array(LENGTHS), lengths[rows.sentence], side="left"), band_names(LENGTHS, 1)


def banded(
    rows: AgreementRows, bands: tuple[np.ndarray, list[str]], pairs: int, seed: int
) -> list[dict[str, object]]:
    """One record per band that has rows: band, rows, agreement, chance, low, high.

    Args:
        rows: of M pairs.
        bands: the band of each row (R,), and the bands' names.
        pairs: M.
        seed: of the bootstrap over pairs.
    """
    band, names = bands
    used = np.flatnonzero(np.bincount(band, minlength=len(names)))
    flat = rows.sentence * len(used) + np.searchsorted(used, band)
    sums = [np.bincount(flat, weights, pairs * len(used)) for weights in (rows.hits, None, rows.expected)]
    hits, count, chance = (each.reshape(pairs, len(used)).astype(np.float64) for each in sums)
    drawn = resampled_sums(np.hstack([hits, count]), seed)
    ratios = ratio(drawn[:, : len(used)], drawn[:, len(used) :])
    found: list[dict[str, object]] = []
    for i, place in enumerate(used):
        total = count[:, i].sum()
        low, high = percentile_interval(ratios[:, i])
        shares = {"agreement": float(hits[:, i].sum() / total), "chance": float(chance[:, i].sum() / total)}
        found.append({"band": names[place], "rows": int(total), **shares, "low": low, "high": high})
    return found


def token_classes(report: Report) -> np.ndarray:
    """int64 (N,): index in ``CLASSES`` of every source token."""
    source = report.bitext.source
    marks = [is_punctuation(without_mark(token)) for token in source.vocabulary.tokens]
    kinds = np.where(np.array(marks, bool), 2, 3)
    if report.specials:
        for kind, special in ((0, BOS), (1, EOS)):
            index = source.vocabulary.id(SPECIALS[special])
            if index >= 0:
                kinds[index] = kind
    return kinds[source.tokens] if len(kinds) else np.empty(0, np.int64)


def mass_table(report: Report) -> pd.DataFrame:
    """The weight of alpha scores by class of source token: columns set, class, mass, even.

    Means over rows; ``mass`` is the class's share of a row's sum, of rows that sum to more than 1 (links, say)
    after division by the sum; what rows lack to 1 is the class ``no source word``. ``even`` is what scores spread
    evenly would give. Scores with an infinite one have no shares, and no rows here.
    """
    import pandas as pd

    kinds = token_classes(report)
    offsets = report.bitext.source.offsets
    records = []
    for each in report.sets:
        if each.kind != "alpha" or not np.isfinite(each.scores.values).all():
            continue
        mass, even, rows = np.zeros(len(CLASSES)), np.zeros(len(CLASSES)), 0
        for m, matrix in enumerate(each.scores):
            if matrix.size == 0:
                continue
            member = np.equal.outer(kinds[offsets[m] : offsets[m + 1]], np.arange(len(CLASSES))).astype(np.float64)
            shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True, dtype=np.float64), 1)
            mass += (shares @ member).sum(axis=0)
            even += len(matrix) * member.mean(axis=0)
            rows += len(matrix)
        mass, even = mass / max(rows, 1), even / max(rows, 1)
        for kind, name in enumerate(CLASSES):
            if even[kind] > 0:
                records.append({"set": each.name, "class": name, "mass": mass[kind], "even": even[kind]})
        nowhere = 1 - mass.sum()
        if rows and nowhere > 5e-4:
            records.append({"set": each.name, "class": "no source word", "mass": nowhere, "even": 0.0})
    return pd.DataFrame(records, columns=["set", "class", "mass", "even"])


def breakdown_table(report: Report) -> pd.DataFrame:
    """Agreement by band: columns by (frequency or length), u, v, band, rows, agreement, chance, low, high."""
    import pandas as pd

    records = []
    for u, v in permutations(report.sets, 2):
        rows = agreement_rows(u.scores, v.scores, report.percent)
        for name, bands in (("frequency", frequency_bands), ("length", length_bands)):
            found = banded(rows, bands(report, rows), len(report.bitext), report.seed)
            records += [{"by": name, "u": u.name, "v": v.name, **record} for record in found]
    columns = ["by", "u", "v", "band", "rows", "agreement", "chance", "low", "high"]
    return pd.DataFrame(records, columns=columns)


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


def gold_classes(report: Report) -> pd.DataFrame:
    """Errors by class: column set and those of :func:`alignkit.metrics.error_classes.error_table`.

    All classes are there, those without links too. Links as of :func:`gold_table`. A link's probability is its
    score, if all scores of the set are from 0 to 1.
    """
    import pandas as pd

    parts = [pd.DataFrame(columns=["set", *CLASS_COLUMNS])]
    for each in linking_sets(report):
        assert report.gold is not None
        words, links = _words_and_links(report, each)
        table = error_table(report.gold, links, report.words, _chosen_scores(words, links), empty=True)
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
    return scores_of_links(links, words.block(0, len(links)))
