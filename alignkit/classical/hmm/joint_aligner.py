"""The base of aligners that link words where the probability of a link reaches a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.aligner import Aligner, scores_of_links
from alignkit.classical.hmm.windows import (
    Linked,
    linked_in_blocks,
    scores_in_windows,
    spliced,
    spliced_scores,
    unchosen,
)
from alignkit.errors import AlignkitError
from alignkit.links.from_scores import links_above
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


@dataclass(frozen=True, eq=False)
class FittedText:
    """The text that an aligner was fitted on, with its link probabilities.

    Attributes:
        bitext: M pairs.
        probabilities: of all pairs, or of those in ``chosen``.
        chosen: bool (M,), the pairs that the aligner was fitted on, if others were too long.
        of_others: the aligner that links those others; None: the fitted one.
    """

    bitext: Bitext
    probabilities: Scores
    chosen: np.ndarray | None = None
    of_others: JointAligner | None = None

    @property
    def others(self) -> Bitext:
        """The pairs that are not chosen."""
        assert self.chosen is not None
        return unchosen(self.bitext, self.chosen)


class JointAligner(Aligner):
    """An aligner whose links are those of a probability that reaches a threshold.

    Attributes:
        threshold: links have at least this probability: higher for precision, lower for recall.
        threads: how many to use (None: all); no result depends on it.
        fitted: the text that it was fitted on; not saved. A link of that text is judged without its own part in
            the counts, which makes its probability a better one than another look at the same text would.
    """

    threshold: float
    threads: int | None
    fitted: FittedText | None

    def __getstate__(self) -> dict[str, Any]:
        """Pickled like :meth:`save`: without the text that it was fitted on."""
        return super().__getstate__() | {"fitted": None}

    def whole_probabilities(self, bitext: Bitext) -> Scores:
        """The probability of every link, (T, L) for each pair, each of which is taken as a whole."""
        raise NotImplementedError

    def probabilities(self, bitext: Bitext) -> Scores:
        """The probability of every link, (T, L) for each pair. A row may sum to more than 1: a word can have
        several links. In pairs of more than four million elements, links far from the diagonal have 0."""
        return scores_in_windows(bitext, self.whole_probabilities)

    def links_and_probabilities(self, bitext: Bitext) -> Linked:
        """Links whose probability reaches the threshold, and their probabilities, float64 (K,)."""
        return linked_in_blocks(bitext, lambda text: self._above(self.whole_probabilities(text)))

    def links(self, bitext: Bitext) -> Links:
        """Links whose probability reaches the threshold."""
        return self.links_and_probabilities(bitext)[0]

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the probability of each link of M pairs."""
        return scores_of_links(links, self.probabilities(bitext))

    def has_fitted(self, bitext: Bitext) -> bool:
        """Whether this very bitext is the one that the aligner was fitted on."""
        return self.fitted is not None and self.fitted.bitext is bitext

    @property
    def fitted_links(self) -> Links:
        """The links of :attr:`fitted_links_and_probabilities`."""
        return self.fitted_links_and_probabilities[0]

    @property
    def fitted_links_and_probabilities(self) -> Linked:
        """Links of the text that the aligner was fitted on, and their probabilities, float64 (K,).

        Raises:
            AlignkitError: the aligner was loaded from a file, which does not keep them.
        """
        fitted = self._fitted
        linked = self._above(fitted.probabilities)
        if fitted.chosen is None:
            return linked
        others = (fitted.of_others or self).links_and_probabilities(fitted.others)
        return spliced(fitted.chosen, linked, others)

    @property
    def fitted_probabilities(self) -> Scores:
        """The probability of every link of the text that the aligner was fitted on, (T, L) for each pair.

        Raises:
            AlignkitError: the aligner was loaded from a file, which does not keep them.
        """
        fitted = self._fitted
        if fitted.chosen is None:
            return fitted.probabilities
        rest = (fitted.of_others or self).probabilities(fitted.others)
        return spliced_scores(fitted.chosen, fitted.bitext.shapes, fitted.probabilities, rest)

    @property
    def _fitted(self) -> FittedText:
        if self.fitted is None:
            raise AlignkitError("a loaded model has no links of the text it was fitted on; ask for links(bitext)")
        return self.fitted

    def _above(self, probabilities: Scores) -> Linked:
        links = links_above(probabilities, self.threshold, self.threads)
        return links, scores_of_links(links, probabilities)
