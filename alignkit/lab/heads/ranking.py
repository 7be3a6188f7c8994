"""Which attention heads align: every layer and head ranked, with its rows shifted and not.

The row of a target token is the attention while it is predicted; shifted, it is that of the next step, whose input
it is. Which of them is the better alignment differs between models and heads (Kobayashi et al. 2020; Chen et al.
2020), so both are measured. Imports no torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Unpack

import numpy as np
import pandas as pd

from alignkit.errors import AlignkitError, InputError, counted, of_file
from alignkit.lab.heads.combination import HeadCombination, fit_combination
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.lab.interop.other_systems import first_mismatch, read_heads
from alignkit.links.from_scores import are_linked
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks
from alignkit.metrics.aer import AER, LinkCounts
from alignkit.metrics.agreement import AGREEMENT, count_agreement
from alignkit.metrics.intervals import RESAMPLES, adjusted_p, percentile_interval, ratio, resampled_sums
from alignkit.metrics.protocol import MetricOptions, MetricSettings
from alignkit.pipeline.align import align
from alignkit.pipeline.settings import ReadSettings
from alignkit.scores import Scores
from alignkit.support.settings import with_options
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_text
from alignkit.text.vocabulary import punctuation_types
from alignkit.types import PathLike, Progress

#: The most heads whose mean is tried for the list of heads.
MOST_AVERAGED = 8
#: How many of the best heads of two texts are held against each other.
TOP = 10
#: Share of false findings that tests of many heads allow, in the whole family.
LEVEL = 0.05


@dataclass(frozen=True)
class HeadRanking:
    """The result of :func:`rank_heads`. All shares are fractions.

    Attributes:
        table: a row for each head and shift, the best first:
            layer, head; shift: 0, or 1 for shifted rows;
            hits: the share of linked target words whose source word with the most attention is one of theirs, with
            ``low`` and ``high`` (95 % bootstrap over sentence pairs), and ``count``, their number;
            aer, with ``aer_low`` and ``aer_high``: of the link of each target word to that source word;
            agreement, agreement_chance: the paper's A(reference, head), where there is a reference;
            p_chance, p_positions: that no better hits than chance, or than the best row of ``positions``, would
            give the difference in any of all heads (max-statistic bootstrap);
            tied: whether the difference from the first row may be 0 (likewise of all heads at once);
            words, punctuation: the share of attention on source words, and on punctuation among them;
            first: that on the first token the model sees, where attention may rest.
        positions: the same measures of what positions alone give: ``chance`` is the exact expectation of a source
            word drawn at random.
        linked: the number of linked target words.
        difference: hits of the best head, shifted minus not shifted, with ``low`` and ``high``.
        alignment_heads: (layer, head) of the heads, best first, whose mean has most hits without a shift.
        mean: the measures of that mean.
        halves: ``correlation``, Spearman's of all heads' hits between the odd and the even pairs; hits of the
            best ``head`` and of the mean of ``heads``, chosen on one half and judged on the other (as
            ``..._chosen``, on the half that chose them).
        pairs: the number of sentence pairs.
        made: how the attention was made (:attr:`AttentionHeads.made`).
        combined: of :func:`alignkit.lab.heads.combination.fit_combination`, if it was asked for.
    """

    table: pd.DataFrame
    positions: pd.DataFrame
    linked: int
    difference: dict[str, float]
    alignment_heads: list[tuple[int, int]]
    mean: dict[str, float]
    halves: dict[str, float]
    pairs: int
    made: dict[str, str] = field(default_factory=dict)
    combined: tuple[HeadCombination, float] | None = None


class BestLinkCounter:
    """Counts the links of each target word with its best source word, per sentence pair.

    Matrices are flat: ``starts`` (R,) is the first element of each row, ``row`` and ``column`` (N,) are those of
    each element, ``pair`` (R,) is the pair of each row; rows without columns are left out.
    """

    def __init__(self, gold: GoldLinks, shapes: np.ndarray) -> None:
        self.shapes = shapes
        self.pair = np.repeat(np.arange(len(shapes)), shapes[:, 0] * (shapes[:, 1] > 0))
        self.heights, self.widths = shapes[self.pair].astype(np.int64).T
        self.starts = np.cumsum(self.widths) - self.widths
        self.row = np.repeat(np.arange(len(self.pair)), self.widths)
        self.column = np.arange(len(self.row)) - self.starts[self.row]
        self.sure, self.possible = (are_linked(links, shapes) for links in (gold.sure, gold.possible))
        self.possible |= self.sure
        sure, possible = self.row_sums(self.sure), self.row_sums(self.possible)
        #: (M, 3): linked target words, sure links, possible links.
        self.totals = self._by_pair(possible > 0, sure, possible)

    def row_sums(self, values: np.ndarray) -> np.ndarray:
        """float64 (R,) of values (N,)."""
        return np.bincount(self.row, values, len(self.pair))

    def _by_pair(self, *rows: np.ndarray) -> np.ndarray:
        """float64 (M, K): sums of rows' values, K times (R,)."""
        return np.stack([np.bincount(self.pair, each, len(self.shapes)) for each in rows], axis=1)

    def count(self, values: np.ndarray) -> np.ndarray:
        """(M, 3): links, sure links and possible links of values (N,); rows with nothing but 0 have no link."""
        largest = np.maximum.reduceat(values, self.starts) if len(self.starts) else values
        places = np.flatnonzero(values == largest[self.row])
        first = places[np.unique(self.row[places], return_index=True)[1]]
        linked = self.row_sums(values != 0) > 0
        return self._by_pair(linked, linked & self.sure[first], linked & self.possible[first])

    def chance(self) -> np.ndarray:
        """:meth:`count`, expected of a source word drawn at random."""
        shares = (self.row_sums(each) / self.widths for each in (self.sure, self.possible))
        return self._by_pair(np.ones(len(self.pair)), *shares)

    def positions(self) -> dict[str, np.ndarray]:
        """Values (N,) by positions alone: the nearer to a place of the source, the larger."""
        t = np.arange(len(self.pair)) - np.searchsorted(self.pair, self.pair)
        places = {
            "diagonal": (t + 0.5) * self.widths / self.heights - 0.5,
            "same place": t,
            "place before": t - 1,
            "place after": t + 1,
            "first word": np.zeros(len(t)),
            "last word": self.widths - 1,
        }
        return {name: 1 / (1 + np.abs(self.column - place[self.row])) for name, place in places.items()}

    def hits(self, counts: np.ndarray, part: slice = slice(None)) -> np.ndarray:
        """The share of hits of counts (..., M, 3), of some of the pairs."""
        return ratio(counts[..., part, 2].sum(-1), np.broadcast_to(self.totals[part, 0].sum(), counts.shape[:-2]))

    def hits_and_aer(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, K) each, of sums (B, 3 + 3K) of ``totals`` and K counts over pairs."""
        linked, sure, possible = sums[:, :3].T[:, :, None]
        found, in_sure, in_possible = (sums[:, 3 + k :: 3] for k in range(3))
        counts = LinkCounts(found, np.broadcast_to(sure, found.shape), possible, in_sure, in_possible)
        return ratio(in_possible, np.broadcast_to(linked, found.shape)), AER.values(counts)["aer"]


def rank_heads(
    heads: AttentionHeads,
    bitext: Bitext,
    gold: GoldLinks,
    *,
    reference: Scores | AttentionHeads | None = None,
    settings: MetricSettings | None = None,
    progress: Progress | None = None,
    **options: Unpack[MetricOptions],
) -> HeadRanking:
    """Rank every layer and head, shifted and not, by how often it is right about the links of a target word.

    Attention is merged to words (the attention paid to a word's subwords added up, that of its subwords averaged;
    BOS, EOS and language codes left out), and every target word linked to its source word with the most attention,
    the first of several. A row without attention, as that shifted beyond the end, is no hit.

    Args:
        heads: of M pairs.
        bitext: their whitespace words.
        gold: links of the M pairs, by people or by an aligner.
        reference: scores of an aligner for the words, whose agreement with each head is measured too; or other
            quantities of the same heads, as OV lexicons, each held against its own head.
        settings: of the agreement and the bootstrap.
        progress: called after each head.
        **options: fields of :class:`MetricSettings` that replace those of ``settings``.

    Raises:
        AlignkitError: the heads or the links are not of this text.
    """
    if len(gold) != len(bitext):
        raise AlignkitError(f"the links are of {counted(len(gold), 'pair')}, the text has {len(bitext):,}")
    settings = with_options(MetricSettings, settings, options)
    counter = BestLinkCounter(gold, bitext.shapes)

    # How often each head is right, as it is and then shifted; its agreement with the reference; and the shares of
    # attention: on words and on punctuation, by target words; on the first token, by target tokens of a word.
    references: list[np.ndarray] | None = None
    if isinstance(reference, AttentionHeads):
        own = _of_text(reference.on_words, bitext)
        if own.heads != heads.heads:
            have = f"{own.described}; here {heads.described}"
            raise AlignkitError(f"the other quantities are of other heads: {have}")
        references = list(own.values)
    elif reference is not None:
        references = [reference.values] * len(heads.heads)
    firsts = [np.zeros(0, np.int64)]  # the elements of the first column of each matrix
    for m, (low, (height, width)) in enumerate(zip(heads.offsets.tolist(), heads.shapes.tolist(), strict=False)):
        own_rows = np.arange(height) if heads.words is None else np.flatnonzero(heads.words[1][m][0] >= 0)
        firsts.append(low + own_rows * width if width else own_rows[:0])
    first = np.concatenate(firsts)
    is_mark = punctuation_types(bitext.source.vocabulary)[bitext.source.tokens]
    marks = is_mark[bitext.source.offsets[counter.pair[counter.row]] + counter.column]
    layout = Scores.zeros(bitext.shapes)

    measured: list[tuple[dict[str, Any], np.ndarray]] = []
    plain = words = _of_text(heads.on_words, bitext)
    for shift in (0, 1):
        tokens = heads
        if shift:
            tokens = heads.shifted
            words = _of_text(tokens.on_words, bitext)
        for k, (layer, head) in enumerate(heads.heads):
            values = words.values[k]
            facts: dict[str, Any] = {"layer": layer, "head": head, "shift": shift}
            counts = counter.count(values)
            if references is not None:
                u, v = (Scores(each, layout.offsets, layout.shapes) for each in (references[k], values))
                found = count_agreement(u, v, settings.percent, settings.threads)
                # Rows without attention agree with no word; as ties, they would agree with any.
                empty = np.bincount(counter.pair, counter.row_sums(values != 0) == 0, len(bitext))
                found = replace(found, hits=found.hits - empty, expected=found.expected - empty)
                agreement = AGREEMENT.total(found)
                facts |= {"agreement": agreement["agreement"], "agreement_chance": agreement["chance"]}
            with warnings.catch_warnings(action="ignore"):  # of the mean of nothing, which is NaN
                facts["words"] = float(counter.row_sums(values).mean())
                facts["punctuation"] = float(counter.row_sums(values * marks).mean())
                facts["first"] = float(tokens.values[k][first].mean())
            measured.append((facts, counts))
            (progress or no_progress)(len(measured), 2 * len(heads.heads), "heads")
    del tokens, words, values  # copies of all heads

    # What positions alone give; and a mean of heads.
    of_heads = np.stack([counts for _, counts in measured])
    positions = counter.positions()
    alone = [counter.chance(), *(counter.count(values) for values in positions.values())]
    count, K = len(heads.heads), len(measured)
    chosen, mean = _best_mean(plain, counter, of_heads[:count])
    counts = np.stack([*of_heads, *alone, mean])

    # Hits and AER with their intervals, by a bootstrap over sentence pairs.
    columns = np.concatenate([counter.totals, *counts], axis=1)
    hits, aer = (values[0] for values in counter.hits_and_aer(columns.sum(axis=0)[None]))
    draws = resampled_sums(columns, settings.seed, settings.resamples)
    if np.count_nonzero(counter.totals.any(axis=1)) < 2:  # of the pairs that have gold links
        draws[:] = np.nan
    hit_draws, aer_draws = counter.hits_and_aer(draws)
    rows = []
    for k, each in enumerate(counts):
        low, high = percentile_interval(hit_draws[:, k])
        row = {"hits": float(hits[k]), "low": low, "high": high, "count": float(each[:, 2].sum())}
        row["aer"] = float(aer[k])
        row["aer_low"], row["aer_high"] = percentile_interval(aer_draws[:, k])
        rows.append(row)

    # Which heads are better than chance, than positions alone, and not surely worse than the best.
    table = pd.DataFrame([{**facts, **row} for (facts, _), row in zip(measured, rows, strict=False)])
    others = range(K, K + len(alone))
    against = [adjusted_p(hits[:K] - hits[k], hit_draws[:, :K] - hit_draws[:, [k]]) for k in others]
    table["p_chance"], table["p_positions"] = against[0], np.max(against[1:], axis=0)
    order = np.argsort(-np.nan_to_num(hits[:K], nan=-1), kind="stable")
    best = int(order[0])
    table["tied"] = adjusted_p(hits[best] - hits[:K], hit_draws[:, [best]] - hit_draws[:, :K]) > LEVEL

    k, shifted = best % count, best % count + count  # the best head, as it is and shifted
    low, high = percentile_interval(hit_draws[:, shifted] - hit_draws[:, k])
    layer, head = heads.heads[k]
    change = {"layer": layer, "head": head, "difference": float(hits[shifted] - hits[k]), "low": low, "high": high}
    names = ["chance", *positions]
    return HeadRanking(
        table=table.iloc[order].reset_index(drop=True),
        positions=pd.DataFrame([{"name": name, **row} for name, row in zip(names, rows[K:-1], strict=True)]),
        linked=int(counter.totals[:, 0].sum()),
        difference=change,
        alignment_heads=[heads.heads[k] for k in chosen],
        mean=rows[-1],
        halves=_halves(plain, counter, of_heads),
        pairs=len(bitext),
        made=dict(heads.made),
    )


def heads_of_text(path: PathLike, bitext: Bitext) -> AttentionHeads:
    """Read the heads of a file; raises InputError if they are not of this text."""
    heads = read_heads(path, bitext.shapes)
    with of_file(path):
        _of_text(heads.on_words, bitext)
    return heads


def _of_text(heads: AttentionHeads, bitext: Bitext) -> AttentionHeads:
    if len(heads) != len(bitext):
        raise AlignkitError(f"the heads are of {counted(len(heads), 'pair')}, the text has {len(bitext):,}")
    m = first_mismatch(Scores(heads.values[0], heads.offsets, heads.shapes), bitext.shapes)
    if m is not None:
        have = "the heads are of {} target and {} source words".format(*heads.shapes[m])
        wanted = "the text has {} and {}; give the text that they were made from".format(*bitext.shapes[m])
        raise AlignkitError(f"line {m + 1}: {have}, {wanted}")
    return AttentionHeads(heads.values, bitext.shapes, heads.heads)


def _best_mean(
    heads: AttentionHeads, counter: BestLinkCounter, counts: np.ndarray, part: slice = slice(None)
) -> tuple[list[int], np.ndarray]:
    """The heads, best first, whose mean has most hits in some of the pairs, and the counts (M, 3) of that mean."""
    hits = counter.hits(counts, part)
    ranked = np.argsort(-np.nan_to_num(hits, nan=-1), kind="stable")[:MOST_AVERAGED].tolist()
    sums = np.cumsum(heads.values[ranked], axis=0, dtype=np.float64)
    means = np.stack([counter.count(each) for each in sums])
    best = int(np.argmax(np.nan_to_num(counter.hits(means, part), nan=-1)))
    return ranked[: best + 1], means[best]


def _halves(heads: AttentionHeads, counter: BestLinkCounter, counts: np.ndarray) -> dict[str, float]:
    """``halves`` of :class:`HeadRanking`, of the counts (K, M, 3) of all heads and shifts."""
    halves = slice(0, None, 2), slice(1, None, 2)
    hits = [counter.hits(counts, half) for half in halves]
    found: dict[str, list[float]] = {}
    for k, half in enumerate(halves):
        other = halves[1 - k]
        best = counts[int(np.argmax(np.nan_to_num(hits[k], nan=-1)))]
        _, mean = _best_mean(heads, counter, counts[: len(heads.heads)], half)
        for name, each in (("head", best), ("heads", mean)):
            found.setdefault(f"{name}_chosen", []).append(float(counter.hits(each, half)))
            found.setdefault(name, []).append(float(counter.hits(each, other)))
    return {"correlation": _rank_correlation(*hits), **{name: sum(values) / 2 for name, values in found.items()}}


def compare_rankings(
    rankings: Mapping[str, Mapping[tuple[int, int, int], float]], seed: int = 0
) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """How far several texts, as of several language pairs, rank the heads of one model alike.

    A head counts once, with its rows shifted or not, whichever has more hits.

    Args:
        rankings: name of a text, as its file -> (layer, head, shift) -> hits.
        seed: of the permutations.

    Returns:
        a row for each two texts: ``text`` and ``other``; ``correlation``, Spearman's of the heads that all have;
        ``p``, the share of permutations that correlate as much; ``shared``, how many of the :data:`TOP` best heads
        are the same, ``expected``, how many chance would give, and ``p_shared``, the probability of as many; the
        hits in ``text`` of the best head of ``other`` (``here``), and the reverse (``there``). And the heads that
        are among the best on all texts, as (layer, head).

    Raises:
        InputError: a text has fewer than two heads in common with those before it.
    """
    from scipy.stats import hypergeom, rankdata

    found: dict[str, dict[tuple[int, int], float]] = {}
    heads: list[tuple[int, int]] = []
    for name, hits in rankings.items():
        found[name] = {}
        for (layer, head, _), value in hits.items():
            found[name][layer, head] = max(value, found[name].get((layer, head), value))
        heads = [each for each in found[name] if len(found) == 1 or each in heads]
        if len(heads) < 2:
            raise InputError(name, "has no two heads in common with the other ranking")
    values = {name: np.array([hits[each] for each in heads]) for name, hits in found.items()}
    count, top = len(heads), min(TOP, len(heads))
    best = {name: set(np.argsort(-each, kind="stable")[:top].tolist()) for name, each in values.items()}
    rows = []
    for one, other in combinations(values, 2):
        x, y = (rankdata(values[name]) - (count + 1) / 2 for name in (one, other))
        drawn = np.random.default_rng(seed).permuted(np.tile(y, (RESAMPLES, 1)), axis=1) @ x
        shared = len(best[one] & best[other])
        rows.append(
            {
                "text": one,
                "other": other,
                "correlation": _rank_correlation(x, y),
                "p": (1 + int((drawn >= x @ y).sum())) / (1 + RESAMPLES),
                "shared": shared,
                "expected": top**2 / count,
                "p_shared": float(hypergeom.sf(shared - 1, count, top, top)),
                "here": float(values[one][values[other].argmax()]),
                "there": float(values[other][values[one].argmax()]),
            }
        )
    common = set.intersection(*best.values())
    return pd.DataFrame(rows), [heads[k] for k in sorted(common)]


def _rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's; NaN of values that are all alike."""
    return float(pd.DataFrame({"first": first, "second": second}).rank().corr().iloc[0, 1])


