"""Estimation of the hidden Markov aligners by EM: one direction, or both over one table of word pairs."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from alignkit.classical.cooccurrence import HMM, IndexedBitext, PairTable, check_memory
from alignkit.classical.hmm.back_off import BackgroundModel, BackgroundPairs, BackOff
from alignkit.classical.hmm.evidence import LevelRatios, are_words, leave_one_out_share, spelling_counts
from alignkit.classical.hmm.expectation import (
    expect,
    expected_fertilities,
    link_arrays,
    text_arrays,
    uniform_direction,
)
from alignkit.classical.hmm.parameters import WIDTH, FittedHMM, HMMParameters, fertility_factors
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.transliteration import MOST_PAIRS, Transliteration
from alignkit.classical.lexical_model import exact_sum
from alignkit.classical.priors import LexiconPrior, start_null, start_values
from alignkit.kernels import expected_links, hmm_m_step
from alignkit.kernels.expected_links import NO_PLACES, UNIT, as_floats, unpacked_links
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import NO_LIKENESS, DirectionArrays, LinkArrays, Shares
from alignkit.kernels.hmm_m_step import PairPrior
from alignkit.kernels.hmm_rows import TINY, ZERO
from alignkit.kernels.inverted_index import TableRows
from alignkit.scores import Scores
from alignkit.support.stages import Stage
from alignkit.support.threads import blocks, blocks_of_size, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

NO_COUNTS = np.empty(0, np.float32)
LEAST = 1e-5  # of a weight at the start, the largest being 1

Ids = tuple[np.ndarray, np.ndarray]


class EstimatedPairs(NamedTuple):
    """The K word pairs of a text, by source word, with their counts and emissions."""

    offsets: np.ndarray  # int64 (V_src + 1,)
    columns: np.ndarray  # int32 (K,)
    counts: np.ndarray  # float32 (K,), expected links
    forward: np.ndarray  # float32 (K,), emissions of the forward direction
    reverse: np.ndarray  # float32 (K,), of the reverse


class PairEvidence:
    """Counts and pseudo-counts of all pairs of words that meet in a text.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
        background: a fitted model, whose counts are added, and its ids of the text's words.

    Attributes:
        rows: the pairs by source word; their values are the counts among the evidence.
        evidence: float32 (K, 3); see kernels.hmm_e_step.LinkArrays.
        pseudo_counts: float32 (2, K), those of the prior, or None.
        background_counts: float32 (K,), the background model's; empty: there is none.
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        threads: int,
        prior: LexiconPrior | None = None,
        background: tuple[BackgroundModel, Ids] | None = None,
    ) -> None:
        self.settings, self.threads = settings, threads
        indexed = IndexedBitext(bitext, threads, keep_bags=False)
        offsets, columns, _ = indexed.pairs()
        self.ranges = indexed.row_ranges
        del indexed  # which is as large as the text
        self._text = text_arrays(bitext)
        self.evidence = np.zeros((len(columns), 3), np.float32)
        self.rows = TableRows(offsets, columns, self.evidence[:, 0])
        known = None if background is None else BackgroundPairs(*background, self.rows, self.ranges, threads)
        self.background_counts = NO_COUNTS if known is None else known.values
        self._background_totals = None if known is None else known.rest
        if prior is not None and settings.fold_case:
            prior = prior.lowercased
        self.pseudo_counts = None if prior is None else prior.pseudo_counts(bitext, self.rows)
        self.alike = spelling_counts(bitext, self.rows, self.threads) if settings.spelling > 0 else None
        self.back_off = (
            BackOff(bitext, settings.affixes, settings.back_off, known) if settings.back_off > 0 else None
        )
        self._prior = _pair_prior(bitext, settings)
        self._frequencies = [
            np.bincount(side.tokens, minlength=len(side.vocabulary)) for side in (bitext.source, bitext.target)
        ]
        self.transliteration = self._transliteration(bitext)

    def _transliteration(self, bitext: Bitext) -> Transliteration | None:
        if self.alike is None or len(self.rows.columns) > MOST_PAIRS:
            return None
        return Transliteration(bitext, self.rows, self.alike, self._frequencies, self.threads)

    def initialise(self, is_uniform: bool) -> None:
        """Make all pairs equal but for spelling and punctuation; or, if not uniform, without evidence."""
        self.evidence[:] = 0
        if is_uniform:
            prior = self._prior._replace(pseudo_count=ZERO)
            offsets, room = self.rows.offsets, sums_in_place(self.evidence)

            def start(low: int, high: int) -> None:
                ones = room[offsets[low] : offsets[high]]
                ones[:] = 1
                hmm_m_step.start_evidence(low, high, self.rows, ones, 1.0, NO_COUNTS, prior, self.evidence)

            run_blocks(start, self.ranges, self.threads)
            self._add_spelling()

    def update(self, links: LinkArrays) -> tuple[np.ndarray, np.ndarray]:
        """Counts and pseudo-counts from expected links.

        Returns:
            float32 (V_src,) and (V_tgt,), the sums of each word's counts and pseudo-counts in both directions.
        """
        rows, evidence = self.rows, self.evidence
        self._count(links)
        totals = self._totals()
        self._add_spelling()
        if self.transliteration is not None:
            places, counts = self.transliteration.counts(rows.values, totals)
            evidence[places, 1:] += np.float32(self.settings.spelling) * counts[:, None]
        if self.pseudo_counts is not None:
            evidence[:, 1:] += self.pseudo_counts.T
        if self.back_off is not None:
            self.back_off.add(rows, totals, evidence, self.threads)
        forward = totals[0] + self._row_sums(evidence[:, 1])
        reverse = totals[1] + self._column_sums(evidence[:, 2])
        return forward.astype(np.float32), reverse.astype(np.float32)

    def _count(self, links: LinkArrays) -> None:
        """Counts of all pairs, and the pseudo-counts that all pairs have."""
        offsets = self.rows.offsets

        def count(low: int, high: int) -> None:
            sums = sums_in_place(self.evidence)[offsets[low] : offsets[high]]
            self.add_links(links, (offsets[low], offsets[high]), sums)
            hmm_m_step.start_evidence(
                low, high, self.rows, sums, UNIT, self.background_counts, self._prior, self.evidence
            )

        # Each block reads the whole text, so there are no more of them than threads.
        run_blocks(count, blocks(self._frequencies[0], self.threads), self.threads)

    def add_links(self, links: LinkArrays, pairs: tuple[int, int], sums: np.ndarray) -> None:
        """Sets ``sums`` int64 to the expected links of word pairs first <= k < end, in units of ``UNIT``."""
        sums[:] = 0
        expected_links.count_pairs(0, len(links.offsets) - 1, pairs, self._text, links, sums)

    def background_without(self, links: LinkArrays) -> np.ndarray:
        """float32 (K,): the background model's counts less the text's expected links; evidence is overwritten."""
        own = sums_in_place(self.evidence)
        self.add_links(links, (0, len(own)), own)
        counts = np.empty_like(self.background_counts)
        for low in range(0, len(own), 1 << 22):
            part = slice(low, low + (1 << 22))
            counts[part] = np.maximum(self.background_counts[part] - own[part] * UNIT, 0)
        return counts

    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        """float64: the sums of the counts by source word, and by target word."""
        source, target = self._row_sums(self.rows.values), self._column_sums(self.rows.values)
        rest = self._background_totals
        return (source, target) if rest is None else (source + rest[0], target + rest[1])

    def result(self) -> tuple[TableRows, tuple[np.ndarray, ...]]:
        """The word pairs, and float32 (K,) each: counts, and pseudo-counts in both directions.

        They are no longer here afterwards.
        """
        rows, evidence = self.rows, self.evidence
        self.evidence = np.empty((0, 3), np.float32)
        self.rows = rows._replace(values=self.evidence[:, 0])
        return rows._replace(values=self.evidence[:, 0]), _parted(evidence)

    def _add_spelling(self) -> None:
        if self.alike is not None:
            places, counts = self.alike
            self.evidence[places, 1:] += np.float32(self.settings.spelling) * counts[:, None]

    def _row_sums(self, values: np.ndarray) -> np.ndarray:
        offsets, sums = self.rows.offsets, np.empty(len(self._frequencies[0]), np.float64)
        run_blocks(
            lambda low, high: hmm_m_step.row_sums(low, high, offsets, values, sums), self.ranges, self.threads
        )
        return sums

    def _column_sums(self, values: np.ndarray) -> np.ndarray:
        columns, sums = self.rows.columns, np.zeros(len(self._frequencies[1]))

        def add(low: int, high: int) -> None:
            hmm_m_step.column_sums(low, high, columns, values, sums)

        run_blocks(add, blocks(self._frequencies[1], self.threads), self.threads)
        return sums


