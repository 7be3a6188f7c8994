"""Both directions of a directed aligner as one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from alignkit.aligner.protocol import Aligner
from alignkit.classical.ibm1 import IBM1, fit_ibm1
from alignkit.classical.inverted_index import bags_of
from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.links.symmetrization import PRODUCT, THRESHOLD, symmetrize, symmetrize_places, symmetrize_product
from alignkit.parallel import thread_count
from alignkit.text.bitext import Bitext

SYMMETRIZATION = "grow-diag-final-and"
BLOCK = 10_000  # sentence pairs scored at a time


class Linker(Protocol):
    """Whatever links the words of a bitext."""

    def links(self, bitext: Bitext) -> Links: ...


@dataclass(frozen=True)
class Bidirectional:
    """A source-to-target and a target-to-source aligner, symmetrised.

    Attributes:
        forward: aligner of bitexts as they are.
        reverse: aligner of bitexts with their sides exchanged.
        method: a name in :data:`alignkit.links.symmetrization.METHODS`, or ``product``, for aligners that have
            alpha scores (see :func:`symmetrize_product`).
        threshold: of ``product``.
        threads: of symmetrisation; all there are by default, and no result depends on it.
    """

    forward: Linker
    reverse: Linker
    method: str = SYMMETRIZATION
    threshold: float = THRESHOLD
    threads: int | None = None

    def links(self, bitext: Bitext) -> Links:
        """Both aligners' links, combined."""
        if self.method == PRODUCT:
            return self._product(bitext)
        if type(self.forward) is IBM1 and type(self.reverse) is IBM1:  # whose links are one place for each word
            places = self.forward.best_positions(bitext), self.reverse.best_positions(bitext.reversed)
            return symmetrize_places(*places, bitext, self.method, self.threads)
        forward, reverse = self.forward.links(bitext), self.reverse.links(bitext.reversed).reversed
        return symmetrize(forward, reverse, self.method, self.threads)

    def _product(self, bitext: Bitext) -> Links:
        if not (isinstance(self.forward, Aligner) and isinstance(self.reverse, Aligner)):
            raise AlignkitError(f"{PRODUCT} needs aligners with alpha scores")
        parts = []
        for low in range(0, max(len(bitext), 1), BLOCK):  # all matrices at once would be most of the memory
            block = bitext.take(np.arange(low, min(low + BLOCK, len(bitext))))
            scores = self.forward.score(block, "alpha"), self.reverse.score(block.reversed, "alpha")
            parts.append(symmetrize_product(*scores, self.threshold))
        return Links.concatenated(parts)


def fit_bidirectional(
    bitext: Bitext, fit: Callable[[Bitext], Linker] = fit_ibm1, method: str = SYMMETRIZATION
) -> Bidirectional:
    """Fit both directions, one after the other, with IBM Model 1 or ``fit``."""
    return Bidirectional(fit(bitext), fit(bitext.reversed), method)


def fit_concurrently(
    bitext: Bitext,
    fit: Callable[[Bitext, int], Linker],
    method: str = SYMMETRIZATION,
    threads: int | None = None,
) -> Bidirectional:
    """Fits both directions at once, with half of the threads each.

    A fit has stretches that only one thread can do, and two fits never have them at the same time.

    Args:
        bitext: M pairs.
        fit: called as ``fit(bitext, threads)``; its result must not depend on the threads.
        method: of symmetrisation.
        threads: for both together; all there are by default. With one, the fits follow each other.
    """
    threads = thread_count(threads)
    bags_of(bitext, threads)  # both directions want them
    sides = [bitext, bitext.reversed]
    if threads == 1:
        forward, reverse = (fit(side, 1) for side in sides)
    else:
        with ThreadPoolExecutor(2) as pool:
            shares = (threads - threads // 2, threads // 2)
            forward, reverse = pool.map(fit, sides, shares)
    return Bidirectional(forward, reverse, method, threads=threads)
