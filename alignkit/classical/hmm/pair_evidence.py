"""Counts and pseudo-counts of the word pairs of a text, while hidden Markov aligners are estimated."""

from __future__ import annotations

import numpy as np

from alignkit.classical.hmm.evidence import are_words, spelling_counts
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.word_classes import BackOff
from alignkit.classical.priors import LexiconPrior
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.kernels import hmm_m_step
from alignkit.kernels.hmm_m_step import PairPrior
from alignkit.kernels.hmm_rows import ZERO
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext


class PairEvidence:
    """Counts and pseudo-counts of all pairs of words that meet in a text.

    Args:
        bitext: M pairs.
        indexed: the same.
        settings: of the estimation.
        prior: a lexicon from another text, as pseudo-counts.

    Attributes:
        rows: the K pairs by source word, with their counts.
        evidence: float32 (K, 3), see kernels.hmm_e_step.LinkArrays.
        pseudo_counts: float32 (2, K), those of the prior, or None.
    """

    def __init__(
        self, bitext: Bitext, indexed: IndexedBitext, settings: HMMSettings, prior: LexiconPrior | None
    ) -> None:
        self.indexed, self.settings, self.threads = indexed, settings, indexed.threads
        self.rows = indexed.pairs()
        self.evidence = np.zeros((len(self.rows.columns), 3), np.float32)
        if prior is not None and settings.fold_case:
            prior = prior.lowercased
        self.pseudo_counts = None if prior is None else prior.pseudo_counts(bitext, self.rows)
        self.alike = spelling_counts(bitext, self.rows, self.threads) if settings.spelling > 0 else None
        self.back_off = BackOff(bitext, settings.affixes, settings.back_off) if settings.back_off > 0 else None
        self._prior = _pair_prior(bitext, settings)
        self._frequencies = [
            np.bincount(side.tokens, minlength=len(side.vocabulary)) for side in (bitext.source, bitext.target)
        ]

    def initialise(self, is_uniform: bool) -> None:
        """All pairs are equal but for their spelling and for punctuation; or, if not uniform, have no evidence."""
        self.evidence[:] = 0
        if is_uniform:
            prior = self._prior._replace(pseudo_count=ZERO)
            offsets = self.rows.offsets

            def start(low: int, high: int) -> None:
                ones = np.ones(offsets[high] - offsets[low])
                hmm_m_step.start_evidence(low, high, self.rows, ones, prior, self.evidence)

            self.indexed.over_rows(start)
            self._add_spelling()

    def update(self, ids: np.ndarray, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts and pseudo-counts from expected links; ids and links are of kernels.hmm_e_step.LinkArrays.

        Returns:
            float32 (V_src,) and (V_tgt,), the sums of each word's counts and pseudo-counts in both directions.
        """
        rows, evidence, offsets = self.rows, self.evidence, self.rows.offsets

        def count(low: int, high: int) -> None:
            first, last = offsets[low], offsets[high]
            sums = self._known_counts(first, last)
            hmm_m_step.count_pairs(first, last, ids, links, sums)
            hmm_m_step.start_evidence(low, high, rows, sums, self._prior, evidence)

        # Each block reads the whole text, so there are no more of them than threads.
        run_blocks(count, blocks(self._frequencies[0], self.threads), self.threads)
        totals = self._totals()
        self._add_spelling()
        if self.pseudo_counts is not None:
            evidence[:, 1:] += self.pseudo_counts.T
        self._add_back_off(totals)
        forward = totals[0] + self._row_sums(evidence[:, 1])
        reverse = totals[1] + self._column_sums(evidence[:, 2])
        return forward.astype(np.float32), reverse.astype(np.float32)

    def _known_counts(self, first: int, last: int) -> np.ndarray:
        """float64 (last - first,): what the counts of pairs first <= k < last start from."""
        return np.zeros(last - first, np.float64)

    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        """float64: the sums of the counts by source word, and by target word."""
        return self._row_sums(self.rows.values), self._column_sums(self.rows.values)

    def _add_back_off(self, totals: tuple[np.ndarray, np.ndarray]) -> None:
        if self.back_off is not None:
            self.back_off.add(self.rows, totals, self.evidence, self.threads)

    def _add_spelling(self) -> None:
        if self.alike is not None:
            places, counts = self.alike
            self.evidence[places, 1:] += np.float32(self.settings.spelling) * counts[:, None]

    def _row_sums(self, values: np.ndarray) -> np.ndarray:
        offsets, sums = self.rows.offsets, np.empty(len(self._frequencies[0]), np.float64)
        self.indexed.over_rows(lambda low, high: hmm_m_step.row_sums(low, high, offsets, values, sums))
        return sums

    def _column_sums(self, values: np.ndarray) -> np.ndarray:
        columns, sums = self.rows.columns, np.zeros(len(self._frequencies[1]), np.float64)

        def add(low: int, high: int) -> None:
            hmm_m_step.column_sums(low, high, columns, values, sums)

        run_blocks(add, blocks(self._frequencies[1], self.threads), self.threads)
        return sums


def _pair_prior(bitext: Bitext, settings: HMMSettings) -> PairPrior:
    factor = settings.punctuation
    # Without a factor all tokens count as words.
    source, target = (
        are_words(side.vocabulary) if factor < 1 else np.ones(len(side.vocabulary), bool)
        for side in (bitext.source, bitext.target)
    )
    return PairPrior(np.float32(settings.lexical_prior), np.float32(factor), source, target)
