"""IBM Model 1 (Brown et al. 1993): word translation probabilities by EM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.aligner import check_kind
from alignkit.classical.em import run_em
from alignkit.classical.ibm1_estimation import IBM1Estimation
from alignkit.classical.lexical_model import LexicalModel, read_parts
from alignkit.classical.null import NullWord, mixture_log_probabilities
from alignkit.classical.priors import LexiconPrior
from alignkit.classical.settings import IBM1Settings
from alignkit.classical.translation_table import PairTable
from alignkit.errors import AlignkitError, InputError
from alignkit.kernels.inverted_index import TableRows
from alignkit.links.from_positions import links_from_positions
from alignkit.links.links import Links
from alignkit.parallel import thread_count
from alignkit.records import Record
from alignkit.scores import Scores
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.ibm1", 1


@dataclass(frozen=True, eq=False, repr=False)
class IBM1(LexicalModel):
    """A fitted IBM Model 1.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; None: NULL is one more source
            word.

    The other attributes are those of :class:`LexicalModel`. The rows of ``table``, and ``null``, sum to 1 after
    maximum likelihood without pruning.
    """

    null_probability: float | None = None
    name: str = "ibm1"
    kinds: tuple[str, ...] = ("alpha", "beta")

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
        check_kind(self, kind)
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
        """Write the model; :func:`alignkit.load_aligner` reads it."""
        header = self.header() | {"null_probability": self.null_probability}
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_ibm1(path: PathLike) -> IBM1:
    """Read what :meth:`IBM1.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, values = load_arrays(path, KIND, VERSION)
    header = Record(path, values)
    try:
        probability = header.number("null_probability", 0, 1) if header.optional("null_probability") else None
        return IBM1(**read_parts(Fields(path, arrays), header), null_probability=probability)
    except (TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_ibm1(
    bitext: Bitext,
    settings: IBM1Settings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
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
    settings = with_options(settings or IBM1Settings(), options)
    if start is not None and (start.null is not None) != settings.null:
        raise AlignkitError("the model to start from and this one must both have NULL, or neither")
    if block_tokens is not None and (start is not None or prior is not None):
        raise AlignkitError("a model to start from and a prior need all of the text in memory, not in blocks")
    estimation = IBM1Estimation(
        bitext, settings, thread_count(threads), block_tokens=block_tokens, prior=prior, start=start
    )
    estimation.initialise()
    checkpoint = estimation.exchange.checkpoint(estimation)
    history = run_em(estimation, settings.iterations, progress, checkpoint=checkpoint)
    rows, table = estimation.rows, estimation.table
    if table is not None:
        rows = TableRows(*table.whole(table.owned.values, rows.values))
    return IBM1(
        bitext.source.vocabulary,
        bitext.target.vocabulary,
        PairTable(*rows, len(bitext.target.vocabulary)).pruned(settings.prune),
        null=estimation.null if settings.null else None,
        log_likelihood=tuple(history),
        threads=threads,
        null_probability=settings.null_probability,
    )
