"""The hidden Markov aligner (Vogel, Ney and Tillmann 1996): EM in one direction, or in both over one table of word
pairs; and the fitted model of one direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Unpack

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.cooccurrence import HMM as MEMORY
from alignkit.classical.cooccurrence import PairTable, check_memory, token_index
from alignkit.classical.hmm.background import BackgroundModel
from alignkit.classical.hmm.e_step import expect, text_arrays, uniform_direction
from alignkit.classical.hmm.inference import log_likelihoods, posteriors, share_of_repetition
from alignkit.classical.hmm.model import WIDTH, FittedHMM, HMMParameters, unpack_hmm
from alignkit.classical.hmm.pseudo_counts import LevelRatios, PairCounts
from alignkit.classical.hmm.settings import HMMOptions, HMMSettings
from alignkit.classical.hmm.views import (
    Linked,
    linked_in_blocks,
    scores_in_windows,
    sums_in_windows,
    training_pairs,
)
from alignkit.classical.lexical_model import exact_sum
from alignkit.classical.priors import LexiconPrior, check_knowledge, start_null, start_values
from alignkit.errors import AlignkitError
from alignkit.kernels.expected_links import NO_PLACES, SEGMENT_BITS, PairPlaces, clear_links, fill_codes
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import FORWARD, NO_LIKENESS, DirectionArrays, Likeness, LinkArrays, OpinionPool
from alignkit.kernels.hmm_m_step import column_sums, count_fertilities
from alignkit.kernels.hmm_rows import FERTILITIES, TINY
from alignkit.kernels.inverted_index import TableRows
from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import values_of
from alignkit.support.files import loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.stages import Stage
from alignkit.support.threads import blocks, blocks_of_size, run_blocks, run_evenly, thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.units import folded_text
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.hmm", 4
LEAST = 1e-5  # of a weight at the start, the largest being 1
# Fertilities are counted in so many blocks, each of which needs an array of the size of the vocabulary.
FERTILITY_BLOCKS = 4
# Codes are found for blocks of about this number of elements, so that the index of a block takes little memory.
CODED_ELEMENTS = 1 << 25


class Estimated(NamedTuple):
    """What an estimation ends with, for the K word pairs of its text."""

    table: PairTable  # with the emissions of the forward direction
    counts: np.ndarray  # float32 (K,), expected links
    directions: list[HMMParameters]


class HMMEstimation:
    """A hidden Markov aligner while it is estimated, by :func:`estimate`.

    Both directions share the expected links, and so the counts of word pairs. Until :meth:`add_transitions` all
    positions are equally likely, as in IBM Model 1.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        pool: of both directions' posteriors, which makes the expected links.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model to go on from; it has the directions that run, and transitions.
        levels: uint8 (P,), how alike the two tokens of each element are (:mod:`alignkit.embeddings.levels`).
        background: a fitted model to go on from, whose counts are added to those of the text in each M-step.

    Attributes:
        log_likelihood: log p(text) under the parameters that the last E-step used, summed over the directions that
            run.
        counts_of_others: float32 (K,), the background's counts of word pairs without what pairs of this text
            contributed to them, for all M-steps; None: nothing.
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        pool: OpinionPool,
        threads: int,
        prior: LexiconPrior | None = None,
        start: FittedHMM | None = None,
        levels: np.ndarray | None = None,
        background: BackgroundModel | None = None,
    ) -> None:
        check_memory(bitext, MEMORY)
        self.bitext, self.settings, self.pool, self.threads = bitext, settings, pool, threads
        self.start, self.background = start, background
        self.counts_of_others: np.ndarray | None = None
        exponents = settings.likeness, settings.co_training
        self.ratios = None if levels is None else LevelRatios(levels, bitext.shapes, exponents)
        self.sides = (bitext.source, bitext.target)
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        if background is not None:
            self.start, self.ids = background.model, background.model.ids(bitext)
        in_model = None if background is None else (background, self.ids)
        self.pairs = PairCounts(bitext, settings, threads, prior, in_model, self.start is None)
        likeness = NO_LIKENESS if self.ratios is None else self.ratios.likeness
        self.links = link_arrays(bitext, self.pairs.rows, self.pairs.counts, threads, likeness)
        self.copies, self.leave_one_out = None, 0.0
        if settings.leave_one_out:
            self.copies = bitext.copies.astype(np.float32)
            self.leave_one_out = leave_one_out_share(bitext) if background is None else 1.0
        for side in self.sides:
            side.vocabulary.forget_strings()

    def initialise(self) -> None:
        """Emissions are uniform, and there are no transitions; or all is as in the model to go on from."""
        if self.background is not None:
            clear_links(self.links.elements)
            totals = self.pairs.update(self.links)
            if self.counts_of_others is not None:  # the text has links of its own from now on
                self.pairs.background_counts = self.counts_of_others
        directions = []
        for side in (0, 1):
            states, emitted, tokens = self.types[side], self.types[1 - side], len(self.sides[1 - side].tokens)
            direction = uniform_direction(states, emitted, tokens, self.settings.null_probability)
            own = None if self.start is None else (self.start.forward, self.start.reverse)[side]
            if self.start is not None and own is not None:
                words = self.start.source, self.start.target
                direction = direction._replace(transition=own.transition, initial=own.initial, final=own.final)
                if self.background is not None:
                    null, elsewhere = self._null_of_background(side)
                    null = null + self.settings.null_prior
                    direction = direction._replace(
                        totals=totals[side],
                        null=null.astype(np.float32),
                        null_total=float(null.sum()) + elsewhere,
                        fertility=values_of(own.fertility, self.ids[side], unknown=1),
                    )
                else:
                    self.pairs.counts[:, 1 + side] = start_values(
                        self.start.table, words, own.emission, self.bitext, self.pairs.rows, by_target=bool(side)
                    )
                    direction = direction._replace(
                        totals=np.ones(states, np.float32),
                        null=start_null(own.null, words[1 - side], self.sides[1 - side].vocabulary),
                        null_total=1.0,
                    )
            directions.append(direction)
        self.directions = directions[0], directions[1]

    def add_transitions(self) -> None:
        """From the next E-step on, positions depend on the one before (:attr:`HMMSettings.reach`)."""
        transition, initial, final = first_weights(self.settings)
        forward, reverse = (
            direction._replace(transition=transition, initial=initial, final=final)
            for direction in self.directions
        )
        self.directions = forward, reverse

    def e_step(self, last: OpinionPool | None = None) -> None:
        """Expected links, NULL's links, and expected counts of transitions.

        Args:
            last: the pool of the last E-step, which leaves its links as numbers; EM cannot go on after it.
        """
        self.pool, is_last = last or self.pool, last is not None
        least_own = self.settings.least_own if is_last else 0.0
        self.expectation = expect(
            self.bitext, self.links, self.directions, self.pool, self.threads, self.copies, is_last, least_own
        )
        if not np.isfinite(self.expectation.change):
            raise ArithmeticError("expected links are not numbers")
        self.log_likelihood = exact_sum(self.expectation.likelihood)
        if is_last:  # what only another E-step would need
            self.links = self.links._replace(places=NO_PLACES, pair_counts=np.empty((0, 3), np.float32))
            forward, reverse = (each._replace(null_links=np.empty(0, np.float32)) for each in self.directions)
            self.directions = forward, reverse

    def m_step(self) -> None:
        """Counts and pseudo-counts of word pairs, and each direction's other parameters.

        p(y|x) is (count + pseudo-count) / total; the next E-step divides, because leave-one-out takes a link's own
        count out of both (:func:`alignkit.kernels.hmm_rows.emission`).
        """
        settings, has_transitions = self.settings, len(self.directions[0].transition) > 0
        if self.ratios is not None:
            self.ratios.update(self.links.elements)
        totals, fertilities = self.pairs.update(self.links), None
        if settings.fertility > 0 and has_transitions:
            fertilities = expected_fertilities(self.bitext, self.links, self.threads)
        directions = []
        for side, direction in enumerate(self.directions):
            null = np.zeros(len(direction.null))
            column_sums(0, len(null), self.sides[1 - side].tokens, direction.null_links, null)
            null += settings.null_prior
            null_total = float(null.sum())
            if self.background is not None:
                own, elsewhere = self._null_of_background(side)
                null, null_total = null + own, null_total + float(own.sum()) + elsewhere
            direction = direction._replace(
                totals=totals[side],
                null=null.astype(np.float32),
                null_total=null_total,
                leave_one_out=self.leave_one_out,
            )
            if has_transitions:
                counts = self.expectation.transitions[side]
                if self.background is not None:
                    counts = with_background(counts, self.background, side)
                transition, initial, final = transition_weights(direction, counts, settings)
                direction = direction._replace(transition=transition, initial=initial, final=final)
            if fertilities is not None:
                numbers = fertilities[side]
                if self.background is not None:
                    numbers = numbers + values_of(self.background.fertilities[side], self.ids[side])
                direction = direction._replace(fertility=fertility_factors(numbers, settings))
            directions.append(direction)
        self.directions = directions[0], directions[1]

    def _null_of_background(self, side: int) -> tuple[np.ndarray, float]:
        """float64 (V,): the background's counts of NULL for the words that a direction emits; and the sum of those
        for words that the text does not have."""
        assert self.background is not None
        null = self.background.null[side]
        own = values_of(null, self.ids[1 - side])
        return own, max(float(null.sum() - own.sum()), 0.0)

    def release(self, *sides: int) -> Estimated:
        """The counts of the word pairs, and the parameters of directions: the forward (0) or the reverse one (1).

        They are made in the memory of the counts and pseudo-counts, so the estimation cannot go on after that.
        """
        offsets, columns, _ = self.pairs.rows
        columns_of_counts, size = self.pairs.counts, 1 << 20
        self.pairs.counts = np.empty((0, 3), np.float32)
        self.pairs.rows = TableRows(offsets, columns, self.pairs.counts[:, 0])
        # Each column by itself, in the memory of two: what has been copied is cut off from the end.
        counts, *emissions = (np.empty(len(columns), np.float32) for _ in range(3))
        for low in reversed(range(0, len(columns), size)):
            for part, column in zip((counts, *emissions), columns_of_counts[low:].T, strict=True):
                part[low : low + size] = column
            del column
            columns_of_counts.resize((low, 3), refcheck=False)
        directions = []
        for side in sides:
            direction, emission = self.directions[side], emissions[side]  # which still holds pseudo-counts
            totals = np.maximum(direction.totals, TINY)
            for low, high in blocks_of_size(offsets, 1 << 20):
                span, lengths = slice(offsets[low], offsets[high]), np.diff(offsets[low : high + 1])
                states = columns[span] if side else np.repeat(np.arange(low, high), lengths)
                emission[span] = np.minimum((counts[span] + emission[span]) / totals[states], np.float32(1))
            floor = np.minimum(np.float32(self.settings.dirichlet) / totals, np.float32(1))
            # A word without expected links gets no floor: it would be the whole of the word's distribution.
            floor = np.where(direction.totals > 0, floor, np.float32(0)).astype(np.float32)
            spelling = np.float32(self.settings.spelling)
            # Half a count more for words that are not there: what is new may be anything.
            alike = spelling / (np.append(direction.totals, np.float32(0)) + spelling + np.float32(0.5))
            null = (direction.null / np.float64(max(direction.null_total, 1e-30))).astype(np.float32)
            parameters = HMMParameters(
                emission,
                floor,
                alike,
                null,
                direction.fertility,
                direction.transition,
                direction.initial,
                direction.final,
                self.settings.null_probability,
            )
            directions.append(parameters)
        return Estimated(PairTable(offsets, columns, emissions[0], self.types[1]), counts, directions)


