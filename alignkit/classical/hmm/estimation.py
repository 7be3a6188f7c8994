"""Estimation of the hidden Markov aligners: one or both directions over one table of word pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.word_classes import Classes, affix_classes
from alignkit.classical.inverted_index import token_index
from alignkit.classical.priors import LexiconPrior
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.errors import AlignkitError
from alignkit.kernels import hmm_e_step, hmm_m_step
from alignkit.kernels.inverted_index import TableRows
from alignkit.parallel import blocks, run_blocks
from alignkit.scores.scores import flat_offsets
from alignkit.text.bitext import Bitext

WIDTH = 100  # jumps beyond it share a weight
LEAST = 1e-5  # of a weight at the start, the largest being 1
# The text is cut into so many blocks, whatever the number of threads, because counts are summed block by block.
BLOCKS = 64
# Where a sum is as large as the vocabulary, into fewer.
PARTS = 4


class Direction:
    """The parameters of one direction while they are estimated; x are its states, y what it emits."""

    def __init__(self, types: tuple[int, int], emitted: int, settings: HMMSettings) -> None:
        self.types = types
        # The start is uniform: counts of 1, and as many to divide them by as there are words.
        self.totals = np.full(types[0], max(types[1], 1), np.float32)
        self.null = np.ones(types[1], np.float32)
        self.nulls = np.zeros(emitted, np.float32)
        self.ratios = np.ones((types[0], 1), np.float32)
        self.jumps = np.empty(0, np.float32)
        self.start = np.empty(0, np.float32)
        self.numbers = np.array([settings.null_probability, float(max(types[1], 1)), 0.0])

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """As kernels take them."""
        return (self.totals, self.null, self.nulls, self.ratios, self.jumps, self.start, self.numbers)

    def start_chain(self, reach: float) -> None:
        """From now on positions depend on the last one; see :class:`HMMSettings`."""
        far = np.abs(np.arange(-WIDTH, WIDTH + 1)) / reach if reach > 0 else np.zeros(2 * WIDTH + 1)
        self.jumps = np.maximum(np.exp(-far), LEAST).astype(np.float32)
        self.start = self.jumps[WIDTH:].copy()

    def update_chain(self, counts: tuple[np.ndarray, ...], prior: float) -> None:
        """New weights of jumps and first positions from (jumps, shares, start, shares), as the kernel left them.

        The weights of a sentence are normalised over the positions it has, so the expected log-likelihood is
        sum of n_d log w_d - sum of n_j log Z_j, whose logarithm is replaced by its tangent: the maximum of that
        bound, which touches the likelihood where it stands, is w_d = n_d / (sum of n_j / Z_j where d is possible).
        """
        jumps, jump_shares, start, start_shares = counts
        if jumps.sum() > 0:
            self.jumps = _new_weights(jumps, jump_shares, prior)
        if start.sum() > 0:
            self.start = _new_weights(start, start_shares, prior)

    def update_null(self, tokens: np.ndarray, prior: float) -> None:
        """NULL's counts from its shares."""
        counts = np.zeros(self.types[1], np.float64)
        hmm_m_step.column_sums(0, len(counts), tokens, self.nulls, counts)
        counts += prior
        self.null, self.numbers[1] = counts.astype(np.float32), counts.sum()

    def update_fertility(self, counts: np.ndarray, settings: HMMSettings) -> None:
        """The factors for one more link, from the expected numbers of fertilities float64 (V_x, F)."""
        general = counts.sum(axis=0) + 0.5
        chances = counts + settings.fertility_prior * (general / general.sum())
        self.ratios = ((chances[:, 1:] / chances[:, :-1]) ** settings.fertility).astype(np.float32)


def _new_weights(number: np.ndarray, share: np.ndarray, prior: float) -> np.ndarray:
    """number / share, smoothed by ``prior`` of each, positive, and the mean where nothing was possible."""
    rate = share.sum() / number.sum()
    weights = (number + prior) / np.maximum(share + prior * rate, 1e-30)
    weights = np.where(share > 0, weights, weights[share > 0].mean())
    return np.maximum(weights / weights.sum(), 1e-12).astype(np.float32)


def pair_matrices(bitext: Bitext, threads: int) -> tuple[IndexedBitext, TableRows, np.ndarray, np.ndarray]:
    """(index, rows, offsets int64 (M + 1,), ids int32 (P,)): rows of word pairs, each element's place in them."""
    indexed = IndexedBitext.of(bitext, threads)
    rows, types = indexed.pairs(), indexed.types
    offsets = flat_offsets(bitext.shapes)
    index = token_index(bitext.source, threads)
    ids = np.empty(offsets[-1], np.int32)
    target, lengths = (bitext.target.tokens, bitext.target.offsets), bitext.source.lengths
    if len(rows.columns) >= 2**31:
        raise AlignkitError("the text has more than two thousand million word pairs; give it in parts")

    def fill(low: int, high: int) -> None:
        places = np.zeros(types[1], np.int64)
        hmm_m_step.pair_ids(low, high, index, target, lengths, offsets, rows, places, ids)

    indexed.over_rows(fill)
    return indexed, rows, offsets, ids


