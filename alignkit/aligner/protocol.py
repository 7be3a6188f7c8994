"""The Aligner protocol, whatever maps a bitext to scores, and the protocols of what only some aligners give.

An aligner has a capability if ``isinstance(aligner, HasLikelihood)`` and the like say so; nothing needs to be
registered.
"""

from __future__ import annotations

from dataclasses import Field, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer
from alignkit.types import PathLike


@runtime_checkable
class Aligner(Protocol):
    """A fitted aligner. Fitting is a function that returns one; an aligner does not change.

    Attributes:
        name: short name, as in ``ibm1`` or ``lstm``; with a kind it names a score: ``ibm1.beta``.
        kinds: the score kinds it gives, a subset of ``alignkit.scores.scores.SCORE_KINDS``.
    """

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def score(self, bitext: Bitext, kind: str) -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind it does not have."""
        ...

    def save(self, path: PathLike) -> None:
        """Write the aligner to a file that :func:`alignkit.aligner.registry.load_aligner` reads."""
        ...


@runtime_checkable
class GivesLinks(Protocol):
    """An aligner with its own rule for links. The links of others are those of their alpha scores (see
    :func:`alignkit.links.from_scores.best_links`)."""

    def links(self, bitext: Bitext) -> Links:
        """The links of M pairs, source first."""
        ...


@runtime_checkable
class GivesLinksAndProbabilities(Protocol):
    """An aligner that finds links and their probabilities at the same time."""

    def links_and_probabilities(self, bitext: Bitext) -> tuple[Links, np.ndarray]:
        """The links of M pairs, source first, and the probability of each, float64 (K,)."""
        ...


@runtime_checkable
class HasLinkProbabilities(Protocol):
    """An aligner whose links have probabilities other than their alpha scores."""

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the probability of each link of M pairs."""
        ...


@runtime_checkable
class HasLikelihood(Protocol):
    """An aligner that gives probabilities of target sentences."""

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, natural logarithm."""
        ...


@runtime_checkable
class HasReverseLikelihood(Protocol):
    """An aligner that gives probabilities of source sentences."""

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(source | target) of each pair, natural logarithm."""
        ...


@runtime_checkable
class HasTokenizer(Protocol):
    """An aligner of bitexts that its own tokenizer encoded, not of whitespace words."""

    @property
    def tokenizer(self) -> Tokenizer: ...


@runtime_checkable
class HasThreads(Protocol):
    """An aligner, a dataclass, that can be told how many threads to use (see :func:`with_threads`)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def threads(self) -> int | None: ...


@runtime_checkable
class HasThreshold(Protocol):
    """An aligner, a dataclass, that links where a probability reaches a threshold (see :func:`with_threshold`)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def threshold(self) -> float: ...


AnAligner = TypeVar("AnAligner", bound=Aligner)


def with_threads(aligner: AnAligner, threads: int | None) -> AnAligner:
    """The aligner with another number of threads (None: all cores), on which no result depends.

    An aligner without this setting is returned as it is.
    """
    return replace(aligner, threads=threads) if isinstance(aligner, HasThreads) else aligner


def with_threshold(aligner: AnAligner, threshold: float) -> AnAligner:
    """The aligner with another threshold of its links: higher for precision, lower for recall.

    Raises:
        AlignkitError: its links do not depend on a threshold, or the threshold is outside [0, 1].
    """
    if not isinstance(aligner, HasThreshold):
        raise AlignkitError(f"the links of {aligner.name} do not depend on a threshold")
    if not 0 <= threshold <= 1:
        raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
    return replace(aligner, threshold=threshold)


def check_kind(aligner: Aligner, kind: str) -> None:
    """Raise AlignkitError, naming those there are, if the aligner does not give scores of ``kind``."""
    if kind not in aligner.kinds:
        known = ", ".join(aligner.kinds)
        raise AlignkitError(f"{aligner.name} has no {kind} scores; it has {known}")
