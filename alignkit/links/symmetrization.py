"""Symmetrization: two directed alignments of the same text combined into one."""

from __future__ import annotations

import numpy as np

from alignkit.errors import AlignkitError, counted
from alignkit.kernels import sentence_pairs
from alignkit.kernels import symmetrization as kernels
from alignkit.links.heuristics import DEFAULT_METHOD, DEFAULT_THRESHOLD, Heuristic, find_heuristic
from alignkit.links.links import Links, LinksLike, as_links
from alignkit.scores import Scores
from alignkit.support.arrays import close_gaps, offsets_of
from alignkit.support.threads import blocks, run_blocks, thread_count

#: An index beyond this is refused as a mistake, because the memory needed depends on the largest index.
MOST_TOKENS = 1 << 24
_FEWEST_BLOCKS = 1 << 12


def product_links(forward: Scores, reverse: Scores, threshold: float) -> Links:
    """Links whose posteriors p and q in the two directions have a geometric mean sqrt(p q) >= threshold (and > 0).

    The product of posteriors follows Liang, Taskar and Klein (2006); the threshold trades precision for recall. It
    needs models with sharp posteriors: after IBM Model 1, grow-diag-final-and has a lower AER.
    """
    offsets = np.zeros(len(forward) + 1, np.int64)
    # Compare squares, with a margin for rounding, so that a mean equal to the threshold always reaches it.
    bound = threshold**2 * (1 - 1e-12)
    matrices = (forward.values, reverse.values, forward.shapes, forward.offsets)
    sentence_pairs.find_products(*matrices, bound, False, (np.empty((0, 2), np.int32), offsets))
    pairs = np.empty((offsets[-1], 2), np.int32)
    sentence_pairs.find_products(*matrices, bound, True, (pairs, offsets))
    return Links(pairs, offsets)


def symmetrize(
    forward: LinksLike, reverse: LinksLike, method: str | Heuristic = DEFAULT_METHOD, threads: int | None = None
) -> Links:
    """Combine two alignments of the same M pairs by a heuristic on links.

    Args:
        forward: links (s, t) of the source-to-target model, whose points come first in the final step; or lists
            (see :func:`alignkit.links.links.as_links`).
        reverse: links (s, t) of the target-to-source model, also with the source index first.
        method: the name of a heuristic in ``HEURISTICS`` that does not need scores, or one that is not there.
        threads: number of threads, all cores by default; the result does not depend on it.

    Raises:
        AlignkitError: an unknown method, different numbers of sentence pairs, or an index of millions.

    >>> symmetrize(["0-0 1-1 1-2"], ["0-0 1-1 2-2"], "intersection").to_strings()
    ['0-0 1-1']
    """
    heuristic = method if isinstance(method, Heuristic) else find_heuristic(method, needs_scores=False)
    forward, reverse = as_links(forward), as_links(reverse)
    if len(forward) != len(reverse):
        raise AlignkitError(f"{counted(len(forward), 'pair')} in one alignment, {len(reverse):,} in the other")
    if not len(forward.pairs) + len(reverse.pairs):
        return forward
    length, height = (
        1 + int(max(links.pairs[:, side].max(initial=-1) for links in (forward, reverse))) for side in (0, 1)
    )
    if max(length, height) > MOST_TOKENS:
        raise AlignkitError(f"a link has the token index {max(length, height) - 1}; no sentence is that long")
    if heuristic.steps is None:
        return heuristic.load()(forward, reverse)
    most = forward.offsets + reverse.offsets  # where the links of each pair would start if all were kept
    size = max(int(np.diff(most).max()), min(height, _FEWEST_BLOCKS)) + 2
    sizes = np.zeros(len(forward), np.int64)
    pairs = np.empty((most[-1], 2), np.int32)

    def combine(low: int, high: int) -> None:
        directions = (forward.pairs, forward.offsets), (reverse.pairs, reverse.offsets)
        workspace = kernels.Workspace(
            np.empty((4, size), np.uint64),
            kernels.BlockLayout(
                np.empty(size, np.int32), np.empty(size, np.int32), np.empty(height + 3, np.int32)
            ),
            np.empty(length // kernels.BLOCK_WIDTH + 1, np.uint64),
            np.zeros(max(length, height) + 1, np.int32),
        )
        kernels.symmetrize_pairs(low, high, *directions, heuristic.steps, workspace, (pairs, sizes))

    threads = thread_count(threads)
    ranges = blocks(most, threads)
    run_blocks(combine, ranges, threads)
    offsets = offsets_of(sizes)
    close_gaps(pairs, ranges, most, offsets)  # between the blocks of the threads
    return Links(pairs, offsets)


def symmetrize_scores(
    forward: Scores, reverse: Scores, method: str = "product", threshold: float = DEFAULT_THRESHOLD
) -> Links:
    """Combine the scores of both directions by a heuristic on scores.

    Args:
        forward: alpha of M pairs, (T, L) each, of the source-to-target model.
        reverse: alpha of the same pairs reversed, (L, T) each, of the target-to-source model.
        method: the name of a heuristic in ``HEURISTICS`` that needs scores.
        threshold: in [0, 1].

    Raises:
        AlignkitError: an unknown method, shapes that do not match, or a threshold outside [0, 1].
    """
    combine = find_heuristic(method, needs_scores=True).load()
    if not np.array_equal(forward.shapes, reverse.shapes[:, ::-1]):
        raise AlignkitError("the two scores are not of the same sentence pairs, one of them reversed")
    if not 0 <= threshold <= 1:
        raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
    return combine(forward, reverse, threshold)
