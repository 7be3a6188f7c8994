"""An aligner fitted from target to source, as an aligner from source to target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.aligner.alignment import links_of, scores_of_links, target_log_probabilities
from alignkit.aligner.protocol import Aligner, check_kind
from alignkit.links.links import Links
from alignkit.representation import brief_repr
from alignkit.scores.scores import Scores, cap_row_sums
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike


@dataclass(frozen=True, eq=False)
class Reversed:
    """A view of an aligner: bitexts and links have their source first, the aligner sees them the other way round.

    Attributes:
        inner: aligner of bitexts with their sides exchanged, between whitespace words.
    """

    inner: Aligner

    __repr__ = brief_repr

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("alpha",) if "alpha" in self.inner.kinds else ()

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha: the inner aligner's, transposed; rows that then sum to more than 1 are divided by their sum."""
        check_kind(self, kind)
        return cap_row_sums(Scores.from_matrices([matrix.T for matrix in self.inner.score(bitext.reversed, kind)]))

    def links(self, bitext: Bitext) -> Links:
        """The inner aligner's links, source first."""
        return links_of(self.inner, bitext.reversed).reversed

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the inner aligner's posterior of each link."""
        return scores_of_links(links, self.inner.score(bitext.reversed, "alpha"), transposed=True)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(source | target) of each pair, natural logarithm."""
        return target_log_probabilities(self.inner, bitext.reversed)

    def save(self, path: PathLike) -> None:
        """Write the inner aligner."""
        self.inner.save(path)
