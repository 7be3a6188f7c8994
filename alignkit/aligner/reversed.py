"""An aligner fitted from target to source, as an aligner from source to target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.aligner.alignment import links_of, scores_of_links, target_log_probabilities
from alignkit.aligner.nested import load_bytes, saved_bytes
from alignkit.aligner.protocol import Aligner, check_kind, with_threads
from alignkit.aligner.word_level import on_words
from alignkit.errors import AlignkitError, InputError
from alignkit.links.links import Links
from alignkit.records import Record
from alignkit.representation import brief_repr
from alignkit.scores.scores import Scores, cap_row_sums
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike

KIND, VERSION = "alignkit.reversed", 1


@dataclass(frozen=True, eq=False)
class Reversed:
    """A view of an aligner: bitexts and links have their source first, the aligner sees them the other way round.

    Attributes:
        inner: aligner of bitexts with their sides exchanged, between whitespace words.
        threads: of the inner aligner; all there are by default, and no result depends on it.
    """

    inner: Aligner
    threads: int | None = None

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", with_threads(self.inner, self.threads))

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
        """Write the inner aligner and that its sides are exchanged; :func:`alignkit.load_aligner` reads it."""
        data, suffix = saved_bytes(self.inner)
        save_arrays(path, KIND, VERSION, {"aligner": data}, {"suffix": suffix})


def load_reversed(path: PathLike) -> Reversed:
    """Read what :meth:`Reversed.save` wrote.

    Raises:
        InputError: the file is missing or damaged, or holds something else.
    """
    arrays, values = load_arrays(path, KIND, VERSION)
    suffix = Record(path, values).text("suffix")
    try:
        return Reversed(on_words(load_bytes(Fields(path, arrays).get("aligner", np.uint8), suffix)))
    except InputError as error:
        raise InputError(path, f"damaged: {error.problem}") from error
    except AlignkitError as error:
        raise InputError(path, f"damaged: {error}") from error