def estimate(
    model: HMMEstimation, progress: Progress | None = None, last_pool: OpinionPool | None = None
) -> tuple[float, ...]:
    """Expectation maximisation: iterations without transitions, as in IBM Model 1, and then with them.

    A final E-step follows the last M-step, and its links are the result; the estimation cannot continue after it.

    Args:
        model: as it was made; one that goes on from a fitted model needs no iterations without transitions.
        progress: called with (done, total, message) after each iteration; one that converged counts as the last.
        last_pool: of the last E-step's posteriors; by default that of the others.

    Returns:
        The log-likelihood under the parameters that each E-step used.
    """
    settings = model.settings
    lexical = settings.lexical_iterations if model.start is None else 0
    total, history = lexical + settings.iterations, list[float]()
    tokens = sum(len(side.tokens) for side in model.sides)
    # With priors, or with a link's own part taken out, this is no likelihood of the text.
    is_plain = settings.is_maximum_likelihood and model.pairs.lexicon is None
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
    model.e_step(last=last_pool or model.pool)
    return (*history, model.log_likelihood)


def first_weights(settings: HMMSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float32 (2 WIDTH + 1,), 2 times (WIDTH + 1,): weights of jumps, of first and of last positions before any is
    counted."""
    jumps, reach = np.arange(-WIDTH, WIDTH + 1), settings.reach if settings.reach > 0 else np.inf
    transition = np.maximum(np.exp(-np.abs(jumps) / reach), LEAST).astype(np.float32)
    initial = transition[WIDTH:]
    return transition, initial, initial if settings.ends else np.ones_like(initial)


def transition_weights(
    direction: DirectionArrays, counts: TransitionCounts, settings: HMMSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New transition, initial and final weights from their expected counts and pseudo-counts.

    The weights of a sentence are normalised over the positions it has, so the expected log-likelihood is
    sum of n_d log w_d - sum of n_j log Z_j, whose logarithm is replaced by its tangent: the maximum of that
    bound, which touches the likelihood where it stands, is w_d = n_d / (sum of n_j / Z_j where d is possible).
    Pseudo-counts are distributed as the first weights are: jumps that no sentence of the text has room for stay
    unlikely in the longer sentences of another one.
    """
    first, weights = first_weights(settings), []
    for old, start, number, share in zip(
        (direction.transition, direction.initial, direction.final),
        first,
        (counts.jumps, counts.initial, counts.final),
        (counts.jump_divisors, counts.initial_divisors, counts.final_divisors),
        strict=True,
    ):
        if number.sum() > 0:
            expected = start * (number.sum() / max(float(share @ start), 1e-30))
            pseudo = settings.transition_prior * share.sum() / number.sum()
            new = (number + pseudo * expected) / np.maximum(share + pseudo, 1e-30)
            new = np.where(share > 0, new, expected)  # where nothing was possible
            weights.append(np.maximum(new / new.sum(), 1e-12).astype(np.float32))
        else:
            weights.append(old)
    transition, initial, final = weights
    return transition, initial, final if settings.ends else first[2]


def with_background(counts: TransitionCounts, background: BackgroundModel, side: int) -> TransitionCounts:
    """Counts of transitions with those of a fitted model: a jump for each of its links, and as many of them to a
    sentence as in the text."""
    parameters, jumps = background.model.directions[side], float(background.totals[side].sum())
    first = jumps * counts.initial_divisors.max(initial=0.0) / max(counts.jump_divisors.max(initial=0.0), 1e-30)
    return TransitionCounts(
        jumps=counts.jumps + jumps * parameters.transition,
        jump_divisors=counts.jump_divisors + jumps,
        initial=counts.initial + first * parameters.initial,
        initial_divisors=counts.initial_divisors + first,
        final=counts.final + first * parameters.final,
        final_divisors=counts.final_divisors + first,
    )


def expected_fertilities(bitext: Bitext, links: LinkArrays, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """float64 (V_src, F), (V_tgt, F): expected number of occurrences of each word with 0, 1, ... links.

    Args:
        bitext: M pairs.
        links: their expected links.
        threads: how many to use; no result depends on it.
    """
    text, source_types = text_arrays(bitext), len(bitext.source.vocabulary)
    total = np.zeros((source_types + len(bitext.target.vocabulary), FERTILITIES))

    # Blocks are added in their order, and there are no more of them at a time than threads.
    ranges = blocks(links.offsets, FERTILITY_BLOCKS)
    for first in range(0, len(ranges), threads):
        sums = {span: np.zeros_like(total) for span in ranges[first : first + threads]}
        run_blocks(
            lambda *span, sums=sums: count_fertilities(
                *span, text, links.offsets, links.elements, sums[span][:source_types], sums[span][source_types:]
            ),
            list(sums),
            threads,
        )
        for span in list(sums):
            total += sums.pop(span)
    return total[:source_types], total[source_types:]


def fertility_factors(counts: np.ndarray, settings: HMMSettings) -> np.ndarray:
    """float32 (V, F - 1): factors for one more link, from the expected counts of fertilities float64 (V, F)."""
    general = counts.sum(axis=0) + 0.5
    prior = settings.fertility_prior * (general / general.sum())
    factors = np.empty((len(counts), counts.shape[1] - 1), np.float32)
    for low in range(0, len(counts), 1 << 14):
        chances = counts[low : low + (1 << 14)] + prior
        factors[low : low + (1 << 14)] = (chances[:, 1:] / chances[:, :-1]) ** settings.fertility
    return factors


def leave_one_out_share(bitext: Bitext) -> float:
    """The share of a link's own expectation that is taken out of the counts that judge it.

    :func:`alignkit.classical.hmm.inference.share_of_repetition` of the larger of both sides' ratios of types to
    tokens, each pair counted once however often it is there.
    """
    weights, ratios = 1 / np.maximum(bitext.copies, 1), []
    for side in (bitext.source, bitext.target):
        tokens = round(float(side.lengths @ weights))  # a whole number, that of the tokens of different pairs
        types = np.count_nonzero(np.bincount(side.tokens, minlength=len(side.vocabulary)))
        ratios.append(types / tokens if tokens > 0 else 0.0)
    return share_of_repetition(max(ratios))


def link_arrays(
    bitext: Bitext, rows: TableRows, pair_counts: np.ndarray, threads: int, likeness: Likeness = NO_LIKENESS
) -> LinkArrays:
    """Matrices without links.

    Args:
        bitext: M pairs.
        rows: its K word pairs, by source word; the values are not looked at.
        pair_counts, likeness: of :class:`alignkit.kernels.hmm_e_step.LinkArrays`.
        threads: how many to use; no result depends on it.

    Raises:
        AlignkitError: the word pairs are too many for their numbers.
    """
    if len(rows.columns) >= 2**31:
        raise AlignkitError("the text has more than 2 billion word pairs; fit a sample of it")
    # Rows of many word pairs are cut into segments (:mod:`alignkit.kernels.expected_links`).
    is_long, targets = np.diff(rows.offsets) > 1 << SEGMENT_BITS, len(bitext.target.vocabulary)
    long_rows = np.where(is_long, np.cumsum(is_long) - 1, -1).astype(np.int32)
    firsts = np.arange(-(-targets >> SEGMENT_BITS), dtype=np.int32) << SEGMENT_BITS  # target words of each segment
    spans = [slice(rows.offsets[i], rows.offsets[i + 1]) for i in np.flatnonzero(is_long)]
    segments = np.empty((len(spans), len(firsts)), np.int64)
    for n, span in enumerate(spans):
        segments[n] = span.start + np.searchsorted(rows.columns[span], firsts)
    places = PairPlaces(rows.offsets, long_rows, segments)
    offsets = flat_offsets(bitext.shapes)
    elements = np.zeros(offsets[-1], np.uint32)
    for low, high in blocks_of_size(offsets, CODED_ELEMENTS):
        part = bitext.block(low, high)
        index, text = token_index(part.source, threads), text_arrays(part)
        matrices = flat_offsets(part.shapes), elements[offsets[low] : offsets[high]]
        arrays = index, text, matrices, rows.columns, places
        run_evenly(
            lambda *span, arrays=arrays: fill_codes(*span, *arrays, np.empty(targets, np.uint16)),
            index.starts,
            threads,
            parts=8,
        )
    return LinkArrays(offsets, places, pair_counts, elements, likeness)


@dataclass(frozen=True, eq=False, repr=False)
class HMM(FittedHMM, Aligner):
    """A fitted hidden Markov aligner; it has no reverse direction.

    Attributes:
        fold_case: treat words that differ only in case, or in marks of sentences, as one; so do the vocabularies.
    """

    name = "hmm"
    title = "HMM"
    descriptions: ClassVar = {
        "alpha": (
            "HMM",
            "The guess of a hidden Markov model of which source word each target word comes from; it knows that "
            "neighbours translate neighbours.",
        )
    }
    kinds = ("alpha", "beta")
    predicts = ("target",)
    fold_case: bool = False

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = p(y_t | x_l), 0 for pairs never seen; alpha[t, l] = the posterior of y_t coming from x_l.

        The rest of a row of alpha, up to 1, is NULL's.
        """
        self.check_kind(kind)
        if kind == "beta":
            return self.lookup(self._text(bitext)).scores()
        return scores_in_windows(self._text(bitext), self._posteriors)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, without the factor for its length and without
        fertility."""
        return sums_in_windows(self._text(bitext), lambda text: log_likelihoods(text, self, FORWARD, self.threads))

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its most probable source position, unless NULL is more probable."""
        return linked_in_blocks(self._text(bitext), self._linked)[0]

    def _text(self, bitext: Bitext) -> Bitext:
        return folded_text(bitext) if self.fold_case else bitext

    def _posteriors(self, bitext: Bitext) -> Scores:
        return posteriors(bitext, self, FORWARD, self.threads)[0]

    def _linked(self, bitext: Bitext) -> Linked:
        """The links of pairs that are not long; no probabilities."""
        links = best_links(self._posteriors(bitext))
        return links, np.zeros(len(links.pairs))

    def save(self, path: PathLike) -> None:
        """Writes the model; :func:`alignkit.load` reads it."""
        header = self.header() | {"fold_case": self.fold_case} | self.about_text
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_hmm(path: PathLike) -> HMM:
    """Reads what :meth:`HMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    with loaded(path, KIND, VERSION) as (fields, header):
        return HMM(**unpack_hmm(fields, header, 1), fold_case=header.flag("fold_case"))


def fit_hmm(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
    start: HMM | None = None,
    **options: Unpack[HMMOptions],
) -> HMM:
    """Fit a hidden Markov model of one direction by EM.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: plain EM by default.
        threads: the number of threads, by default all; the result is the same, bit for bit, for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model from which the iterations with transitions continue, without lexical iterations. Word
            pairs that are new in this text start uniform (:func:`alignkit.classical.priors.start_values`).
        options: fields of the settings, which replace those of ``settings``.

    Raises:
        AlignkitError: an argument is of another type, an option is unknown, a setting is out of range, or the text
            is too large for the machine's memory.
    """
    settings = with_options(HMMSettings, settings, options)
    check_knowledge(prior, start, HMM)
    text, _ = training_pairs(folded_text(bitext) if settings.fold_case else bitext)
    model = HMMEstimation(text, settings, FORWARD, thread_count(threads), prior, start)
    likelihoods = estimate(model, progress)
    table, _, (forward,) = model.release(0)
    return HMM(
        text.source.vocabulary,
        text.target.vocabulary,
        table,
        forward,
        fold_case=settings.fold_case,
        log_likelihood=likelihoods,
        threads=threads,
    )
