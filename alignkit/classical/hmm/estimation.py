"""Estimation of the hidden Markov aligners by EM: one direction, or both over one table of word pairs."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from alignkit.classical.em import run_em
from alignkit.classical.exchange import current_exchange
from alignkit.classical.hmm.evidence import excluded_share
from alignkit.classical.hmm.expectation import expect, uniform_direction
from alignkit.classical.hmm.fertilities import expected_fertilities
from alignkit.classical.hmm.likeness import LevelRatios
from alignkit.classical.hmm.link_arrays import link_arrays
from alignkit.classical.hmm.pair_evidence import PairEvidence
from alignkit.classical.hmm.parameters import WIDTH, FittedHMM, HMMParameters
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.lexical_model import PairTable
from alignkit.classical.memory import MemoryLimit
from alignkit.classical.priors import LexiconPrior, start_null, start_values
from alignkit.kernels import hmm_m_step
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import NO_LIKENESS, LinkArrays, Shares
from alignkit.kernels.hmm_emissions import DirectionArrays
from alignkit.kernels.hmm_pairs import NO_PLACES
from alignkit.kernels.hmm_rows import TINY
from alignkit.kernels.packed_links import as_floats, unpacked_links
from alignkit.parallel import blocks_of_size
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

LEAST = 1e-5  # of a weight at the start, the largest being 1


class FoundPairs(NamedTuple):
    """The K word pairs of a text, by source word, and what was found of them."""

    offsets: np.ndarray  # int64 (V_src + 1,)
    columns: np.ndarray  # int32 (K,)
    counts: np.ndarray  # float32 (K,), expected links
    forward: np.ndarray  # float32 (K,), emissions of the forward direction
    reverse: np.ndarray  # float32 (K,), of the reverse


class HMMEstimation:
    """A hidden Markov aligner while it is estimated (:class:`alignkit.classical.em.EMModel`).

    Both directions share the expected links, and so the counts of word pairs. Until :meth:`add_transitions` all
    positions are equally likely, as in IBM Model 1.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        shares: of the forward and the reverse direction's posteriors in the expected links.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model to go on from; it has the directions that run, and transitions.
        memory: not to be exceeded; larger matrices are kept on disk, with the same result.
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
        memory: MemoryLimit | None = None,
        levels: np.ndarray | None = None,
    ) -> None:
        self.bitext, self.settings, self.shares, self.threads = bitext, settings, shares, threads
        self.start = start
        self.ratios = None if levels is None else LevelRatios(levels, settings.likeness)
        self.sides = (bitext.source, bitext.target)
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.exchange = exchange = current_exchange()
        self.pairs = self._pair_evidence(prior)
        self.links = self._link_arrays(memory or MemoryLimit())
        self.copies = exchange.copies(bitext).astype(np.float32) if settings.exclude else None
        self.excluded = excluded_share(bitext, exchange) if settings.exclude else 0.0
        for side in self.sides:
            side.vocabulary.forget_strings()

    def _pair_evidence(self, prior: LexiconPrior | None) -> PairEvidence:
        return PairEvidence(self.bitext, self.settings, self.threads, prior, self.exchange)

    def _link_arrays(self, memory: MemoryLimit) -> LinkArrays:
        likeness = NO_LIKENESS if self.ratios is None else self.ratios.likeness
        pairs = self.pairs
        return link_arrays(self.bitext, pairs.table.local, pairs.evidence, memory, self.threads, likeness)

    def initialise(self) -> None:
        """Emissions are uniform, and there are no transitions; with ``start`` they are those of its directions."""
        self.pairs.initialise(is_uniform=self.start is None)
        self.directions = self._initial_direction(0), self._initial_direction(1)
        self.pairs.spread()

    def _initial_direction(self, side: int) -> DirectionArrays:
        states, emitted = self.types[side], self.types[1 - side]
        tokens = len(self.sides[1 - side].tokens)
        direction = uniform_direction(states, emitted, tokens, self.settings.null_probability)
        parameters = None if self.start is None else (self.start.forward, self.start.reverse)[side]
        if self.start is None or parameters is None:
            return direction
        known = self.start.source, self.start.target
        self.pairs.owned_evidence[:, 1 + side] = start_values(
            self.start.table,
            known,
            parameters.emission,
            self.bitext,
            self.pairs.rows,
            by_target=bool(side),
        )
        return direction._replace(
            totals=np.ones(states, np.float32),
            null=start_null(parameters.null, known[1 - side], self.sides[1 - side].vocabulary),
            null_total=1.0,
            transition=parameters.transition,
            initial=parameters.initial,
        )

    def add_transitions(self) -> None:
        """From the next E-step on, positions depend on the one before (:attr:`HMMSettings.reach`)."""
        transition, initial = first_weights(self.settings)
        forward, reverse = (
            direction._replace(transition=transition, initial=initial) for direction in self.directions
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
        self.expectation = expect(self.bitext, self.links, *arguments, self.exchange, is_last)
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
            forward = forward._replace(fertility=_fertility_factors(fertilities[0], self.settings))
            reverse = reverse._replace(fertility=_fertility_factors(fertilities[1], self.settings))
        self.directions = forward, reverse

    @property
    def log_likelihood(self) -> float:
        """log p(text) under the parameters that the last E-step used, summed over the directions that run."""
        return self.exchange.total(self.expectation.likelihood)

    @property
    def status(self) -> str:
        """What a progress message says after an iteration."""
        plain = self.settings.is_maximum_likelihood and self.pairs.pseudo_counts is None
        return f"{'log-likelihood' if plain else 'score'} {self.log_likelihood:.6g}"

    def has_converged(self, history: list[float]) -> bool:
        """Whether the last E-step changed the links by less than the tolerance, with transitions."""
        tokens = int(self.exchange.summed(np.array([sum(len(side.tokens) for side in self.sides)]))[0])
        return self._has_transitions and self.expectation.change < self.settings.tolerance * tokens

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
            exclude=self.excluded,
        )
        if self._has_transitions:
            counts = self._transition_counts(side)
            transition, initial = _transition_weights(direction, counts, settings)
            direction = direction._replace(transition=transition, initial=initial)
        return direction

    def _null_counts(self, side: int) -> tuple[np.ndarray, float]:
        """float64 (V,): NULL's counts and pseudo-counts of the words that a direction emits, and their sum."""
        direction, tokens = self.directions[side], self.sides[1 - side].tokens
        null = self.exchange.in_turn(
            np.zeros(len(direction.null)),
            lambda sums: hmm_m_step.column_sums(0, len(sums), tokens, direction.null_links, sums),
        )
        null += self.settings.null_prior
        return null, float(null.sum())

    def _transition_counts(self, side: int) -> TransitionCounts:
        """What the last E-step counted of a direction's jumps and first positions."""
        return self.expectation.transitions[side]

    def _count_fertilities(self) -> tuple[np.ndarray, ...]:
        """See :func:`alignkit.classical.hmm.fertilities.expected_fertilities`."""
        return expected_fertilities(self.bitext, self.links, self.threads, self.exchange)

    @cached_property
    def found(self) -> FoundPairs:
        """Counts and emissions of the word pairs; the estimation cannot go on after that."""
        offsets, columns, (counts, *emissions) = self.pairs.result()
        for side, emission in enumerate(emissions):  # pseudo-counts until now
            totals = np.maximum(self.directions[side].totals, TINY)
            for low, high in blocks_of_size(offsets, 1 << 20):
                part, sizes = slice(offsets[low], offsets[high]), np.diff(offsets[low : high + 1])
                states = columns[part] if side else np.repeat(np.arange(low, high), sizes)
                emission[part] = np.minimum((counts[part] + emission[part]) / totals[states], np.float32(1))
        return FoundPairs(offsets, columns, counts, *emissions)

    def parameters(self, side: int) -> HMMParameters:
        """What was found for the forward (0) or the reverse (1) direction; see :attr:`found`."""
        direction = self.directions[side]
        totals = np.maximum(direction.totals, TINY)
        floor = np.minimum(np.float32(self.settings.lexical_prior) / totals, np.float32(1))
        # A word that no link supports says nothing: its floor would be all there is.
        floor = np.where(direction.totals > 0, floor, np.float32(0)).astype(np.float32)
        spelling = np.float32(self.settings.spelling)
        # Half a count more for words that are not there: what is new may be anything.
        alike = spelling / (np.append(direction.totals, np.float32(0)) + spelling + np.float32(0.5))
        null = (direction.null / np.float64(max(direction.null_total, 1e-30))).astype(np.float32)
        return HMMParameters(
            self.found.reverse if side else self.found.forward,
            floor,
            alike,
            null,
            direction.fertility,
            direction.transition,
            direction.initial,
            self.settings.null_probability,
        )

    def table(self, forward: HMMParameters) -> PairTable:
        """The word pairs of the text, with the emissions of the forward direction."""
        return PairTable(self.found.offsets, self.found.columns, forward.emission, self.types[1])

    def forget(self) -> None:
        """Give back the memory of what only another E-step would need."""
        self.links = self.links._replace(places=NO_PLACES, evidence=np.empty((0, 3), np.float32))
        forward, reverse = (each._replace(null_links=np.empty(0, np.float32)) for each in self.directions)
        self.directions = forward, reverse

    def expected_links(self) -> Scores:
        """(T, L) for each pair: the expected links between two iterations, a copy."""
        return Scores(unpacked_links(self.links.elements), self.links.offsets, self.bitext.shapes)

    def last_links(self) -> Scores:
        """(T, L) for each pair: what :meth:`last_e_step` found."""
        return Scores(as_floats(self.links.elements), self.links.offsets, self.bitext.shapes)