def _parted(evidence: np.ndarray, size: int = 1 << 20) -> tuple[np.ndarray, ...]:
    """The columns of an array (K, 3), each by itself, in the memory of two: the array is cut off from its end."""
    parts = tuple(np.empty(len(evidence), evidence.dtype) for _ in range(evidence.shape[1]))
    for low in reversed(range(0, len(evidence), size)):
        for part, column in zip(parts, evidence[low:].T, strict=True):
            part[low : low + size] = column
        del column
        evidence.resize((low, len(parts)), refcheck=False)
    return parts


def sums_in_place(evidence: np.ndarray) -> np.ndarray:
    """int64 (K,), in the place of the two pseudo-counts of each word pair, which are made anew from its sum."""
    fields: np.ndarray = evidence.view([("count", np.float32), ("sum", np.int64)])["sum"]
    return fields[:, 0]


def _pair_prior(bitext: Bitext, settings: HMMSettings) -> PairPrior:
    factor = settings.punctuation
    # Without a factor all tokens count as words.
    source, target = (
        are_words(side.vocabulary) if factor < 1 else np.ones(len(side.vocabulary), bool)
        for side in (bitext.source, bitext.target)
    )
    return PairPrior(np.float32(settings.dirichlet), np.float32(factor), source, target)


class HMMEstimation:
    """A hidden Markov aligner while it is estimated, by :func:`estimate`.

    Both directions share the expected links, and so the counts of word pairs. Until :meth:`add_transitions` all
    positions are equally likely, as in IBM Model 1.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        shares: of the forward and the reverse direction's posteriors in the expected links.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model to go on from; it has the directions that run, and transitions.
        levels: uint8 (P,), how alike the two tokens of each element are (:mod:`alignkit.embeddings.levels`).
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        shares: Shares,
        threads: int,
        prior: LexiconPrior | None = None,
        start: FittedHMM | None = None,
        levels: np.ndarray | None = None,
    ) -> None:
        check_memory(bitext, HMM)
        self.bitext, self.settings, self.shares, self.threads = bitext, settings, shares, threads
        self.start = start
        self.ratios = None if levels is None else LevelRatios(levels, bitext.shapes, settings.likeness)
        self.sides = (bitext.source, bitext.target)
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.pairs = self._pair_evidence(prior)
        likeness = NO_LIKENESS if self.ratios is None else self.ratios.likeness
        self.links = link_arrays(bitext, self.pairs.rows, self.pairs.evidence, threads, likeness)
        self.copies = bitext.copies.astype(np.float32) if settings.leave_one_out else None
        self.leave_one_out = leave_one_out_share(bitext) if settings.leave_one_out else 0.0
        for side in self.sides:
            side.vocabulary.forget_strings()

    def _pair_evidence(self, prior: LexiconPrior | None) -> PairEvidence:
        return PairEvidence(self.bitext, self.settings, self.threads, prior)

    def initialise(self) -> None:
        """Emissions are uniform, and there are no transitions; with ``start`` they are those of its directions."""
        self.pairs.initialise(is_uniform=self.start is None)
        self.directions = self._initial_direction(0), self._initial_direction(1)

    def _initial_direction(self, side: int) -> DirectionArrays:
        states, emitted = self.types[side], self.types[1 - side]
        tokens = len(self.sides[1 - side].tokens)
        direction = uniform_direction(states, emitted, tokens, self.settings.null_probability)
        parameters = None if self.start is None else (self.start.forward, self.start.reverse)[side]
        if self.start is None or parameters is None:
            return direction
        words = self.start.source, self.start.target
        self.pairs.evidence[:, 1 + side] = start_values(
            self.start.table, words, parameters.emission, self.bitext, self.pairs.rows, by_target=bool(side)
        )
        return direction._replace(
            totals=np.ones(states, np.float32),
            null=start_null(parameters.null, words[1 - side], self.sides[1 - side].vocabulary),
            null_total=1.0,
            transition=parameters.transition,
            initial=parameters.initial,
            final=parameters.final,
        )

    def add_transitions(self) -> None:
        """From the next E-step on, positions depend on the one before (:attr:`HMMSettings.reach`)."""
        transition, initial, final = first_weights(self.settings)
        forward, reverse = (
            direction._replace(transition=transition, initial=initial, final=final)
            for direction in self.directions
        )
        self.directions = forward, reverse

    def e_step(self) -> None:
        """Expected links, NULL's links, and expected counts of transitions."""
        self._expect(is_last=False)

    def last_e_step(self, shares: Shares | None = None) -> None:
        """An E-step that leaves its links as numbers, as the shares say; the estimation cannot go on after it."""
        self.shares = shares or self.shares
        self._expect(is_last=True)
        self.forget()

    def _expect(self, is_last: bool) -> None:
        arguments = self.directions, self.shares, self.threads, self.copies
        self.expectation = expect(self.bitext, self.links, *arguments, is_last)
        if not np.isfinite(self.expectation.change):
            raise ArithmeticError("expected links are not numbers")

    def m_step(self) -> None:
        """Counts and pseudo-counts of word pairs, and each direction's other parameters."""
        if self.ratios is not None:
            self.ratios.update(self.links.elements)
        totals = self.pairs.update(self.links)
        fertilities = self._count_fertilities() if self.settings.fertility > 0 and self._has_transitions else None
        forward, reverse = (self._updated(side, totals[side]) for side in (0, 1))
        if fertilities is not None:
            forward = forward._replace(fertility=fertility_factors(fertilities[0], self.settings))
            reverse = reverse._replace(fertility=fertility_factors(fertilities[1], self.settings))
        self.directions = forward, reverse

    @property
    def log_likelihood(self) -> float:
        """log p(text) under the parameters that the last E-step used, summed over the directions that run."""
        return exact_sum(self.expectation.likelihood)

    @property
    def _has_transitions(self) -> bool:
        return len(self.directions[0].transition) > 0

    def _updated(self, side: int, totals: np.ndarray) -> DirectionArrays:
        """A direction's parameters but fertility from its expected counts."""
        direction, settings = self.directions[side], self.settings
        null, null_total = self._null_counts(side)
        direction = direction._replace(
            totals=totals,
            null=null.astype(np.float32),
            null_total=null_total,
            leave_one_out=self.leave_one_out,
        )
        if self._has_transitions:
            counts = self._transition_counts(side)
            transition, initial, final = _transition_weights(direction, counts, settings)
            direction = direction._replace(transition=transition, initial=initial, final=final)
        return direction

    def _null_counts(self, side: int) -> tuple[np.ndarray, float]:
        """float64 (V,): NULL's counts and pseudo-counts of the words that a direction emits, and their sum."""
        direction, tokens = self.directions[side], self.sides[1 - side].tokens
        null = np.zeros(len(direction.null))
        hmm_m_step.column_sums(0, len(null), tokens, direction.null_links, null)
        null += self.settings.null_prior
        return null, float(null.sum())

    def _transition_counts(self, side: int) -> TransitionCounts:
        """The last E-step's counts of a direction's jumps, first and last positions."""
        return self.expectation.transitions[side]

    def _count_fertilities(self) -> tuple[np.ndarray, ...]:
        """See :func:`alignkit.classical.hmm.expectation.expected_fertilities`."""
        return expected_fertilities(self.bitext, self.links, self.threads)

    @cached_property
    def estimated_pairs(self) -> EstimatedPairs:
        """Counts and emissions of the word pairs; the estimation cannot go on after that."""
        (offsets, columns, _), (counts, *emissions) = self.pairs.result()
        for side, emission in enumerate(emissions):  # pseudo-counts until now
            totals = np.maximum(self.directions[side].totals, TINY)
            for low, high in blocks_of_size(offsets, 1 << 20):
                part, sizes = slice(offsets[low], offsets[high]), np.diff(offsets[low : high + 1])
                states = columns[part] if side else np.repeat(np.arange(low, high), sizes)
                emission[part] = np.minimum((counts[part] + emission[part]) / totals[states], np.float32(1))
        return EstimatedPairs(offsets, columns, counts, *emissions)

    def parameters(self, side: int) -> HMMParameters:
        """The parameters of the forward (0) or the reverse (1) direction; see :attr:`estimated_pairs`."""
        direction = self.directions[side]
        totals = np.maximum(direction.totals, TINY)
        floor = np.minimum(np.float32(self.settings.dirichlet) / totals, np.float32(1))
        # A word that no link supports says nothing: its floor would be all there is.
        floor = np.where(direction.totals > 0, floor, np.float32(0)).astype(np.float32)
        spelling = np.float32(self.settings.spelling)
        # Half a count more for words that are not there: what is new may be anything.
        alike = spelling / (np.append(direction.totals, np.float32(0)) + spelling + np.float32(0.5))
        null = (direction.null / np.float64(max(direction.null_total, 1e-30))).astype(np.float32)
        return HMMParameters(
            self.estimated_pairs.reverse if side else self.estimated_pairs.forward,
            floor,
            alike,
            null,
            direction.fertility,
            direction.transition,
            direction.initial,
            direction.final,
            self.settings.null_probability,
        )

    def table(self, forward: HMMParameters) -> PairTable:
        """The word pairs of the text, with the emissions of the forward direction."""
        pairs = self.estimated_pairs
        return PairTable(pairs.offsets, pairs.columns, forward.emission, self.types[1])

    def forget(self) -> None:
        """Give back the memory of what only another E-step would need."""
        self.links = self.links._replace(places=NO_PLACES, pair_counts=np.empty((0, 3), np.float32))
        forward, reverse = (each._replace(null_links=np.empty(0, np.float32)) for each in self.directions)
        self.directions = forward, reverse

    def expected_links(self) -> Scores:
        """(T, L) for each pair: the expected links between two iterations, a copy."""
        return Scores(unpacked_links(self.links.elements), self.links.offsets, self.bitext.shapes)

    def last_links(self) -> Scores:
        """(T, L) for each pair: the links of :meth:`last_e_step`."""
        return Scores(as_floats(self.links.elements), self.links.offsets, self.bitext.shapes)


