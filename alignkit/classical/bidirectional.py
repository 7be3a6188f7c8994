"""Both directions of a directed aligner as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from alignkit.bitext import Bitext
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.symmetrisation import symmetrize
from alignkit.links import Links

SYMMETRIZATION = "grow-diag-final-and"


class Linker(Protocol):
    """Whatever links the words of a bitext."""

    def links(self, bitext: Bitext) -> Links: ...


@dataclass(frozen=True)
class Bidirectional:
    """A source-to-target and a target-to-source aligner, symmetrised.

    Attributes:
        forward: aligner of bitexts as they are.
        reverse: aligner of bitexts with their sides exchanged.
        method: a name in :data:`alignkit.classical.symmetrisation.METHODS`.
    """

    forward: Linker
    reverse: Linker
    method: str = SYMMETRIZATION

    def links(self, bitext: Bitext) -> Links:
        """Both aligners' links, combined."""
        forward, reverse = self.forward.links(bitext), self.reverse.links(bitext.reversed).reversed
        return symmetrize(forward, reverse, self.method)


def fit_bidirectional(
    bitext: Bitext, fit: Callable[[Bitext], Linker] = fit_ibm1, method: str = SYMMETRIZATION
) -> Bidirectional:
    """Fits both directions with ``fit`` (IBM Model 1 with its defaults, if not given)."""
    return Bidirectional(fit(bitext), fit(bitext.reversed), method)
