"""How alike two tokens are among those of their sentence pair, in levels: 0 is the most alike."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from alignkit.scores import flat_offsets
from alignkit.support.threads import run_evenly
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

#: The number of levels. One more stands for tokens about which nothing is known.
LEVELS = 32
UNKNOWN = LEVELS
#: Of the softmax of cosines; and the width of a level, in natural logarithms.
TEMPERATURE, STEP = 0.1, 0.25


@runtime_checkable
class Embeddings(Protocol):
    """Vectors of words, by which the tokens of a sentence pair are compared."""

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """uint8 (P,): the levels of the (T, L) matrices of all pairs, row by row, one after another.

        Args:
            bitext: M pairs of words as they are written.
            threads: how many to use; no result depends on it.
            progress: called with (pairs done, M, message).
        """
        ...


def likeness_levels(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """uint8 (T, L): the levels of one sentence pair.

    The likeness of two tokens is the geometric mean of two softmaxes of the cosines, over the source and over the
    target tokens (as Jalili Sabet et al. 2020 and Dou and Neubig 2021 intersect them); level n is from exp(-n / 4)
    down to exp(-(n + 1) / 4), and the last one everything below.

    Args:
        target, source: float32 (T, D) and (L, D), unit vectors, or zeros for tokens of which nothing is known.
    """
    levels = np.full((len(target), len(source)), UNKNOWN, np.uint8)
    rows, columns = (np.flatnonzero(side.any(axis=1)) for side in (target, source))
    if len(rows) and len(columns):
        cosines = target[rows] @ source[columns].T / np.float32(TEMPERATURE)
        mean = (_log_softmax(cosines, 1) + _log_softmax(cosines, 0)) / 2
        levels[np.ix_(rows, columns)] = np.minimum(mean * np.float32(-1 / STEP), LEVELS - 1)
    return levels


def fill_levels(bitext: Bitext, source: np.ndarray, target: np.ndarray, levels: np.ndarray, threads: int) -> None:
    """Fills the levels of M sentence pairs, uint8 (P,).

    Args:
        source, target: float32 (N_src, D) and (N_tgt, D), the tokens' unit vectors, or zeros.
        threads: how many to use; no result depends on it.
    """
    offsets = flat_offsets(bitext.shapes)

    def fill(low: int, high: int) -> None:
        for m in range(low, high):
            x = source[bitext.source.offsets[m] : bitext.source.offsets[m + 1]]
            y = target[bitext.target.offsets[m] : bitext.target.offsets[m + 1]]
            levels[offsets[m] : offsets[m + 1]] = likeness_levels(y, x).reshape(-1)

    run_evenly(fill, offsets, threads)


def centred(vectors: np.ndarray, centre: np.ndarray, spread: np.ndarray | None = None) -> np.ndarray:
    """Unit vectors float32 (N, D) from a centre, their features divided by a spread (D,); zeros stay zeros.

    What all vectors of a language have in common hides in what they differ.
    """
    known = vectors.any(axis=1, keepdims=True)
    moved = np.where(known, vectors - centre, np.float32(0))
    if spread is not None:
        moved /= np.maximum(spread, np.float32(1e-9))
    return moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), np.float32(1e-9))


def _log_softmax(values: np.ndarray, axis: int) -> np.ndarray:
    moved = values - values.max(axis=axis, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=axis, keepdims=True))
