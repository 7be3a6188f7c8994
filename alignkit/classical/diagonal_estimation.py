"""EM for the diagonal-favouring model."""

from __future__ import annotations

import numpy as np

from alignkit.classical.checkpoints import purpose_of
from alignkit.classical.em import has_settled
from alignkit.classical.exchange import current_exchange
from alignkit.classical.inverted_index import token_index
from alignkit.classical.null import m_step_null
from alignkit.classical.positions import PositionDistribution
from alignkit.classical.settings import DiagonalSettings
from alignkit.classical.translation_table import normalise_rows
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.kernels import diagonal as kernels
from alignkit.kernels import hmm_m_step
from alignkit.kernels.diagonal import Denominators, NullRow, TargetTokens
from alignkit.parallel import blocks, clipped, run_blocks
from alignkit.text.bitext import Bitext


class DiagonalEstimation:
    """The diagonal-favouring model while it is estimated (an :class:`alignkit.classical.em.EMModel`).

    Args:
        bitext: M pairs.
        settings: of the model.
        threads: how many to use; no result depends on it.

    Attributes:
        exchange: with the processes that have the rest of the text.
        rows: the table of the text's word pairs; their values are Trans, and after an E-step expected counts.
        table: what of the table is here; with other processes, the expected counts are those of the owned rows.
        null: float32 (V_tgt,), NULL's row.
        null_probability: p0; 0 without NULL.
        positions: the distribution of source positions, with the tension.
        log_likelihood: under the parameters that the last E-step used.
    """

    def __init__(self, bitext: Bitext, settings: DiagonalSettings, threads: int) -> None:
        self.bitext, self.settings, self.threads = bitext, settings, threads
        self.exchange = current_exchange()
        self.null_probability = settings.null_probability if settings.null else 0.0
        self.log_likelihood = 0.0

    def initialise(self) -> None:
        """Uniform translation probabilities, and the settings' tension."""
        bitext, types = self.bitext, len(self.bitext.target.vocabulary)
        indexed = IndexedBitext.of(bitext, self.threads)
        self.rows, self._row_ranges = indexed.pairs(), indexed.row_ranges
        self.rows.values.fill(1 / max(types, 1))
        self.table = self.exchange.table(self.rows, indexed.entries_met)
        self.table.owned.values.fill(1 / max(types, 1))
        del indexed
        self.null = np.full(types, 1 / max(types, 1), np.float32)
        self.positions = PositionDistribution(bitext, self.settings.tension, self.exchange)
        self._index = token_index(bitext.source)
        self._text = TargetTokens(bitext.target.tokens, bitext.target.offsets, bitext.source.lengths)
        self._sentence_ranges = blocks(bitext.source.lengths * bitext.target.lengths, self.threads)
        self._is_uniform = True

    def e_step(self) -> None:
        """Turn the table into expected counts, and note the log-likelihood and the posterior distance.

        The distance is |(t-1)/T - l/L|, from the left edge of the target position, as in fast_align. With
        |t/T - l/L|, as in the distribution of positions, the tension of most texts rises to 10 and more, and links
        get worse.
        """
        exponentials = self.positions.exponentials
        tokens = len(self._text.tokens)
        weights = Denominators(np.zeros(tokens, np.float32), np.zeros(tokens, np.float32))
        null, sums = NullRow(self.null, self.null_probability), np.zeros((len(self.bitext), 2))

        def add(low: int, high: int) -> None:
            dense = np.zeros(len(self.null), np.float32)
            kernels.add_diagonal_denominators(
                low, high, self._index, self.rows, self._text, exponentials, dense, weights
            )
            kernels.diagonal_posterior_weights(low, high, self._text, self.positions.totals, null, weights, sums)

        run_blocks(add, self._sentence_ranges, self.threads)
        self._count(weights.z)
        self._null_sums = self.exchange.in_turn(
            np.zeros(len(self.null)),
            lambda room: hmm_m_step.column_sums(0, len(room), self._text.tokens, weights.moments, room),
        )
        self.log_likelihood = self.exchange.total(sums[:, 0])
        self._distance = self.exchange.total(sums[:, 1]) / max(int(self.positions.tokens.sum()), 1)

    def _count(self, weights: np.ndarray) -> None:
        """Turn the owned rows of the table into expected counts; weights float32 (N_tgt,)."""
        arguments = self._text, self.positions.exponentials, weights

        def count(low: int, high: int) -> None:
            room = np.zeros(len(self.null))
            kernels.diagonal_expected_counts(low, high, self._index, self.rows, *arguments, room)

        def add_rows(first: int, end: int, counts: np.ndarray) -> None:
            rows = self.rows._replace(values=counts)

            def add(low: int, high: int) -> None:
                kernels.add_diagonal_counts(low, high, self._index, rows, *arguments, np.zeros(len(self.null)))

            run_blocks(add, clipped(self._row_ranges, first, end), self.threads)

        if self.exchange.is_shared:
            owned = self.table.owned.values
            owned[:] = owned * self.table.collect(add_rows)
        else:
            run_blocks(count, self._row_ranges, self.threads)

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
