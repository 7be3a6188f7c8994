"""Fit an aligner of one direction, or of both."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from alignkit.aligner.protocol import Aligner
from alignkit.aligner.symmetrized import Symmetrized
from alignkit.classical.inverted_index import bags_of
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.parallel import thread_count
from alignkit.text.bitext import Bitext


def fit_symmetrized(
    bitext: Bitext,
    fit: Callable[[Bitext, int], Aligner],
    method: str = DEFAULT_METHOD,
    threshold: float | None = None,
    *,
    threads: int | None = None,
    at_once: bool = True,
) -> Symmetrized:
    """Fit both directions, at the same time with half of the threads each.

    A fit has stretches that only one thread can do, and two fits never have them at the same time.

    Args:
        bitext: M pairs.
        fit: called as ``fit(bitext, threads)``; its result must not depend on the threads.
        method, threshold: of :class:`Symmetrized`.
        threads: for both together; all there are by default. With one, the fits follow each other.
        at_once: False to fit one direction after the other, which takes less memory.
    """
    threads = thread_count(threads)
    sides = [bitext, bitext.reversed]
    if threads == 1 or not at_once:
        forward, reverse = (fit(side, threads) for side in sides)
    else:
        bags_of(bitext, threads)  # both directions use them
        with ThreadPoolExecutor(2) as pool:
            forward, reverse = pool.map(fit, sides, (threads - threads // 2, threads // 2))
    return Symmetrized(forward, reverse, method, threshold, threads)
