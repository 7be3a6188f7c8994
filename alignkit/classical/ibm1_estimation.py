"""EM for IBM Model 1, with the text in memory or in blocks of sentences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from alignkit.classical.checkpoints import purpose_of
from alignkit.classical.em import has_settled
from alignkit.classical.exchange import SharedTable, current_exchange
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.memory import block_ranges, in_turn
from alignkit.classical.null import NullWord, m_step_null
from alignkit.classical.priors import LexiconPrior, start_null, start_values
from alignkit.classical.settings import IBM1Settings
from alignkit.classical.translation_table import multiply_in_slices, normalise_rows
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.kernels import out_of_core, translation_table
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.out_of_core import RowColumns
from alignkit.text.bitext import Bitext


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

    def add_words(self, null: np.ndarray) -> None:
        """Set what NULL's row float32 (V_tgt,) has for the words of the block to 1."""
        null[self.indexed.target.words] = 1

    def add_null_counts(self, sums: np.ndarray) -> None:
        """Add to float64 (V_tgt,) what NULL's row is multiplied by to be its expected counts."""
        translation_table.expected_null_counts(self.indexed.target, self.null_weights, self.weights, sums)


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
        rows: the table of the text's word pairs; their values are Trans, and after an E-step expected counts.
        exchange: with the processes that have the rest of the text; only with one block.
        table: with other processes, what of the table is here; the expected counts are those of the owned rows.
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
        self.prior, self.start, self.exchange = prior, start, current_exchange()
        self.table: SharedTable | None = None
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
                self.null = self.exchange.in_turn(self.null, block.add_words)
            if self._whole is None:
                pairs = block.indexed.merged_pairs(pairs)
        if self._whole is None:
            self.rows = TableRows(*pairs, np.ones(len(pairs.columns), np.float32))
        elif self.start is not None or self.exchange.is_shared:
            self.rows = self._whole.indexed.pairs()
            self.table = self.exchange.table(self.rows, self._whole.indexed.entries_met)
        if self.start is not None:
            self._start_from(self.start)

    def _start_from(self, model: LexicalModel) -> None:
        assert self.table is not None
        owned, words = self.table.owned, (model.source, model.target)
        owned.values[:] = start_values(model.table, words, model.table.values, self.bitext, owned)
        self.table.spread(owned.values, self.rows.values)
        if model.null is not None:
            self.null = start_null(model.null, model.target, self.bitext.target.vocabulary)

    def _blocks(self) -> Iterator[Block]:
        return iter([self._whole]) if self._whole else in_turn(self.bitext, self._ranges or [], self._block)

    def _block(self, low: int, high: int) -> Block:
        return Block(self.bitext, low, high, self._null_word, self.threads)

    def e_step(self) -> None:
        """Turn the table into expected counts, and note the log-likelihood."""
        self._null_sums = np.zeros(self.types[1])
        shared = self.table if self.exchange.is_shared else None
        counts = np.zeros(len(self.rows.columns)) if self._whole is None else None
        for block in self._blocks():
            if not self._is_uniform:
                self._weigh(block)
            if shared is not None:
                counts = shared.collect(partial(self._add_counts, block))
            elif counts is not None:
                self._add_counts(block, 0, self.types[0], counts)
            elif self._is_uniform:  # finds the pairs and counts them in one sweep
                self.rows = block.indexed.weighted_pairs(block.weights)
            else:
                self._count(block)
            if self.settings.null:
                self._null_sums = self.exchange.in_turn(self._null_sums, block.add_null_counts)
        if counts is not None:
            multiply_in_slices(self._counted.values, counts)
        if self._is_uniform:
            words = self.bitext.target.lengths[self.bitext.source.lengths > 0].sum(keepdims=True)
            tokens = float(self.exchange.summed(words)[0])
            self.log_likelihood = -tokens * float(np.log(max(self.types[1], 1)))
        else:
            self.log_likelihood = self.exchange.total(self._log_probabilities)

    @property
    def _counted(self) -> TableRows:
        """The rows whose values become expected counts."""
        return self.rows if self.table is None else self.table.owned

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

    def _add_counts(self, block: Block, low: int, high: int, counts: np.ndarray) -> None:
        """Add to float64 (K,) what the table's values are multiplied by to be expected counts, low <= i < high."""
        index, target, weights = block.indexed.index, block.indexed.target, block.weights
        rows = self.rows._replace(values=counts)

        def add(low: int, high: int) -> None:
            sums = np.zeros(self.types[1])
            out_of_core.add_expected_counts(low, high, index, rows, target, weights, sums)

        block.indexed.over_rows(add, low, high)

    def m_step(self) -> None:
        """Turn expected counts, and pseudo-counts, into Trans."""
        rows = self._counted
        if self.prior is not None:
            if self._pseudo_counts is None:
                self._pseudo_counts = self.prior.pseudo_counts(self.bitext, rows)[0]
            rows.values[:] += self._pseudo_counts
        normalise_rows(rows.offsets, rows.values, self.settings.dirichlet, self.threads)
        if self.table is not None:
            self.table.spread(rows.values, self.rows.values)
        if self.settings.null:
            self.null = m_step_null(self.null, self._null_sums, self.settings.dirichlet)
        self._is_uniform = False

    @property
    def purpose(self) -> str:
        """See :class:`alignkit.classical.checkpoints.Restorable`."""
        known = [None if each is None else each.fingerprint for each in (self.prior, self.start)]
        return purpose_of(self, self.bitext, self.settings, *known)

    def state(self) -> dict[str, np.ndarray]:
        """The table and NULL's row."""
        return {"values": self._counted.values, "null": self.null}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what :meth:`state` has given."""
        if self._whole is not None and self.table is None:
            self.rows = self._whole.indexed.pairs()
        self._counted.values[:], self.null, self._is_uniform = state["values"], state["null"], False
        if self.table is not None:
            self.table.spread(self._counted.values, self.rows.values)

    @property
    def status(self) -> str:
        """The log-likelihood, for a progress message."""
        return f"log-likelihood {self.log_likelihood:.6g}"

    def has_converged(self, history: list[float]) -> bool:
        """Whether the log-likelihood rises by less than the settings' tolerance."""
        return has_settled(history, self.settings.tolerance)
