"""Both directions of IBM Model 1 from one layout of the text, in little more time than one of them takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alignkit.classical.ibm1 import IBM1, ITERATIONS, Mixture, check_options
from alignkit.classical.inverted_index import Bags, Layout, bags_of
from alignkit.classical.out_of_core import normalised_null
from alignkit.classical.translation_table import PairTable
from alignkit.kernels import bothways as kernels
from alignkit.kernels import translation_table
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.text.bitext import Bitext

Progress = Callable[[int, int, str], None]


def fit_both_ways(
    bitext: Bitext,
    iterations: int = ITERATIONS,
    null: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
    *,
    null_probability: float | None = None,
    alpha: float | None = None,
    prune: float = 0.0,
) -> tuple[IBM1, IBM1]:
    """Fits IBM Model 1 of ``bitext`` and of ``bitext.reversed``.

    Args:
        bitext: M pairs.
        progress: called with (done, total, message) after each iteration.
        iterations, null, threads, null_probability, alpha, prune: as of :func:`alignkit.fit_ibm1`.

    Returns:
        (forward, reverse): tables and NULL's rows have the bits that :func:`alignkit.fit_ibm1` gives for each
        alone; the last digits of the reverse log-likelihood may differ.

    Raises:
        AlignkitError: a number outside its range.
    """
    check_options(iterations, null, null_probability, alpha, prune=prune)
    estimation = _Estimation(bitext, null, null_probability, alpha, thread_count(threads))
    likelihoods: list[tuple[float, float]] = []
    for iteration in range(iterations):
        likelihoods.append(estimation.step(first=iteration == 0))
        if progress is not None:
            shown = "log-likelihood {:.6g}, reverse {:.6g}".format(*likelihoods[-1])
            progress(iteration + 1, iterations, shown)
    sides = (bitext.source.vocabulary, bitext.target.vocabulary)
    tables = (estimation.forward_table(), estimation.reverse_table())
    forward, reverse = (
        IBM1(
            *(sides[::-1] if side else sides),
            table.pruned(prune),
            mixture.null if null else None,
            tuple(pair[side] for pair in likelihoods),
            threads,
            null_probability,
        )
        for side, (table, mixture) in enumerate(zip(tables, estimation.mixtures, strict=True))
    )
    return forward, reverse


class _Estimation:
    """The parameters of both directions while EM runs; see :mod:`alignkit.kernels.bothways`."""

    def __init__(
        self, bitext: Bitext, null: bool, null_probability: float | None, alpha: float | None, threads: int
    ) -> None:
        source, target = bags_of(bitext, threads)
        self.alpha, self.threads = alpha, threads
        self.lengths = bitext.source.lengths
        self.explained = np.where(bitext.target.lengths > 0, self.lengths, 0)
        self.mixtures = (
            Mixture(bitext, target, null, null_probability),
            Mixture(bitext.reversed, source, null, null_probability),
        )
        types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.layout = Layout(source, target, types, threads)
        self.entries, self.w = self._uniform(target)
        self.target = (self.entries.view(np.int32), self.entries, target.offsets)
        self.weights = (self.entries.reshape(-1), self.w)
        offsets, columns, forward, reverse = self.layout.collect_rows(self._collect, 2)
        self.rows = offsets, columns, forward, reverse
        self.column_ranges = blocks(np.bincount(columns, minlength=types[1]), threads)

    def _uniform(self, target: Bags) -> tuple[np.ndarray, np.ndarray]:
        """(entries, w) where Trans is alike for every pair."""
        forward, reverse = self.mixtures
        entries = np.empty((len(target.words), 3), np.float32)
        bags = (target.words, target.counts, target.offsets)
        arguments = (bags, forward.first, entries.view(np.int32), entries)
        self.layout.over_sentences(lambda low, high: kernels.start_entries(low, high, *arguments))
        w = np.empty(len(self.layout.index[1]), np.float32)
        index, first = self.layout.index, reverse.first
        self.layout.over_rows(lambda low, high: kernels.start_weights(low, high, index, first, w))
        return entries, w

    def _collect(self, low: int, high: int, sums: np.ndarray, rows: tuple[np.ndarray, ...]) -> tuple[int, int]:
        arguments = (self.layout.index, self.target, self.weights, sums, rows)
        found: tuple[int, int] = kernels.collect_rows(low, high, *arguments)
        return found

    def step(self, first: bool) -> tuple[float, float]:
        """One EM iteration; the log-likelihoods of both directions under the parameters it started from."""
        forward, reverse = self.mixtures
        likelihoods = forward.uniform_likelihood, reverse.uniform_likelihood
        if not first:
            likelihoods = self._weigh()
            self._add_weights()
        self._normalise()
        if forward.has_null:
            self._normalise_null()
        return likelihoods

    def _weigh(self) -> tuple[float, float]:
        layout, target, rows = self.layout, self.target, self.rows
        forward, reverse = self.mixtures
        count = len(self.lengths)
        found, products, logs = np.zeros(count), np.ones(count), np.zeros(count)
        null = reverse.null, reverse.shares

        def add(low: int, high: int) -> None:
            dense = np.zeros((layout.types[1], 2), np.float32)
            kernels.start_denominators(low, high, target, forward.null, forward.shares)
            arguments = (layout.index, rows, target, null, *self.weights, (products, logs), dense)
            kernels.add_denominators(low, high, *arguments)
            kernels.weigh(low, high, target, forward.places, found)

        layout.over_sentences(add)
        taught = self.explained > 0
        sums = logs[taught] + np.log(products[taught])
        sums -= self.explained[taught] * np.log(reverse.places[taught])
        return float(found.sum()), float(sums.sum())

    def _add_weights(self) -> None:
        layout = self.layout

        def add(low: int, high: int) -> None:
            sums = np.zeros((layout.types[1], 2), np.float64)
            kernels.add_weights(low, high, layout.index, self.rows, self.target, self.weights, sums)

        layout.over_rows(add)

    def _normalise(self) -> None:
        offsets, columns, forward, reverse = self.rows
        alpha = self.alpha
        totals = np.zeros(self.layout.types[1], np.float64)

        def add(low: int, high: int) -> None:
            kernels.column_totals(low, high, columns, reverse, alpha or 0.0, totals)

        run_blocks(add, self.column_ranges, self.threads)

        def divide(low: int, high: int) -> None:
            first, last = offsets[low], offsets[high]
            if alpha is None:
                translation_table.normalise_table(low, high, offsets, forward)
                kernels.divide_columns(first, last, columns, totals, reverse)
            else:
                translation_table.bayes_table(low, high, offsets, forward, float(alpha))
                kernels.bayes_columns(first, last, columns, totals, float(alpha), reverse)

        self.layout.over_rows(divide)

    def _normalise_null(self) -> None:
        forward, reverse = self.mixtures
        layout = self.layout
        sums = np.zeros(layout.types[1], np.float64)
        kernels.null_counts(self.target, forward.shares, sums)
        forward.null = normalised_null(forward.null, sums, self.alpha)
        reverse_sums = np.zeros(layout.types[0], np.float64)

        def add(low: int, high: int) -> None:
            kernels.reverse_null_counts(low, high, layout.index, reverse.shares, self.w, reverse_sums)

        layout.over_rows(add)
        reverse.null = normalised_null(reverse.null, reverse_sums, self.alpha)

    def forward_table(self) -> PairTable:
        """p(o|i)."""
        offsets, columns, forward, _ = self.rows
        return PairTable(offsets, columns, forward, self.layout.types[1])

    def reverse_table(self) -> PairTable:
        """p(i|o), its rows those of target words."""
        offsets, columns, _, reverse = self.rows
        sideways = PairTable(offsets, columns, reverse, self.layout.types[1])
        return turned(sideways)


def turned(table: PairTable) -> PairTable:
    """The same numbers with rows for columns."""
    offsets = np.zeros(table.width + 1, np.int64)
    np.cumsum(np.bincount(table.columns, minlength=table.width), out=offsets[1:])
    out = np.empty(len(table.columns), np.int32), np.empty(len(table.columns), np.float32)
    kernels.transpose((table.offsets, table.columns, table.values), offsets[:-1].copy(), out)
    return PairTable(offsets, *out, table.shape[0])
