"""The hidden Markov aligner (Vogel, Ney and Tillmann 1996), one direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.hmm.estimation import HMMEstimation, estimate
from alignkit.classical.hmm.inference import log_likelihoods, posteriors
from alignkit.classical.hmm.parameters import FittedHMM, unpack_hmm
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.views import (
    Linked,
    linked_in_blocks,
    scores_in_windows,
    sums_in_windows,
    training_pairs,
)
from alignkit.classical.priors import LexiconPrior
from alignkit.kernels.hmm_e_step import FORWARD
from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.support.files import loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.units import lowercased
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.hmm", 4


@dataclass(frozen=True, eq=False, repr=False)
class HMM(FittedHMM, Aligner):
    """A fitted hidden Markov aligner; it has no reverse direction.

    Attributes:
        fold_case: take words that differ in case only as one word; the vocabularies are in lower case then.
    """

    name = "hmm"
    title = "HMM"
    descriptions: ClassVar = {
        "alpha": (
            "HMM",
            "The guess of a hidden Markov model of which source word each target word comes from; it knows that "
            "neighbours translate neighbours.",
        )
    }
    kinds = ("alpha", "beta")
    predicts = ("target",)
    fold_case: bool = False

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = p(y_t | x_l), 0 for pairs never seen; alpha[t, l] = the posterior of y_t coming from x_l.

        What a row of alpha lacks to 1 is NULL's.
        """
        self.check_kind(kind)
        if kind == "beta":
            return self.lookup(self._text(bitext)).scores()
        return scores_in_windows(self._text(bitext), self._posteriors)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, up to the factor for its length; no fertility."""
        return sums_in_windows(self._text(bitext), lambda text: log_likelihoods(text, self, FORWARD, self.threads))

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its likeliest source position, if NULL is not likelier."""
        return linked_in_blocks(self._text(bitext), self._linked)[0]

    def _text(self, bitext: Bitext) -> Bitext:
        return lowercased(bitext) if self.fold_case else bitext

    def _posteriors(self, bitext: Bitext) -> Scores:
        return posteriors(bitext, self, FORWARD, self.threads)[0]

    def _linked(self, bitext: Bitext) -> Linked:
        """The links of pairs that are not long; no probabilities."""
        links = best_links(self._posteriors(bitext))
        return links, np.zeros(len(links.pairs))

    def save(self, path: PathLike) -> None:
        """Writes the model; :func:`alignkit.load` reads it."""
        header = self.header() | {"fold_case": self.fold_case} | self.about_text
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_hmm(path: PathLike) -> HMM:
    """Reads what :meth:`HMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    with loaded(path, KIND, VERSION) as (fields, header):
        return HMM(**unpack_hmm(fields, header, 1), fold_case=header.flag("fold_case"))


def fit_hmm(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
    start: HMM | None = None,
    **options: Any,
) -> HMM:
    """Fit a hidden Markov model of one direction by EM.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: plain EM by default.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model that the iterations with transitions go on from, without lexical ones before. What is
            new in this text is initialised uniformly (:func:`alignkit.classical.priors.start_values`).
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: no such option, a setting out of its range, or the text needs more memory.
    """
    settings = with_options(settings or HMMSettings(), options)
    text, _ = training_pairs(lowercased(bitext) if settings.fold_case else bitext)
    model = HMMEstimation(text, settings, FORWARD, thread_count(threads), prior, start)
    likelihoods = estimate(model, progress)
    forward = model.parameters(0)
    return HMM(
        text.source.vocabulary,
        text.target.vocabulary,
        model.table(forward),
        forward,
        fold_case=settings.fold_case,
        log_likelihood=likelihoods,
        threads=threads,
    )
