"""Inference with fitted hidden Markov models: posteriors and likelihoods of new text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from alignkit.classical.hmm.back_off import FEW, BackgroundModel, ClassCounts
from alignkit.classical.hmm.evidence import share_of_repetition, spelling_of_new_pairs
from alignkit.classical.hmm.expectation import expect, text_arrays, uniform_direction
from alignkit.classical.hmm.parameters import FittedCounts, FittedHMM, HMMParameters, taken, unpack_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.transliteration import LearnedLetters
from alignkit.classical.lexical_model import table_values
from alignkit.embeddings.levels import LEVELS, STEP
from alignkit.kernels import hmm_m_step
from alignkit.kernels.expected_links import NO_PLACES, as_floats
from alignkit.kernels.hmm_e_step import BOTH, DirectionArrays, LinkArrays, Shares
from alignkit.kernels.hmm_m_step import add_class_counts, divide_by_totals
from alignkit.kernels.hmm_rows import TINY
from alignkit.kernels.link_probabilities import HARDLY, judge_matrices
from alignkit.kernels.translation_table import UNSEEN
from alignkit.scores import Scores, flat_offsets, tokens_of_elements
from alignkit.support.arrays import in_runs, offsets_of
from alignkit.support.files import Fields
from alignkit.support.records import Record
from alignkit.support.threads import blocks, blocks_of_size, run_blocks, thread_count
from alignkit.text.bitext import Bitext

# Fertility needs the links of the other words: they are found without it first, and then this many times with it.
ROUNDS = 2
#: A sentence pair with this number of elements (t, l) or more is taken to be one of the text if all its word pairs
#: met there: in a pair of another text some did not, unless it is short.
LEAST_ELEMENTS = 20
CHANGED_ELEMENTS = 1 << 19  # that are changed at a time

Ids = tuple[np.ndarray, np.ndarray]
Bonds = tuple[np.ndarray, np.ndarray]
Running = tuple[HMMParameters | None, HMMParameters | None]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BidirectionalHMM(FittedHMM):
    """Two fitted hidden Markov models, one for each direction, that give probabilities of links together.

    Attributes:
        share: weight of the forward posterior in the log-odds of a link; the reverse one has the rest.
        counts: those that it was fitted with, with which it can be adapted to other texts
            (:mod:`alignkit.classical.hmm.adaptation`).

    The others are those of :class:`FittedHMM`.
    """

    share: float = 0.5
    counts: FittedCounts

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.counts.pairs) != len(self.table.values):
            raise ValueError("there must be a count for each pair of the table")
        if self.reverse is None:
            raise ValueError("a joint model has two directions")
        if not 0 < self.share < 1:
            raise ValueError("the share must lie between 0 and 1")

    def __getstate__(self) -> dict[str, Any]:
        """The fields, not what cached properties hold."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def shares(self) -> Shares:
        """The weight of each direction in the log-odds of a link."""
        return Shares(self.share, 1 - self.share, as_log_odds=True)

    @cached_property
    def unknown_pairs(self) -> UnknownPairs:
        """Emissions of pairs of words that it does not know."""
        return UnknownPairs(self, self.counts)

    @cached_property
    def leave_one_out(self) -> LeaveOneOut:
        """Judges sentence pairs of its own text by the others."""
        return LeaveOneOut(self, self.counts)

    def log_odds(self, bitext: Bitext, threads: int | None = None, are_words: bool = True) -> Scores:
        """(T, L) of M pairs: the mean of the log-odds of both directions' posteriors, NO_LINK where there are none
        (:mod:`alignkit.kernels.link_probabilities`).

        Args:
            bitext: M pairs.
            threads: all there are by default; no result depends on it.
            are_words: True if its units are words, so that pairs of the model's own text are told from others: of
                subwords, all pairs soon have met.
        """
        leave_one_out = self.leave_one_out if are_words else None
        return _last_links(bitext, self, self.shares, threads, self.unknown_pairs, leave_one_out)[0]

    def expected_links(self, bitext: Bitext, threads: int | None = None) -> Scores:
        """(T, L) of M pairs: the mean of both directions' posteriors, as the estimation counts them."""
        return posteriors(bitext, self, BOTH, threads, self.unknown_pairs)[0]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        return super().arrays() | {"counts": self.counts.pairs, "null_counts": self.counts.null}

    def header(self) -> dict[str, Any]:
        """The numbers of a saved file."""
        return super().header() | {"share": self.share}


