"""IBM Model 2 with a distribution of positions that favours the diagonal (Dyer, Chahuneau and Smith 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.aligner import check_kind
from alignkit.classical.diagonal_estimation import DiagonalEstimation
from alignkit.classical.em import run_em
from alignkit.classical.inverted_index import token_index
from alignkit.classical.lexical_model import LexicalModel, read_parts
from alignkit.classical.lookup import Lookup
from alignkit.classical.positions import PositionDistribution
from alignkit.classical.settings import DiagonalSettings
from alignkit.classical.translation_table import PairTable
from alignkit.errors import InputError
from alignkit.kernels import diagonal as kernels
from alignkit.kernels import translation_table
from alignkit.kernels.diagonal import NullRow, TargetTokens
from alignkit.kernels.translation_table import Matrices
from alignkit.links.from_positions import links_from_positions
from alignkit.links.links import Links
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.records import Record
from alignkit.scores import Scores
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.diagonal", 1


@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(LexicalModel):
    """A fitted diagonal-favouring model.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; 0 without NULL.
        tension: how strongly the diagonal is favoured.

    The other attributes are those of :class:`LexicalModel`.
    """

    null_probability: float
    tension: float
    name: str = "diagonal"
    kinds: tuple[str, ...] = ("alpha", "beta")

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
        check_kind(self, kind)
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
        """Write the model; :func:`alignkit.load_aligner` reads it."""
        header = self.header() | {"tension": self.tension, "null_probability": self.null_probability}
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_diagonal(path: PathLike) -> Diagonal:
    """Read what :meth:`Diagonal.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, values = load_arrays(path, KIND, VERSION)
    header = Record(path, values)
    try:
        parts = read_parts(Fields(path, arrays), header)
        for name in ("null_probability", "tension"):
            parts[name] = header.number(name)
        return Diagonal(**parts)
    except (TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_diagonal(
    bitext: Bitext,
    settings: DiagonalSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    block_tokens: int | None = None,
    **options: Any,
) -> Diagonal:
    """Fit the diagonal-favouring model by EM from uniform translation probabilities.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: the defaults without it.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        block_tokens: lay out the text in blocks of about this many tokens, anew in every iteration, to use less
            memory; the result has the same bits. None: all of it, once.
        **options: fields of :class:`DiagonalSettings`, which replace those of ``settings``.

    Raises:
        AlignkitError: a setting or ``threads`` is out of range.
    """
    settings = with_options(settings or DiagonalSettings(), options)
    estimation = DiagonalEstimation(bitext, settings, thread_count(threads), block_tokens=block_tokens)
    estimation.initialise()
    checkpoint = estimation.exchange.checkpoint(estimation)
    history = run_em(estimation, settings.iterations, progress, checkpoint=checkpoint)
    table = estimation.table
    return Diagonal(
        bitext.source.vocabulary,
        bitext.target.vocabulary,
        PairTable(*table.whole(table.owned.values, table.local.values), len(bitext.target.vocabulary)).pruned(
            settings.prune
        ),
        estimation.null_probability,
        estimation.positions.tension,
        null=estimation.null if settings.null else None,
        log_likelihood=tuple(history),
        threads=threads,
    )
