"""Links between units, which are parts of words or several words, as links between words; and the reverse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.hmm_rows import ONE, ZERO
from alignkit.kernels.link_probabilities import chance_of, log_odds_of


class UnitCounts(NamedTuple):
    """One side of a text: the number of units of each word, or of words of each unit."""

    counts: np.ndarray  # int64 (N,), at least 1
    offsets: np.ndarray  # int64 (M + 1,), where each sentence starts in ``counts``


@kernel
def _total(counts):
    """Their sum; a kernel that called NumPy's would have to load what Numba knows of NumPy, and SciPy."""
    total = 0
    for count in counts:
        total += count
    return total


@kernel
def fill_merged(low, high, source, target, matrices, words):
    """words = the log-odds of links between words of pairs low <= m < high.

    The probability of a pair of words is the sum over the source word's units of the mean over the target word's,
    at most 1.

    Args:
        source, target: :class:`UnitCounts`.
        matrices: (values float32, offsets int64 (M + 1,)), log-odds of links between units, row by row.
        words: the same between words; filled.
    """
    values, starts = matrices
    found, word_starts = words
    for m in range(low, high):
        first, last = source.offsets[m], source.offsets[m + 1]
        width = _total(source.counts[first:last])
        row, place = starts[m], word_starts[m]
        for t in range(target.offsets[m], target.offsets[m + 1]):
            count = target.counts[t]
            share = ONE / np.float32(count)
            column = row
            for s in range(first, last):
                total = ZERO
                for u in range(count):
                    for k in range(source.counts[s]):
                        total += chance_of(values[column + u * width + k])
                column += source.counts[s]
                found[place] = log_odds_of(total * share)
                place += 1
            row += count * width


@kernel
def spread_values(low, high, source, target, wholes, parts):
    """Gives each pair of parts, in pairs low <= m < high, the value of their wholes: to units those of the words
    that they are parts of, or to words those of the units that have several.

    Args:
        source, target: :class:`UnitCounts`, of the parts of each whole.
        wholes: (values, offsets int64 (M + 1,)), of the pairs of wholes, row by row.
        parts: the same of the pairs of parts; filled.
    """
    values, whole_starts = wholes
    found, starts = parts
    for m in range(low, high):
        first, last = source.offsets[m], source.offsets[m + 1]
        here, place = whole_starts[m], starts[m]
        for t in range(target.offsets[m], target.offsets[m + 1]):
            for _ in range(target.counts[t]):
                for s in range(first, last):
                    for _ in range(source.counts[s]):
                        found[place] = values[here + s - first]
                        place += 1
            here += last - first


@kernel
def fill_means(low, high, source, target, words, units, unknown):
    """Gives each pair of units of pairs low <= m < high the mean level of its pairs of words, rounded, or
    ``unknown`` if nothing is known of any of them; those of which nothing is known do not count.

    Args:
        source, target: :class:`UnitCounts`, of the words of each unit.
        words: (values uint8, offsets int64 (M + 1,)), of the pairs of words, row by row.
        units: the same of the pairs of units; filled.
        unknown: what stands for a pair of which nothing is known.
    """
    values, word_starts = words
    found, starts = units
    for m in range(low, high):
        first, last = source.offsets[m], source.offsets[m + 1]
        width = _total(source.counts[first:last])
        row, place = word_starts[m], starts[m]
        for t in range(target.offsets[m], target.offsets[m + 1]):
            count, column = target.counts[t], row
            for s in range(first, last):
                total, known = 0, 0
                for u in range(count):
                    for k in range(source.counts[s]):
                        value = values[column + u * width + k]
                        if value != unknown:
                            total += value
                            known += 1
                found[place] = (2 * total + known) // (2 * known) if known else unknown
                column += source.counts[s]
                place += 1
            row += count * width