def rank_heads_of_file(
    path: PathLike,
    source: PathLike,
    target: PathLike | None = None,
    *,
    gold: PathLike | None = None,
    model: PathLike | None = None,
    combine: bool = False,
    beta: PathLike | None = None,
    reading: ReadSettings | None = None,
    settings: MetricSettings | None = None,
    progress: Progress | None = None,
) -> HeadRanking:
    """:func:`rank_heads` of a file of scores, against a file of gold links or against an aligner.

    Args:
        path: scores with layers and heads, in any format of :mod:`alignkit.lab.interop.other_systems`.
        source, target: the text that they are of.
        gold: gold links of the same pairs, in a format of :func:`alignkit.links.gold.read_gold`.
        model: without gold, a saved aligner or checkpoint whose links and scores are the reference; None: the best
            aligner is fitted on the text (:func:`alignkit.pipeline.align.align`).
        combine: make an aligner of several heads too.
        beta: a file with another quantity of the same heads, which the agreement is with.
        reading: how to read the text.
        settings, progress: as of :func:`rank_heads`.

    Raises:
        AlignkitError: both ``gold`` and ``model`` are given, or a file cannot be read or is not of this text.
    """
    settings, reading = settings or MetricSettings(), reading or ReadSettings()
    bitext = read_text(source, target, **vars(reading))
    heads = heads_of_text(path, bitext)  # checked before an aligner is fitted
    reference: Scores | AttentionHeads | None
    links, reference = links_to_rank_by(bitext, gold, model, settings.threads)
    if beta is not None:
        reference = read_heads(beta, bitext.shapes)
    found = rank_heads(heads, bitext, links, reference=reference, settings=settings, progress=progress)
    return replace(found, combined=fit_combination(heads, bitext, links)) if combine else found


def links_to_rank_by(
    bitext: Bitext, gold: PathLike | None, model: PathLike | None, threads: int | None = None
) -> tuple[GoldLinks, Scores | None]:
    """Gold links of a file, or those of a saved aligner, or of the best one fitted on the text, with its scores.

    Raises:
        AlignkitError: both files are given, or one cannot be read, is not of this text or has no links.
    """
    if gold is not None and model is not None:
        raise AlignkitError("heads are ranked either against gold links or against a model")
    if gold is None:
        aligned = align(bitext, model=model, threads=threads)
        return GoldLinks(aligned.links, aligned.links), aligned.score("alpha")
    links = read_gold(gold, shapes=bitext.shapes)
    if not len(links.possible.pairs):
        raise InputError(gold, "has no links, so there is nothing to rank heads by")
    if len(links) < len(bitext):
        raise InputError(gold, f"has {counted(len(links), 'pair')}, the text has {len(bitext):,}")
    return links, None
