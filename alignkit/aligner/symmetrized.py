"""Two aligners, one for each direction, as one aligner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.aligner.alignment import links_of, scores_of_links, target_log_probabilities
from alignkit.aligner.nested import load_bytes, saved_bytes
from alignkit.aligner.protocol import Aligner, GivesLinks, check_kind, with_threads
from alignkit.aligner.reversed import Reversed
from alignkit.aligner.word_level import on_words
from alignkit.errors import AlignkitError, InputError
from alignkit.links.heuristics import DEFAULT_METHOD, DEFAULT_THRESHOLD, HEURISTICS, find_heuristic
from alignkit.links.links import Links
from alignkit.links.symmetrization import symmetrize, symmetrize_scores
from alignkit.records import Record
from alignkit.representation import brief_repr
from alignkit.scores.scores import Scores, cap_row_sums
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike

KIND, VERSION = "alignkit.symmetrized", 1
BLOCK = 10_000  # sentence pairs scored at a time


@dataclass(frozen=True, eq=False)
class Symmetrized:
    """A source-to-target and a target-to-source aligner whose links are combined.

    Attributes:
        forward: aligner of bitexts as they are, between whitespace words.
        reverse: aligner of bitexts with their sides exchanged; the :class:`Reversed` of one can be given for it.
        method: how to combine them: the name of a heuristic in ``alignkit.links.heuristics.HEURISTICS``.
        threshold: of a heuristic that needs scores, by default 0.2: a link's probability is at least this.
        threads: of both directions and of symmetrization; all there are by default, and no result depends on it.
    """

    forward: Aligner
    reverse: Aligner
    method: str = DEFAULT_METHOD
    threshold: float | None = None
    threads: int | None = None

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        needs_scores = find_heuristic(self.method).needs_scores
        if self.threshold is not None and not (needs_scores and 0 <= self.threshold <= 1):
            raise AlignkitError(f"a threshold lies in [0, 1] and needs a heuristic of scores, not {self.method}")
        if isinstance(self.forward, Reversed):
            raise AlignkitError(
                "the first of two aligners to combine is of target to source; give it as the second"
            )
        reverse = self.reverse.inner if isinstance(self.reverse, Reversed) else self.reverse
        for side, aligner in (("forward", self.forward), ("reverse", reverse)):
            if needs_scores or not isinstance(aligner, GivesLinks):
                check_kind(aligner, "alpha")
            object.__setattr__(self, side, on_words(with_threads(aligner, self.threads)))

    @property
    def name(self) -> str:
        """``symmetrized-`` and the name of the forward aligner."""
        return f"symmetrized-{self.forward.name}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """``alpha`` if both directions have it, ``beta`` if the forward one has."""
        shared = ("alpha",) if "alpha" in self.forward.kinds and "alpha" in self.reverse.kinds else ()
        return (*shared, "beta") if "beta" in self.forward.kinds else shared

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha[t, l]: the geometric mean of both directions' alpha, sqrt(forward[t, l] reverse[l, t]); rows that
        sum to more than 1 are divided by their sum. beta: the forward aligner's."""
        check_kind(self, kind)
        if kind == "beta":
            return self.forward.score(bitext, kind)
        forward, reverse = self.forward.score(bitext, kind), self.reverse.score(bitext.reversed, kind)
        pairs = zip(forward, reverse, strict=True)
        values = [np.sqrt(a.astype(np.float64) * b.T).ravel() for a, b in pairs]
        flat = np.concatenate([np.empty(0), *values]).astype(np.float32)
        return cap_row_sums(Scores(flat, forward.offsets, forward.shapes))

    def links(self, bitext: Bitext) -> Links:
        """Both aligners' links, combined."""
        if find_heuristic(self.method).needs_scores:
            return self._links_from_scores(bitext)
        forward, reverse = links_of(self.forward, bitext), links_of(self.reverse, bitext.reversed).reversed
        return symmetrize(forward, reverse, self.method, self.threads)

    def _links_from_scores(self, bitext: Bitext) -> Links:
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        parts = []
        for low in range(0, max(len(bitext), 1), BLOCK):  # all matrices at once would be most of the memory
            block = bitext.take(np.arange(low, min(low + BLOCK, len(bitext))))
            scores = self.forward.score(block, "alpha"), self.reverse.score(block.reversed, "alpha")
            parts.append(symmetrize_scores(*scores, self.method, threshold))
        return Links.concatenated(parts)

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the geometric mean of both directions' posteriors of each link."""
        forward = scores_of_links(links, self.forward.score(bitext, "alpha"))
        reverse = scores_of_links(links, self.reverse.score(bitext.reversed, "alpha"), transposed=True)
        return np.sqrt(forward * reverse)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the forward aligner's log p(target | source); raises AlignkitError if it has none."""
        return target_log_probabilities(self.forward, bitext)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the reverse aligner's log p(source | target); raises AlignkitError if it has none."""
        return target_log_probabilities(self.reverse, bitext.reversed)

    def save(self, path: PathLike) -> None:
        """Write both aligners, each as it writes itself, to one file; :func:`alignkit.load_aligner` reads it."""
        forward, reverse = saved_bytes(self.forward), saved_bytes(self.reverse)
        arrays, suffixes = {"forward": forward[0], "reverse": reverse[0]}, [forward[1], reverse[1]]
        header = {"method": self.method, "threshold": self.threshold, "suffixes": suffixes}
        save_arrays(path, KIND, VERSION, arrays, header)


def load_symmetrized(path: PathLike) -> Symmetrized:
    """Read what :meth:`Symmetrized.save` wrote.

    Raises:
        InputError: the file is missing or damaged, or holds something else.
    """
    arrays, values = load_arrays(path, KIND, VERSION)
    fields, header = Fields(path, arrays), Record(path, values)
    method = header.text("method", HEURISTICS)
    threshold = header.number("threshold", 0, 1) if header.optional("threshold") else None
    suffixes = header.texts("suffixes", 2)
    try:
        forward = load_bytes(fields.get("forward", np.uint8), suffixes[0])
        reverse = load_bytes(fields.get("reverse", np.uint8), suffixes[1])
        return Symmetrized(forward, reverse, method, threshold)
    except InputError as error:
        raise InputError(path, f"damaged: {error.problem}") from error
    except AlignkitError as error:
        raise InputError(path, f"damaged: {error}") from error