def estimate(
    model: HMMEstimation, progress: Progress | None = None, last_shares: Shares | None = None
) -> tuple[float, ...]:
    """Runs all iterations, first those without transitions, and then an E-step more, whose links are left.

    After that the estimation cannot go on.

    Args:
        model: as it was made; one that goes on from a fitted model needs no iterations without transitions.
        progress: called with (done, total, message) after each iteration.
        last_shares: of the last E-step; as before by default.

    Returns:
        The log-likelihood that each E-step found.
    """
    settings = model.settings
    lexical = settings.lexical_iterations if model.start is None else 0
    model.initialise()
    history = run_em(model, lexical, progress, after=settings.iterations)
    if model.start is None:
        model.add_transitions()
    history += run_em(model, settings.iterations, progress, before=lexical)
    model.last_e_step(last_shares)
    return (*history, model.log_likelihood)


def first_weights(settings: HMMSettings) -> tuple[np.ndarray, np.ndarray]:
    """float32 (2 WIDTH + 1,), (WIDTH + 1,): weights of jumps and of first positions before any is counted."""
    jumps, reach = np.arange(-WIDTH, WIDTH + 1), settings.reach if settings.reach > 0 else np.inf
    transition, initial = (
        np.maximum(np.exp(-np.abs(distance) / reach), LEAST).astype(np.float32)
        for distance in (jumps - settings.centre, jumps[WIDTH:])
    )
    return transition, initial


def _transition_weights(
    direction: DirectionArrays, counts: TransitionCounts, settings: HMMSettings
) -> tuple[np.ndarray, np.ndarray]:
    """New transition and initial weights from their expected counts and pseudo-counts.

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

    transition, initial = first_weights(settings)
    return (
        weights(counts.jumps, counts.jump_shares, direction.transition, transition),
        weights(counts.initial, counts.initial_shares, direction.initial, initial),
    )


def _fertility_factors(counts: np.ndarray, settings: HMMSettings) -> np.ndarray:
    """float32 (V, F - 1): factors for one more link, from the expected counts of fertilities float64 (V, F)."""
    general = counts.sum(axis=0) + 0.5
    prior = settings.fertility_prior * (general / general.sum())
    factors = np.empty((len(counts), counts.shape[1] - 1), np.float32)
    for low in range(0, len(counts), 1 << 14):
        chances = counts[low : low + (1 << 14)] + prior
        factors[low : low + (1 << 14)] = (chances[:, 1:] / chances[:, :-1]) ** settings.fertility
    return factors
