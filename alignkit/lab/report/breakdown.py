"""Agreement by word frequency and sentence length, weight by class of token, errors against gold links."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.lab.report.build import Report, ScoreSet
from alignkit.links.from_scores import best_links, scores_of_links
from alignkit.metrics.aer import LENGTHS, LinkCounts, band_names, count_links, error_table
from alignkit.metrics.agreement import AgreementRows, agreement_rows
from alignkit.metrics.intervals import percentile_interval, ratio, resampled_sums
from alignkit.scores import merge_to_words
from alignkit.text.tokenization import BOS, EOS, SPECIALS, without_mark
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
    favourites = source.tokens[source.offsets[rows.sentence] + rows.best]
    band = np.searchsorted(np.array(FREQUENCIES), report.counts[favourites], side="left")
    if report.specials:
        specials = np.array([source.vocabulary.id(SPECIALS[i]) for i in (BOS, EOS)])
        band = np.where(np.isin(favourites, specials[specials >= 0]), len(names), band)
    return band, [*names, ENDS]


def length_bands(report: Report, rows: AgreementRows) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by the number of source words in its sentence."""
    lengths = report.word_shapes[:, 1]
    return np.searchsorted(np.array(LENGTHS), lengths[rows.sentence], side="left"), band_names(LENGTHS, 1)


def breakdown_table(report: Report) -> list[dict[str, Any]]:
    """Agreement by band: records by (frequency or length), u, v, band, rows, agreement, chance, low, high.

    Bands without rows are left out. The interval is a bootstrap over sentence pairs.
    """
    found: list[dict[str, Any]] = []
    pairs = len(report.bitext)
    for u, v in permutations(report.sets, 2):
        rows = agreement_rows(u.scores, v.scores, report.percent)
        for by, bands in (("frequency", frequency_bands), ("length", length_bands)):
            band, names = bands(report, rows)
            used = np.flatnonzero(np.bincount(band, minlength=len(names)))
            cells = rows.sentence * len(used) + np.searchsorted(used, band)
            sums = [np.bincount(cells, weights, pairs * len(used)) for weights in (rows.hits, None, rows.expected)]
            hits, count, chance = (each.reshape(pairs, len(used)).astype(np.float64) for each in sums)
            drawn = resampled_sums(np.hstack([hits, count]), report.seed)
            ratios = ratio(drawn[:, : len(used)], drawn[:, len(used) :])
            for i, name in enumerate(names[k] for k in used):
                total = count[:, i].sum()
                shares = {
                    "agreement": float(hits[:, i].sum() / total),
                    "chance": float(chance[:, i].sum() / total),
                }
                low, high = percentile_interval(ratios[:, i])
                record: dict[str, Any] = {"by": by, "u": u.name, "v": v.name, "band": name, "rows": int(total)}
                found.append({**record, **shares, "low": low, "high": high})
    return found


def mass_table(report: Report) -> list[dict[str, Any]]:
    """The weight of alpha scores by class of source token: records set, class, mass, even.

    Means over rows; ``mass`` is the class's share of a row's sum, of rows that sum to more than 1 (links, say)
    after division by the sum; what rows lack to 1 is the class ``no source word``. ``even`` is what scores spread
    evenly would give. Scores with an infinite one have no shares, and no records here.
    """
    source = report.bitext.source
    marks = [is_punctuation(without_mark(token)) for token in source.vocabulary.tokens]
    kinds = np.where(np.array(marks, bool), CLASSES.index("punctuation"), CLASSES.index("words"))
    if report.specials:
        for kind, special in ((CLASSES.index("sentence start"), BOS), (CLASSES.index("sentence end"), EOS)):
            index = source.vocabulary.id(SPECIALS[special])
            if index >= 0:
                kinds[index] = kind
    found = []
    for each in report.sets:
        if each.kind != "alpha" or not np.isfinite(each.scores.values).all():
            continue
        mass, even, rows = np.zeros(len(CLASSES)), np.zeros(len(CLASSES)), 0
        for m, matrix in enumerate(each.scores):
            if matrix.size == 0:
                continue
            member = np.equal.outer(kinds[source[m]], np.arange(len(CLASSES))).astype(np.float64)
            shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True, dtype=np.float64), 1)
            mass += (shares @ member).sum(axis=0)
            even += len(matrix) * member.mean(axis=0)
            rows += len(matrix)
        mass, even = mass / max(rows, 1), even / max(rows, 1)
        for kind, name in enumerate(CLASSES):
            if even[kind] > 0:
                found.append({"set": each.name, "class": name, "mass": mass[kind], "even": even[kind]})
        nowhere = 1 - mass.sum()
        if rows and nowhere > 5e-4:
            found.append({"set": each.name, "class": "no source word", "mass": nowhere, "even": 0.0})
    return found


def against_gold(report: Report) -> Iterator[tuple[ScoreSet, LinkCounts, pd.DataFrame]]:
    """Each set of alpha scores against gold links: its counts and its errors by class; nothing without gold links.

    Scores of subwords are merged into those of words, and each target word is linked to its favourite source word
    (:func:`alignkit.links.from_scores.best_links`). Only pairs with gold links count. A link's probability is its
    score, if all scores of the set are from 0 to 1. The classes are those of
    :func:`alignkit.metrics.aer.error_table`, those without links too.
    """
    gold = report.gold
    for each in report.sets:
        if gold is None or each.kind != "alpha":
            continue
        words = merge_to_words(each.scores, report.groups[1], report.groups[0])
        links = best_links(words).block(0, len(gold))
        probabilities = None
        if not len(words.values) or (words.values.min() >= 0 and words.values.max() <= 1 + 1e-6):
            probabilities = scores_of_links(links, words.block(0, len(links)))
        yield (
            each,
            count_links(gold, links),
            error_table(gold, links, report.words, probabilities, empty=True),
        )
