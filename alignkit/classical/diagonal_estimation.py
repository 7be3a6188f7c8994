"""EM for the diagonal-favouring model, with the text in memory or in blocks of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from alignkit.classical.checkpoints import purpose_of
from alignkit.classical.em import has_settled
from alignkit.classical.exchange import current_exchange
from alignkit.classical.inverted_index import token_index
from alignkit.classical.memory import block_ranges, in_turn
from alignkit.classical.null import m_step_null
from alignkit.classical.positions import PositionDistribution
from alignkit.classical.settings import DiagonalSettings
from alignkit.classical.translation_table import multiply_in_slices, normalise_rows
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.kernels import diagonal as kernels
from alignkit.kernels import hmm_m_step
from alignkit.kernels.diagonal import Denominators, NullRow, PositionTotals, TargetTokens
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.out_of_core import RowColumns
from alignkit.parallel import blocks, clipped, run_blocks
from alignkit.text.bitext import Bitext


class DiagonalBlock:
    """The sentences low <= m < high of a text, indexed.

    Attributes:
        positions: of its sentences, in the distribution of the whole text.
    """

    def __init__(self, bitext: Bitext, low: int, high: int, positions: PositionDistribution, threads: int) -> None:
        part = bitext if (low, high) == (0, len(bitext)) else bitext.block(low, high)
        self.low, self.high, self.threads = low, high, threads
        self.types = len(bitext.target.vocabulary)
        self.index = token_index(part.source, threads)
        self.text = TargetTokens(part.target.tokens, part.target.offsets, part.source.lengths)
        self.positions = PositionTotals(positions.totals.starts[low:high], positions.totals.totals)
        self.exponentials = positions.exponentials
        self._ranges = blocks(part.source.lengths * part.target.lengths, threads)

    def weigh(self, rows: TableRows, null: NullRow, sums: np.ndarray) -> Denominators:
        """What :func:`alignkit.kernels.diagonal.diagonal_posterior_weights` says; it fills sums float64 (M, 2)."""
        tokens = len(self.text.tokens)
        weights = Denominators(np.zeros(tokens, np.float32), np.zeros(tokens, np.float32))

        def add(low: int, high: int) -> None:
            dense = np.zeros(len(null.values), np.float32)
            kernels.add_diagonal_denominators(
                low, high, self.index, rows, self.text, self.exponentials, dense, weights
            )
            kernels.diagonal_posterior_weights(low, high, self.text, self.positions, null, weights, sums)

        run_blocks(add, self._ranges, self.threads)
        return weights

    def over_rows(
        self,
        kernel: Callable[..., None],
        rows: TableRows,
        weights: np.ndarray,
        ranges: list[tuple[int, int]] | None,
    ) -> None:
        """Runs a kernel that counts, such as ``diagonal_expected_counts``, over ranges of source words.

        Args:
            weights: float32 (N_tgt,), of the target tokens of the block.
            ranges: None: as the words of the block are spread.
        """

        def count(low: int, high: int) -> None:
            kernel(low, high, self.index, rows, self.text, self.exponentials, weights, np.zeros(self.types))

        found = blocks(np.diff(self.index.starts), self.threads) if ranges is None else ranges
        run_blocks(count, found, self.threads)

    def add_null_counts(self, weights: Denominators, sums: np.ndarray) -> None:
        """Add to float64 (V_tgt,) what NULL's row is multiplied by to be its expected counts."""
        hmm_m_step.column_sums(0, len(sums), self.text.tokens, weights.moments, sums)


