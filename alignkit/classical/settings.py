"""Settings of the lexical models: IBM Model 1 and the diagonal-favouring model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from alignkit.errors import AlignkitError

#: The kinds of scores that every classical model gives.
KINDS = ("alpha", "beta")
#: What a meeting of two tokens counts in :func:`alignkit.classical.cooccurrence.cooccurrence`.
Weighting = Literal["source-length", "target-length", "one", "presence"]
#: The endings of the files that :func:`alignkit.classical.cooccurrence.save_table` writes.
TABLE_ENDINGS = (".npz", ".tsv")
#: The formats of :func:`alignkit.classical.lexicon.lexicon_files`.
LexiconFormat = Literal["tsv", "moses", "shortlist", "eflomal"]
#: How many translations of a word a shortlist has by default, as in Marian.
SHORTLIST = 100
#: How many occurrences of each word a lexicon from another text counts for.
PRIOR_WEIGHT = 5.0
#: The most that it may count for; more would not change a link, and soon the sums would overflow.
GREATEST_PRIOR_WEIGHT = 1e6
#: The range of the concentration of a Dirichlet prior: below it probabilities are lost to rounding, above it all
#: counts are.
DIRICHLET_RANGE = (1e-3, 1e6)
#: The range of the diagonal model's tension, as in fast_align: below it the diagonal hardly counts,
#: above it nothing else does.
TENSION_RANGE = (0.1, 14.0)


@dataclass(frozen=True)
class IBM1Settings:
    """Settings of IBM Model 1.

    Attributes:
        iterations: EM iterations, at least 1.
        null: whether every source sentence has an empty word, NULL, besides its own words.
        null_probability: p0, the probability that a target word comes from NULL; each of the L source positions
            has (1 - p0) / L. None: NULL is one more word, and all L + 1 have 1 / (L + 1).
        dirichlet: concentration of a symmetric Dirichlet prior over the words that a source word occurs with,
            estimated by variational Bayes (Johnson 2007; Riley and Gildea 2012); values below 1 favour few
            translations. The rows then sum to less than 1, and the log-likelihood may fall. None: maximum
            likelihood.
        tolerance: EM stops early once the log-likelihood rises by less than this share of its size.
        prune: word pairs with a lower probability are dropped after the last iteration. The others keep theirs, so
            rows that lost pairs sum to less than 1.

    Raises:
        AlignkitError: a value is out of range.
    """

    iterations: int = 5
    null: bool = True
    null_probability: float | None = None
    dirichlet: float | None = None
    tolerance: float = 0.0
    prune: float = 0.0

    def __post_init__(self) -> None:
        p0 = self.null_probability
        if p0 is not None and not (self.null and 0 < p0 < 1):
            raise AlignkitError(f"the NULL probability must lie between 0 and 1, with NULL, not {p0}")
        check_estimation(self)


class IBM1Options(TypedDict, total=False):
    """The fields of :class:`IBM1Settings`, as options of a function."""

    iterations: int
    null: bool
    null_probability: float | None
    dirichlet: float | None
    tolerance: float
    prune: float


@dataclass(frozen=True)
class DiagonalSettings:
    """Settings of the diagonal-favouring model.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; ignored without NULL.
        tension: how strongly the diagonal is favoured at the start.
        optimize_tension: whether to fit the tension after each iteration but the first, in which posteriors equal
            the prior.
        iterations, null, dirichlet, tolerance, prune: as for :class:`IBM1Settings`.

    Raises:
        AlignkitError: a value is out of range.
    """

    iterations: int = 5
    null: bool = True
    null_probability: float = 0.08
    dirichlet: float | None = 0.01
    tension: float = 4.0
    optimize_tension: bool = True
    tolerance: float = 0.0
    prune: float = 0.0

    def __post_init__(self) -> None:
        if self.null and not 0 < self.null_probability < 1:
            raise AlignkitError(
                f"the NULL probability must lie between 0 and 1, with NULL, not {self.null_probability}"
            )
        low, high = TENSION_RANGE
        if not low <= self.tension <= high:
            raise AlignkitError(f"the tension must lie in [{low}, {high}], not {self.tension}")
        check_estimation(self)


class DiagonalOptions(TypedDict, total=False):
    """The fields of :class:`DiagonalSettings`, as options of a function."""

    iterations: int
    null: bool
    null_probability: float
    dirichlet: float | None
    tension: float
    optimize_tension: bool
    tolerance: float
    prune: float


def check_estimation(settings: IBM1Settings | DiagonalSettings) -> None:
    """Check the settings that both models have; raises AlignkitError, naming the one that is out of range."""
    if settings.iterations < 1:
        raise AlignkitError(f"the number of iterations must be at least 1, not {settings.iterations}")
    low, high = DIRICHLET_RANGE
    if settings.dirichlet is not None and not low <= settings.dirichlet <= high:
        raise AlignkitError(
            f"the concentration of the Dirichlet prior must lie in [{low}, {high:g}], not {settings.dirichlet}"
        )
    if not 0 <= settings.tolerance < float("inf"):
        raise AlignkitError(f"the tolerance must be 0 or more, not {settings.tolerance}")
    if not 0 <= settings.prune < 1:
        raise AlignkitError(f"the threshold for pruning must lie between 0 and 1, not {settings.prune}")
