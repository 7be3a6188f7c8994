"""Two directed alignments into one (Och and Ney 2003; Koehn et al. 2003 for the growing heuristics)."""

from __future__ import annotations

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.kernels import symmetrisation as kernels
from alignkit.links import Links
from alignkit.scores import Scores

#: The method that needs both directions' posteriors, not only their links: :func:`symmetrize_product`.
PRODUCT = "product"
#: Of the geometric mean of both posteriors; about the best for IBM Model 1 on three development sets.
THRESHOLD = 0.2
#: method -> (start: 0 intersection or 1 union, grow 0 or 1, final 0 none, 1 or, 2 and)
METHODS: dict[str, tuple[int, int, int]] = {
    "intersection": (0, 0, 0),
    "union": (1, 0, 0),
    "grow-diag": (0, 1, 0),
    "grow-diag-final": (0, 1, 1),
    "grow-diag-final-and": (0, 1, 2),
}


def symmetrize(forward: Links, reverse: Links, method: str = "grow-diag-final-and") -> Links:
    """Combines two alignments of the same M pairs, both with links (s, t), source first.

    Args:
        forward: links of the source-to-target model; its points come first in the "final" step.
        reverse: links of the target-to-source model, already turned to source first.
        method: a name in ``METHODS``, as Moses defines them.

    Raises:
        AlignkitError: unknown method, or different numbers of sentence pairs.
    """
    if method not in METHODS:
        raise AlignkitError(f"unknown method {method!r}; known are {', '.join(METHODS)}")
    if len(forward) != len(reverse):
        raise AlignkitError(f"{len(forward)} sentence pairs in one alignment, {len(reverse)} in the other")
    by_target = [links.reversed for links in (forward, reverse)]
    largest = int(sum(np.diff(links.offsets).max(initial=0) for links in by_target))
    widest = [1 + int(max(links.pairs[:, i].max(initial=-1) for links in by_target)) for i in (0, 1)]
    work = (np.empty((largest, 2), np.int32), np.empty(largest, np.uint8))
    used = (np.zeros(widest[0], np.bool_), np.zeros(widest[1], np.bool_))
    size = len(forward.pairs) + len(reverse.pairs)
    points, offsets = np.empty((size, 2), np.int32), np.zeros(len(forward) + 1, np.int64)
    first, second = ((links.pairs, links.offsets) for links in by_target)
    kernels.symmetrise(first, second, METHODS[method], work, used, (points, offsets))
    return Links(points[: offsets[-1]].copy(), offsets).reversed


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
