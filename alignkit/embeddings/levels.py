"""How alike two tokens are among those of their sentence pair, in levels: 0 is the most alike."""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

import numpy as np

from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import in_runs
from alignkit.support.threads import run_evenly
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

#: The number of levels. One more stands for tokens about which nothing is known.
LEVELS = 32
UNKNOWN = LEVELS
#: The first of as many levels of other evidence, which may stand for elements without known likeness.
OPINIONS = UNKNOWN + 1
#: Of the softmax of cosines; and the width of a level, in natural logarithms.
TEMPERATURE, STEP = 0.1, 0.25
#: Embeddings know a text if the share of its target words with a source word below this level, times its ratio
#: to that beside other pairs, is above this bound. The others are up to so many places before, of some pairs of so
#: many words on each side.
CLOSE, LEAST_KNOWN = 4, 0.85
LEAST_PAIRS, MOST_PAIRS, LEAST_WORDS, PLACES = 20, 200, 6, 3

log = logging.getLogger(__name__)


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


class OfDoubtfulPairs:
    """Embeddings of those pairs of a text whose links are the most doubtful; nothing is known of most others.

    Args:
        inner: the embeddings.
        probabilities: of all links of the M pairs, found without embeddings.
        most: the number of pairs that are looked at.
    """

    def __init__(self, inner: Embeddings, probabilities: Scores, most: int) -> None:
        self.inner = inner
        # The share of decisions to expect to be wrong, by word: a long pair takes longer to encode.
        wrong = np.append(np.minimum(probabilities.values, 1 - probabilities.values), 0)
        doubt = np.add.reduceat(wrong, probabilities.offsets[:-1]) / probabilities.shapes.sum(axis=1)
        order = np.argsort(-doubt, kind="stable")
        # A tenth, of the whole text, come first: tell_translations judges embeddings by the first pairs.
        long = np.flatnonzero(probabilities.shapes.min(axis=1) >= LEAST_WORDS)
        drawn = long[np.linspace(0, len(long) - 1, min(len(long), most // 10)).astype(np.int64)]
        self.pairs = np.concatenate([drawn, order[~np.isin(order, drawn)]])[:most]

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """See :class:`Embeddings`; of the bitext that the probabilities are of."""
        offsets = flat_offsets(bitext.shapes)
        levels = np.full(offsets[-1], UNKNOWN, np.uint8)
        places = in_runs(offsets[self.pairs], np.diff(offsets)[self.pairs])
        levels[places] = self.inner.levels(bitext.take(self.pairs).with_own_words(), threads, progress)
        return levels


def known_levels(
    embeddings: Embeddings | None, bitext: Bitext, threads: int, progress: Progress | None = None
) -> np.ndarray | None:
    """The levels of embeddings (:meth:`Embeddings.levels`); None if there are none, or they know nothing."""
    levels = None if embeddings is None else embeddings.levels(bitext, threads, progress)
    if levels is None or (levels != UNKNOWN).any():
        return levels
    log.info("the embeddings hardly know these languages: links are found without them")
    return None


def tell_translations(bitext: Bitext, source: np.ndarray, target: np.ndarray) -> bool:
    """False if few target words have a source word close to them, and hardly more than beside another source.

    So it is where an encoder has not learned a language. In texts of a narrow domain, words are close to those of
    other pairs, too, but most are close to some; of a distant language few are, but hardly any in other pairs.
    True if there are few different pairs of several words.

    Args:
        source, target: as of :func:`fill_levels`.
    """
    rows = [np.split(side, own.offsets[1:-1]) for side, own in ((source, bitext.source), (target, bitext.target))]
    long = np.flatnonzero(bitext.shapes.min(axis=1) >= LEAST_WORDS).tolist()
    chosen = [*{rows[0][m].tobytes(): m for m in long}.values()][:MOST_PAIRS]  # each source sentence once
    if len(chosen) < LEAST_PAIRS:
        return True
    close = []
    for step in range(PLACES + 1):
        both = [(rows[1][m], rows[0][n]) for m, n in zip(chosen, np.roll(chosen, step).tolist(), strict=True)]
        close.append(np.concatenate([likeness_levels(*each).min(axis=1) < CLOSE for each in both]))
    share, of_others = close[0].mean(), np.mean(close[1:])
    return bool(share * share > LEAST_KNOWN * of_others)


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


def centred(vectors: np.ndarray, centre: np.ndarray | np.float32, spread: np.ndarray | None = None) -> np.ndarray:
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