def estimate(
    model: HMMEstimation, progress: Progress | None = None, last_shares: Shares | None = None
) -> tuple[float, ...]:
    """Expectation maximisation: iterations without transitions, as in IBM Model 1, and then with them.

    After the last M-step comes an E-step more, whose links are left; the estimation cannot go on after it.

    Args:
        model: as it was made; one that goes on from a fitted model needs no iterations without transitions.
        progress: called with (done, total, message) after each iteration; one that converged counts as the last.
        last_shares: of the last E-step; as before by default.

    Returns:
        The log-likelihood under the parameters that each E-step used.
    """
    settings = model.settings
    lexical = settings.lexical_iterations if model.start is None else 0
    total, history = lexical + settings.iterations, list[float]()
    tokens = sum(len(side.tokens) for side in model.sides)
    # With priors, or with a link's own part taken out, this is no likelihood of the text.
    is_plain = settings.is_maximum_likelihood and model.pairs.pseudo_counts is None
    score = "log-likelihood" if is_plain else "score"
    model.initialise()
    with Stage("fitting", progress) as stage:
        for iteration in range(total):
            if iteration == lexical and model.start is None:
                model.add_transitions()
            model.e_step()
            history.append(model.log_likelihood)
            model.m_step()
            # Links have settled; without transitions they have not yet found their places.
            converged = iteration >= lexical and model.expectation.change < settings.tolerance * tokens
            stage(total if converged else iteration + 1, total, f"{score} {history[-1]:.9g}")
            if converged:
                break
    model.last_e_step(last_shares)
    return (*history, model.log_likelihood)


