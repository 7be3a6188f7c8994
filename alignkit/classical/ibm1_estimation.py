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
    """The sentences low <= m < high of a text, indexed.

    Attributes:
        weights: float32 (E_tgt,), what the values of pairs with each target entry are multiplied by to be
            posteriors (see :func:`alignkit.kernels.translation_table.posterior_weights`).
    """

    def __init__(self, bitext: Bitext, low: int, high: int, null: NullWord, threads: int) -> None:
        part = bitext if (low, high) == (0, len(bitext)) else bitext.block(low, high)
        self.low, self.high, self.lengths = low, high, part.source.lengths
        self.indexed = IndexedBitext.of(part, threads)
        self.null_weights = null.weights(self.lengths)
        self.normalisers = null.normalisers(self.lengths)
        # Uniform: Trans is the same for every pair, and the denominators are the numbers of source positions.
        shares = (1 / np.maximum(self.lengths + self.null_weights, 1)).astype(np.float32)
        self.weights = np.repeat(shares, np.diff(self.indexed.target.offsets))
        self.weights *= self.indexed.target.counts


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
            if not self._is_uniform:
                self._weigh(block)
            if counts is not None:
                self._add_counts(block, counts)
            elif self._is_uniform:  # finds the pairs and counts them in one sweep
                self.rows = block.indexed.weighted_pairs(block.weights)
            else:
                self._count(block)
            if self.settings.null:
                target = block.indexed.target
                translation_table.expected_null_counts(target, block.null_weights, block.weights, self._null_sums)
        if counts is not None:
            values = self.rows.values
            for low in range(0, len(values), _SLICE):
                values[low : low + _SLICE] = values[low : low + _SLICE] * counts[low : low + _SLICE]
        self.log_likelihood = float(self._log_probabilities.sum())
        if self._is_uniform:
            tokens = float(self.bitext.target.lengths[self.bitext.source.lengths > 0].sum())
            self.log_likelihood = -tokens * float(np.log(max(self.types[1], 1)))

    def _weigh(self, block: Block) -> None:
        """Compute the weights of a block, and the log-probabilities of its sentences."""
        indexed, target, z = block.indexed, block.indexed.target, block.weights
        log_probabilities = self._log_probabilities[block.low : block.high]

        def add(low: int, high: int) -> None:
            dense = np.zeros(self.types[1], np.float32)
            translation_table.start_denominators(low, high, target, self.null, block.null_weights, z)
            translation_table.add_denominators(low, high, indexed.index, self.rows, target, z, dense)
            translation_table.posterior_weights(low, high, target, block.normalisers, z, log_probabilities)

        indexed.over_sentences(add)

    def _count(self, block: Block) -> None:
        """Turn the table into the expected counts of the whole text."""
        index, target, weights = block.indexed.index, block.indexed.target, block.weights

        def count(low: int, high: int) -> None:
            sums = np.zeros(self.types[1])
            translation_table.expected_counts(low, high, index, self.rows, target, weights, sums)

        block.indexed.over_rows(count)

    def _add_counts(self, block: Block, counts: np.ndarray) -> None:
        """Add to float64 (K,) what the table's values are multiplied by to be expected counts."""
        index, target, weights = block.indexed.index, block.indexed.target, block.weights
        rows = self.rows._replace(values=counts)

        def add(low: int, high: int) -> None:
            sums = np.zeros(self.types[1])
            out_of_core.add_expected_counts(low, high, index, rows, target, weights, sums)

        block.indexed.over_rows(add)

    def m_step(self) -> None:
        """Turn expected counts, and pseudo-counts, into Trans."""
        if self.prior is not None:
            if self._pseudo_counts is None:
                self._pseudo_counts = self.prior.pseudo_counts(self.bitext, self.rows)[0]
            self.rows.values[:] += self._pseudo_counts
        normalise_rows(self.rows.offsets, self.rows.values, self.settings.dirichlet, self.threads)
        if self.settings.null:
            self.null = m_step_null(self.null, self._null_sums, self.settings.dirichlet)
        self._is_uniform = False

    @property
    def status(self) -> str:
        """The log-likelihood, for a progress message."""
        return f"log-likelihood {self.log_likelihood:.6g}"

    def has_converged(self, history: list[float]) -> bool:
        """Whether the log-likelihood rises by less than the settings' tolerance."""
        return has_settled(history, self.settings.tolerance)