@dataclass(frozen=True, eq=False)
class Expectation:
    """What an E-step finds beside the links.

    Attributes:
        likelihood: float64 (M,), the log-likelihood of each pair.
        jumps: for each direction (jumps, jump shares, start, start shares), see
            kernels.forward_backward.posteriors.
        change: the sum of the absolute changes of the links.
    """

    likelihood: np.ndarray
    jumps: tuple[tuple[np.ndarray, ...], ...]
    change: float


def run_expectation(
    bitext: Bitext,
    pairs: tuple[np.ndarray, ...],
    directions: tuple[Direction, Direction],
    shares: tuple[float, float],
    threads: int,
    copies: np.ndarray | None = None,
) -> Expectation:
    """The E-step (kernels.hmm_e_step.expect_links); copies float32 (M,), how often each pair is there: once."""
    source, target = bitext.source, bitext.target
    copies = np.ones(len(bitext), np.float32) if copies is None else copies
    text = (source.tokens, source.offsets, target.tokens, target.offsets, copies)
    likelihood = np.zeros(len(bitext), np.float64)
    weights = np.asarray(shares, np.float64)
    arrays = [direction.arrays for direction in directions]

    def zeros() -> tuple[tuple[np.ndarray, ...], ...]:
        sizes = (2 * WIDTH + 1, 2 * WIDTH + 1, WIDTH + 1, WIDTH + 1)
        return tuple(tuple(np.zeros(size) for size in sizes) for _ in directions)

    def expect(low: int, high: int) -> tuple[tuple[tuple[np.ndarray, ...], ...], float]:
        counts = zeros()
        change = hmm_e_step.expect_links(low, high, text, pairs, arrays[0], arrays[1], weights, counts, likelihood)
        return counts, change

    lengths = source.lengths * target.lengths
    ranges = blocks(lengths * (source.lengths + target.lengths), BLOCKS)
    found = run_blocks(expect, ranges, threads)
    sums = zeros()
    for counts, _ in found:
        for side, part in zip(sums, counts, strict=True):
            for total, added in zip(side, part, strict=True):
                total += added
    return Expectation(likelihood, sums, sum(change for _, change in found))