def unpack_bidirectional(arrays: Fields, header: Record) -> BidirectionalHMM:
    """A model from its ``arrays`` and ``header``.

    Raises:
        InputError, TypeError, ValueError: they are damaged.
    """
    attributes = unpack_hmm(arrays, header, 2)
    counts = FittedCounts(*(arrays.get(name, np.float32) for name in ("counts", "null_counts")))
    return BidirectionalHMM(**attributes, share=header.number("share", 0, 1), counts=counts)


class UnknownPairs:
    """Emissions of pairs of words that never met in the text of a model, or of words that were not there.

    A pair gets pseudo-counts as in a fit with :data:`.settings.JOINT_SETTINGS`: that of all pairs, that of its
    spelling if the model was fitted with such, and that of the other pairs of the same classes
    (:class:`alignkit.classical.hmm.back_off.BackOff`). p(y|x) is their sum divided by the count of x and 1.
    A model that was fitted with other pseudo-counts, or without, gets these too: with none, words that it does not
    know could not be linked.

    Args:
        model: of both directions.
        counts: those that it was fitted with.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts) -> None:
        self.background, self.settings = BackgroundModel(model, counts, JOINT_SETTINGS), JOINT_SETTINGS
        self.is_spelled = model.is_spelled  # short units have no spelling

    @cached_property
    def letters(self) -> LearnedLetters:
        """The letters that correspond in the links that the model has learned."""
        return LearnedLetters(self.background)

    def add(self, bitext: Bitext, ids: Ids, is_new: np.ndarray, evidence: np.ndarray, threads: int) -> None:
        """Sets p(y|x) of the new pairs in both directions.

        Args:
            bitext: M pairs.
            ids: the model's ids of the text's source and target words, -1 if unknown.
            is_new: bool (P,), the elements of the (T, L) matrices whose pair the model does not know.
            evidence: float32 (P, 3), of which columns 1 and 2 are the forward and the reverse direction's.
        """
        new = np.flatnonzero(is_new)
        if not len(new):
            return
        start = np.full(len(new), self.settings.dirichlet, np.float32)
        if self.is_spelled:
            alike = spelling_of_new_pairs(bitext, is_new, threads)[new]
            alike = np.maximum(alike, self.letters.counts(bitext, ids, new, threads))
            start += np.float32(self.settings.spelling) * alike
        evidence[new, 1] = evidence[new, 2] = start
        text, offsets = text_arrays(bitext), flat_offsets(bitext.shapes)
        ranges, (source, target) = blocks(np.diff(offsets), threads), (bitext.source, bitext.target)
        for classes in self.background.classes:
            own = classes.of_words(0, source.vocabulary), classes.of_words(1, target.vocabulary)
            counts = table_values(classes.table, bitext, *own, threads)
            factors = self._factors(classes, ids, own)

            def add(low: int, high: int, counts: np.ndarray = counts, factors: Ids = factors) -> None:
                add_class_counts(low, high, text, offsets, is_new, counts, factors, evidence)

            run_blocks(add, ranges, threads)
        totals = [(taken(self.background.totals[side], ids[side]) + 1).astype(np.float32) for side in (0, 1)]
        run_blocks(
            lambda *span: divide_by_totals(*span, text, offsets, is_new, *totals, evidence), ranges, threads
        )

    def _factors(self, classes: ClassCounts, ids: Ids, words: Ids) -> Ids:
        """The factors of both sides' words (:class:`alignkit.kernels.hmm_m_step.BackOffClasses`), from their
        classes, with their frequencies as the model knows them."""
        weight, factors = self.settings.back_off / len(self.background.classes), []
        for side, of in enumerate(words):
            own, in_class = taken(self.background.totals[side], ids[side]), taken(classes.totals[side], of)
            frequency = np.maximum(own, 1)
            share = frequency / np.maximum(in_class + (ids[side] < 0), frequency)
            factor = weight / (np.maximum(in_class - own, 0) + FEW)
            columns = [share, factor] if side else [factor, share]
            factors.append(np.stack(columns, axis=1).astype(np.float32))
        return factors[0], factors[1]


class LeaveOneOut:
    """Judges sentence pairs of the text that a model was fitted on by the counts of the others.

    In the fit a link is judged by the evidence of other places (kernels.hmm_e_step.emissions). A fitted model
    that links the same text again would find a pair's own links among its counts, and rare words would confirm
    whatever they were linked to.

    Args:
        model: of both directions, between words; a model without pseudo-counts keeps its counts whole.
        counts: those that it was fitted with.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts) -> None:
        self.model, self.counts = model, counts
        links = float(counts.pairs.sum(dtype=np.float64))
        tokens = (links + float(counts.null[1]), links + float(counts.null[0]))
        ratios = [types / max(number, 1.0) for types, number in zip(model.table.shape, tokens, strict=True)]
        self.share = share_of_repetition(max(ratios)) if model.forward.emission_floor.any() else 0.0

    def take_out(
        self,
        bitext: Bitext,
        ids: tuple[np.ndarray, np.ndarray],
        is_new: np.ndarray,
        evidence: np.ndarray,
        threads: int,
    ) -> None:
        """Changes p(y|x) in sentence pairs that are taken to be of the model's text: at most one link of each
        word pair is its own.

        Args:
            bitext, ids, is_new, evidence: as in :meth:`UnknownPairs.add`.
            threads: how many to use; no result depends on it.
        """
        offsets = flat_offsets(bitext.shapes)
        before = offsets_of(is_new)
        is_own = (before[offsets[1:]] == before[offsets[:-1]]) & (np.diff(offsets) >= LEAST_ELEMENTS)
        if not is_own.any() or self.share <= 0:
            return
        chosen = np.flatnonzero(is_own)
        part = bitext.take(chosen)
        starts = flat_offsets(part.shapes)
        for low, high in blocks_of_size(starts, CHANGED_ELEMENTS):
            inner = starts[low : high + 1] - starts[low]
            places = in_runs(offsets[chosen[low:high]], np.diff(inner))
            self._take_out(part.block(low, high), ids, places, evidence, threads)

    def _take_out(self, part: Bitext, ids: Ids, places: np.ndarray, evidence: np.ndarray, threads: int) -> None:
        """:meth:`take_out` of pairs of the model's text, whose elements are at ``places``."""
        values = table_values(self.model.table.with_values(self.counts.pairs), part, *ids, threads)
        own = self.share * np.minimum(values, 1).astype(np.float64)
        tokens = tokens_of_elements(part, np.arange(len(own)))
        for side, direction in enumerate(self.model.directions):
            # The floor is the pseudo-count of every pair, divided by the word's count.
            floor = direction.emission_floor[ids[side][tokens[side]]].astype(np.float64)
            totals = JOINT_SETTINGS.dirichlet / np.maximum(floor, TINY)
            others = evidence[places, 1 + side] * totals - own
            evidence[places, 1 + side] = np.maximum(others, TINY) / np.maximum(totals - own, TINY)


