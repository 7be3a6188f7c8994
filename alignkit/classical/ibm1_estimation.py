"""EM for IBM Model 1, with the text in memory or in blocks of sentences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alignkit.classical.em import has_settled
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.memory import block_ranges
from alignkit.classical.null import NullWord, m_step_null
from alignkit.classical.priors import LexiconPrior, start_null, start_values
from alignkit.classical.settings import IBM1Settings
from alignkit.classical.translation_table import normalise_rows
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.kernels import out_of_core, translation_table
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.out_of_core import RowColumns
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import release_bitext

_SLICE = 1 << 20  # values converted at a time


class Block:
    """The sentences low <= m < high of a text, indexed."""

    def __init__(self, bitext: Bitext, low: int, high: int, null: NullWord, threads: int) -> None:
        part = bitext if (low, high) == (0, len(bitext)) else bitext.block(low, high)
        self.low, self.high, self.lengths = low, high, part.source.lengths
        self.indexed = IndexedBitext.of(part, threads)
        self.null_weights = null.weights(self.lengths)
        self.normalisers = null.normalisers(self.lengths)

    def uniform_weights(self) -> np.ndarray:
        """float32 (E_tgt,), :func:`translation_table.posterior_weights` where Trans is the same for all pairs."""
        counts, offsets = self.indexed.target.counts, self.indexed.target.offsets
        shares = (1 / np.maximum(self.lengths + self.null_weights, 1)).astype(np.float32)
        weights = np.repeat(shares, np.diff(offsets))
        weights *= counts
        return weights


class IBM1Estimation:
    """IBM Model 1 while it is estimated (an :class:`alignkit.classical.em.EMModel`).

    A text in memory is one block, which stays indexed. A larger one is many blocks, each of which is indexed anew
    in every E-step; the result has the same bits.

    Args:
        bitext: M pairs.
        settings: of the model.
        threads: how many to use; no result depends on it.
        block_tokens: the size of a block; None: one block.
        prior: pseudo-counts of word pairs; only with one block.
        start: a model whose parameters come first; only with one block. None: uniform ones.

    Attributes:
        rows: the table; after an E-step the values are expected counts, otherwise Trans.
        null: float32 (V_tgt,), NULL's row.
        log_likelihood: under the parameters that the last E-step used.
    """

    rows: TableRows

    def __init__(
        self,
        bitext: Bitext,
        settings: IBM1Settings,
        threads: int,
        *,
        block_tokens: int | None = None,
        prior: LexiconPrior | None = None,
        start: LexicalModel | None = None,
    ) -> None:
        self.bitext, self.settings, self.threads = bitext, settings, threads
        self.prior, self.start = prior, start
        ends = bitext.source.offsets + bitext.target.offsets
        self._ranges = None if block_tokens is None else block_ranges(ends, block_tokens)
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.log_likelihood = 0.0

    def initialise(self) -> None:
        """Uniform parameters, or those of ``start``."""
        self._null_word = NullWord(self.settings.null, self.settings.null_probability)
        self._log_probabilities = np.zeros(len(self.bitext))
        self._pseudo_counts: np.ndarray | None = None
        self._is_uniform = self.start is None
        self._whole = self._block(0, len(self.bitext)) if self._ranges is None else None
        self.null = np.zeros(self.types[1], np.float32)
        pairs = RowColumns(np.zeros(self.types[0] + 1, np.int64), np.empty(0, np.int32))
        for block in self._blocks():
            if self.settings.null:
                self.null[block.indexed.target.words] = 1
            if self._whole is None:
                pairs = block.indexed.merged_pairs(pairs)
        if self._whole is None:
            self.rows = TableRows(*pairs, np.ones(len(pairs.columns), np.float32))
        elif self.start is not None:
            self._start_from(self.start, self._whole)

    def _start_from(self, model: LexicalModel, text: Block) -> None:
        self.rows = text.indexed.pairs()
        words = model.source, model.target
        self.rows.values[:] = start_values(model.table, words, model.table.values, self.bitext, self.rows)
        if model.null is not None:
            self.null = start_null(model.null, model.target, self.bitext.target.vocabulary)

    def _blocks(self) -> Iterator[Block]:
        if self._whole is not None:
            yield self._whole
            return
        for low, high in self._ranges or ():
            yield self._block(low, high)
            release_bitext(self.bitext)

    def _block(self, low: int, high: int) -> Block:
        return Block(self.bitext, low, high, self._null_word, self.threads)

    def e_step(self) -> None:
        """Turn the table into expected counts, and note the log-likelihood."""
        self._null_sums = np.zeros(self.types[1])
        counts = None if self._whole is not None else np.zeros(len(self.rows.columns))
        for block in self._blocks():
            weights = block.uniform_weights() if self._is_uniform else self._posterior_weights(block)
            if counts is not None:
                self._add_counts(block.indexed, weights, counts)
            elif self._is_uniform:  # finds the pairs and counts them in one sweep
                self.rows = block.indexed.weighted_pairs(weights)
            else:
                self._count(block.indexed, weights)
            if self.settings.null:
                translation_table.expected_null_counts(
                    block.indexed.target, block.null_weights, weights, self._null_sums
                )
        if counts is not None:
            values = self.rows.values
            for low in range(0, len(values), _SLICE):
                values[low : low + _SLICE] = values[low : low + _SLICE] * counts[low : low + _SLICE]
        self.log_likelihood = float(self._log_probabilities.sum())
        if self._is_uniform:
            tokens = float(self.bitext.target.lengths[self.bitext.source.lengths > 0].sum())
            self.log_likelihood = -tokens * float(np.log(max(self.types[1], 1)))

    def _posterior_weights(self, block: Block) -> np.ndarray:
        """float32 (E_tgt,): see :func:`translation_table.posterior_weights`; notes the log-probabilities."""
        indexed, target = block.indexed, block.indexed.target
        z = np.empty(len(target.words), np.float32)
        log_probabilities = self._log_probabilities[block.low : block.high]

        def add(low: int, high: int) -> None:
            dense = np.zeros(self.types[1], np.float32)
            translation_table.start_denominators(low, high, target, self.null, block.null_weights, z)
            translation_table.add_denominators(low, high, indexed.index, self.rows, target, z, dense)
            translation_table.posterior_weights(low, high, target, block.normalisers, z, log_probabilities)

        indexed.over_sentences(add)
        return z

    def _count(self, indexed: IndexedBitext, weights: np.ndarray) -> None:
        """Expected counts of the whole text, in place."""

        def count(low: int, high: int) -> None:
            sums = np.zeros(self.types[1])
            translation_table.expected_counts(low, high, indexed.index, self.rows, indexed.target, weights, sums)

        indexed.over_rows(count)

    def _add_counts(self, indexed: IndexedBitext, weights: np.ndarray, counts: np.ndarray) -> None:
        """Adds to float64 (K,) what the table's values are to be multiplied by to be expected counts."""
        rows = self.rows._replace(values=counts)

        def add(low: int, high: int) -> None:
            sums = np.zeros(self.types[1])
            out_of_core.add_expected_counts(low, high, indexed.index, rows, indexed.target, weights, sums)

        indexed.over_rows(add)

    def m_step(self) -> None:
        """Turn expected counts, and pseudo-counts, into Trans."""
        if self.prior is not None:
            if self._pseudo_counts is None:
                self._pseudo_counts = self.prior.pseudo_counts(self.bitext, self.rows)[0]
            self.rows.values[:] += self._pseudo_counts
        normalise_rows(self.rows.offsets, self.rows.values, self.settings.alpha, self.threads)
        if self.settings.null:
            self.null = m_step_null(self.null, self._null_sums, self.settings.alpha)
        self._is_uniform = False

    @property
    def status(self) -> str:
        """The log-likelihood, for a progress message."""
        return f"log-likelihood {self.log_likelihood:.6g}"

    def has_converged(self, history: list[float]) -> bool:
        """Whether the log-likelihood rises by less than the settings' tolerance."""
        return has_settled(history, self.settings.tolerance)
