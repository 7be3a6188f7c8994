"""IBM Model 2 with a distribution of jumps that favours the diagonal (Dyer, Chahuneau and Smith 2013)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.aligner.protocol import check_kind
from alignkit.classical.em import has_settled
from alignkit.classical.inverted_index import PairStatistics, bags_of, normalise_rows, token_index
from alignkit.classical.null import UNSEEN
from alignkit.classical.settings import TENSION_RANGE, DiagonalSettings
from alignkit.classical.translation_table import Lookup, PairTable, pack_model, unpack_model
from alignkit.errors import InputError
from alignkit.kernels import diagonal as kernels
from alignkit.kernels import translation_table
from alignkit.links.from_positions import links_from_positions
from alignkit.links.links import Links
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.scores.scores import Scores
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.diagonal", 1
_STEPS, _RATE = 8, 20.0  # of the gradient ascent on the tension, once per EM iteration


class Prior:
    """p(a_t = l) of every pair of a bitext for one tension: exp(-tension |t/T - l/L|), normalised over l.

    Args:
        bitext: M pairs; pairs with a blank side have no prior.
        tension: how strongly the diagonal is favoured; positive.

    Attributes:
        place_of: int64 (M,), where the pair's rows start in ``totals``; -1 for a pair with a blank side.
        totals: float64 (rows,), what the weights of a target position of a shape (T, L) sum to.
        distances: float64 (rows,), the expected |t/T - l/L| there.
        tokens: int64 (rows,), how many target tokens of the bitext are there.
        tables: see :mod:`alignkit.kernels.diagonal`.
    """

    def __init__(self, bitext: Bitext, tension: float) -> None:
        source, target = bitext.source.lengths, bitext.target.lengths
        full = (source > 0) & (target > 0)
        width = int(source.max(initial=0)) + 1
        codes = target[full] * width + source[full]
        codes, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
        lengths = np.stack([codes // width, codes % width], axis=1)
        places = np.concatenate([[0], np.cumsum(lengths[:, 0])])
        self._shapes = (lengths, places)
        self.tokens = np.repeat(counts, lengths[:, 0])
        self.place_of = np.full(len(bitext), -1, np.int64)
        self.place_of[full] = places[which]
        # Tables for the lengths that occur: together no longer than the text.
        self._lengths = np.unique(lengths)
        starts = np.full(int(self._lengths.max(initial=0)) + 1, -1, np.int64)
        ends = np.cumsum(self._lengths)
        starts[self._lengths] = ends - self._lengths
        size = int(ends[-1]) if len(ends) else 0
        self.tables = (starts, np.empty(size, np.float32), np.empty(size, np.float32))
        self.totals = np.empty(int(places[-1]))
        self.distances = np.empty(int(places[-1]))
        self.set(tension)

    def set(self, tension: float) -> None:
        """Makes this the prior for another tension."""
        self.tension = float(tension)
        kernels.fill_tables(self._lengths, self.tables[0], self.tension, *self.tables[1:])
        kernels.normalisers(self._shapes, self.tension, self.totals, self.distances)

    def fit(self, distance: float) -> None:
        """Moves the tension towards one under which the mean of ``distances`` over the tokens is this.

        Gradient ascent on the likelihood (section 3 of the paper): its derivative by the tension is what the prior
        expects of the distances less what the posterior expects.
        """
        tension, totals, distances = self.tension, np.empty_like(self.totals), np.empty_like(self.totals)
        for _ in range(_STEPS):
            kernels.normalisers(self._shapes, tension, totals, distances)
            tension += _RATE * (float(self.tokens @ distances) / max(int(self.tokens.sum()), 1) - distance)
            tension = min(max(tension, TENSION_RANGE[0]), TENSION_RANGE[1])
        self.set(tension)


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A fitted diagonal-favouring model.

    Attributes:
        source, target: the vocabularies.
        table: Trans(o|i) for every pair that met in the training text.
        null: float32 (V_tgt,), Trans(o|NULL), or None without NULL.
        null_probability: p0, the probability that a target word comes from NULL; 0 without NULL.
        tension: how strongly the diagonal is favoured.
        log_likelihood: as of :class:`alignkit.classical.ibm1.IBM1`.
        threads: how many threads scoring uses (None: all); no result depends on it.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    null: np.ndarray | None
    null_probability: float
    tension: float
    log_likelihood: tuple[float, ...] = ()
    threads: int | None = field(default=None, compare=False)
    name: str = "diagonal"
    kinds: tuple[str, ...] = ("alpha", "beta")

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.source), len(self.target)):
            raise ValueError(f"table of shape {self.table.shape} does not fit the vocabularies")
        if self.null is not None and (self.null.shape, self.null.dtype) != ((len(self.target),), np.float32):
            raise ValueError("null must be float32 with one value per target word")
        if not (0 < self.null_probability < 1 if self.null is not None else self.null_probability == 0):
            raise ValueError("null_probability must lie between 0 and 1, and be 0 without null")
        if not 0 < self.tension <= 100:
            raise ValueError("the tension must lie in (0, 100]")

    def _lookup(self, bitext: Bitext) -> Lookup:
        source_ids = self.source.translate(bitext.source.vocabulary)
        target_ids = self.target.translate(bitext.target.vocabulary)
        return Lookup(self.table, bitext, source_ids, target_ids, thread_count(self.threads))

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = Trans(y_t | x_l); alpha[t, l] = the posterior of a_t = l.

        What a row of alpha lacks to 1 is NULL's. Pairs never seen have beta 0; a target word without any evidence
        has its prior as alpha.
        """
        check_kind(self, kind)
        lookup = self._lookup(bitext)
        return lookup.scores() if kind == "beta" else self._posteriors(lookup)[0]

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, but no token's below log ``UNSEEN``."""
        return self._posteriors(self._lookup(bitext))[1]

    def _posteriors(self, lookup: Lookup) -> tuple[Scores, np.ndarray]:
        bitext, scores = lookup.bitext, lookup.scores()
        prior = Prior(bitext, self.tension)
        target = (lookup.in_table(bitext.target.tokens), bitext.target.offsets)
        null_values, lengths = lookup.null_values(self.null), bitext.source.lengths
        sums, out, likelihood = (
            (prior.place_of, prior.totals),
            (scores.values, scores.offsets),
            np.zeros(len(bitext)),
        )

        def divide(low: int, high: int) -> None:
            tables, probability, logarithms = prior.tables, self.null_probability, (likelihood, UNSEEN)
            kernels.posteriors(low, high, target, lengths, tables, sums, null_values, probability, out, logarithms)

        run_blocks(divide, blocks(np.diff(scores.offsets), lookup.threads), lookup.threads)
        return scores, likelihood

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its likeliest source position, if NULL is not likelier and anything is known."""
        lookup, prior = self._lookup(bitext), Prior(bitext, self.tension)
        index, lengths = token_index(bitext.source), bitext.source.lengths
        target = (lookup.in_table(bitext.target.tokens), bitext.target.offsets)
        keys = np.empty(len(target[0]), np.uint64)
        places = np.empty(len(target[0]), np.int32)
        null_values, probability = lookup.null_values(self.null), self.null_probability

        def search(low: int, high: int) -> None:
            dense = np.zeros(lookup.width + 1, np.float32)
            kernels.start_keys(low, high, target, prior.place_of, prior.totals, null_values, probability, keys)
            kernels.best_sources(low, high, index, lookup.rows, target, lengths, prior.tables, dense, keys)
            translation_table.places_of_keys(target[1][low], target[1][high], keys, places)

        run_blocks(search, blocks(lengths * bitext.target.lengths, lookup.threads), lookup.threads)
        return links_from_positions(places, bitext, lookup.threads)

    def save(self, path: PathLike) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        header = {"log_likelihood": list(self.log_likelihood), "tension": self.tension}
        header["null_probability"] = self.null_probability
        save_arrays(path, KIND, VERSION, pack_model(self.source, self.target, self.table, self.null), header)


def load_diagonal(path: PathLike) -> Diagonal:
    """Reads what :meth:`Diagonal.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    try:
        likelihood = tuple(float(value) for value in header.get("log_likelihood", ()))
        numbers = float(header.get("null_probability", -1)), float(header.get("tension", -1))
        return Diagonal(*unpack_model(Fields(path, arrays)), *numbers, likelihood)
    except (TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


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
        AlignkitError: a setting or ``threads`` is out of range.
    """
    chosen = with_options(settings or DiagonalSettings(), options)
    probability = chosen.null_probability if chosen.null else 0.0
    estimation = _Estimation(bitext, probability, chosen.alpha, chosen.tension, thread_count(threads))
    likelihoods: list[float] = []
    for iteration in range(chosen.iterations):
        likelihoods.append(estimation.step(chosen.optimize_tension and iteration > 0))
        if progress is not None:
            message = f"log-likelihood {likelihoods[-1]:.6g}  tension {estimation.prior.tension:.3f}"
            progress(iteration + 1, chosen.iterations, message)
        if has_settled(likelihoods, chosen.tolerance):
            break
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    table = PairTable(*estimation.rows, len(target)).pruned(chosen.prune)
    row = estimation.null if chosen.null else None
    return Diagonal(source, target, table, row, probability, estimation.prior.tension, tuple(likelihoods), threads)


class _Estimation:
    """The parameters while EM runs: rows changed in place, NULL's row, and the prior with its tension."""

    def __init__(
        self, bitext: Bitext, null_probability: float, alpha: float | None, tension: float, threads: int
    ) -> None:
        types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        statistics = PairStatistics(*bags_of(bitext, threads), types, threads)
        self.rows, self.row_ranges = statistics.rows, statistics.row_ranges
        self.rows[2].fill(1 / max(types[1], 1))
        del statistics
        self.bitext, self.threads = bitext, threads
        self.null_probability, self.alpha = null_probability, alpha
        self.index = token_index(bitext.source)
        self.lengths = bitext.source.lengths
        self.target = (bitext.target.tokens, bitext.target.offsets)
        self.prior = Prior(bitext, tension)
        self.null = np.full(types[1], 1 / max(types[1], 1), np.float32)
        self.sentence_ranges = blocks(self.lengths * bitext.target.lengths, threads)

    def step(self, optimize_tension: bool) -> float:
        """One EM iteration; returns the log-likelihood under the parameters it started from."""
        weights, null_weights, likelihood, distance = self._weigh()
        offsets, _, values = self.rows

        def add(low: int, high: int) -> None:
            sums = np.zeros(len(self.null), np.float64)
            kernels.add_weights(
                low, high, self.index, self.rows, self.target, self.lengths, self.prior.tables, weights, sums
            )
            normalise_rows(low, high, offsets, values, self.alpha)

        run_blocks(add, self.row_ranges, self.threads)
        if self.null_probability > 0:
            sums = np.bincount(self.target[0], weights=null_weights, minlength=len(self.null))
            counts = (self.null * sums).astype(np.float32)
            row = counts[counts > 0]
            normalise_rows(0, 1, np.array([0, len(row)]), row, self.alpha)
            self.null = np.zeros_like(counts)
            self.null[counts > 0] = row
        if optimize_tension:
            self.prior.fit(distance)
        return likelihood

    def _weigh(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """What pairs and NULL are multiplied by, float32 (N_tgt,) each; log-likelihood; mean posterior distance.

        The distance is |(t-1)/T - l/L|, from the left edge of the target position, as in the authors' program. By
        |t/T - l/L|, as the prior has it, the tension of most texts runs up to 10 and more, and links get worse.
        """
        z, moments = (np.zeros(len(self.target[0]), np.float32) for _ in range(2))
        sums = np.zeros((len(self.bitext), 2))
        prior, target = self.prior, self.target

        def add(low: int, high: int) -> None:
            dense = np.zeros(len(self.null), np.float32)
            kernels.add_denominators(
                low, high, self.index, self.rows, target, self.lengths, prior.tables, dense, z, moments
            )
            null, probability = self.null, self.null_probability
            kernels.weigh(low, high, target, prior.place_of, prior.totals, null, probability, z, moments, sums)

        run_blocks(add, self.sentence_ranges, self.threads)
        likelihood, distance = sums.sum(axis=0).tolist()
        return z, moments, likelihood, distance / max(int(prior.tokens.sum()), 1)
