"""Which attention heads align: every layer and head ranked, with its rows shifted and not.

The row of a target token is the attention while it is predicted; shifted, it is that of the next step, whose input
it is. Which of them is the better alignment differs between models and heads (Kobayashi et al. 2020; Chen et al.
2020), so both are measured. Imports no torch.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.align_settings import ReadSettings
from alignkit.errors import AlignkitError, InputError, of_file
from alignkit.interop.heads import AttentionHeads
from alignkit.interop.other_systems import read_heads
from alignkit.interop.projection import first_mismatch
from alignkit.links.from_scores import best_links
from alignkit.links.gold import parse_gold
from alignkit.links.links import GoldLinks, check_range
from alignkit.metrics.aer import AER
from alignkit.metrics.agreement import AGREEMENT
from alignkit.metrics.intervals import percentile_interval
from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.pipeline import align
from alignkit.scores import Scores, flat_offsets
from alignkit.storage import atomic_write
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_text
from alignkit.text.reading import read_lines
from alignkit.types import PathLike, Progress, with_options

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

#: The most heads whose mean is tried for the list of heads.
MOST_AVERAGED = 8
FIELD = "alignment_heads"


@dataclass(frozen=True)
class HeadRanking:
    """The result of :func:`rank_heads`.

    Attributes:
        metric: AER against gold links, or the agreement with another aligner.
        table: a row for each head and shift, the best first: layer, head, shift (0, or 1 for shifted rows), the
            values of the metric with ``low`` and ``high``, and ``tied``, whether the difference from the first row
            may be 0 (95 % interval of a paired bootstrap over sentence pairs; of one head at a time, so that the
            best of many looks a little better than it is).
        means: the metric of the mean of the best heads: shift, heads (their number), the metric's value.
        difference: of the best head, shifted minus not shifted, with ``low`` and ``high``.
        alignment_heads: (layer, head) of the heads whose mean is best without a shift.
        positions: the metric of what positions alone give, of the diagonal and of the first source word.
    """

    metric: Metric
    table: pd.DataFrame
    means: pd.DataFrame
    difference: dict[str, float]
    alignment_heads: list[tuple[int, int]]
    positions: dict[str, float]


@dataclass(frozen=True, eq=False)
class _Measured:
    """One set of scores: its values, with their interval, and the resampled values of the metric."""

    values: dict[str, Any]
    draws: np.ndarray


class _Judge:
    """Measures scores against gold links, or against the scores of another aligner."""

    def __init__(self, gold: GoldLinks | None, reference: Scores | None, settings: MetricSettings) -> None:
        self.gold, self.reference, self.settings = gold, reference, settings
        self.metric = AER if gold is not None else AGREEMENT
        self.sign = 1 if gold is not None else -1  # times this, the lowest value is the best

    def measure(self, scores: Scores) -> _Measured:
        if self.gold is not None:
            counts = AER.count(self.gold, best_links(scores, null=False), self.settings)
        else:
            assert self.reference is not None
            counts = AGREEMENT.count(*_with_attention(self.reference, scores), self.settings)
        values = self.metric.total(counts)
        draws = self.metric.draws(counts, self.settings)
        low, high = percentile_interval(draws)
        head = {name: values.pop(name) for name in (self.metric.name, "chance") if name in values}
        return _Measured({**head, "low": low, "high": high, **values}, draws)

    def order(self, found: _Measured) -> float:
        value = self.sign * found.values[self.metric.name]
        return np.inf if np.isnan(value) else value


def _with_attention(reference: Scores, scores: Scores) -> tuple[Scores, Scores]:
    """Both without the rows that have no attention at all, where everything would be a tie.

    Without a step after the last word, its shifted row is such a one.
    """
    heights, widths = scores.shapes.astype(np.int64).T
    sizes = np.repeat(widths, heights)
    ends = np.cumsum(sizes)
    sums = np.concatenate([[0.0], np.cumsum(np.abs(scores.values), dtype=np.float64)])
    kept = sums[ends] > sums[ends - sizes]
    if kept.all():
        return reference, scores
    pair = np.repeat(np.arange(len(scores)), heights)
    shapes = np.stack([np.bincount(pair[kept], minlength=len(scores)), widths], axis=1).astype(np.int32)
    elements = np.repeat(kept, sizes)
    offsets = flat_offsets(shapes)
    first, second = (Scores(each.values[elements], offsets, shapes) for each in (reference, scores))
    return first, second


def rank_heads(
    heads: AttentionHeads,
    bitext: Bitext,
    *,
    gold: GoldLinks | None = None,
    reference: Scores | None = None,
    settings: MetricSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> HeadRanking:
    """Rank every layer and head, shifted and not, by AER or by agreement with another aligner.

    Attention is merged to words (the attention paid to a word's subwords added up, that of its subwords averaged;
    BOS, EOS and language codes left out). For AER, every target word is linked to its source word with the most
    attention.

    Args:
        heads: of M pairs.
        bitext: their whitespace words.
        gold: gold links of the M pairs; or
        reference: scores of another aligner for the words, whose best source words a head should have at its top.
        settings: of the metric and the bootstrap.
        progress: called after each head.
        **options: fields of :class:`MetricSettings` that replace those of ``settings``.

    Raises:
        AlignkitError: not exactly one of ``gold`` and ``reference``; or the heads are not of this text.
    """
    if (gold is None) == (reference is None):
        raise AlignkitError("heads are ranked either against gold links or against another aligner's scores")
    settings = with_options(settings or MetricSettings(), options)
    judge = _Judge(gold, reference, settings)
    on_words = [_of_text(each.on_words, bitext) for each in (heads, heads.shifted)]
    found: dict[tuple[int, int], _Measured] = {}
    for shift, each in enumerate(on_words):
        for k, scores in enumerate(_each(each)):
            found[shift, k] = judge.measure(scores)
            if progress is not None:
                progress(shift * len(heads.heads) + k + 1, 2 * len(heads.heads), "heads")
    order = sorted(found, key=lambda place: (judge.order(found[place]), place))
    means, best = _means(on_words, order, judge)
    return HeadRanking(
        judge.metric,
        _table(heads, found, order),
        means,
        _difference(heads, found, order[0][1], judge.metric.name),
        [heads.heads[k] for k in best],
        {
            name: judge.measure(scores).values[judge.metric.name]
            for name, scores in position_scores(bitext.shapes).items()
        },
    )


def position_scores(shapes: np.ndarray) -> dict[str, Scores]:
    """Scores of M pairs by positions alone: ``diagonal``, the nearer a source word stands to the place that is as
    far along its sentence as the target word along its own; and ``first word``, the nearer to the start.

    Args:
        shapes: int (M, 2), T and L of each pair.
    """
    found: dict[str, list[np.ndarray]] = {"diagonal": [], "first word": []}
    for T, L in shapes.tolist():
        places, along = np.arange(L) + 0.5, (np.arange(T) + 0.5) * (L / max(T, 1))
        found["diagonal"].append(1 / (1 + np.abs(places - along[:, None])))
        found["first word"].append(np.tile(1 / (1 + places), (T, 1)))
    return {name: Scores.from_matrices(matrices) for name, matrices in found.items()}


def _of_text(heads: AttentionHeads, bitext: Bitext) -> AttentionHeads:
    if len(heads) != len(bitext):
        raise AlignkitError(f"the heads are of {len(heads)} sentence pairs, the text has {len(bitext)}")
    first = next(_each(heads))
    m = first_mismatch(first, bitext.shapes)
    if m is not None:
        have, wanted = heads.shapes[m].tolist(), bitext.shapes[m].tolist()
        raise AlignkitError(
            f"line {m + 1}: the heads are of {have[0]} target and {have[1]} source words, "
            f"the text has {wanted[0]} and {wanted[1]}; give the text that they were made from"
        )
    return AttentionHeads(heads.values, bitext.shapes, heads.heads)


def _each(heads: AttentionHeads) -> Iterator[Scores]:
    """The scores of each head."""
    offsets = heads.offsets
    return (Scores(values, offsets, heads.shapes) for values in heads.values)


def _table(
    heads: AttentionHeads, found: dict[tuple[int, int], _Measured], order: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    import pandas as pd

    best, rows = found[order[0]].draws, []
    for shift, k in order:
        low, high = percentile_interval(found[shift, k].draws - best)
        layer, head = heads.heads[k]
        tied = bool(np.isnan(low) or low <= 0 <= high)
        rows.append({"layer": layer, "head": head, "shift": shift, **found[shift, k].values, "tied": tied})
    return pd.DataFrame(rows)


def _difference(
    heads: AttentionHeads, found: dict[tuple[int, int], _Measured], k: int, name: str
) -> dict[str, float]:
    plain, shifted = found[0, k], found[1, k]
    low, high = percentile_interval(shifted.draws - plain.draws)
    layer, head = heads.heads[k]
    value = shifted.values[name] - plain.values[name]
    return {"layer": layer, "head": head, "difference": value, "low": low, "high": high}


def _means(
    on_words: Sequence[AttentionHeads], order: Sequence[tuple[int, int]], judge: _Judge
) -> tuple[pd.DataFrame, list[int]]:
    """The metric of the mean of the n best heads of each shift, and the heads of the best mean without a shift."""
    import pandas as pd

    rows, best, least = [], [], np.inf
    for shift, heads in enumerate(on_words):
        ranked = [k for each, k in order if each == shift][:MOST_AVERAGED]
        total = np.zeros(heads.values.shape[1], np.float64)
        for n, k in enumerate(ranked, 1):
            total += heads.values[k]
            mean = Scores((total / n).astype(np.float32), heads.offsets, heads.shapes)
            measured = judge.measure(mean)
            rows.append({"shift": shift, "heads": n, **measured.values})
            if shift == 0 and (judge.order(measured) < least or n == 1):
                best, least = ranked[:n], judge.order(measured)
    return pd.DataFrame(rows), best


def rank_heads_of_file(
    path: PathLike,
    source: PathLike,
    target: PathLike | None = None,
    *,
    gold: PathLike | None = None,
    model: PathLike | None = None,
    reading: ReadSettings | None = None,
    settings: MetricSettings | None = None,
    progress: Progress | None = None,
) -> HeadRanking:
    """:func:`rank_heads` of a file of scores, against a file of gold links or against an aligner.

    Args:
        path: scores with layers and heads, in any format of :mod:`alignkit.interop.other_systems`.
        source, target: the text that they are of.
        gold: gold links of the same pairs, in a format of :func:`alignkit.links.gold.parse_gold`.
        model: without gold, a saved aligner or checkpoint to compare with; None: the best aligner is fitted on the
            text (:func:`alignkit.pipeline.align`).
        reading: how to read the text.
        settings, progress: as of :func:`rank_heads`.

    Raises:
        AlignkitError: both ``gold`` and ``model`` are given, or a file cannot be read or is not of this text.
    """
    if gold is not None and model is not None:
        raise AlignkitError("heads are ranked either against gold links or against a model")
    settings, reading = settings or MetricSettings(), reading or ReadSettings()
    bitext = read_text(source, target, **vars(reading))
    heads = read_heads(path, bitext.shapes)
    with of_file(path):  # before an aligner is fitted
        _of_text(heads.on_words, bitext)
    if gold is not None:
        known = parse_gold(gold, read_lines(gold), shapes=bitext.shapes)
        if known.warning:
            log.warning(known.warning)
        if len(known.gold) != len(bitext):
            raise InputError(gold, f"has {len(known.gold)} sentence pairs, the text has {len(bitext)}")
        check_range(gold, known.gold.possible, bitext.shapes)
        return rank_heads(heads, bitext, gold=known.gold, settings=settings, progress=progress)
    reference = align(bitext, model=model, threads=settings.threads).score("alpha")
    return rank_heads(heads, bitext, reference=reference, settings=settings, progress=progress)


def write_alignment_heads(path: PathLike, heads: Sequence[tuple[int, int]]) -> None:
    """Write the ``alignment_heads`` that CTranslate2 reads: a list of [layer, head] in ``config.json``.

    If the file is such a configuration, its other entries stay as they are.

    Raises:
        InputError: the file is there, but is not a JSON object.
    """
    known: Any = {}
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as stream:
                known = json.load(stream)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(path, f"is there, but is not JSON: {error}") from error
        if not isinstance(known, dict):
            raise InputError(path, "is there, but is not a JSON object")
    known[FIELD] = [[int(layer), int(head)] for layer, head in heads]
    with atomic_write(path) as stream:
        stream.write((json.dumps(known, indent=2, ensure_ascii=False) + "\n").encode())