def chances(log_odds: np.ndarray) -> np.ndarray:
    """float32: the probabilities of log-odds by themselves; 0 where neither direction sees a link."""
    return np.where(log_odds <= HARDLY, np.float32(0), 1 / (1 + np.exp(-log_odds))).astype(np.float32)


def levels_of_links(log_odds: np.ndarray) -> np.ndarray:
    """uint8 (P,): what log-odds say of links, as levels of likeness (:mod:`alignkit.embeddings.levels`): level n
    is of probabilities from exp(-n / 4) down to exp(-(n + 1) / 4), and the last one of everything below."""
    levels = np.full(len(log_odds), LEVELS - 1, np.uint8)
    seen = np.flatnonzero(log_odds > HARDLY)  # few: the others are no links in either direction
    found = np.log(chances(log_odds[seen])) / np.float32(-STEP)
    levels[seen] = np.minimum(found, LEVELS - 1)
    return levels


def into_probabilities(log_odds: Scores, threads: int | None = None, bonds: Bonds | None = None) -> Scores:
    """The probability of every link, (T, L) for each pair, from its log-odds and those of the links beside it.

    Args:
        log_odds: (T, L) for each pair, of one model or the mean of several views'; overwritten by the result.
        threads: all there are by default; no result depends on it.
        bonds: of the source and of the target words (:mod:`alignkit.classical.hmm.leanings`); None: all are 1.
    """
    count = thread_count(threads)
    target, source = map(offsets_of, log_odds.shapes.T)
    if bonds is None:
        bonds = np.ones(source[-1] + 1, np.float32), np.ones(target[-1] + 1, np.float32)

    def judge(low: int, high: int) -> None:
        judge_matrices(low, high, source, target, log_odds.offsets, bonds, log_odds.values)

    run_blocks(judge, blocks(np.diff(log_odds.offsets), count), count)
    return log_odds


