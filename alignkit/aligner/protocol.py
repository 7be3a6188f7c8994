"""The Aligner protocol: whatever maps a bitext to scores."""

from __future__ import annotations

import os
from typing import Protocol, runtime_checkable

from alignkit.errors import AlignkitError
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext


@runtime_checkable
class Aligner(Protocol):
    """A fitted aligner. Fitting is a function that returns one; there are no half-made aligners.

    Attributes:
        name: short name, as in ``ibm1`` or ``lstm``; with a kind it names a score: ``ibm1.beta``.
        kinds: the score kinds it gives, a subset of ``alignkit.scores.scores.KINDS``.
    """

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def score(self, bitext: Bitext, kind: str) -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind it does not have."""
        ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the aligner so that :func:`load_aligner` reads it."""
        ...


def check_kind(aligner: Aligner, kind: str) -> None:
    """Raises AlignkitError, naming those there are, if the aligner does not give scores of ``kind``."""
    if kind not in aligner.kinds:
        known = ", ".join(aligner.kinds)
        raise AlignkitError(f"{aligner.name} has no {kind} scores; it has {known}")
