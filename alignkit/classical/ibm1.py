"""IBM Model 1 (Brown et al. 1993): word translation probabilities by EM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.em import exact_sum, has_settled, run_em
from alignkit.classical.lexical_model import LexicalModel, PairTable, m_step_null, normalise_rows, read_parts
from alignkit.classical.memory import check_memory
from alignkit.classical.priors import LexiconPrior, start_null, start_values
from alignkit.classical.settings import IBM1Settings
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.errors import AlignkitError
from alignkit.kernels import translation_table as kernels
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.translation_table import UNSEEN
from alignkit.links.from_scores import links_from_positions
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.support.files import loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.ibm1", 1


@dataclass(frozen=True)
class NullWord:
    """NULL, the empty source word.

    Attributes:
        present: true if source sentences have one.
        probability: p0, the probability that a target word comes from NULL; each of the L source positions has
            (1 - p0) / L. None: NULL is one of L + 1 words.
    """

    present: bool
    probability: float | None = None

    def weights(self, lengths: np.ndarray) -> np.ndarray:
        """float32 (M,): NULL's weight relative to that of one source position; 0 for an empty source.

        A pair with an empty source is ignored, by NULL too: it would have no place to come from.
        """
        if self.probability is None:
            return ((lengths > 0) & self.present).astype(np.float32)
        return (lengths * (self.probability / (1 - self.probability))).astype(np.float32)

    def normalisers(self, lengths: np.ndarray) -> np.ndarray:
        """float64 (M,): what a sum over source positions and NULL is divided by to be a probability."""
        normalisers = lengths / (1 - (self.probability or 0.0))
        return normalisers + self.weights(lengths) if self.probability is None else normalisers

    def shares(self, lengths: np.ndarray) -> np.ndarray:
        """float64 (M,): the probability that a target word comes from NULL; 1 for an empty source."""
        if not self.present:
            return np.zeros(len(lengths))
        share = 1 / (lengths + 1) if self.probability is None else self.probability
        return np.where(lengths == 0, 1.0, share)


@dataclass(frozen=True, eq=False, repr=False)
class IBM1(LexicalModel, Aligner):
    """A fitted IBM Model 1.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; None: NULL is one more source
            word.

    The other attributes are those of :class:`LexicalModel`. The rows of ``table``, and ``null``, sum to 1 after
    maximum likelihood without pruning.
    """

    null_probability: float | None = None
    name = "ibm1"
    title = "IBM Model 1"
    descriptions: ClassVar = {
        "alpha": ("IBM links", "IBM Model 1's guess of which source word each target word comes from."),
        "beta": (
            "IBM dictionary",
            "Translation probabilities that IBM Model 1 counts out of the text: which words occur together.",
        ),
    }
    kinds = ("alpha", "beta")
    predicts = ("target",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.null_probability is not None and not (self.null is not None and 0 < self.null_probability < 1):
            raise ValueError("null_probability must lie between 0 and 1, and needs null")

    def _null_weights(self, bitext: Bitext) -> np.ndarray:
        return NullWord(self.null is not None, self.null_probability).weights(bitext.source.lengths)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = Trans(y_t | x_l); alpha[t, l] = beta[t, l] / sum over l' of beta[t, l'], NULL included.

        What a row of alpha lacks to 1 is NULL's. Pairs never seen have beta 0; a target word without any evidence
        has uniform alpha.
        """
        self.check_kind(kind)
        lookup = self.lookup(bitext)
        return lookup.scores() if kind == "beta" else lookup.posteriors(self.null, self._null_weights(bitext))

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its most probable source word (the leftmost of equals), unless NULL is more so."""
        best = self.lookup(bitext).best_positions(self.null, self._null_weights(bitext))
        return links_from_positions(best, bitext, self.threads)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair (see :func:`mixture_log_probabilities`)."""
        null = None
        if self.null is not None:
            ids = self.target.translate(bitext.target.vocabulary)
            null = np.append(self.null, np.float32(0))[ids][bitext.target.tokens]  # -1, unknown, is the 0
        return mixture_log_probabilities(self.score(bitext, "beta"), null, self.null_probability)

    def save(self, path: PathLike) -> None:
        """Write the model; :func:`alignkit.load` reads it."""
        header = self.header() | {"null_probability": self.null_probability} | self.about_text
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def mixture_log_probabilities(
    scores: Scores, null: np.ndarray | None = None, null_probability: float | None = None
) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, the sum over t of the logarithm of

        p0 Trans(y_t | NULL) + (1 - p0) / L * sum over l of beta[t, l]

    (Brown et al. 1993, equation 5, without its factor for the length), but at least ``UNSEEN``.

    Args:
        scores: beta of M pairs.
        null: float (N_tgt,), Trans(y_t | NULL) of every target token in text order; None without NULL.
        null_probability: as in :class:`NullWord`.
    """
    rows, widths = scores.shapes[:, 0].astype(np.int64), scores.shapes[:, 1].astype(np.int64)
    width = np.repeat(widths, rows)
    sums = np.zeros(len(width))
    filled = np.flatnonzero(width)
    if len(filled):
        starts = np.cumsum(width) - width
        sums[filled] = np.add.reduceat(scores.values, starts[filled], dtype=np.float64)
    share = NullWord(null is not None, null_probability).shares(width)
    values = (1 - share) / np.maximum(width, 1) * sums
    if null is not None:
        values = values + share * null
    logarithms = np.log(np.maximum(values, UNSEEN))
    return np.bincount(np.repeat(np.arange(len(rows)), rows), weights=logarithms, minlength=len(rows))


def load_ibm1(path: PathLike) -> IBM1:
    """Read what :meth:`IBM1.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    with loaded(path, KIND, VERSION) as (fields, header):
        probability = header.number("null_probability", 0, 1) if header.optional("null_probability") else None
        return IBM1(**read_parts(fields, header), null_probability=probability)


class IBM1Estimation:
    """IBM Model 1 while it is estimated (an :class:`alignkit.classical.em.EMModel`).

    Args:
        bitext: M pairs.
        settings: of the model.
        threads: how many to use; no result depends on it.
        prior: pseudo-counts of word pairs.
        start: a model whose parameters come first. None: uniform ones.

    Attributes:
        rows: the table of the text's word pairs; their values are Trans, and after an E-step expected counts.
        null: float32 (V_tgt,), NULL's row.
        weights: float32 (E_tgt,), what the values of pairs with each entry of the target bags are multiplied by to
            be posteriors (:func:`alignkit.kernels.translation_table.posterior_weights`).
        log_likelihood: under the parameters that the last E-step used.
    """

    rows: TableRows

    def __init__(
        self,
        bitext: Bitext,
        settings: IBM1Settings,
        threads: int,
        prior: LexiconPrior | None = None,
        start: LexicalModel | None = None,
    ) -> None:
        self.bitext, self.settings, self.threads = bitext, settings, threads
        self.prior, self.start = prior, start
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.log_likelihood = 0.0

    def initialise(self) -> None:
        """Uniform parameters, or those of ``start``."""
        lengths = self.bitext.source.lengths
        null_word = NullWord(self.settings.null, self.settings.null_probability)
        self.indexed = IndexedBitext.of(self.bitext, self.threads)
        self._null_weights, self._normalisers = null_word.weights(lengths), null_word.normalisers(lengths)
        self._pseudo_counts: np.ndarray | None = None
        # Uniform: Trans is the same for every pair, and the denominators are the numbers of source positions.
        shares = (1 / np.maximum(lengths + self._null_weights, 1)).astype(np.float32)
        self.weights = np.repeat(shares, np.diff(self.indexed.target.offsets))
        self.weights *= self.indexed.target.counts
        self.null = np.zeros(self.types[1], np.float32)
        if self.settings.null:
            self.null[self.indexed.target.words] = 1
        self._is_uniform = self.start is None
        if self.start is not None:
            self._start_from(self.start)

    def _start_from(self, model: LexicalModel) -> None:
        rows, words = self.indexed.pairs(), (model.source, model.target)
        values = start_values(model.table, words, model.table.values, self.bitext, rows)
        self.rows = rows._replace(values=values)
        if model.null is not None:
            self.null = start_null(model.null, model.target, self.bitext.target.vocabulary)

    def e_step(self) -> None:
        """Turn the table into expected counts, and note the log-likelihood."""
        index, target, weights = self.indexed.index, self.indexed.target, self.weights

        def count(low: int, high: int) -> None:
            kernels.expected_counts(low, high, index, self.rows, target, weights, np.zeros(self.types[1]))

        if self._is_uniform:  # finds the pairs and counts them in one sweep
            self.rows = self.indexed.weighted_pairs(weights)
            tokens = float(self.bitext.target.lengths[self.bitext.source.lengths > 0].sum())
            self.log_likelihood = -tokens * float(np.log(max(self.types[1], 1)))
        else:
            self._weigh()
            self.indexed.over_rows(count)
        self._null_sums = np.zeros(self.types[1])
        if self.settings.null:
            kernels.expected_null_counts(target, self._null_weights, weights, self._null_sums)

    def _weigh(self) -> None:
        """Compute the weights, and the log-likelihood."""
        index, target, z = self.indexed.index, self.indexed.target, self.weights
        log_probabilities = np.zeros(len(self.bitext))

        def weigh(low: int, high: int) -> None:
            dense = np.zeros(self.types[1], np.float32)
            kernels.start_denominators(low, high, target, self.null, self._null_weights, z)
            kernels.add_denominators(low, high, index, self.rows, target, z, dense)
            kernels.posterior_weights(low, high, target, self._normalisers, z, log_probabilities)

        self.indexed.over_sentences(weigh)
        self.log_likelihood = exact_sum(log_probabilities)

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
        return f"log-likelihood {self.log_likelihood:.9g}"

    def has_converged(self, history: list[float]) -> bool:
        """Tell if the log-likelihood rises by less than the settings' tolerance."""
        return has_settled(history, self.settings.tolerance)


def fit_ibm1(
    bitext: Bitext,
    settings: IBM1Settings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
    start: IBM1 | None = None,
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
        **options: fields of :class:`IBM1Settings`, which replace those of ``settings``.

    Raises:
        AlignkitError: a setting or ``threads`` is out of range; ``start`` has NULL and this model does not, or the
            other way round; or the text is too large for the machine's memory.

    >>> text = Bitext.from_sentences([["das", "Haus"], ["das", "Buch"]], [["the", "house"], ["the", "book"]])
    >>> fit_ibm1(text).links(text)[0].tolist()
    [[0, 0], [1, 1]]
    """
    settings = with_options(settings or IBM1Settings(), options)
    if start is not None and (start.null is not None) != settings.null:
        raise AlignkitError("the model to start from and this one must both have NULL, or neither")
    check_memory(bitext)
    estimation = IBM1Estimation(bitext, settings, thread_count(threads), prior, start)
    estimation.initialise()
    history = run_em(estimation, settings.iterations, progress)
    return IBM1(
        bitext.source.vocabulary,
        bitext.target.vocabulary,
        PairTable(*estimation.rows, len(bitext.target.vocabulary)).pruned(settings.prune),
        null=estimation.null if settings.null else None,
        log_likelihood=tuple(history),
        threads=threads,
        null_probability=settings.null_probability,
    )
