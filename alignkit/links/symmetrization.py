"""Two directed alignments into one (Och and Ney 2003; Koehn et al. 2003 for the growing heuristics)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.kernels import symmetrization as kernels
from alignkit.kernels.symmetrization_bits import MOST_SOURCE_WORDS, MOST_TARGET_WORDS
from alignkit.links.links import Links
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

#: The method that needs both directions' posteriors, not only their links: :func:`symmetrize_product`.
PRODUCT = "product"
#: Of the geometric mean of both posteriors; about the best for IBM Model 1 on three development sets.
THRESHOLD = 0.2
#: Work space is by the longest sentence; a link beyond this is a mistake.
MOST_TOKENS = 1 << 24
#: method -> (start: 0 intersection or 1 union, grow 0 or 1, final 0 none, 1 or, 2 and)
METHODS: dict[str, tuple[int, int, int]] = {
    "intersection": (0, 0, 0),
    "union": (1, 0, 0),
    "grow-diag": (0, 1, 0),
    "grow-diag-final": (0, 1, 1),
    "grow-diag-final-and": (0, 1, 2),
}


def symmetrize(
    forward: Links, reverse: Links, method: str = "grow-diag-final-and", threads: int | None = None
) -> Links:
    """Combines two alignments of the same M pairs, both with links (s, t), source first.

    Args:
        forward: links of the source-to-target model; its points come first in the "final" step.
        reverse: links of the target-to-source model, already turned to source first.
        method: a name in ``METHODS``, as Moses defines them.
        threads: all there are by default; the result does not depend on it.

    Raises:
        AlignkitError: unknown method, different numbers of sentence pairs, or an index of millions.
    """
    if method not in METHODS:
        raise AlignkitError(f"unknown method {method!r}; known are {', '.join(METHODS)}")
    if len(forward) != len(reverse):
        raise AlignkitError(f"{len(forward)} sentence pairs in one alignment, {len(reverse)} in the other")
    if not len(forward.pairs) + len(reverse.pairs):
        return forward
    sizes = [int(np.diff(links.offsets).max()) for links in (forward, reverse)]
    length, height = (
        2 + int(max(links.pairs[:, side].max(initial=-1) for links in (forward, reverse))) for side in (0, 1)
    )
    if max(length, height) > MOST_TOKENS:
        raise AlignkitError(f"a link points to token {max(length, height) - 2}: no sentence has that many")
    directions = [(links.pairs, links.offsets) for links in (forward, reverse)]
    room = _Room((sizes[0], sizes[1]), (length, height))
    return _in_blocks(kernels.symmetrise, directions, METHODS[method], room, thread_count(threads))


def symmetrize_places(
    forward: np.ndarray,
    reverse: np.ndarray,
    bitext: Bitext,
    method: str = "grow-diag-final-and",
    threads: int | None = None,
) -> Links:
    """:func:`symmetrize` for two aligners that give each word one word of the other side.

    Args:
        forward: int32 (N_tgt,), for each target token of the text the place of its source word, -1 for none.
        reverse: int32 (N_src,), for each source token the place of its target word.
        bitext: M pairs.
        method, threads: as of :func:`symmetrize`.

    Raises:
        AlignkitError: unknown method, or places that are not of this text.
    """
    if method not in METHODS:
        raise AlignkitError(f"unknown method {method!r}; known are {', '.join(METHODS)}")
    length, height = (int(side.lengths.max(initial=0)) for side in (bitext.source, bitext.target))
    if (len(forward), len(reverse)) != (len(bitext.target.tokens), len(bitext.source.tokens)):
        raise AlignkitError("the places are not those of this text's words")
    directions = [(forward, bitext.target.offsets), (reverse, bitext.source.offsets)]
    room = _Room((height, length), (length + 2, height + 2))
    return _in_blocks(kernels.symmetrise_places, directions, METHODS[method], room, thread_count(threads))


@dataclass(frozen=True)
class _Room:
    """What a thread needs room for.

    Attributes:
        points: of a sentence pair at most, in the forward and in the reverse direction.
        sides: more than L and T of the longest sentences, by one at least.
    """

    points: tuple[int, int]
    sides: tuple[int, int]

    def arrays(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """``work`` and ``used`` of the kernels."""
        length, height = self.sides
        first, second, points = (np.empty((size, 2), np.int32) for size in (*self.points, sum(self.points)))
        work = (
            *(first, second, points, np.empty(len(points), np.uint8)),
            *(np.empty(height, np.int32), np.empty(height + 1, np.int32)),
            np.zeros(max(length, height, MOST_SOURCE_WORDS + 1), np.int32),
            np.empty((4, min(height, MOST_TARGET_WORDS) + 2), np.uint64),
        )
        return work, (np.zeros(height, np.bool_), np.zeros(length, np.bool_))


def _in_blocks(
    kernel: Callable[..., None],
    directions: list[tuple[np.ndarray, np.ndarray]],
    steps: tuple[int, int, int],
    room: _Room,
    threads: int,
) -> Links:
    """Runs a kernel over blocks of sentences; the second array of a direction says where each sentence starts."""
    most = directions[0][1] + directions[1][1]
    sizes = np.zeros(len(most) - 1, np.int64)
    pairs = np.empty((most[-1], 2), np.int32)

    def combine(low: int, high: int) -> None:
        kernel(low, high, *directions, steps, *room.arrays(), (pairs, sizes))

    ranges = blocks(np.diff(most), threads)
    run_blocks(combine, ranges, threads)
    if (sizes < 0).any():
        raise AlignkitError("the places are not those of this text's words")
    offsets = np.zeros(len(most), np.int64)
    np.cumsum(sizes, out=offsets[1:])
    for low, high in ranges:  # blocks start where the two lists' links would: close the gaps between them
        here, there, size = offsets[low], most[low], offsets[high] - offsets[low]
        if here < there:
            pairs[here : here + size] = pairs[there : there + size]
    pairs.resize((int(offsets[-1]), 2), refcheck=False)
    return Links(pairs, offsets)


def symmetrize_product(forward: Scores, reverse: Scores, threshold: float = THRESHOLD) -> Links:
    """Links where both directions' posteriors, taken together, are strong: sqrt(p q) >= threshold (and > 0).

    The product of posteriors follows Liang, Taskar and Klein (2006); the threshold trades precision for recall. It
    wants models with sharp posteriors: after IBM Model 1, whose are not, grow-diag-final-and has the lower AER.

    Args:
        forward: alpha of M pairs, (T, L) each, of the source-to-target model.
        reverse: alpha of the same pairs reversed, (L, T) each, of the target-to-source model.
        threshold: in [0, 1].

    Raises:
        AlignkitError: the shapes do not belong together, or the threshold is outside [0, 1].
    """
    if not np.array_equal(forward.shapes, reverse.shapes[:, ::-1]):
        raise AlignkitError("the two scores are not of the same sentence pairs, one of them reversed")
    if not 0 <= threshold <= 1:
        raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
    offsets = np.zeros(len(forward) + 1, np.int64)
    # Compared as squares, a hair lower: the threshold itself passes in whatever way its square is rounded.
    arguments = (forward.values, reverse.values, forward.shapes, forward.offsets, threshold**2 * (1 - 1e-12))
    kernels.products(*arguments, (np.empty((0, 2), np.int32), offsets), False)
    points = np.empty((offsets[-1], 2), np.int32)
    kernels.products(*arguments, (points, offsets), True)
    return Links(points, offsets)
