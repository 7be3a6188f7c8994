"""The registry of symmetrization heuristics: how two directed alignments are combined into one.

The heuristics on links are those of Koehn, Och and Marcu (2003) and of Moses. This module imports nothing heavy,
because the command line reads its choices from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from alignkit.errors import AlignkitError
from alignkit.support.packages import imported


class Steps(NamedTuple):
    """The steps of a heuristic on links. A point is a pair of a source and a target word.

    Attributes:
        from_union: start from all points of either direction instead of those of both.
        neighbours: 4 or 8 to add the points of either direction with an unlinked word that are horizontal or
            vertical (for 8, also diagonal) neighbours of a chosen point, repeatedly; 0 to skip this step.
        unlinked: 1 or 2 to add the points with at least 1 or with 2 unlinked words, first of the forward, then of
            the reverse direction; 0 to skip this step.
        in_order: go through the points that may be added in their order, all 8 neighbours counting, and not
            through those that were chosen, as fast_align's atools does; it finds other links now and then.
    """

    from_union: bool = False
    neighbours: int = 0
    unlinked: int = 0
    in_order: bool = False


@dataclass(frozen=True)
class Heuristic:
    """A way to combine two directed alignments: by the steps of Moses' heuristics, or by a function of its own.

    Attributes:
        steps: of a heuristic on links.
        function: instead of steps, "module:function", imported when needed: called as ``function(forward,
            reverse)`` with :class:`.Links`, both with the source first; with ``needs_scores``, as
            ``function(forward, reverse, threshold)`` with :class:`.Scores`. It returns links.
        needs_scores: true if it combines the scores of both directions rather than their links.
    """

    steps: Steps | None = None
    function: str | None = None
    needs_scores: bool = False

    def load(self) -> Any:
        """The function of a heuristic without steps."""
        assert self.function is not None
        return imported(self.function)


HEURISTICS = {
    "intersection": Heuristic(Steps()),
    "union": Heuristic(Steps(from_union=True)),
    "grow-diag": Heuristic(Steps(neighbours=8)),
    "grow-diag-final": Heuristic(Steps(neighbours=8, unlinked=1)),
    "grow-diag-final-and": Heuristic(Steps(neighbours=8, unlinked=2)),
    "product": Heuristic(function="alignkit.links.symmetrization:product_links", needs_scores=True),
}
#: The commands of fast_align's atools that combine two alignments; its rows are source words.
FAST_ALIGN = {
    "intersect": Steps(),
    "union": Steps(from_union=True),
    "grow-diag": Steps(neighbours=8, in_order=True),
    "grow-diag-final": Steps(neighbours=8, unlinked=1, in_order=True),
    "grow-diag-final-and": Steps(neighbours=8, unlinked=2, in_order=True),
}
#: Other names that are in use for them.
ALIASES = {"intersect": "intersection", "gd": "grow-diag", "gdf": "grow-diag-final", "gdfa": "grow-diag-final-and"}
#: The names of :data:`HEURISTICS`, and those of :data:`ALIASES`, for type checkers.
Symmetrization = Literal[
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final",
    "grow-diag-final-and",
    "product",
    "intersect",
    "gd",
    "gdf",
    "gdfa",
]
DEFAULT_METHOD = "grow-diag-final-and"
#: The default threshold of heuristics on scores: about the best for IBM Model 1 on three development sets.
DEFAULT_THRESHOLD = 0.2


def method_names(needs_scores: bool | None = None) -> list[str]:
    """The names of all heuristics, of those that need scores, or of those that do not."""
    return [name for name, one in HEURISTICS.items() if needs_scores in (None, one.needs_scores)]


def find_heuristic(method: str, needs_scores: bool | None = None) -> Heuristic:
    """The heuristic of a name or alias; raises AlignkitError if it is not among :func:`method_names`."""
    known, method = method_names(needs_scores), ALIASES.get(str(method), method)
    if method not in known:
        raise AlignkitError(f"cannot symmetrize by {method!r} here; choose one of {', '.join(known)}")
    return HEURISTICS[method]
