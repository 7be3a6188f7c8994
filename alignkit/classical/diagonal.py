"""IBM Model 2 with a distribution of positions that favours the diagonal (Dyer, Chahuneau and Smith 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.em import exact_sum, has_settled, run_em
from alignkit.classical.lexical_model import (
    LexicalModel,
    Lookup,
    PairTable,
    m_step_null,
    normalise_rows,
    read_parts,
)
from alignkit.classical.memory import check_memory
from alignkit.classical.settings import TENSION_RANGE, DiagonalSettings
from alignkit.classical.word_pairs import IndexedBitext, token_index
from alignkit.kernels import diagonal as kernels
from alignkit.kernels import hmm_m_step, translation_table
from alignkit.kernels.diagonal import Denominators, Exponentials, NullRow, PositionTotals, Shapes, TargetTokens
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.translation_table import Matrices
from alignkit.links.from_scores import links_from_positions
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.support.arrays import offsets_of
from alignkit.support.files import loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.threads import blocks, run_blocks, thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.diagonal", 1
_STEPS, _RATE = 8, 20.0  # of the gradient ascent on the tension, once per EM iteration


class PositionDistribution:
    """p(a_t = l) for every pair of a bitext: exp(-tension |t/T - l/L|), normalised over l.

    Args:
        bitext: M pairs; those with an empty side have no distribution.
        tension: how strongly the diagonal is favoured; positive.

    Attributes:
        shapes: the different (T, L) of the pairs.
        totals: the sum of the weights of all source positions, for each target position of each shape.
        distances: float64 like ``totals``, the expected |t/T - l/L|.
        tokens: int64 like ``totals``, how many target tokens of the bitext have this position and shape.
        exponentials: see :class:`alignkit.kernels.diagonal.Exponentials`.
    """

    def __init__(self, bitext: Bitext, tension: float) -> None:
        source, target = bitext.source.lengths, bitext.target.lengths
        full = (source > 0) & (target > 0)
        width = int(source.max(initial=0)) + 1
        codes, which, counts = np.unique(
            target[full] * width + source[full], return_inverse=True, return_counts=True
        )
        lengths = np.stack([codes // width, codes % width], axis=1)
        starts = offsets_of(lengths[:, 0])
        self.shapes = Shapes(lengths, starts)
        self.tokens = np.repeat(counts, lengths[:, 0])
        start_of = np.full(len(bitext), -1, np.int64)
        start_of[full] = starts[which]
        self.totals = PositionTotals(start_of, np.empty(int(starts[-1])))
        self.distances = np.empty(int(starts[-1]))
        # Exponentials of the lengths that occur: together no longer than the text.
        self._lengths = np.unique(lengths)
        starts = np.full(int(self._lengths.max(initial=0)) + 1, -1, np.int64)
        offsets = offsets_of(self._lengths)
        starts[self._lengths], size = offsets[:-1], offsets[-1]
        self.exponentials = Exponentials(starts, np.empty(size, np.float32), np.empty(size, np.float32))
        self.set_tension(tension)

    def set_tension(self, tension: float) -> None:
        """Make this the distribution of another tension."""
        self.tension = float(tension)
        kernels.fill_exponentials(self._lengths, self.tension, self.exponentials)
        kernels.normalisers(self.shapes, self.tension, self.totals.totals, self.distances)

    def fit_tension(self, distance: float) -> None:
        """Move the tension towards the one whose expected distance, averaged over the tokens, is ``distance``.

        Gradient ascent on the likelihood (Dyer et al. 2013, section 3), whose derivative with respect to the
        tension is the expected distance minus the posterior one.
        """
        tension = self.tension
        totals, distances = np.empty_like(self.distances), np.empty_like(self.distances)
        for _ in range(_STEPS):
            kernels.normalisers(self.shapes, tension, totals, distances)
            tension += _RATE * (float(self.tokens @ distances) / max(int(self.tokens.sum()), 1) - distance)
            tension = min(max(tension, TENSION_RANGE[0]), TENSION_RANGE[1])
        self.set_tension(tension)


@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(LexicalModel, Aligner):
    """A fitted diagonal-favouring model.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; 0 without NULL.
        tension: how strongly the diagonal is favoured.

    The other attributes are those of :class:`LexicalModel`.
    """

    null_probability: float
    tension: float
    name = "diagonal"
    title = "diagonal model"
    kinds = ("alpha", "beta")
    predicts = ("target",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.null_probability < 1 if self.null is not None else self.null_probability == 0):
            raise ValueError("null_probability must lie between 0 and 1, and be 0 without null")
        if not 0 < self.tension <= 100:
            raise ValueError("the tension must lie in (0, 100]")

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = Trans(y_t | x_l); alpha[t, l] = the posterior of a_t = l.

        What a row of alpha lacks to 1 is NULL's. Pairs never seen have beta 0; a target word without any evidence
        has the distribution of its source positions as alpha.
        """
        self.check_kind(kind)
        lookup = self.lookup(bitext)
        return lookup.scores() if kind == "beta" else self._posteriors(lookup)[0]

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, but no token's below log ``UNSEEN``."""
        return self._posteriors(self.lookup(bitext))[1]

    def _kernel_arguments(self, lookup: Lookup) -> tuple[TargetTokens, PositionDistribution, NullRow]:
        bitext = lookup.bitext
        text = TargetTokens(*lookup.target_tokens, bitext.source.lengths)
        null = NullRow(lookup.null_values(self.null), self.null_probability)
        return text, PositionDistribution(bitext, self.tension), null

    def _posteriors(self, lookup: Lookup) -> tuple[Scores, np.ndarray]:
        """alpha, and float64 (M,) log p(target | source)."""
        scores = lookup.scores()
        matrices, log_probabilities = Matrices(scores.values, scores.offsets), np.zeros(len(scores))
        text, positions, null = self._kernel_arguments(lookup)

        def divide(low: int, high: int) -> None:
            kernels.diagonal_posteriors(
                low, high, text, positions.exponentials, positions.totals, null, matrices, log_probabilities
            )

        run_blocks(divide, blocks(np.diff(scores.offsets), lookup.threads), lookup.threads)
        return scores, log_probabilities

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its most probable source position, unless NULL is more so or nothing is known."""
        lookup = self.lookup(bitext)
        text, positions, null = self._kernel_arguments(lookup)
        index, offsets = token_index(bitext.source), bitext.target.offsets
        keys = np.empty(len(text.tokens), np.uint64)
        best = np.empty(len(text.tokens), np.int32)

        def search(low: int, high: int) -> None:
            dense = np.zeros(lookup.width + 1, np.float32)
            kernels.start_diagonal_keys(low, high, text, positions.totals, null, keys)
            kernels.best_diagonal_sources(low, high, index, lookup.rows, text, positions.exponentials, dense, keys)
            translation_table.positions_of_keys(offsets[low], offsets[high], keys, best)

        run_blocks(search, blocks(text.lengths * bitext.target.lengths, lookup.threads), lookup.threads)
        return links_from_positions(best, bitext, lookup.threads)

    def save(self, path: PathLike) -> None:
        """Write the model; :func:`alignkit.load` reads it."""
        header = self.header() | {"tension": self.tension, "null_probability": self.null_probability}
        header |= self.about_text
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_diagonal(path: PathLike) -> Diagonal:
    """Read what :meth:`Diagonal.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    with loaded(path, KIND, VERSION) as (fields, header):
        null_probability, tension = header.number("null_probability"), header.number("tension")
        return Diagonal(**read_parts(fields, header), null_probability=null_probability, tension=tension)


class DiagonalEstimation:
    """The diagonal-favouring model while it is estimated (an :class:`alignkit.classical.em.EMModel`).

    Args:
        bitext: M pairs.
        settings: of the model.
        threads: how many to use; no result depends on it.

    Attributes:
        rows: the table of the text's word pairs; their values are Trans, and after an E-step expected counts.
        null: float32 (V_tgt,), NULL's row.
        null_probability: p0; 0 without NULL.
        positions: the distribution of source positions, with the tension.
        log_likelihood: under the parameters that the last E-step used.
    """

    def __init__(self, bitext: Bitext, settings: DiagonalSettings, threads: int) -> None:
        self.bitext, self.settings, self.threads = bitext, settings, threads
        self.null_probability = settings.null_probability if settings.null else 0.0
        self.log_likelihood = 0.0

    def initialise(self) -> None:
        """Uniform translation probabilities, and the settings' tension."""
        source, target, threads = self.bitext.source, self.bitext.target, self.threads
        self.positions = PositionDistribution(self.bitext, self.settings.tension)
        self._text = TargetTokens(target.tokens, target.offsets, source.lengths)
        indexed = IndexedBitext.of(self.bitext, threads)
        offsets, columns, _ = indexed.pairs()
        self._row_ranges = indexed.row_ranges
        del indexed  # before room is taken for the other index
        self._index = token_index(source, threads)
        self._sentence_ranges = blocks(source.lengths * target.lengths, threads)
        uniform = np.float32(1 / max(len(target.vocabulary), 1))
        self.rows = TableRows(offsets, columns, np.full(len(columns), uniform, np.float32))
        self.null = np.full(len(target.vocabulary), uniform, np.float32)
        self._is_uniform = True

    def e_step(self) -> None:
        """Turn the table into expected counts, and note the log-likelihood and the posterior distance.

        The distance is |(t-1)/T - l/L|, from the left edge of the target position, as in fast_align. With
        |t/T - l/L|, as in the distribution of positions, the tension of most texts rises to 10 and more, and links
        get worse.
        """
        index, text, positions, types = self._index, self._text, self.positions, len(self.null)
        null, sums = NullRow(self.null, self.null_probability), np.zeros((len(self.bitext), 2))
        weights = Denominators(*(np.zeros(len(text.tokens), np.float32) for _ in range(2)))

        def weigh(low: int, high: int) -> None:
            dense = np.zeros(types, np.float32)
            kernels.add_diagonal_denominators(
                low, high, index, self.rows, text, positions.exponentials, dense, weights
            )
            kernels.diagonal_posterior_weights(low, high, text, positions.totals, null, weights, sums)

        def count(low: int, high: int) -> None:
            kernels.diagonal_expected_counts(
                low, high, index, self.rows, text, positions.exponentials, weights.z, np.zeros(types)
            )

        run_blocks(weigh, self._sentence_ranges, self.threads)
        run_blocks(count, self._row_ranges, self.threads)
        self._null_sums = np.zeros(types)
        hmm_m_step.column_sums(0, types, text.tokens, weights.moments, self._null_sums)
        self.log_likelihood = exact_sum(sums[:, 0])
        self._distance = exact_sum(sums[:, 1]) / max(int(positions.tokens.sum()), 1)

    def m_step(self) -> None:
        """Turn expected counts into Trans, and fit the tension."""
        normalise_rows(self.rows.offsets, self.rows.values, self.settings.dirichlet, self.threads)
        if self.settings.null:
            self.null = m_step_null(self.null, self._null_sums, self.settings.dirichlet)
        # Under uniform translation probabilities the posterior positions are distributed as the prior ones.
        if self.settings.optimize_tension and not self._is_uniform:
            self.positions.fit_tension(self._distance)
        self._is_uniform = False

    @property
    def status(self) -> str:
        """The log-likelihood and the tension, for a progress message."""
        return f"log-likelihood {self.log_likelihood:.9g}  tension {self.positions.tension:.3f}"

    def has_converged(self, history: list[float]) -> bool:
        """Tell if the log-likelihood rises by less than the settings' tolerance."""
        return has_settled(history, self.settings.tolerance)


def fit_diagonal(
    bitext: Bitext,
    settings: DiagonalSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Diagonal:
    """Fit the diagonal-favouring model by EM from uniform translation probabilities.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: the defaults without it.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        **options: fields of :class:`DiagonalSettings`, which replace those of ``settings``.

    Raises:
        AlignkitError: a setting or ``threads`` is out of range; or the text is too large for the machine's memory.
    """
    settings = with_options(settings or DiagonalSettings(), options)
    check_memory(bitext)
    estimation = DiagonalEstimation(bitext, settings, thread_count(threads))
    estimation.initialise()
    history = run_em(estimation, settings.iterations, progress)
    return Diagonal(
        bitext.source.vocabulary,
        bitext.target.vocabulary,
        PairTable(*estimation.rows, len(bitext.target.vocabulary)).pruned(settings.prune),
        estimation.null_probability,
        estimation.positions.tension,
        null=estimation.null if settings.null else None,
        log_likelihood=tuple(history),
        threads=threads,
    )
