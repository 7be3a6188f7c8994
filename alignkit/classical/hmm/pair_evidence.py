"""Counts and pseudo-counts of the word pairs of a text, while hidden Markov aligners are estimated."""

from __future__ import annotations

import numpy as np

from alignkit.classical.exchange import ALONE, Exchange
from alignkit.classical.hmm.evidence import are_words, spelling_counts
from alignkit.classical.hmm.expectation import element_blocks, release_matrices, text_arrays
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.transliteration import MOST_PAIRS, Transliteration
from alignkit.classical.hmm.word_classes import BackOff
from alignkit.classical.priors import LexiconPrior
from alignkit.classical.word_pairs import IndexedBitext, SourceRanges
from alignkit.kernels import hmm_m_step, hmm_pairs
from alignkit.kernels.hmm_e_step import LinkArrays
from alignkit.kernels.hmm_m_step import PairPrior
from alignkit.kernels.hmm_rows import ZERO
from alignkit.kernels.packed_links import sum_shift, sum_unit
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext

NO_COUNTS = np.empty(0, np.float32)


class PairEvidence:
    """Counts and pseudo-counts of all pairs of words that meet in a text.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
        exchange: with the processes that have the rest of the text.

    Attributes:
        table: what of all pairs is here.
        rows: the owned pairs by source word; their values are the counts among the evidence.
        evidence: float32, of those that meet in the text here; see kernels.hmm_e_step.LinkArrays.
        pseudo_counts: float32 (2, K), those of the prior for the owned pairs, or None.
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        threads: int,
        prior: LexiconPrior | None,
        exchange: Exchange = ALONE,
    ) -> None:
        self.settings, self.threads, self.exchange = settings, threads, exchange
        indexed = IndexedBitext.of(bitext, threads, keep_bags=False)
        self.table = exchange.table(indexed.pairs(), indexed.entries_met)
        self.ranges = SourceRanges(indexed.entries_met, threads)
        del indexed  # which is as large as the text
        self._text = text_arrays(bitext)
        self._owned = self.evidence = np.zeros((len(self.table.owned.columns), 3), np.float32)
        self.rows = self.table.owned._replace(values=self._owned[:, 0])
        if exchange.is_shared:
            self.evidence = np.zeros((len(self.table.local.columns), 3), np.float32)
        if prior is not None and settings.fold_case:
            prior = prior.lowercased
        self.pseudo_counts = None if prior is None else prior.pseudo_counts(bitext, self.rows)
        self.alike = spelling_counts(bitext, self.rows, self.threads) if settings.spelling > 0 else None
        self.back_off = (
            BackOff(bitext, settings.affixes, settings.back_off, exchange) if settings.back_off > 0 else None
        )
        self._prior = _pair_prior(bitext, settings)
        self._frequencies = [
            exchange.summed(np.bincount(side.tokens, minlength=len(side.vocabulary)))
            for side in (bitext.source, bitext.target)
        ]
        # No word pair has more links than there are tokens: the posteriors of a token sum to at most 1.
        self._shift = sum_shift(int(sum(each.sum() for each in self._frequencies)))
        self.transliteration = self._transliteration(bitext)

    def _transliteration(self, bitext: Bitext) -> Transliteration | None:
        pairs = self.exchange.summed(np.array([len(self.rows.columns)]))
        if self.alike is None or pairs[0] > MOST_PAIRS:
            return None
        return Transliteration(bitext, self.rows, self.alike, self._frequencies, self.exchange, self.threads)

    def initialise(self, is_uniform: bool) -> None:
        """All owned pairs are equal but for spelling and punctuation; or, if not uniform, have no evidence."""
        self._owned[:] = 0
        if is_uniform:
            prior = self._prior._replace(pseudo_count=ZERO)
            offsets, room = self.rows.offsets, room_for_sums(self._owned)

            def start(low: int, high: int) -> None:
                ones = room[offsets[low] : offsets[high]]
                ones[:] = 1
                hmm_m_step.start_evidence(low, high, self.rows, ones, 1.0, NO_COUNTS, prior, self._owned)

            self.ranges.over_rows(start)
            self._add_spelling()

    def spread(self) -> None:
        """Give the pairs that meet here the evidence of the owned ones."""
        self.table.spread(self._owned, self.evidence)

    def update(self, links: LinkArrays) -> tuple[np.ndarray, np.ndarray]:
        """Counts and pseudo-counts from expected links.

        Returns:
            float32 (V_src,) and (V_tgt,), the sums of each word's counts and pseudo-counts in both directions.
        """
        rows, evidence = self.rows, self._owned
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
        self.spread()
        return forward.astype(np.float32), reverse.astype(np.float32)

    def _count(self, links: LinkArrays) -> None:
        """Counts of the owned pairs, and the pseudo-counts that all pairs have."""
        offsets, local = self.rows.offsets, self.table.local.offsets
        # Each block reads the whole text, so there are no more of them than threads.
        ranges = blocks(self._frequencies[0], self.threads)

        def count(low: int, high: int) -> None:
            sums = room_for_sums(self._owned)[offsets[low] : offsets[high]]
            sums[:] = 0
            self._add_links(links, (offsets[low], offsets[high]), sums)
            start(low, high, sums)

        def start(low: int, high: int, sums: np.ndarray) -> None:
            unit, known = sum_unit(self._shift), self._known_counts
            hmm_m_step.start_evidence(low, high, self.rows, sums, unit, known, self._prior, self._owned)

        def add(sums: np.ndarray) -> None:
            def add_part(low: int, high: int) -> None:
                span = local[low], local[high]
                self._add_links(links, span, sums[slice(*span)])

            run_blocks(add_part, ranges, self.threads)

        if self.exchange.is_shared:
            counts = self.table.sum_whole(add)
            run_blocks(lambda low, high: start(low, high, counts[offsets[low] :]), ranges, self.threads)
        else:
            run_blocks(count, ranges, self.threads)

    def _add_links(self, links: LinkArrays, pairs: tuple[int, int], sums: np.ndarray) -> None:
        """Adds the expected links of some word pairs to their sums int64, in units of ``sum_unit(_shift)``."""
        for low, high in element_blocks(links):
            hmm_pairs.count_pairs(low, high, pairs, self._text, links, self._shift, sums)
            release_matrices(links)

    @property
    def _known_counts(self) -> np.ndarray:
        """float32 (K,), what the counts start from; empty: from 0."""
        return NO_COUNTS

    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        """float64: the sums of the counts by source word, and by target word."""
        return self._row_sums(self.rows.values), self._column_sums(self.rows.values)

    @property
    def owned_evidence(self) -> np.ndarray:
        """float32 (K, 3), the evidence of the owned pairs."""
        return self._owned

    def restore(self, evidence: np.ndarray) -> None:
        """Set the evidence of the owned pairs, and so the counts."""
        self._owned[:] = evidence
        self.spread()

    def result(self) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Offsets, columns, and counts and pseudo-counts float32 (K,) of both directions.

        Of all pairs, or of those in the text here (:class:`.SharedTable`). They are no longer here afterwards.
        """
        offsets, columns, evidence = self.table.whole(self._owned, self.evidence)
        self._owned = self.evidence = evidence[:0].copy()
        self.rows = self.rows._replace(values=self._owned[:, 0])
        return offsets, columns, _parted(evidence)

    def _add_spelling(self) -> None:
        if self.alike is not None:
            places, counts = self.alike
            self._owned[places, 1:] += np.float32(self.settings.spelling) * counts[:, None]

    def _row_sums(self, values: np.ndarray) -> np.ndarray:
        offsets, sums = self.rows.offsets, np.empty(len(self._frequencies[0]), np.float64)
        self.ranges.over_rows(lambda low, high: hmm_m_step.row_sums(low, high, offsets, values, sums))
        return self.exchange.combined(sums)

    def _column_sums(self, values: np.ndarray) -> np.ndarray:
        columns = self.rows.columns

        def add_all(sums: np.ndarray) -> None:
            def add(low: int, high: int) -> None:
                hmm_m_step.column_sums(low, high, columns, values, sums)

            run_blocks(add, blocks(self._frequencies[1], self.threads), self.threads)

        return self.exchange.in_turn(np.zeros(len(self._frequencies[1])), add_all)


def _parted(evidence: np.ndarray, size: int = 1 << 20) -> tuple[np.ndarray, ...]:
    """The columns of an array (K, 3), each by itself, in the memory of two: the array is cut off from its end."""
    parts = tuple(np.empty(len(evidence), evidence.dtype) for _ in range(evidence.shape[1]))
    for low in reversed(range(0, len(evidence), size)):
        for part, column in zip(parts, evidence[low:].T, strict=True):
            part[low : low + size] = column
        del column
        evidence.resize((low, len(parts)), refcheck=False)
    return parts


def room_for_sums(evidence: np.ndarray) -> np.ndarray:
    """int64 (K,), in the place of the two pseudo-counts of each word pair, which are made anew from its sum."""
    found: np.ndarray = evidence.view([("count", np.float32), ("sum", np.int64)])["sum"]
    return found[:, 0]


def _pair_prior(bitext: Bitext, settings: HMMSettings) -> PairPrior:
    factor = settings.punctuation
    # Without a factor all tokens count as words.
    source, target = (
        are_words(side.vocabulary) if factor < 1 else np.ones(len(side.vocabulary), bool)
        for side in (bitext.source, bitext.target)
    )
    return PairPrior(np.float32(settings.lexical_prior), np.float32(factor), source, target)
