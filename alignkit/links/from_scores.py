"""Links from scores, or from the position of each target word's source word; the scores of links."""

from __future__ import annotations

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.kernels import sentence_pairs
from alignkit.links.links import Links
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import blocks, blocks_of_size, run_blocks, run_evenly, thread_count
from alignkit.text.bitext import Bitext

OTHER_PAIRS = "links and scores are not of the same sentence pairs"


def link_places(links: Links, shapes: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """int64 (K,): the place of each link among the elements of the pairs' matrices, one after another.

    Args:
        links: of M pairs.
        shapes: int (M, 2), of the matrices.
        transposed: these are of the reversed pairs, (L, T) each.

    Raises:
        AlignkitError: a link is outside its matrix.
    """
    m, (s, t) = links.sentences, links.pairs.T.astype(np.int64)
    row, column = (s, t) if transposed else (t, s)
    if len(links) != len(shapes) or (row >= shapes[m, 0]).any() or (column >= shapes[m, 1]).any():
        raise AlignkitError(OTHER_PAIRS)
    return flat_offsets(shapes)[m] + row * shapes[m, 1] + column


def scores_of_links(links: Links, scores: Scores, *, transposed: bool = False) -> np.ndarray:
    """float64 (K,): the score of each link.

    Args:
        links: of M pairs.
        scores: of the same pairs, (T, L) each.
        transposed: the scores are those of the reversed pairs, (L, T) each.

    Raises:
        AlignkitError: a link is outside its matrix.
    """
    if len(scores) != len(links):
        raise AlignkitError(OTHER_PAIRS)
    found, offsets = np.empty(len(links.pairs)), links.offsets
    for low, high in blocks_of_size(offsets, 1 << 17):
        places = link_places(links.block(low, high), scores.shapes[low:high], transposed=transposed)
        found[offsets[low] : offsets[high]] = scores.values[scores.offsets[low] + places]
    return found


def are_linked(links: Links, shapes: np.ndarray) -> np.ndarray:
    """bool (N,): which elements of the pairs' matrices are links."""
    found = np.zeros(flat_offsets(shapes)[-1], bool)
    found[link_places(links, shapes)] = True
    return found


def best_links(scores: Scores, *, null: bool = True) -> Links:
    """Link each target word to the source word with the largest score, the first of several.

    Args:
        scores: of M pairs.
        null: True for ``alpha`` of an aligner: a target word stays unlinked if NULL is more probable than the best
            source word, or this has probability 0; NULL's posterior is the difference between 1 and the sum of the
            row. False for other scores, as attention or logarithms: it does if all scores of its row are 0, as
            the logarithm of 1 for an only source word is.
    """
    sentences: list[list[tuple[int, int]]] = []
    for matrix in scores:
        if matrix.size == 0:
            sentences.append([])
            continue
        best = matrix.argmax(axis=1)
        value = matrix[np.arange(len(matrix)), best]
        missing = 1 - matrix.sum(axis=1, dtype=np.float64)
        linked = np.flatnonzero((value > 0) & (value >= missing) if null else matrix.any(axis=1))
        sentences.append([(int(best[t]), int(t)) for t in linked])
    return Links.from_lists(sentences)


def with_every_word(links: Links, scores: Scores) -> Links:
    """The links and, for each source and each target word that has none, the one with its largest score, the first
    of several. Words of a pair with a blank side stay unlinked.

    Args:
        links: of M pairs.
        scores: of the same pairs.

    Raises:
        AlignkitError: these are not of the same sentence pairs.

    >>> scores = Scores.from_matrices([np.array([[0.9, 0.3], [0.2, 0.1], [0.1, 0.4]])])
    >>> with_every_word(links_above(scores, 0.5), scores).to_strings()
    ['0-0 0-1 1-2']
    """
    linked = are_linked(links, scores.shapes)
    sentences: list[list[tuple[int, int]]] = []
    for m, matrix in enumerate(scores):
        own = linked[scores.offsets[m] : scores.offsets[m + 1]].reshape(matrix.shape)
        if matrix.size:
            s, t = (np.flatnonzero(~own.any(axis=axis)) for axis in (0, 1))
            own[matrix[:, s].argmax(axis=0), s] = True
            own[t, matrix[t].argmax(axis=1)] = True
        sentences.append([(int(s), int(t)) for s, t in np.argwhere(own.T)])
    return Links.from_lists(sentences)


def links_above(scores: Scores, threshold: float, threads: int | None = None) -> Links:
    """Link each target word to all source words with a positive score of at least ``threshold``.

    Args:
        scores: of M pairs.
        threshold: rounded to float32 like the scores, so that a score of 0.7 reaches a threshold of 0.7.
        threads: number of threads, all cores by default; the result does not depend on it.
    """
    return linked_above(scores, threshold, threads)[0]


def linked_above(scores: Scores, threshold: float, threads: int | None = None) -> tuple[Links, np.ndarray]:
    """Links as of :func:`links_above`, and the score of each, float64 (K,)."""
    offsets = np.zeros(len(scores) + 1, np.int64)
    bound, threads = np.float32(threshold), thread_count(threads)
    ranges = blocks(scores.offsets, threads)

    values, places = scores.values, scores.offsets
    run_blocks(lambda *span: sentence_pairs.count_above(*span, values, places, bound, offsets), ranges, threads)
    np.cumsum(offsets, out=offsets)
    pairs, found = np.empty((offsets[-1], 2), np.int32), np.empty(offsets[-1])
    arrays = (values, places, scores.shapes), bound, offsets, pairs, found
    run_blocks(lambda *span: sentence_pairs.fill_links_above(*span, *arrays), ranges, threads)
    return Links.unchecked(pairs, offsets), found


def links_from_positions(positions: np.ndarray, bitext: Bitext, threads: int | None = None) -> Links:
    """Link each target token to the source token at a given position.

    Args:
        positions: int32 (N_tgt,), for each target token the position of its source token within the sentence, or
            -1 for none.
        bitext: M pairs.
        threads: number of threads, all cores by default; the result does not depend on it.
    """
    threads = thread_count(threads)
    source, target = bitext.source.offsets, bitext.target.offsets
    offsets = np.zeros(len(target), np.int64)
    for low, high in blocks_of_size(target, 1 << 20):
        starts = target[low : high + 1]
        linked = offsets_of(positions[starts[0] : starts[-1]] >= 0)
        offsets[low : high + 1] = offsets[low] + linked[starts - starts[0]]
    pairs = np.empty((offsets[-1], 2), np.int32)
    longest = int(bitext.source.lengths.max(initial=0))
    arrays = positions, (source, target), offsets, pairs
    run_evenly(
        lambda *span: sentence_pairs.fill_links_from_positions(*span, *arrays, np.zeros(longest + 1, np.int64)),
        target,
        threads,
    )
    return Links.unchecked(pairs, offsets)