class Estimation:
    """Counts, expected links and both directions' parameters while they are estimated.

    Args:
        bitext: M pairs.
        settings: how.
        shares: weight of the forward and the reverse direction's posteriors in the expected links: (1, 0) for a
            single direction. Both directions share the links, and so the counts of word pairs.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        shares: tuple[float, float],
        threads: int,
        prior: LexiconPrior | None = None,
    ) -> None:
        self.bitext, self.settings, self.shares, self.threads = bitext, settings, shares, threads
        #: int64 (V,) for each side, how often each word comes
        self.frequencies = tuple(
            np.bincount(side.tokens, minlength=len(side.vocabulary)) for side in (bitext.source, bitext.target)
        )
        self.indexed, self.rows, self.offsets, self.ids = pair_matrices(bitext, threads)
        self.links = np.zeros(len(self.ids), np.float32)
        self.copies = bitext.copies.astype(np.float32) if settings.exclude else None
        types = self.indexed.types
        tokens = (len(bitext.target.tokens), len(bitext.source.tokens))
        self.directions = (
            Direction(types, tokens[0], settings),
            Direction(types[::-1], tokens[1], settings),
        )
        self.evidence = np.zeros((len(self.rows[1]), 3), np.float32)
        self.evidence[:, 0] = self.rows[2]
        self.pseudo_counts = None if prior is None else prior.pseudo_counts(bitext, self.rows)
        self.classes = self._classes() if settings.back_off > 0 else []

    def _classes(self) -> list[tuple[Classes, Classes]]:
        vocabularies = self.bitext.source.vocabulary, self.bitext.target.vocabulary
        return [
            (affix_classes(vocabularies[0], letters, suffix), affix_classes(vocabularies[1], letters, suffix))
            for letters in self.settings.affixes
            for suffix in (False, True)
        ]

    def expect(self, shares: tuple[float, float] | None = None) -> float:
        """The E-step: new links; returns the log-likelihood of the directions that run."""
        pairs = (self.offsets, self.ids, self.evidence, self.links)
        shares = shares or self.shares
        found = run_expectation(self.bitext, pairs, self.directions, shares, self.threads, self.copies)
        self.jumps, self.change = found.jumps, found.change
        return math.fsum(found.likelihood)

    def maximise(self) -> None:
        """The M-step: counts and parameters from the links."""
        settings = self.settings
        self._count()
        for direction, chain in zip(self.directions, self.jumps, strict=True):
            if len(direction.jumps):
                direction.update_chain(chain, settings.jump_prior)
            if settings.exclude:
                direction.numbers[2] = 1.0
        sides = (self.bitext.target.tokens, self.bitext.source.tokens)

        def update(low: int, high: int) -> None:
            for side in range(low, high):
                self.directions[side].update_null(sides[side], settings.null_prior)

        run_blocks(update, [(0, 1), (1, 2)], self.threads)
        if settings.fertility > 0 and len(self.directions[0].jumps):
            self._fertilities()

    @property
    def has_settled(self) -> bool:
        """Whether the last E-step changed the links so little that another iteration is not worth its time."""
        tokens = len(self.bitext.source.tokens) + len(self.bitext.target.tokens)
        return self.change < self.settings.tolerance * tokens

    def start_chain(self) -> None:
        """Jumps count from the next E-step on."""
        for direction in self.directions:
            direction.start_chain(self.settings.reach)

    def _count(self) -> None:
        """Counts of word pairs, their pseudo-counts, and what both sum to."""
        offsets, _, values = self.rows
        prior = np.float32(self.settings.lexical_prior)

        def count(low: int, high: int) -> None:
            first, last = offsets[low], offsets[high]
            sums = np.zeros(last - first, np.float64)
            hmm_m_step.count_pairs(first, last, self.ids, self.links, sums)
            hmm_m_step.start_evidence(low, high, offsets, sums, prior, values, self.evidence)

        # Each block reads the whole text, so there are no more of them than threads.
        run_blocks(count, blocks(self.frequencies[0], self.threads), self.threads)
        self.totals = self._row_sums(values), self._column_sums(values)
        if self.pseudo_counts is not None:
            self.evidence[:, 1:] += self.pseudo_counts.T
        for source, target_classes in self.classes:
            self._back_off(source, target_classes)
        forward, reverse = self.directions
        forward.totals = (self.totals[0] + self._row_sums(self.evidence[:, 1])).astype(np.float32)
        reverse.totals = (self.totals[1] + self._column_sums(self.evidence[:, 2])).astype(np.float32)

    def _row_sums(self, values: np.ndarray) -> np.ndarray:
        offsets = self.rows[0]
        sums = np.empty(len(offsets) - 1, np.float64)
        self.indexed.over_rows(lambda low, high: hmm_m_step.row_sums(low, high, offsets, values, sums))
        return sums

    def _column_sums(self, values: np.ndarray) -> np.ndarray:
        columns = self.rows[1]
        sums = np.zeros(self.indexed.types[1], np.float64)

        def add(low: int, high: int) -> None:
            hmm_m_step.column_sums(low, high, columns, values, sums)

        run_blocks(add, blocks(self.frequencies[1], self.threads), self.threads)
        return sums

    def _back_off(self, source: Classes, target: Classes) -> None:
        """Adds, for one way to class words, each row's share of ``back_off`` to the pseudo-counts."""
        weight = self.settings.back_off / len(self.classes)
        factors = []
        for side, (classes, totals) in enumerate(zip((source, target), self.totals, strict=True)):
            frequency = self.frequencies[side].astype(np.float64)
            of_class = np.bincount(classes.of, frequency, minlength=len(classes))
            share = frequency / np.maximum(of_class, 1)[classes.of]
            rest = np.bincount(classes.of, totals, minlength=len(classes))[classes.of] - totals
            # One more in the divisor: classes that have hardly been seen say little.
            factors.append((weight / (np.maximum(rest, 0) + 1), share))
        (source_rest, source_share), (target_rest, target_share) = factors
        arrays = (
            np.stack([source_rest, source_share], axis=1).astype(np.float32),
            np.stack([target_share, target_rest], axis=1).astype(np.float32),
        )
        work = np.add.reduceat(np.diff(self.rows[0])[source.members], source.first[:-1])

        def add(low: int, high: int) -> None:
            room = np.zeros(len(target), np.float64), np.empty(work[low:high].max(), np.int32)
            hmm_m_step.add_back_off(
                low,
                high,
                (source.first, target.of),
                source.members,
                self.rows,
                room,
                arrays,
                self.evidence,
            )

        run_blocks(add, blocks(work, 1 if self.threads == 1 else 8 * self.threads), self.threads)

    def _fertilities(self) -> None:
        source, target = self.bitext.source, self.bitext.target
        text = (source.tokens, source.offsets, target.tokens, target.offsets)
        matrices = (self.links, self.offsets)

        def count(low: int, high: int) -> tuple[np.ndarray, ...]:
            counts = tuple(np.zeros((direction.types[0], hmm_m_step.FERTILITIES)) for direction in self.directions)
            hmm_m_step.count_fertilities(low, high, text, matrices, *counts)
            return counts

        ranges = blocks(source.lengths * target.lengths, PARTS) or [(0, 0)]
        sums: tuple[np.ndarray, ...] = ()
        # Parts are added in their order, and there are no more of them at a time than threads.
        for first in range(0, len(ranges), self.threads):
            for part in run_blocks(count, ranges[first : first + self.threads], self.threads):
                sums = tuple(map(np.add, sums, part)) if sums else part
        for direction, counts in zip(self.directions, sums, strict=True):
            direction.update_fertility(counts, self.settings)