def first_weights(settings: HMMSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float32 (2 WIDTH + 1,), 2 times (WIDTH + 1,): weights of jumps, of first and of last positions before any is
    counted."""
    jumps, reach = np.arange(-WIDTH, WIDTH + 1), settings.reach if settings.reach > 0 else np.inf
    transition = np.maximum(np.exp(-np.abs(jumps) / reach), LEAST).astype(np.float32)
    initial = transition[WIDTH:]
    return transition, initial, initial if settings.ends else np.ones_like(initial)


def _transition_weights(
    direction: DirectionArrays, counts: TransitionCounts, settings: HMMSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New transition, initial and final weights from their expected counts and pseudo-counts.

    The weights of a sentence are normalised over the positions it has, so the expected log-likelihood is
    sum of n_d log w_d - sum of n_j log Z_j, whose logarithm is replaced by its tangent: the maximum of that
    bound, which touches the likelihood where it stands, is w_d = n_d / (sum of n_j / Z_j where d is possible).
    Pseudo-counts are distributed as the first weights are: jumps that no sentence of the text has room for stay
    unlikely in the longer sentences of another one.
    """
    prior = settings.transition_prior

    def weights(number: np.ndarray, share: np.ndarray, old: np.ndarray, first: np.ndarray) -> np.ndarray:
        if not number.sum() > 0:
            return old
        expected = first * (number.sum() / max(float(share @ first), 1e-30))
        pseudo = prior * share.sum() / number.sum()
        new = (number + pseudo * expected) / np.maximum(share + pseudo, 1e-30)
        new = np.where(share > 0, new, expected)  # where nothing was possible
        return np.maximum(new / new.sum(), 1e-12).astype(np.float32)

    transition, initial, final = first_weights(settings)
    return (
        weights(counts.jumps, counts.jump_shares, direction.transition, transition),
        weights(counts.initial, counts.initial_shares, direction.initial, initial),
        weights(counts.final, counts.final_shares, direction.final, final) if settings.ends else final,
    )
