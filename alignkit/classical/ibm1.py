"""IBM Model 1 (Brown et al. 1993): word translation probabilities by EM."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from alignkit.aligner import check_kind
from alignkit.bitext import Bitext
from alignkit.classical.bags import PairStatistics, bags_of
from alignkit.classical.tables import Lookup, PairTable
from alignkit.errors import AlignkitError, InputError
from alignkit.kernels import lexical
from alignkit.links import Links
from alignkit.parallel import thread_count
from alignkit.scores import Scores
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.vocabulary import Vocabulary

KIND, VERSION = "alignkit.ibm1", 1
ITERATIONS = 5


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
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    null: np.ndarray | None
    log_likelihood: tuple[float, ...] = ()
    threads: int | None = field(default=None, compare=False)
    name: str = "ibm1"
    kinds: tuple[str, ...] = ("alpha", "beta")

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.source), len(self.target)):
            raise ValueError(f"table of shape {self.table.shape} does not fit the vocabularies")
        if self.null is not None and (self.null.shape, self.null.dtype) != ((len(self.target),), np.float32):
            raise ValueError("null must be float32 with one value per target word")

    def _lookup(self, bitext: Bitext) -> Lookup:
        source_ids = self.source.translate(bitext.source.vocabulary)
        target_ids = self.target.translate(bitext.target.vocabulary)
        return Lookup(self.table, bitext, source_ids, target_ids, thread_count(self.threads))

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = Trans(y_t | x_l); alpha[t, l] = beta[t, l] / sum over l' of beta[t, l'], NULL included.

        What a row of alpha lacks to 1 is NULL's. Pairs never seen have beta 0; a target word without any evidence
        has uniform alpha.
        """
        check_kind(self, kind)
        lookup = self._lookup(bitext)
        return lookup.scores() if kind == "beta" else lookup.posteriors(self.null)

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its likeliest source word (the leftmost of equals), if NULL is not likelier."""
        return self._lookup(bitext).links(self.null)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        arrays = {"offsets": self.table.offsets, "columns": self.table.columns, "values": self.table.values}
        arrays |= {"source_types": self.source.text, "source_type_offsets": self.source.offsets}
        arrays |= {"target_types": self.target.text, "target_type_offsets": self.target.offsets}
        if self.null is not None:
            arrays["null"] = self.null
        save_arrays(path, KIND, VERSION, arrays, {"log_likelihood": list(self.log_likelihood)})


def load_ibm1(path: str | os.PathLike[str]) -> IBM1:
    """Reads what :meth:`IBM1.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    fields = Fields(path, arrays)
    try:
        source, target = (
            Vocabulary(fields.get(f"{side}_types", np.uint8), fields.get(f"{side}_type_offsets", np.int64))
            for side in ("source", "target")
        )
        columns, values = fields.get("columns", np.int32), fields.get("values", np.float32)
        table = PairTable(fields.get("offsets", np.int64), columns, values, len(target))
        null = fields.get("null", np.float32) if "null" in arrays else None
        likelihood = tuple(float(value) for value in header.get("log_likelihood", ()))
        return IBM1(source, target, table, null, likelihood)
    except (TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_ibm1(
    bitext: Bitext,
    iterations: int = ITERATIONS,
    null: bool = True,
    threads: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> IBM1:
    """Fits IBM Model 1 by EM from the uniform start.

    With ``iterations=1, null=False`` the result is the co-occurrence table with its rows normalised: the
    count-based Trans of Snell et al. (2021, section 2.2).

    Args:
        bitext: M pairs; pairs with an empty side teach nothing.
        iterations: EM steps, at least 1.
        null: whether an empty source word takes part in every sentence.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.

    Raises:
        AlignkitError: iterations or threads below 1.
    """
    if iterations < 1:
        raise AlignkitError(f"the number of iterations must be at least 1, not {iterations}")
    estimation = _Estimation(bitext, null, thread_count(threads))
    likelihoods = []
    for iteration in range(iterations):
        likelihoods.append(estimation.step(first=iteration == 0))
        if progress is not None:
            progress(iteration + 1, iterations, f"log-likelihood {likelihoods[-1]:.6g}")
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    table = PairTable(*estimation.statistics.rows, len(target))
    return IBM1(source, target, table, estimation.null, tuple(likelihoods), threads)


class _Estimation:
    """The parameters while EM runs: the rows of ``statistics``, changed in place, and NULL's."""

    def __init__(self, bitext: Bitext, null: bool, threads: int) -> None:
        source, target = bags_of(bitext, threads)
        types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.target = target
        self.statistics = PairStatistics(source, target, types, threads)
        self.null = np.ones(types[1], np.float32) if null else None
        # A pair without source words teaches nothing, NULL included: it has no place to come from.
        lengths = bitext.source.lengths
        self.places = np.where(lengths > 0, lengths + int(null), 0).astype(np.float64)

    def step(self, first: bool) -> float:
        """One EM iteration; returns the log-likelihood under the parameters it started from."""
        if first:
            # Uniform: Trans = 1/V for every pair, and the denominators are the numbers of source positions.
            shares = np.where(self.places > 0, 1 / np.maximum(self.places, 1), 0)
            z = (np.repeat(shares, self.target.sizes) * self.target.counts).astype(np.float32)
            tokens = float(self.target.counts[z > 0].sum(dtype=np.float64))
            likelihood = -tokens * float(np.log(max(self.statistics.types[1], 1)))
        else:
            z, likelihood = self._weights()
        self.statistics.add_weights(z)
        offsets, _, values = self.statistics.rows
        self.statistics.over_rows(lambda low, high: lexical.normalise_table(low, high, offsets, values))
        if self.null is not None:
            sums = self.null * np.bincount(self.target.words, weights=z, minlength=len(self.null))
            shares = np.maximum(sums / max(sums.sum(), 1e-300), lexical.TINY)
            self.null = np.where(sums > 0, shares, 0).astype(np.float32)  # never seen: no evidence for NULL either
        return likelihood

    def _weights(self) -> tuple[np.ndarray, float]:
        """(n / sum over l of Trans(y | x_l), float32 for each target entry; log-likelihood)."""
        statistics = self.statistics
        words = self.target.words
        z = self.null[words] if self.null is not None else np.zeros(len(words), np.float32)
        z[np.repeat(self.places == 0, self.target.sizes)] = 0
        likelihood = np.zeros(len(self.places), np.float64)

        def add(low: int, high: int) -> None:
            dense = np.zeros(statistics.types[1], np.float32)
            lexical.add_denominators(low, high, statistics.index, statistics.rows, statistics.target, z, dense)
            lexical.weigh(low, high, statistics.target, self.places, z, likelihood)

        statistics.over_sentences(add)
        return z, float(likelihood.sum())
