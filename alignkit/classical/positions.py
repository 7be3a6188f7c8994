"""The diagonal model's distribution of source positions."""

from __future__ import annotations

import numpy as np

from alignkit.classical.exchange import ALONE, Exchange
from alignkit.classical.settings import TENSION_RANGE
from alignkit.kernels import diagonal as kernels
from alignkit.kernels.diagonal import Exponentials, PositionTotals, Shapes
from alignkit.text.bitext import Bitext

_TABLE = 1 << 20  # numbers that may be counted in a table whatever their number
_STEPS, _RATE = 8, 20.0  # of the gradient ascent on the tension, once per EM iteration


def _distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of numbers int64 (N,), at least 0: the different ones, rising; which of them each is; how many are equal."""
    size = int(codes.max(initial=-1)) + 1
    if size > max(_TABLE, len(codes)):
        return np.unique(codes, return_inverse=True, return_counts=True)
    counts = np.bincount(codes, minlength=size)  # no sorting, and less memory
    own = np.flatnonzero(counts)
    number = np.zeros(size, np.int32)
    number[own] = np.arange(len(own))
    return own, number[codes], counts[own]


class PositionDistribution:
    """p(a_t = l) for every pair of a bitext: exp(-tension |t/T - l/L|), normalised over l.

    Args:
        bitext: M pairs; those with an empty side have no distribution.
        tension: how strongly the diagonal is favoured; positive.
        exchange: with the processes that have other parts of the text, whose pairs count too.

    Attributes:
        shapes: the different (T, L) of the pairs.
        totals: the sum of the weights of all source positions, for each target position of each shape.
        distances: float64 like ``totals``, the expected |t/T - l/L|.
        tokens: int64 like ``totals``, how many target tokens of the bitext have this position and shape.
        exponentials: see :class:`alignkit.kernels.diagonal.Exponentials`.
    """

    def __init__(self, bitext: Bitext, tension: float, exchange: Exchange = ALONE) -> None:
        source, target = bitext.source.lengths, bitext.target.lengths
        full = (source > 0) & (target > 0)
        width = exchange.largest(int(source.max(initial=0))) + 1
        own, which, counts = _distinct(target[full] * width + source[full])
        codes, counts = exchange.merged_counts(own, counts)
        which = np.searchsorted(codes, own)[which]
        lengths = np.stack([codes // width, codes % width], axis=1)
        starts = np.concatenate([[0], np.cumsum(lengths[:, 0])])
        self.shapes = Shapes(lengths, starts)
        self.tokens = np.repeat(counts, lengths[:, 0])
        start_of = np.full(len(bitext), -1, np.int64)
        start_of[full] = starts[which]
        self.totals = PositionTotals(start_of, np.empty(int(starts[-1])))
        self.distances = np.empty(int(starts[-1]))
        # Exponentials of the lengths that occur: together no longer than the text.
        self._lengths = np.unique(lengths)
        starts = np.full(int(self._lengths.max(initial=0)) + 1, -1, np.int64)
        ends = np.cumsum(self._lengths)
        starts[self._lengths] = ends - self._lengths
        size = int(ends[-1]) if len(ends) else 0
        self.exponentials = Exponentials(starts, np.empty(size, np.float32), np.empty(size, np.float32))
        self.set_tension(tension)

    def set_tension(self, tension: float) -> None:
        """Make this the distribution for another tension."""
        self.tension = float(tension)
        kernels.fill_exponentials(self._lengths, self.tension, self.exponentials)
        kernels.normalisers(self.shapes, self.tension, self.totals.totals, self.distances)

    def fit_tension(self, distance: float) -> None:
        """Move the tension towards the one whose expected distance, averaged over the tokens, is ``distance``.

        Gradient ascent on the likelihood (Dyer et al. 2013, section 3), whose derivative with respect to the
        tension is the expected distance minus the posterior one.
        """
        tension = self.tension
        totals, distances = np.empty_like(self.distances), np.empty_like(self.distances)
        for _ in range(_STEPS):
            kernels.normalisers(self.shapes, tension, totals, distances)
            tension += _RATE * (float(self.tokens @ distances) / max(int(self.tokens.sum()), 1) - distance)
            tension = min(max(tension, TENSION_RANGE[0]), TENSION_RANGE[1])
        self.set_tension(tension)