def posteriors(
    bitext: Bitext,
    model: FittedHMM,
    shares: Shares,
    threads: int | None,
    unknown_pairs: UnknownPairs | None = None,
) -> tuple[Scores, np.ndarray]:
    """Link probabilities (T, L) of M pairs, and the log-likelihood of each, float64 (M,).

    Args:
        bitext: the text.
        model: with one direction or both.
        shares: of the forward and the reverse direction's posteriors in the result; the log-likelihoods of two
            are added. Fertility is judged by the mean of both.
        threads: all there are by default; no result depends on it.
        unknown_pairs: emissions of pairs of words that the model does not know; by default they are equal, but
            for their spelling.
    """
    links, likelihood = _last_links(bitext, model, shares, threads, unknown_pairs)
    np.clip(links.values, 0, 1, out=links.values)
    return links, likelihood


def _last_links(
    bitext: Bitext,
    model: FittedHMM,
    shares: Shares,
    threads: int | None,
    unknown_pairs: UnknownPairs | None,
    leave_one_out: LeaveOneOut | None = None,
) -> tuple[Scores, np.ndarray]:
    """The links of the last of some E-steps, and the log-likelihoods."""
    running, threads = _running(model, shares), thread_count(threads)
    ids, rounds = model.ids(bitext), _rounds(running)
    links = _link_arrays(bitext, model, ids, running, threads, unknown_pairs, leave_one_out)
    mean = shares if None in running else BOTH
    likelihood = np.zeros(len(bitext))
    for i in range(rounds):
        if i < 2:
            directions = _directions(bitext, ids, running, fertility=i > 0)
        is_last = i == rounds - 1
        used = shares if is_last else mean
        likelihood = expect(bitext, links, directions, used, threads, is_last=is_last).likelihood
    return Scores(as_floats(links.elements), links.offsets, bitext.shapes), likelihood


