"""One aligned sentence pair: its words, and its links with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alignkit.scores import heat_map


class Link(NamedTuple):
    """A link between two words of a sentence pair, counted from 0, and its probability."""

    source: int
    target: int
    probability: float

    def __str__(self) -> str:
        return f"{self.source}-{self.target}:{self.probability:.4g}"


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair and its links.

    Attributes:
        source, target: the words.
        links: sorted by source word, then target word.
    """

    source: Sequence[str]
    target: Sequence[str]
    links: Sequence[Link]

    @property
    def words(self) -> list[tuple[str, str]]:
        """The linked words, (source word, target word)."""
        return [(self.source[link.source], self.target[link.target]) for link in self.links]

    def __str__(self) -> str:
        """The links as ``0-0:0.98 1-1:0.95``, which :meth:`alignkit.Links.from_strings` reads."""
        return " ".join(map(str, self.links))

    def __repr__(self) -> str:
        shown = " ".join(f"{x}-{y}" for x, y in self.words)
        return f"AlignedPair({shown if len(shown) <= 100 else shown[:99] + '…'})"

    def heat_map(self) -> str:
        """An HTML table of target by source words, links shaded by their probability."""
        matrix = np.zeros((len(self.target), len(self.source)))
        for link in self.links:
            matrix[link.target, link.source] = link.probability
        return heat_map(matrix, self.source, self.target, by_row=False)

    def _repr_html_(self) -> str:
        return self.heat_map()