class DiagonalEstimation:
    """The diagonal-favouring model while it is estimated (an :class:`alignkit.classical.em.EMModel`).

    A text in memory is one block, which stays indexed. A larger one is many blocks, each of which is indexed anew
    in every E-step; the result has the same bits.

    Args:
        bitext: M pairs.
        settings: of the model.
        threads: how many to use; no result depends on it.
        block_tokens: the size of a block; None: one block.

    Attributes:
        exchange: with the processes that have the rest of the text; only with one block.
        rows: the table of the text's word pairs; their values are Trans, and after an E-step expected counts.
        table: what of the table is here; with other processes, the expected counts are those of the owned rows.
        null: float32 (V_tgt,), NULL's row.
        null_probability: p0; 0 without NULL.
        positions: the distribution of source positions, with the tension.
        log_likelihood: under the parameters that the last E-step used.
    """

    def __init__(
        self, bitext: Bitext, settings: DiagonalSettings, threads: int, *, block_tokens: int | None = None
    ) -> None:
        self.bitext, self.settings, self.threads = bitext, settings, threads
        self.exchange = current_exchange()
        ends = bitext.source.offsets + bitext.target.offsets
        self._ranges = None if block_tokens is None else block_ranges(ends, block_tokens)
        self.null_probability = settings.null_probability if settings.null else 0.0
        self.log_likelihood = 0.0

    def initialise(self) -> None:
        """Uniform translation probabilities, and the settings' tension."""
        bitext, types = self.bitext, len(self.bitext.target.vocabulary)
        self.positions = PositionDistribution(bitext, self.settings.tension, self.exchange)
        self._row_ranges: list[tuple[int, int]] | None = None
        self._whole: DiagonalBlock | None = None
        if self._ranges is None:
            indexed = IndexedBitext.of(bitext, self.threads)
            self.rows, self._row_ranges, met = indexed.pairs(), indexed.row_ranges, indexed.entries_met
            del indexed
            self._whole = self._block(0, len(bitext))
        else:
            self.rows, met = self._pairs_of_blocks(), np.zeros(len(bitext.source.vocabulary), np.int64)
        self.rows.values.fill(1 / max(types, 1))
        self.table = self.exchange.table(self.rows, met)
        self.table.owned.values.fill(1 / max(types, 1))
        self.null = np.full(types, 1 / max(types, 1), np.float32)
        self._is_uniform = True

    def _pairs_of_blocks(self) -> TableRows:
        pairs = RowColumns(np.zeros(len(self.bitext.source.vocabulary) + 1, np.int64), np.empty(0, np.int32))
        for part in in_turn(self.bitext, self._ranges or [], self.bitext.block):
            pairs = IndexedBitext.of(part, self.threads).merged_pairs(pairs)
        return TableRows(*pairs, np.ones(len(pairs.columns), np.float32))

    def _blocks(self) -> Iterator[DiagonalBlock]:
        return iter([self._whole]) if self._whole else in_turn(self.bitext, self._ranges or [], self._block)

    def _block(self, low: int, high: int) -> DiagonalBlock:
        return DiagonalBlock(self.bitext, low, high, self.positions, self.threads)

    def e_step(self) -> None:
        """Turn the table into expected counts, and note the log-likelihood and the posterior distance.

        The distance is |(t-1)/T - l/L|, from the left edge of the target position, as in fast_align. With
        |t/T - l/L|, as in the distribution of positions, the tension of most texts rises to 10 and more, and links
        get worse.
        """
        null, sums = NullRow(self.null, self.null_probability), np.zeros((len(self.bitext), 2))
        self._null_sums = np.zeros(len(self.null))
        counts = None if self._whole is not None else np.zeros(len(self.rows.columns))
        for block in self._blocks():
            weights = block.weigh(self.rows, null, sums[block.low : block.high])
            if counts is not None:
                rows = self.rows._replace(values=counts)
                block.over_rows(kernels.add_diagonal_counts, rows, weights.z, None)
            elif self.exchange.is_shared:
                self._count_shared(block, weights.z)
            else:
                block.over_rows(kernels.diagonal_expected_counts, self.rows, weights.z, self._row_ranges)
            self._null_sums = self.exchange.in_turn(self._null_sums, partial(block.add_null_counts, weights))
            del block, weights  # before the next one is there
        if counts is not None:
            multiply_in_slices(self.rows.values, counts)
        self.log_likelihood = self.exchange.total(sums[:, 0])
        self._distance = self.exchange.total(sums[:, 1]) / max(int(self.positions.tokens.sum()), 1)

    def _count_shared(self, block: DiagonalBlock, weights: np.ndarray) -> None:
        """Turn the owned rows of the table into expected counts; weights float32 (N_tgt,)."""

        def add_rows(first: int, end: int, counts: np.ndarray) -> None:
            ranges = clipped(self._row_ranges or [], first, end)
            block.over_rows(kernels.add_diagonal_counts, self.rows._replace(values=counts), weights, ranges)

        owned = self.table.owned.values
        owned[:] = owned * self.table.collect(add_rows)

    def m_step(self) -> None:
        """Turn expected counts into Trans, and fit the tension."""
        owned = self.table.owned
        normalise_rows(owned.offsets, owned.values, self.settings.dirichlet, self.threads)
        self.table.spread(owned.values, self.rows.values)
        if self.settings.null:
            self.null = m_step_null(self.null, self._null_sums, self.settings.dirichlet)
        # Under uniform translation probabilities the posterior positions are distributed as the prior ones.
        if self.settings.optimize_tension and not self._is_uniform:
            self.positions.fit_tension(self._distance)
        self._is_uniform = False

    @property
    def purpose(self) -> str:
        """See :class:`alignkit.classical.checkpoints.Restorable`."""
        return purpose_of(self, self.bitext, self.settings)

    def state(self) -> dict[str, np.ndarray]:
        """The table, NULL's row and the tension."""
        return {
            "values": self.table.owned.values,
            "null": self.null,
            "tension": np.array([self.positions.tension]),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what :meth:`state` has given."""
        owned, self.null, self._is_uniform = self.table.owned.values, state["null"], False
        owned[:] = state["values"]
        self.table.spread(owned, self.rows.values)
        self.positions.set_tension(float(state["tension"][0]))

    @property
    def status(self) -> str:
        """The log-likelihood and the tension, for a progress message."""
        return f"log-likelihood {self.log_likelihood:.6g}  tension {self.positions.tension:.3f}"

    def has_converged(self, history: list[float]) -> bool:
        """Whether the log-likelihood rises by less than the settings' tolerance."""
        return has_settled(history, self.settings.tolerance)
