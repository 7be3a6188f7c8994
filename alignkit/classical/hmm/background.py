"""What a fitted model says of another text: the counts that its own text adds to those of the other."""

from __future__ import annotations

import numpy as np

from alignkit.classical.hmm.model import FittedCounts, FittedHMM
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.word_classes import ClassCounts
from alignkit.classical.lexical_model import Ids, row_spans
from alignkit.kernels.hmm_m_step import background_values, column_sums, row_sums
from alignkit.kernels.hmm_rows import FERTILITIES
from alignkit.kernels.inverted_index import TableRows
from alignkit.support.arrays import values_of
from alignkit.support.threads import run_blocks
from alignkit.text.spellings import base_letters

#: Pairs with fewer expected links than this say nothing of classes of words; nearly all pairs are such.
LEAST_COUNT = 0.05


class BackgroundModel:
    """A fitted model of both directions as background knowledge about other texts.

    Args:
        model: fitted.
        counts: those that it was fitted with.
        settings: of the estimation that it is background for.

    Attributes:
        totals: float64 (V_src,) and (V_tgt,), the expected number of links of each word.
        null: float64 (V_tgt,) and (V_src,), NULL's counts in each direction.
        fertilities: float64 (V_src, F) and (V_tgt, F), the number of occurrences with 0, 1, ... links.
        classes: counts of pairs of classes, for each of the settings' affixes.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts, settings: HMMSettings) -> None:
        table, rows = model.table, model.table.rows
        self.model, self.pairs = model, counts.pairs
        self.totals = tuple(
            np.bincount(words, counts.pairs, minlength=size).astype(np.float64)
            for words, size in zip((rows, table.columns), table.shape, strict=True)
        )
        self.null_totals = tuple(map(float, counts.null))
        self.null = tuple(
            direction.null.astype(np.float64) * total
            for direction, total in zip(model.directions, self.null_totals, strict=True)
        )
        self.fertilities = tuple(
            fertility_counts(direction.fertility, totals, settings.fertility)
            for direction, totals in zip(model.directions, self.totals, strict=True)
        )
        some = np.flatnonzero(counts.pairs >= LEAST_COUNT)
        counted = rows[some], table.columns[some], counts.pairs[some]
        affixes = settings.affix_slices if settings.back_off > 0 else ()
        letters = [[*map(base_letters, side)] for side in (model.source, model.target)] if affixes else []
        self.classes = [ClassCounts(letters, counted, self.totals, affix) for affix in affixes]


def fertility_counts(fertility: np.ndarray, links: np.ndarray, exponent: float) -> np.ndarray:
    """float64 (V, F): expected occurrences of each word with 0, 1, ... links, from its
    :func:`alignkit.classical.hmm.hmm.fertility_factors`.

    Args:
        fertility: float32 (V, F - 1), the factors; (V, 1) if there are none.
        links: float64 (V,), the expected number of links of each word.
        exponent: of the factors.
    """
    factors = fertility.astype(np.float64)
    if factors.shape[1] != FERTILITIES - 1 or exponent <= 0:
        return np.zeros((len(factors), FERTILITIES))
    ratios = np.clip(factors, 1e-6, 1e6) ** (1 / exponent)
    chances = np.cumprod(np.concatenate([np.ones((len(factors), 1)), ratios], axis=1), axis=1)
    chances /= chances.sum(axis=1, keepdims=True)
    mean = chances @ np.arange(FERTILITIES)
    return chances * (links / np.maximum(mean, 0.1))[:, None]


def counts_of_pairs(
    background: BackgroundModel, ids: Ids, rows: TableRows, ranges: list[tuple[int, int]], threads: int
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """A background model's expected counts of the word pairs of a text.

    Args:
        background: the model.
        ids: the model's ids of the text's source and target words, -1 if unknown.
        rows: the K pairs of the text.
        ranges: of the text's source words.
        threads: how many to use; no result depends on it.

    Returns:
        (float32 (K,), counts; float64 (V_src,) and (V_tgt,), those of each word's pairs that the text does not
        have).
    """
    table, values = background.model.table, np.zeros(len(rows.columns), np.float32)
    spans = row_spans(table.with_values(background.pairs), ids[0])
    run_blocks(
        lambda *span: background_values(*span, spans, rows, ids[1], np.zeros(table.width, np.float32), values),
        ranges,
        threads,
    )
    sums = np.empty(len(ids[0])), np.zeros(len(ids[1]))
    row_sums(0, len(ids[0]), rows.offsets, values, sums[0])
    column_sums(0, len(ids[1]), rows.columns, values, sums[1])
    known = (values_of(background.totals[side], ids[side]) for side in (0, 1))
    return values, tuple(np.maximum(total - own, 0) for total, own in zip(known, sums, strict=True))
