"""Evidence for a link from how alike two tokens are, such as that of embeddings, weighed by the text itself."""

from __future__ import annotations

import numpy as np

from alignkit.embeddings.levels import LEVELS, STEP
from alignkit.kernels.hmm_e_step import Likeness
from alignkit.kernels.packed_links import unpacked_links

# The ratios at first, as counted on gold links of Danish-English and Hebrew-English, both as logarithms: those of
# the likeness (levels.likeness_levels), and those of the ratio. They count as much as so many links.
LOG_LIKENESS = -np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.25, 4.5, 6.5, 7.75])
LOG_RATIO = np.array([7.5, 5.5, 4.5, 3.8, 3.2, 2.4, 1.8, 0.1, -1.4, -4.0, -4.5])
PRIOR_LINKS = 200.0


class LevelRatios:
    """How much likelier each level of likeness is where there is a link than elsewhere, estimated with the links.

    The levels of a sentence pair are not independent, so a ratio counts with an exponent.

    Args:
        levels: uint8 (P,), of every element of the text's matrices (:mod:`alignkit.embeddings.levels`).
        exponent: of the ratios.
    """

    def __init__(self, levels: np.ndarray, exponent: float) -> None:
        self.levels, self.exponent = levels, exponent
        counts = _counted(levels) + 1
        self.shares = counts / counts.sum()
        first = np.interp(STEP * np.arange(LEVELS), -LOG_LIKENESS, LOG_RATIO)
        expected = self.shares * np.exp(first)
        self.prior = PRIOR_LINKS * expected / expected.sum()
        self.ratios = np.ones(LEVELS + 1, np.float32)
        self._set(np.exp(first))

    @property
    def likeness(self) -> Likeness:
        """As the kernels take it; :meth:`update` changes it."""
        return Likeness(self.levels, self.ratios)

    def update(self, elements: np.ndarray) -> None:
        """New ratios from the expected links of elements uint32 (P,)."""
        linked = _counted(self.levels, elements) + self.prior
        self._set(linked / linked.sum() / self.shares)

    def _set(self, ratios: np.ndarray) -> None:
        self.ratios[:LEVELS] = np.maximum(ratios, 1e-6) ** self.exponent


def _counted(levels: np.ndarray, elements: np.ndarray | None = None) -> np.ndarray:
    """float64 (LEVELS,): the number of elements of each level, or the sum of their expected links."""
    counts, step = np.zeros(LEVELS + 1), 1 << 22
    for low in range(0, len(levels), step):
        part = None if elements is None else unpacked_links(elements[low : low + step])
        counts += np.bincount(levels[low : low + step], part, minlength=LEVELS + 1)
    return counts[:LEVELS]
