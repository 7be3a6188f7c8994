"""The best classical aligner here: two hidden Markov models, one for each direction, estimated together.

What it adds to the HMM of Vogel, Ney and Tillmann (1996), each because it pays on development data
(benchmarks/quality.py):

- **Agreement.** The two directions share one table of counts, summed over the mean of their posteriors: a soft
  form of the agreement of Liang, Taskar and Klein (2006), who multiply the posteriors.
- **Sparse priors**, Dirichlet pseudo-counts, as in Bayesian IBM models (Mermer and Saraclar 2011). A link's own
  expectation is taken out of the counts that judge it, as a collapsed Gibbs sampler does (Asuncion et al. 2009),
  so that a rare word cannot confirm its own links; less of it where a text hardly repeats its words.
- **Spelling.** Pseudo-counts for words that look alike: numbers, names, cognates
  (:mod:`alignkit.classical.hmm.evidence`).
- **Punctuation** is seldom linked to words.
- **Back-off.** Pseudo-counts from the translations of words with the same first or last letters, less those of the
  word itself (:mod:`alignkit.classical.hmm.word_classes`).
- **Fertility** (Brown et al. 1993, IBM Model 3), as a factor for one more link of a word, given the expected
  number of its others (mean field).
- **Links** where the mean of the two posteriors, weighted by the number of tokens that each direction explains,
  reaches a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.aligner.protocol import check_kind
from alignkit.classical.hmm.estimation import HMMEstimation, estimate
from alignkit.classical.hmm.inference import log_likelihoods, posteriors
from alignkit.classical.hmm.parameters import FittedHMM, unpack_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit.classical.priors import LexiconPrior
from alignkit.errors import AlignkitError, InputError
from alignkit.links.from_scores import links_above
from alignkit.links.links import Links
from alignkit.parallel import thread_count
from alignkit.scores.scores import Scores, cap_row_sums
from alignkit.settings import with_options
from alignkit.storage import load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.hmm-joint", 2
LARGEST_PAIR, LARGEST_TEXT = 25_000_000, 400_000_000  # elements (t, l)


@dataclass(frozen=True, eq=False, repr=False)
class JointHMM(FittedHMM):
    """Two fitted hidden Markov aligners that give link probabilities together.

    Attributes:
        share: weight of the forward posterior in a link's probability; the reverse one has the rest.
        threshold: links have at least this probability: higher for precision, lower for recall.
        fitted_probabilities: the link probabilities of the text that the model was fitted on; not saved. For that
            text they are better than :meth:`probabilities`: a link is judged without its own part in the counts.
    """

    share: float = 0.5
    threshold: float = JOINT_THRESHOLD
    name: str = "hmm-joint"
    kinds: tuple[str, ...] = ("alpha", "beta")
    fitted_probabilities: Scores | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reverse is None:
            raise ValueError("a joint model has two directions")
        if not (0 < self.share < 1 and 0 <= self.threshold <= 1):
            raise ValueError("share and threshold must lie between 0 and 1")

    def probabilities(self, bitext: Bitext) -> Scores:
        """The probability of every link, (T, L) for each pair. A row may sum to more than 1: a word can have
        several links."""
        return posteriors(bitext, self, (self.share, 1 - self.share), thread_count(self.threads))[0]

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = p(y_t | x_l), 0 for pairs never seen; alpha: :meth:`probabilities`, rows that sum to more
        than 1 divided by their sum."""
        check_kind(self, kind)
        if kind == "beta":
            return self.lookup(bitext).scores()
        return cap_row_sums(self.probabilities(bitext))

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, up to the factor for its length; no fertility."""
        return log_likelihoods(bitext, self, (1.0, 0.0), thread_count(self.threads))

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the same of log p(source | target)."""
        return log_likelihoods(bitext, self, (0.0, 1.0), thread_count(self.threads))

    def links(self, bitext: Bitext) -> Links:
        """Links whose probability reaches the threshold."""
        return links_above(self.probabilities(bitext), self.threshold, self.threads)

    @property
    def fitted_links(self) -> Links:
        """Links of the text that the model was fitted on whose probability reaches the threshold.

        Raises:
            AlignkitError: the model was loaded from a file, which does not keep them.
        """
        if self.fitted_probabilities is None:
            raise AlignkitError("a loaded model has no links of the text it was fitted on; ask for links(bitext)")
        return links_above(self.fitted_probabilities, self.threshold, self.threads)

    def save(self, path: PathLike) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        header = self.header() | {"share": self.share, "threshold": self.threshold}
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_joint(path: PathLike) -> JointHMM:
    """Reads what :meth:`JointHMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    try:
        share, threshold = float(header["share"]), float(header["threshold"])
        return JointHMM(**unpack_hmm(path, arrays, header, 2), share=share, threshold=threshold)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_joint(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threshold: float = JOINT_THRESHOLD,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
    start: JointHMM | None = None,
    **options: Any,
) -> JointHMM:
    """Fit hidden Markov models of both directions, which share their links while they learn.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: of the estimation, by default :data:`JOINT_SETTINGS`.
        threshold: see :class:`JointHMM`.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model that the iterations go on from, as in :func:`alignkit.classical.hmm.model.fit_hmm`.
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: the threshold is outside [0, 1], there is no such option, or a setting is out of its range.
    """
    if not 0 <= threshold <= 1:
        raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
    settings = with_options(settings or JOINT_SETTINGS, options)
    tokens = len(bitext.source.tokens), len(bitext.target.tokens)
    # Each direction explains the tokens of one side: where that is the longer one, it says more.
    share = (tokens[1] + 1) / (sum(tokens) + 2)
    model = HMMEstimation(bitext, settings, (0.5, 0.5), thread_count(threads), prior, start)
    estimate(model, progress, last_shares=(share, 1 - share))
    forward, reverse = model.parameters(0), model.parameters(1)
    vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
    return JointHMM(
        *vocabularies,
        model.table(forward),
        forward,
        reverse,
        share=share,
        threshold=threshold,
        threads=threads,
        fitted_probabilities=model.probabilities(),
    )


def fits_in_memory(bitext: Bitext) -> bool:
    """Whether a text is small enough for :func:`fit_joint`, which keeps about 20 bytes per element of T*L."""
    elements = bitext.source.lengths * bitext.target.lengths
    return int(elements.max(initial=0)) <= LARGEST_PAIR and int(elements.sum()) <= LARGEST_TEXT