def log_likelihoods(bitext: Bitext, model: FittedHMM, shares: Shares, threads: int | None) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, up to the factor for its length; arguments of :func:`posteriors`.

    Without fertility, whose factors are for links given the others, and without spelling, which gives words that
    the model has never seen together more than is left for them: neither makes a distribution over sentences.
    """
    return posteriors(bitext, model.plain, shares, threads)[1]


def _running(model: FittedHMM, shares: Shares) -> Running:
    """The directions of weight above 0."""
    forward, reverse = (
        direction if share > 0 else None
        for direction, share in ((model.forward, shares.forward), (model.reverse, shares.reverse))
    )
    return forward, reverse


def _rounds(running: Running) -> int:
    return 1 + ROUNDS * any(each is not None and each.fertility.shape[1] > 1 for each in running)


def _link_arrays(
    bitext: Bitext,
    model: FittedHMM,
    ids: Ids,
    running: Running,
    threads: int,
    unknown_pairs: UnknownPairs | None = None,
    leave_one_out: LeaveOneOut | None = None,
) -> LinkArrays:
    """Every element of the matrices as a word pair of its own, whose pseudo-counts are its probabilities."""
    offsets = flat_offsets(bitext.shapes)
    evidence, alike = np.zeros((offsets[-1], 3), np.float32), None
    is_new = np.zeros(offsets[-1], bool)
    for side, direction in enumerate(running):
        if direction is not None:
            values = table_values(model.table.with_values(direction.emission), bitext, *ids, threads)
            is_new = values == 0
            if unknown_pairs is None and direction.emission_alike.any():
                alike = spelling_of_new_pairs(bitext, is_new, threads) if alike is None else alike
                places = np.flatnonzero(alike > 0)
                words = ids[side][tokens_of_elements(bitext, places)[side]]
                values[places] = alike[places] * direction.emission_alike[words]
            _raise_to_floor(bitext, direction, ids[side], side, offsets, values, threads)
            evidence[:, 1 + side] = values
    if leave_one_out is not None:
        leave_one_out.take_out(bitext, ids, is_new, evidence, threads)
    if unknown_pairs is not None:
        unknown_pairs.add(bitext, ids, is_new, evidence, threads)
    return LinkArrays(offsets, NO_PLACES, evidence, np.zeros(offsets[-1], np.uint32))


def _raise_to_floor(
    bitext: Bitext,
    direction: HMMParameters,
    words: np.ndarray,
    side: int,
    offsets: np.ndarray,
    values: np.ndarray,
    threads: int,
) -> None:
    """Raises the values p(y|x), float32 (P,), to at least the floor of x, by ``words``."""
    floor = np.maximum(taken(direction.emission_floor, words), np.float32(UNSEEN))
    unknown = np.float32(1 / max(len(direction.null), 1))  # an unknown x may be anything
    floor = np.where(words >= 0, floor, unknown).astype(np.float32)
    floors = floor[(bitext.target if side else bitext.source).tokens]
    text = text_arrays(bitext)

    def fill(low: int, high: int) -> None:
        hmm_m_step.fill_floor(low, high, text, floors, bool(side), offsets, values)

    run_blocks(fill, blocks(np.diff(offsets), threads), threads)


def _directions(
    bitext: Bitext, ids: Ids, running: Running, fertility: bool
) -> tuple[DirectionArrays, DirectionArrays]:
    """The parameters of both directions for the words of a text; one that does not run has uniform ones."""
    forward, reverse = (
        _direction(parameters, ids[side], ids[1 - side], len(corpus.tokens), fertility)
        for side, (parameters, corpus) in enumerate(zip(running, (bitext.target, bitext.source), strict=True))
    )
    return forward, reverse


def _direction(
    parameters: HMMParameters | None, states: np.ndarray, emitted: np.ndarray, tokens: int, fertility: bool
) -> DirectionArrays:
    """One direction; states and emitted are ids of the text's words, and it emits this number of tokens."""
    direction = uniform_direction(len(states), len(emitted), tokens, 0.5)
    if parameters is None:
        return direction
    if fertility:
        direction = direction._replace(fertility=taken(parameters.fertility, states, unknown=1))
    return direction._replace(
        totals=np.ones(len(states), np.float32),
        null=np.maximum(taken(parameters.null, emitted), np.float32(UNSEEN)),
        null_total=1.0,
        transition=parameters.transition,
        initial=parameters.initial,
        final=parameters.final,
        null_probability=parameters.null_probability,
    )
