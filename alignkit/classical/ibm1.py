"""IBM Model 1 (Brown et al. 1993): word translation probabilities by EM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.aligner.protocol import check_kind
from alignkit.classical.em import has_settled
from alignkit.classical.inverted_index import Bags, PairStatistics, Rows, bags_of
from alignkit.classical.memory import cut
from alignkit.classical.null import mixture_log_probabilities, null_shares
from alignkit.classical.out_of_core import BlockEstimation, normalised_null
from alignkit.classical.priors import Prior, start_null, start_values
from alignkit.classical.settings import IBM1Settings
from alignkit.classical.translation_table import Lookup, PairTable, pack_model, unpack_model
from alignkit.errors import AlignkitError, InputError
from alignkit.kernels import translation_table
from alignkit.links.links import Links
from alignkit.parallel import thread_count
from alignkit.scores.scores import Scores
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.ibm1", 1


@dataclass(frozen=True, eq=False)
class IBM1:
    """A fitted IBM Model 1.

    Attributes:
        source, target: the vocabularies.
        table: Trans(o|i) for every pair that met in the training text; the rows sum to 1.
        null: float32 (V_tgt,), Trans(o|NULL), or None without NULL.
        log_likelihood: natural logarithm of the training text's probability (up to the factor for its lengths)
            under the parameters that each EM iteration started from; it rises.
        threads: how many threads scoring uses (None: all); no result depends on it.
        null_probability: p0, what NULL had in fitting and has in scoring; None: NULL is one more source word.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    null: np.ndarray | None
    log_likelihood: tuple[float, ...] = ()
    threads: int | None = field(default=None, compare=False)
    null_probability: float | None = None
    name: str = "ibm1"
    kinds: tuple[str, ...] = ("alpha", "beta")

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.source), len(self.target)):
            raise ValueError(f"table of shape {self.table.shape} does not fit the vocabularies")
        if self.null is not None and (self.null.shape, self.null.dtype) != ((len(self.target),), np.float32):
            raise ValueError("null must be float32 with one value per target word")
        if self.null_probability is not None and not (self.null is not None and 0 < self.null_probability < 1):
            raise ValueError("null_probability must lie between 0 and 1, and needs null")

    def _lookup(self, bitext: Bitext) -> Lookup:
        source_ids = self.source.translate(bitext.source.vocabulary)
        target_ids = self.target.translate(bitext.target.vocabulary)
        return Lookup(self.table, bitext, source_ids, target_ids, thread_count(self.threads))

    def _shares(self, bitext: Bitext) -> np.ndarray:
        return null_shares(bitext.source.lengths, self.null is not None, self.null_probability)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = Trans(y_t | x_l); alpha[t, l] = beta[t, l] / sum over l' of beta[t, l'], NULL included.

        What a row of alpha lacks to 1 is NULL's. Pairs never seen have beta 0; a target word without any evidence
        has uniform alpha.
        """
        check_kind(self, kind)
        lookup = self._lookup(bitext)
        return lookup.scores() if kind == "beta" else lookup.posteriors(self.null, self._shares(bitext))

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its likeliest source word (the leftmost of equals), if NULL is not likelier."""
        return self._lookup(bitext).links(self.null, self._shares(bitext))

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair (see :func:`mixture_log_probabilities`)."""
        null = None
        if self.null is not None:
            ids = self.target.translate(bitext.target.vocabulary)
            null = np.append(self.null, np.float32(0))[ids][bitext.target.tokens]  # -1, unknown, is the 0
        return mixture_log_probabilities(self.score(bitext, "beta"), null, self.null_probability)

    def save(self, path: PathLike) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        arrays = pack_model(self.source, self.target, self.table, self.null)
        header = {"log_likelihood": list(self.log_likelihood), "null_probability": self.null_probability}
        save_arrays(path, KIND, VERSION, arrays, header)


def load_ibm1(path: PathLike) -> IBM1:
    """Reads what :meth:`IBM1.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    fields = Fields(path, arrays)
    try:
        source, target, table, null = unpack_model(fields)
        likelihood = tuple(float(value) for value in header.get("log_likelihood", ()))
        probability = header.get("null_probability")
        probability = None if probability is None else float(probability)
        return IBM1(source, target, table, null, likelihood, null_probability=probability)
    except (TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_ibm1(
    bitext: Bitext,
    settings: IBM1Settings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | None = None,
    start: IBM1 | None = None,
    block_tokens: int | None = None,
    **options: Any,
) -> IBM1:
    """Fit IBM Model 1 by EM, from uniform parameters or from those of another model.

    With ``iterations=1, null=False`` the result is the co-occurrence table with its rows normalised: the
    count-based Trans of Snell et al. (2021, section 2.2).

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: the defaults without it.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts of the word pairs that occur in this one. EM then
            climbs to a mode of the posterior, and the log-likelihood alone may fall.
        start: a fitted model whose tables EM continues from. On the text it was fitted on, n iterations and then k
            give the bits of n + k. Word pairs that are new in this text are initialised uniformly (see
            :func:`alignkit.classical.priors.start_values`).
        block_tokens: lay out the text in blocks of about this many tokens, anew in every iteration, to use less
            memory; the result has the same bits. None: all of it, once.
        **options: fields of :class:`IBM1Settings`, which replace those of ``settings``.

    Raises:
        AlignkitError: a setting or ``threads`` is out of range; ``start`` has NULL and this model does not, or the
            other way round; or blocks are combined with ``prior`` or ``start``.
    """
    chosen = with_options(settings or IBM1Settings(), options)
    if start is not None and (start.null is not None) != chosen.null:
        raise AlignkitError("the model to start from and this one must both have NULL, or neither")
    numbers = (chosen.null, chosen.null_probability, chosen.alpha, thread_count(threads))
    estimation: _Estimation | BlockEstimation
    if block_tokens is None:
        estimation = _Estimation(bitext, *numbers)
        if start is not None:
            estimation.start_from(start, bitext)
        if prior is not None:
            estimation.pseudo_counts = prior.pseudo_counts(bitext, estimation.statistics.rows)[0]
    else:
        if start is not None or prior is not None:
            raise AlignkitError("a model to start from and a prior need all of the text in memory, not in blocks")
        ranges = cut(bitext.source.offsets + bitext.target.offsets, block_tokens)
        estimation = BlockEstimation(bitext, ranges, *numbers)
    likelihoods: list[float] = []
    for iteration in range(chosen.iterations):
        likelihoods.append(estimation.step(first=iteration == 0 and start is None))
        if progress is not None:
            progress(iteration + 1, chosen.iterations, f"log-likelihood {likelihoods[-1]:.6g}")
        if has_settled(likelihoods, chosen.tolerance):
            break
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    table = PairTable(*estimation.rows, len(target)).pruned(chosen.prune)
    row = estimation.null if chosen.null else None
    return IBM1(source, target, table, row, tuple(likelihoods), threads, chosen.null_probability)


class Mixture:
    """What explains the words of one side: the positions of the other, and NULL.

    Attributes:
        shares: float32 (M,), NULL's weight against that of one position.
        places: float64 (M,), what the sum over positions must be divided by to be a probability.
        null: float32 (V_tgt,), NULL's row.
        has_null: whether there is one.
        first: float32 (M,), one over the number of positions.
        uniform_likelihood: the log-likelihood where Trans is alike for every pair.
    """

    def __init__(self, bitext: Bitext, target: Bags, null: bool, null_probability: float | None) -> None:
        lengths, types = bitext.source.lengths, len(bitext.target.vocabulary)
        self.shares = null_shares(lengths, null, null_probability)
        self.places = lengths / (1 - (null_probability or 0.0))
        if null_probability is None:
            self.places += self.shares
        self.null = np.zeros(types, np.float32)
        self.has_null = null
        if null:
            self.null[target.words] = 1
        self.first = (1 / np.maximum(lengths + self.shares, 1)).astype(np.float32)
        taught = float(bitext.target.lengths[lengths > 0].sum())
        self.uniform_likelihood = -taught * float(np.log(max(types, 1)))


class _Estimation:
    """The parameters while EM runs: the rows of ``statistics``, changed in place, and NULL's."""

    def __init__(
        self, bitext: Bitext, null: bool, null_probability: float | None, alpha: float | None, threads: int
    ) -> None:
        source, target = bags_of(bitext, threads)
        types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.alpha = alpha
        self.mixture = Mixture(bitext, target, null, null_probability)
        # Uniform: Trans is alike for every pair, and the denominators are the numbers of source positions.
        self.z = np.repeat(self.mixture.first, target.sizes)
        self.z *= target.counts
        self.statistics = PairStatistics(source, target, types, threads, self.z)
        self.pseudo_counts: np.ndarray | None = None

    def start_from(self, model: IBM1, bitext: Bitext) -> None:
        """Takes the tables of another model in the place of the uniform ones."""
        rows = self.statistics.rows
        words = (model.source, model.target)
        rows[2][:] = start_values(model.table, words, model.table.values, bitext, rows)
        if model.null is not None:
            self.mixture.null = start_null(model.null, model.target, bitext.target.vocabulary)

    @property
    def rows(self) -> Rows:
        """The table (offsets, columns, values)."""
        return self.statistics.rows

    @property
    def null(self) -> np.ndarray:
        """NULL's row."""
        return self.mixture.null

    def step(self, first: bool) -> float:
        """One EM iteration; returns the log-likelihood under the parameters it started from."""
        statistics, mixture = self.statistics, self.mixture
        likelihood = mixture.uniform_likelihood if first else self._weigh()
        if not first:
            statistics.add_weights(self.z)
        if self.pseudo_counts is not None:
            statistics.rows[2][:] += self.pseudo_counts
        statistics.normalise(self.alpha)
        if mixture.has_null:
            sums = np.zeros(len(mixture.null), np.float64)
            translation_table.null_counts(statistics.target, mixture.shares, self.z, sums)
            mixture.null = normalised_null(mixture.null, sums, self.alpha)
        return likelihood

    def _weigh(self) -> float:
        """Fills ``z`` with n / (sum over l of Trans(y | x_l)) for each target entry; the log-likelihood."""
        statistics, mixture, z = self.statistics, self.mixture, self.z
        likelihood = np.zeros(len(mixture.places), np.float64)

        def add(low: int, high: int) -> None:
            dense = np.zeros(statistics.types[1], np.float32)
            translation_table.start_denominators(low, high, statistics.target, mixture.null, mixture.shares, z)
            translation_table.add_denominators(
                low, high, statistics.index, statistics.rows, statistics.target, z, dense
            )
            translation_table.weigh(low, high, statistics.target, mixture.places, z, likelihood)

        statistics.over_sentences(add)
        return float(likelihood.sum())
