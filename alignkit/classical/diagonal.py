"""IBM Model 2 with a distribution of positions that favours the diagonal (Dyer, Chahuneau and Smith 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.cooccurrence import IndexedBitext, PairTable, check_memory, token_index
from alignkit.classical.lexical_model import (
    LexicalModel,
    Lookup,
    exact_sum,
    has_converged,
    normalise_null,
    normalise_rows,
    read_parts,
)
from alignkit.classical.settings import TENSION_RANGE, DiagonalOptions, DiagonalSettings
from alignkit.kernels import diagonal as kernels
from alignkit.kernels import hmm_m_step, translation_table
from alignkit.kernels.diagonal import Exponentials, NullRow, PositionTotals, Shapes, TargetTokens, Weights
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.translation_table import Matrices
from alignkit.links.from_scores import links_from_positions
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.support.arrays import offsets_of
from alignkit.support.files import loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.stages import Stage
from alignkit.support.threads import run_blocks, run_evenly, thread_count
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
        # Exponentials of the lengths that occur: together no longer than the text. Kernels look up those of source
        # words opposite a blank side, too.
        self._lengths = np.unique(np.concatenate([source, target]))
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


def fit_diagonal(
    bitext: Bitext,
    settings: DiagonalSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[DiagonalOptions],
) -> Diagonal:
    """Fit the diagonal-favouring model by EM from uniform translation probabilities.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: None: the defaults.
        threads: the number of threads, by default all; the result is the same, bit for bit, for any number.
        progress: called with (done, total, message) after each iteration.
        **options: fields of :class:`DiagonalSettings`, which replace those of ``settings``.

    Raises:
        AlignkitError: a setting or ``threads`` is out of range; or the text is too large for the machine's memory.
    """
    settings = with_options(DiagonalSettings, settings, options)
    check_memory(bitext)
    source, target, V_tgt = bitext.source, bitext.target, len(bitext.target.vocabulary)
    workers, p0 = thread_count(threads), settings.null_probability if settings.null else 0.0

    # The model: p(y_t | x_1..x_L) = p0 Trans(y_t|NULL) + (1 - p0) sum over l of p(a_t = l) Trans(y_t|x_l).
    positions = PositionDistribution(bitext, settings.tension)
    text = TargetTokens(target.tokens, target.offsets, source.lengths)
    indexed = IndexedBitext(bitext, workers)
    offsets, columns, _ = indexed.pairs()
    row_ranges = indexed.row_ranges
    del indexed  # before room is taken for the other index
    index = token_index(source, workers)

    # The start: uniform.
    uniform = np.float32(1 / max(V_tgt, 1))
    trans = TableRows(offsets, columns, np.full(len(columns), uniform, np.float32))
    null = NullRow(np.full(V_tgt, uniform, np.float32), p0)

    weights = Weights(np.empty(len(text.tokens), np.float32), np.empty(len(text.tokens), np.float32))
    arrays = index, trans, text, positions.exponentials
    history, sums = list[float](), np.zeros((len(bitext), 2))
    with Stage("fitting", progress) as stage:
        for iteration in range(settings.iterations):
            # E-step. Posterior distances are |(t-1)/T - l/L|, from the left edge of the target position, as in
            # fast_align: with |t/T - l/L|, as in the distribution of positions, the tension of most texts rises to
            # 10 and more, and links get worse.
            run_evenly(
                lambda *span: kernels.diagonal_posterior_weights(
                    *span, *arrays, positions.totals, null, weights, sums, np.zeros(V_tgt, np.float32)
                ),
                offsets_of(source.lengths * target.lengths),
                workers,
            )
            run_blocks(
                lambda *span: kernels.diagonal_expected_counts(*span, *arrays, weights.pairs, np.zeros(V_tgt)),
                row_ranges,
                workers,
            )
            null_counts = np.zeros(V_tgt)
            hmm_m_step.column_sums(0, V_tgt, text.tokens, weights.null, null_counts)
            history.append(exact_sum(sums[:, 0]))

            # M-step: the rows of expected counts become distributions, and the tension follows the mean distance;
            # not at first: under uniform translation probabilities posterior positions are as the prior ones.
            normalise_rows(offsets, trans.values, settings.dirichlet, row_ranges, workers)
            if settings.null:
                null.values[:] = normalise_null(null.values * null_counts, settings.dirichlet)
            if settings.optimize_tension and iteration > 0:
                positions.fit_tension(exact_sum(sums[:, 1]) / max(int(positions.tokens.sum()), 1))

            converged = has_converged(history, settings.tolerance)
            done = settings.iterations if converged else iteration + 1
            message = f"log-likelihood {history[-1]:.9g}  tension {positions.tension:.3f}"
            stage(done, settings.iterations, message)
            if converged:
                break
    table = PairTable(*trans, V_tgt)
    return Diagonal(
        source.vocabulary,
        target.vocabulary,
        table.chosen(table.values >= settings.prune) if settings.prune else table,
        p0,
        positions.tension,
        null=null.values if settings.null else None,
        log_likelihood=tuple(history),
        threads=threads,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(LexicalModel, Aligner):
    """A fitted diagonal-favouring model.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; 0 without NULL.
        tension: how strongly the model favours the diagonal.

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

        The rest of a row of alpha, up to 1, is NULL's. Unseen pairs have beta 0; the alpha of a target word
        without any evidence is the distribution of its source positions.
        """
        self.check_kind(kind)
        lookup = self.lookup(bitext)
        return lookup.scores() if kind == "beta" else self._posteriors(lookup)[0]

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, but no token's below log ``UNSEEN``."""
        return self._posteriors(self.lookup(bitext))[1]

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its most probable source position, unless NULL is more probable or there is no
        evidence."""
        lookup = self.lookup(bitext)
        workers, offsets, (text, positions, null) = lookup.threads, bitext.target.offsets, self._arguments(lookup)
        index = token_index(bitext.source)
        keys, best = np.empty(len(text.tokens), np.uint64), np.empty(len(text.tokens), np.int32)

        def search(low: int, high: int) -> None:
            dense = np.zeros(lookup.width + 1, np.float32)
            kernels.best_diagonal_sources(
                low, high, index, lookup.rows, text, positions.exponentials, positions.totals, null, keys, dense
            )
            translation_table.positions_of_keys(offsets[low], offsets[high], keys, best)

        run_evenly(search, offsets_of(text.lengths * bitext.target.lengths), workers)
        return links_from_positions(best, bitext, workers)

    def _posteriors(self, lookup: Lookup) -> tuple[Scores, np.ndarray]:
        """alpha, and float64 (M,) log p(target | source)."""
        scores, (text, positions, null) = lookup.scores(), self._arguments(lookup)
        matrices, log_probabilities = Matrices(scores.values, scores.offsets), np.zeros(len(scores))
        arrays = text, positions.exponentials, positions.totals, null, matrices, log_probabilities
        run_evenly(lambda *span: kernels.diagonal_posteriors(*span, *arrays), scores.offsets, lookup.threads)
        return scores, log_probabilities

    def _arguments(self, lookup: Lookup) -> tuple[TargetTokens, PositionDistribution, NullRow]:
        """The text, the distribution of source positions and NULL, as kernels take them."""
        bitext = lookup.bitext
        tokens = lookup.columns_of(bitext.target.tokens)
        text = TargetTokens(tokens, bitext.target.offsets, bitext.source.lengths)
        return text, PositionDistribution(bitext, self.tension), NullRow(lookup.null, self.null_probability)

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
