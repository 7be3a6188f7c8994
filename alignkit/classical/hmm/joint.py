"""The best classical aligner here: two hidden Markov models, one for each direction, estimated together.

What it adds to the HMM of Vogel, Ney and Tillmann (1996), each because it pays on development data
(benchmarks/quality.py):

- **Agreement.** The two directions share one table of counts, summed over the mean of their posteriors: a soft
  form of the agreement of Liang, Taskar and Klein (2006), who multiply the posteriors.
- **Sparse priors**, Dirichlet pseudo-counts, as in Bayesian IBM models (Mermer and Saraclar 2011). A link's own
  expectation is taken out of the counts that judge it, as a collapsed Gibbs sampler does (Asuncion et al. 2009),
  so that a rare word cannot confirm its own links; less of it where a text hardly repeats its words.
- **Spelling.** Pseudo-counts for words that look alike: numbers, names, cognates
  (:mod:`alignkit.classical.hmm.evidence`); in small texts also for words that correspond letter by letter, as
  names in different alphabets do (:mod:`alignkit.classical.hmm.transliteration`).
- **Punctuation** is seldom linked to words.
- **Back-off.** Pseudo-counts from the translations of words with the same first or last letters, less those of the
  word itself (:mod:`alignkit.classical.hmm.word_classes`).
- **Fertility** (Brown et al. 1993, IBM Model 3), as a factor for one more link of a word, given the expected
  number of its others (mean field).
- **Links** whose probability reaches a threshold. The probability comes from the log-odds of both posteriors,
  averaged in proportion to the tokens that each direction explains, and from the links beside it
  (:mod:`alignkit.kernels.link_odds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from alignkit.classical.exchange import current_exchange, exchanging, with_work
from alignkit.classical.hmm.estimation import HMMEstimation, estimate
from alignkit.classical.hmm.inference import log_likelihoods, pooled_log_odds, posteriors
from alignkit.classical.hmm.joint_aligner import FittedText, JointAligner
from alignkit.classical.hmm.known_model import FittedCounts
from alignkit.classical.hmm.link_odds import into_probabilities
from alignkit.classical.hmm.new_pairs import NewPairs
from alignkit.classical.hmm.own_part import OwnPart
from alignkit.classical.hmm.parameters import FittedHMM, unpack_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit.classical.hmm.windows import (
    scores_in_windows,
    spliced_scores,
    sums_in_windows,
    training_pairs,
    unchosen,
)
from alignkit.classical.memory import MemoryLimit
from alignkit.classical.priors import LexiconPrior
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import InputError
from alignkit.kernels.hmm_e_step import BOTH, FORWARD, REVERSE, Shares
from alignkit.kernels.link_odds import NO_LINK
from alignkit.parallel import thread_count
from alignkit.records import Record
from alignkit.scores import Scores
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.units import lowercased
from alignkit.types import PathLike, Progress, with_options

Prior = LexiconPrior | Embeddings
KIND, VERSION = "alignkit.hmm-joint", 5


@dataclass(frozen=True, eq=False, repr=False)
class JointHMM(FittedHMM, JointAligner):
    """Two fitted hidden Markov aligners that give link probabilities together.

    Attributes:
        share: weight of the forward posterior in the log-odds of a link; the reverse one has the rest.
        counts: those that it was fitted with, with which it can be adapted to other texts
            (:mod:`alignkit.classical.hmm.adaptation`).

    The others are those of :class:`FittedHMM` and :class:`JointAligner`.
    """

    share: float = 0.5
    threshold: float = JOINT_THRESHOLD
    name = "hmm-joint"
    kinds = ("alpha", "beta")
    predicts = ("target", "source")
    fitted: FittedText | None = field(default=None, compare=False, repr=False)
    counts: FittedCounts | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counts is not None and len(self.counts.pairs) != len(self.table.values):
            raise ValueError("there must be a count for each pair of the table")
        if self.reverse is None:
            raise ValueError("a joint model has two directions")
        if not (0 < self.share < 1 and 0 <= self.threshold <= 1):
            raise ValueError("share and threshold must lie between 0 and 1")

    def whole_probabilities(self, bitext: Bitext) -> Scores:
        """See :meth:`JointAligner.whole_probabilities`."""
        return into_probabilities(self.whole_log_odds(bitext), self.threads)

    def whole_log_odds(self, bitext: Bitext, are_words: bool = True) -> Scores:
        """(T, L) for each pair: the mean of the log-odds of both directions' posteriors
        (:mod:`alignkit.kernels.link_odds`).

        Args:
            bitext: M pairs.
            are_words: whether its units are words, so that pairs of the model's own text are told from others
                (:mod:`.own_part`): of subwords, all pairs soon have met.
        """
        own_part = self.own_part if are_words else None
        return pooled_log_odds(bitext, self, self.shares, self.threads, self.new_pairs, own_part)

    def expected_links(self, bitext: Bitext) -> Scores:
        """(T, L) for each pair: the mean of both directions' posteriors, as the estimation counts them."""
        return posteriors(bitext, self, BOTH, self.threads, self.new_pairs)[0]

    @property
    def shares(self) -> Shares:
        """The weight of each direction in the log-odds of a link."""
        return Shares(self.share, 1 - self.share, as_log_odds=True)

    @cached_property
    def new_pairs(self) -> NewPairs | None:
        """What to think of pairs of words that it does not know; None if it does not have its counts."""
        return None if self.counts is None else NewPairs(self, self.counts)

    @cached_property
    def own_part(self) -> OwnPart | None:
        """What sentence pairs of its own text have contributed to its counts; None if it does not have these."""
        return None if self.counts is None else OwnPart(self, self.counts)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = p(y_t | x_l), 0 for pairs never seen; alpha: :meth:`probabilities`."""
        self.check_kind(kind)
        if kind == "beta":
            return self.lookup(bitext).scores()
        return self.probabilities(bitext)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, up to the factor for its length; no fertility."""
        return sums_in_windows(bitext, lambda text: log_likelihoods(text, self, FORWARD, self.threads))

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the same of log p(source | target)."""
        return sums_in_windows(bitext, lambda text: log_likelihoods(text, self, REVERSE, self.threads))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        counts = self.counts
        return super().arrays() | ({} if counts is None else {"counts": counts.pairs, "null_counts": counts.null})

    def header(self) -> dict[str, Any]:
        """The numbers of a saved file."""
        return super().header() | {"share": self.share, "threshold": self.threshold}

    def save(self, path: PathLike) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        save_arrays(path, KIND, VERSION, self.arrays(), self.header())


def load_joint(path: PathLike) -> JointHMM:
    """Reads what :meth:`JointHMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    return unpack_joint(Fields(path, arrays), Record(path, header))


def unpack_joint(fields: Fields, header: Record) -> JointHMM:
    """A model from its ``arrays`` and ``header``; raises InputError if they are damaged."""
    try:
        share, threshold = header.number("share", 0, 1), header.number("threshold", 0, 1)
        attributes = unpack_hmm(fields, header, 2)
        if "counts" in fields.arrays:
            attributes["counts"] = FittedCounts(
                *(fields.get(name, np.float32) for name in ("counts", "null_counts"))
            )
        return JointHMM(**attributes, share=share, threshold=threshold)
    except (TypeError, ValueError) as error:
        raise InputError(fields.path, f"damaged: {error}") from error


def fit_joint(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | Sequence[Prior] | None = None,
    start: JointHMM | None = None,
    memory: MemoryLimit | None = None,
    **options: Any,
) -> JointHMM:
    """Fit hidden Markov models of both directions jointly: EM shares their expected links.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: of the estimation, by default :data:`JOINT_SETTINGS`.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts; embeddings (:mod:`alignkit.embeddings`); or both.
        start: a fitted model that the iterations go on from, as in :func:`alignkit.classical.hmm.model.fit_hmm`.
        memory: not to be exceeded; what does not fit is kept on disk, with the same result.
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: there is no such option, a setting is out of its range, or the text needs more memory.
    """
    if {"iterations", "lexical_iterations"} & options.keys():
        options = {"hurry_from": 0} | options
    settings = with_options(settings or JOINT_SETTINGS, options)
    estimation, chosen = _estimated(
        bitext, settings, threads=threads, progress=progress, prior=prior, start=start, memory=memory
    )
    return fitted_joint(estimation, bitext, chosen)


def fit_log_odds(bitext: Bitext, settings: HMMSettings, **arguments: Any) -> tuple[JointHMM, Scores]:
    """What :func:`fit_joint` fits, without ``fitted``, and the log-odds of all links.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        arguments: others of :func:`fit_joint`, but for single settings.

    Returns:
        (the model; the mean of the log-odds of both directions' posteriors, (T, L) for each pair, as of
        :meth:`JointHMM.whole_log_odds`).
    """
    estimation, chosen = _estimated(bitext, settings, **arguments)
    return joint_and_log_odds(estimation, bitext, chosen)


def joint_and_log_odds(
    estimation: HMMEstimation, bitext: Bitext, chosen: np.ndarray | None, of_others: JointHMM | None = None
) -> tuple[JointHMM, Scores]:
    """What :func:`fit_log_odds` returns.

    Args:
        estimation, bitext, chosen: as of :func:`fitted_joint`.
        of_others: the aligner of the pairs that are not chosen; None: the one that was estimated.
    """
    model, log_odds = _chosen_log_odds(estimation, chosen)
    if chosen is None:
        return model, log_odds
    judge = (of_others or model).whole_log_odds
    rest = scores_in_windows(unchosen(bitext, chosen), judge, float(NO_LINK))
    return model, spliced_scores(chosen, bitext.shapes, log_odds, rest)


def _estimated(
    bitext: Bitext,
    settings: HMMSettings,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | Sequence[Prior] | None = None,
    start: JointHMM | None = None,
    memory: MemoryLimit | None = None,
) -> tuple[HMMEstimation, np.ndarray | None]:
    """The estimation after its last E-step, and the pairs that it saw, as of :func:`.windows.training_pairs`."""
    text, chosen = training_pairs(bitext)
    lexicon, embeddings = lexicon_and_embeddings(prior)
    levels = None if embeddings is None else embeddings.levels(text, thread_count(threads), progress)
    if settings.fold_case:
        given, text = text, lowercased(text)
        for side in (given.source, given.target):
            side.vocabulary.forget_strings()  # several times as large as the vocabulary
    exchange = current_exchange()
    if exchange.work is not None and chosen is not None:
        exchange = with_work(exchange, exchange.work[chosen] if chosen.any() else None)
    tokens = exchange.summed(np.array([len(text.source.tokens), len(text.target.tokens)])).tolist()
    # Each direction explains the tokens of one side: where that is the longer one, it says more.
    share = (tokens[1] + 1) / (sum(tokens) + 2)
    settings = settings.for_size(matrix_elements(text))
    with exchanging(exchange):
        estimation = HMMEstimation(text, settings, BOTH, thread_count(threads), lexicon, start, memory, levels)
    estimate(estimation, progress, last_shares=Shares(share, 1 - share, as_log_odds=True))
    return estimation, chosen


def matrix_elements(bitext: Bitext) -> int:
    """The number of elements of all matrices of a text, of which this process may have a part."""
    return int(current_exchange().summed(np.array([bitext.source.lengths @ bitext.target.lengths]))[0])


def fitted_joint(estimation: HMMEstimation, bitext: Bitext, chosen: np.ndarray | None) -> JointHMM:
    """The aligner that was estimated.

    Args:
        estimation: after its last E-step, which found log-odds.
        bitext: the text, with its long pairs; chosen: the pairs that were estimated from, as of
            :func:`alignkit.classical.hmm.windows.training_pairs`.
    """
    model, log_odds = _chosen_log_odds(estimation, chosen)
    return replace(model, fitted=FittedText(bitext, into_probabilities(log_odds, model.threads), chosen))


def _chosen_log_odds(estimation: HMMEstimation, chosen: np.ndarray | None) -> tuple[JointHMM, Scores]:
    """The aligner, and the log-odds of the links of the pairs in ``chosen``."""
    if not estimation.shares.as_log_odds:
        raise ValueError("the last E-step did not find log-odds")
    forward, reverse = estimation.parameters(0), estimation.parameters(1)
    log_odds = estimation.last_links()
    if chosen is not None and not chosen.any():
        log_odds = Scores.from_matrices([])
    null = np.array([direction.null_total for direction in estimation.directions], np.float32)
    model = JointHMM(
        estimation.bitext.source.vocabulary,
        estimation.bitext.target.vocabulary,
        estimation.table(forward),
        forward,
        reverse,
        fold_case=estimation.settings.fold_case,
        share=estimation.shares.forward,
        threshold=estimation.settings.threshold,
        threads=estimation.threads,
        counts=FittedCounts(estimation.found.counts, null),
    )
    return model, log_odds


def lexicon_and_embeddings(
    prior: Prior | Sequence[Prior] | None,
) -> tuple[LexiconPrior | None, Embeddings | None]:
    """The first lexicon and the first embeddings among given priors; None of a kind that is not among them."""
    priors = [] if prior is None else [prior] if isinstance(prior, LexiconPrior | Embeddings) else prior
    lexicon = next((each for each in priors if isinstance(each, LexiconPrior)), None)
    embeddings = next((each for each in priors if isinstance(each, Embeddings)), None)
    return lexicon, embeddings
