"""The best classical aligner here: two hidden Markov models, one for each direction, estimated together, of a
text's words or of several views of it (:mod:`alignkit.classical.hmm.views`).

What it adds to the HMM of Vogel, Ney and Tillmann (1996), each of which lowers AER on development data
(benchmarks/quality.py):

- **Agreement.** The two directions share one table of counts, summed over the mean of their posteriors: a soft
  form of the agreement of Liang, Taskar and Klein (2006), who multiply the posteriors.
- **Sparse priors**, Dirichlet pseudo-counts, as in Bayesian IBM models (Mermer and Saraclar 2011). A link's own
  expectation is taken out of the counts that judge it, as a collapsed Gibbs sampler does (Asuncion et al. 2009),
  so that a rare word cannot confirm its own links; less of it where a text hardly repeats its words.
- **Spelling.** Pseudo-counts for words that look alike: numbers, names, cognates; in small texts also for words
  that correspond letter by letter, as names in different alphabets do (:mod:`alignkit.classical.hmm.spelling`).
- **Punctuation** is seldom linked to words.
- **Back-off.** Pseudo-counts from the translations of words with the same first or last letters, less those of the
  word itself (:class:`alignkit.classical.hmm.word_classes.BackOff`).
- **Fertility** (Brown et al. 1993, IBM Model 3), as a factor for one more link of a word, given the expected
  number of its others (mean field).
- **Views learn from each other** in small texts, one after another: what the models of the others say of a link is
  evidence for it, as embeddings are (co-training, Blum and Mitchell 1998).
- **Phrase edges**: words that begin phrases share their partners with the word after them more often, words that
  end phrases with the one before (:mod:`alignkit.classical.hmm.link_probabilities`).
- **Attachment** of frequent words that have no counterpart to those of a word beside them.
- **Links** whose probability reaches a threshold. The probability comes from the log-odds of both posteriors,
  averaged in proportion to the tokens that each direction explains, and from the links beside it
  (:mod:`alignkit.kernels.link_probabilities`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Unpack

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.cooccurrence import parse_size, show_size
from alignkit.classical.hmm.background import BackgroundModel
from alignkit.classical.hmm.hmm import HMMEstimation, estimate
from alignkit.classical.hmm.inference import Inference, log_likelihoods
from alignkit.classical.hmm.link_probabilities import (
    Attachment,
    PackedLogOdds,
    PhraseEdges,
    into_probabilities,
    levels_of_links,
    mean_log_odds,
    packed_log_odds,
    trust_in,
    trusted,
    unattached,
)
from alignkit.classical.hmm.model import FittedCounts, FittedHMM, unpack_hmm
from alignkit.classical.hmm.settings import (
    FAST_SETTINGS,
    JOINT_SETTINGS,
    JOINT_THRESHOLD,
    LINK_CHOICES,
    QUALITIES,
    HMMOptions,
    HMMSettings,
    LinkChoice,
    Quality,
)
from alignkit.classical.hmm.views import (
    FEW_WORDS_VIEWS,
    SMALL_VIEWS,
    SPELLED,
    VIEWS,
    Linked,
    UnitReader,
    View,
    ViewedText,
    interleaved_links,
    interleaved_scores,
    is_long,
    linked_in_blocks,
    scores_in_windows,
    sums_in_windows,
    trained_views,
    training_pairs,
    unpack_view,
)
from alignkit.classical.lexical_model import Lookup
from alignkit.classical.priors import LexiconPrior, check_knowledge
from alignkit.embeddings.levels import UNKNOWN, Embeddings, known_levels
from alignkit.errors import AlignkitError, check_known, check_type, counted
from alignkit.kernels.hmm_e_step import BOTH, FORWARD, REVERSE, OpinionPool
from alignkit.kernels.link_probabilities import NO_LINK
from alignkit.links.from_scores import linked_above
from alignkit.links.links import Links
from alignkit.scores import Scores, flat_offsets
from alignkit.support.files import Fields, Record, loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.hmm-joint", 10
#: Texts whose matrices have fewer elements (t, l) in all than this get all iterations whatever the quality: there
#: they take no time worth saving.
HURRIED_FROM = 2_000_000
#: Texts whose matrices have fewer elements than this, and as subwords fewer than so many times as many, are small.
SMALL_TEXT, UNITS_LIMIT = 8_000_000, 4
#: Texts with fewer elements than this have few words.
FEW_WORDS = 1_000_000
#: The most iterations with transitions of a model of subwords: with more, it finds fewer right links.
SUBWORD_ITERATIONS = 3
#: The tolerance in small texts of at least so many pairs: further iterations find no more right links. In a few
#: pairs, links hardly move at first.
SMALL_TOLERANCE, SEVERAL = 0.08, 20
#: Iterations with transitions of the rough model that the views of a small text learn from first; the most without
#: transitions of the models that learn from others.
ROUGH_ITERATIONS, CO_TRAINED_LEXICAL = 1, 2
#: Bytes of a word pair in a saved file: its target word, two probabilities and a count; and of the names
#: of arrays, the header and the directory of the file, for each view.
PAIR, ENVELOPE = 16, 1 << 14


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BidirectionalHMM(FittedHMM):
    """Two fitted hidden Markov models, one for each direction, that give probabilities of links together.

    Attributes:
        share: weight of the forward posterior in the log-odds of a link; the reverse one has the rest.
        counts: those that it was fitted with, with which it can be adapted to other texts
            (:mod:`alignkit.classical.hmm.adaptation`).

    The others are those of :class:`FittedHMM`.
    """

    share: float = 0.5
    counts: FittedCounts

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.counts.pairs) != len(self.table.values):
            raise ValueError("there must be a count for each pair of the table")
        if self.reverse is None:
            raise ValueError("a joint model has two directions")
        if not 0 < self.share < 1:
            raise ValueError("the share must lie between 0 and 1")

    def __getstate__(self) -> dict[str, Any]:
        """The fields, not what cached properties hold."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def pool(self) -> OpinionPool:
        """The weight of each direction in the log-odds of a link."""
        return OpinionPool(self.share, 1 - self.share, is_logarithmic=True)

    @cached_property
    def inference_with_counts(self) -> Inference:
        """Links texts; pairs of words that it does not know are judged by what it knows of others."""
        return Inference(self, BackgroundModel(self, self.counts, JOINT_SETTINGS))

    def log_odds(self, bitext: Bitext, threads: int | None = None, are_words: bool = True) -> Scores:
        """(T, L) of M pairs: the mean of the log-odds of both directions' posteriors, NO_LINK where there are none
        (:mod:`alignkit.kernels.link_probabilities`).

        Args:
            bitext: M pairs.
            threads: all there are by default; no result depends on it.
            are_words: True if its units are words, so that pairs of the model's own text are told from others: of
                subwords, all pairs soon have met.
        """
        return self.inference_with_counts.links(bitext, self.pool, thread_count(threads), are_words)[0]

    def expected_links(self, bitext: Bitext, threads: int | None = None) -> Scores:
        """(T, L) of M pairs: the mean of both directions' posteriors, as the estimation counts them."""
        links = self.inference_with_counts.links(bitext, BOTH, thread_count(threads))[0]
        np.clip(links.values, 0, 1, out=links.values)
        return links

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        return super().arrays() | {"counts": self.counts.pairs, "null_counts": self.counts.null}

    def header(self) -> dict[str, Any]:
        """The numbers of a saved file."""
        return super().header() | {"share": self.share}


def unpack_bidirectional(arrays: Fields, header: Record) -> BidirectionalHMM:
    """A model from its ``arrays`` and ``header``.

    Raises:
        InputError, TypeError, ValueError: they are damaged.
    """
    attributes = unpack_hmm(arrays, header, 2)
    counts = FittedCounts(*(arrays.get(name, np.float32) for name in ("counts", "null_counts")))
    return BidirectionalHMM(**attributes, share=header.number("share", 0, 1), counts=counts)


@dataclass(frozen=True, eq=False)
class FittedText:
    """The text that an aligner was fitted on, with its link probabilities.

    Attributes:
        bitext: M pairs.
        probabilities: of all pairs, or of those in ``chosen``.
        chosen: bool (M,), the pairs that the aligner was fitted on, if others were too long or have a blank side.
        of_others: the aligner that links those others; None: the fitted one.
        attached: int64, the places of the probabilities that attachment has changed.
    """

    bitext: Bitext
    probabilities: Scores
    chosen: np.ndarray | None = None
    of_others: JointHMM | None = None
    attached: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def others(self) -> Bitext:
        """The pairs that are not chosen."""
        assert self.chosen is not None
        return self.bitext.take(np.flatnonzero(~self.chosen))


@dataclass(frozen=True, eq=False, repr=False)
class JointHMM(Aligner):
    """Hidden Markov models of both directions, of a text's words or of several views of it, that link together.

    Attributes:
        views: what the models see; the first is words.
        models: one for each view; the log-odds of their links are averaged.
        attachment: of words without a link of their own to the partners of a word beside them; None if there is no
            view of words.
        phrase_edges: which words begin phrases, and which end them; None where there is no view of words.
        threshold: links have at least this probability: higher for precision, lower for recall.
        threads: how many to use (None: all); no result depends on it.
        fitted: the text that it was fitted on; not saved. A link of that text is judged without its own part in
            the counts, which makes its probability a better one than another look at the same text would.
    """

    views: tuple[View, ...]
    models: tuple[BidirectionalHMM, ...]
    attachment: Attachment | None
    phrase_edges: PhraseEdges | None = None
    threshold: float = JOINT_THRESHOLD
    threads: int | None = field(default=None, compare=False, kw_only=True)
    kinds = ("alpha", "beta")
    predicts = ("target", "source")
    fitted: FittedText | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.models or len(self.models) != len(self.views):
            raise ValueError("every view needs a model")
        words, edges, attachment = self.models[0], self.phrase_edges, self.attachment
        for each in (attachment, edges):
            if each and (len(each.source), len(each.target)) != (len(words.source), len(words.target)):
                raise ValueError("every word needs a direction of attachment, and a phrase edge")
        if edges and not all(((side > 0) & (side < 1)).all() for side in (edges.source, edges.target)):
            raise ValueError("phrase edges must lie between 0 and 1")
        if attachment and not all(
            np.isin(side, (-1, 0, 1)).all() for side in (attachment.source, attachment.target)
        ):
            raise ValueError("directions of attachment must be -1, 0 or 1")
        if not 0 <= self.threshold <= 1:
            raise ValueError("the threshold must lie between 0 and 1")

    def __repr__(self) -> str:
        """One line: the views, and the model of words."""
        return f"JointHMM({counted(len(self.views), 'view')}, {self.words!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickled like :meth:`save`: without the text that it was fitted on."""
        return super().__getstate__() | {"fitted": None}

    @property
    def name(self) -> str:
        """``hmm-joint``, or ``hmm-views`` if there are several."""
        return "hmm-joint" if len(self.views) == 1 else "hmm-views"

    @property
    def title(self) -> str:
        return "joint HMM" if len(self.views) == 1 else "joint HMMs of several views of words"

    def label(self, kind: str) -> tuple[str, str]:
        """As in the base class."""
        if kind != "alpha":
            return super().label(kind)
        if len(self.views) == 1:
            models = "two hidden Markov models, one for each direction, that learned together"
            return "Joint HMM", f"The probability of each link by {models}."
        models = "hidden Markov models of words, of parts of words and of collocations, averaged"
        return "Joint HMMs", f"The probability of each link by {models}."

    @property
    def words(self) -> BidirectionalHMM:
        """The model of whole words."""
        return self.models[0]

    @property
    def source(self) -> Vocabulary:
        """The source words that it knows."""
        return self.words.source

    @property
    def target(self) -> Vocabulary:
        """The target words that it knows."""
        return self.words.target

    @property
    def folds_case(self) -> bool:
        """True if words that differ in case only are one word."""
        return self.views[0].fold_case

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha: :meth:`probabilities`; beta[t, l]: p(y_t | x_l) of the model of words, 0 for pairs never seen."""
        self.check_kind(kind)
        if kind == "alpha":
            return self.probabilities(bitext)
        text = self._words_of(bitext)
        return Lookup(self.words.table, text, *self.words.ids(text), thread_count(self.threads)).scores()

    def probabilities(self, bitext: Bitext) -> Scores:
        """The probability of every link, (T, L) for each pair. A row may sum to more than 1: a word can have
        several links. In pairs of more than four million elements, links far from the diagonal have 0."""
        return scores_in_windows(bitext, self._whole_probabilities)

    def _whole_probabilities(self, bitext: Bitext) -> Scores:
        """The probability of every link, (T, L) for each pair, each of which is taken as a whole."""
        if not bitext.shapes.all(axis=1).any():  # what finds links takes long to make
            return Scores.zeros(bitext.shapes)
        # Only the units of the text's own words are needed; a text that was read by itself has no others.
        if any(len(side.vocabulary) > len(side.tokens) for side in (bitext.source, bitext.target)):
            bitext = bitext.with_own_words()
        total = words = None
        threads = thread_count(self.threads)
        for view, model, readers in zip(self.views, self.models, self._readers, strict=True):
            viewed = ViewedText(view, bitext, readers)
            words = words or viewed.bitext
            # A pair that is not long may be long in parts of words.
            judge = partial(model.log_odds, threads=threads, are_words=view.has_words)
            log_odds = scores_in_windows(viewed.bitext, judge, float(NO_LINK))
            log_odds = viewed.of_words(log_odds, threads)
            if total is None:
                total = log_odds
            else:
                total.values[:] += log_odds.values
        assert total is not None
        assert words is not None
        total.values[:] /= np.float32(len(self.views))
        cohesion = self.phrase_edges.cohesion(words) if self.phrase_edges else None
        probabilities = into_probabilities(total, threads, cohesion)
        if self.attachment is not None:
            self.attachment.apply(words, probabilities, threads)
        return probabilities

    @cached_property
    def _readers(self) -> tuple[tuple[UnitReader, UnitReader], ...]:
        """Of the units of each view, in the numbers of its model; they remember words."""
        return tuple(
            (UnitReader(view, 0, model.source), UnitReader(view, 1, model.target))
            for view, model in zip(self.views, self.models, strict=True)
        )

    def links_and_probabilities(self, bitext: Bitext) -> Linked:
        """Links whose probability reaches the threshold, and their probabilities, float64 (K,)."""
        return linked_in_blocks(
            bitext, lambda text: linked_above(self._whole_probabilities(text), self.threshold, self.threads)
        )

    def links(self, bitext: Bitext) -> Links:
        """Links whose probability reaches the threshold."""
        return self.links_and_probabilities(bitext)[0]

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair by the model of words, without fertility, and up
        to the factor for its length."""
        return self._log_likelihoods(bitext, FORWARD)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the same of log p(source | target)."""
        return self._log_likelihoods(bitext, REVERSE)

    def _log_likelihoods(self, bitext: Bitext, direction: OpinionPool) -> np.ndarray:
        return sums_in_windows(
            self._words_of(bitext), lambda text: log_likelihoods(text, self.words, direction, self.threads)
        )

    def _words_of(self, bitext: Bitext) -> Bitext:
        return ViewedText(self.views[0], bitext).bitext

    def has_fitted(self, bitext: Bitext) -> bool:
        """True if this very bitext is the one that the aligner was fitted on."""
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
        linked = linked_above(fitted.probabilities, self.threshold, self.threads)
        if fitted.chosen is None:
            return linked
        others = (fitted.of_others or self).with_threshold(self.threshold).links_and_probabilities(fitted.others)
        return interleaved_links(fitted.chosen, linked, others)

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
        return interleaved_scores(fitted.chosen, fitted.bitext.shapes, fitted.probabilities, rest)

    @property
    def without_attachment(self) -> JointHMM:
        """This aligner, which leaves words without a counterpart without links, in the text of the fit, too."""
        fitted = self.fitted
        if fitted is not None:
            probabilities = unattached(fitted.probabilities, fitted.attached)
            others = None if fitted.of_others is None else fitted.of_others.without_attachment
            fitted = FittedText(fitted.bitext, probabilities, fitted.chosen, others)
        return replace(self, attachment=None, fitted=fitted)

    def with_attachment(self, bitext: Bitext, probabilities: Scores) -> Scores:
        """The probabilities that :attr:`without_attachment` has found, with the attachment of this aligner."""
        probabilities = replace(probabilities, values=probabilities.values.copy())
        if self.attachment is not None:
            words = self._words_of(bitext)
            attachment = self.attachment.of_words(*self.words.ids(words))
            attachment.apply(words, probabilities, thread_count(self.threads))
        return probabilities

    def that_finds(self, choice: LinkChoice) -> JointHMM:
        """This aligner, to find sure links or all, as of :data:`.settings.LINK_CHOICES`."""
        aligner = self.with_threshold(LINK_CHOICES[choice])
        return aligner.without_attachment if choice == "sure" else aligner

    @property
    def _fitted(self) -> FittedText:
        if self.fitted is None:
            raise AlignkitError("a loaded model has no links of the text it was fitted on; ask for links(bitext)")
        return self.fitted

    def save(self, path: PathLike) -> None:
        """Writes the models; :func:`alignkit.load` reads them."""
        views = zip(self.views, self.models, strict=True)
        parts = [{"model": model.header(), "view": view.header()} for view, model in views]
        header = {"threshold": self.threshold, "parts": parts} | self.about_text
        save_arrays(path, KIND, VERSION, self.arrays(), header)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        arrays: dict[str, np.ndarray] = {}
        for n, (view, model) in enumerate(zip(self.views, self.models, strict=True)):
            arrays |= {f"{n}.{name}": array for name, array in (model.arrays() | view.arrays()).items()}
        for name, words in (("attached", self.attachment), ("leaning", self.phrase_edges)):
            if words is not None:
                arrays |= {f"{name}_source": words.source, f"{name}_target": words.target}
        return arrays


def load_joint(path: PathLike) -> JointHMM:
    """Reads what :meth:`JointHMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    views, models = [], []
    with loaded(path, KIND, VERSION) as (fields, header):
        for n, values in enumerate(header.rows("parts")):
            part = Record(path, values, name=f"part {n}")
            own = {name.removeprefix(f"{n}."): array for name, array in fields.arrays.items()}
            views.append(unpack_view(Fields(path, own), part.part("view")))
            models.append(unpack_bidirectional(Fields(path, own), part.part("model")))
        attachment = phrase_edges = None
        if "attached_source" in fields.arrays:
            attachment = Attachment(*(fields.get(f"attached_{side}", np.int8) for side in ("source", "target")))
        if "leaning_source" in fields.arrays:
            edges = (fields.get(f"leaning_{side}", np.float32) for side in ("source", "target"))
            phrase_edges = PhraseEdges(*edges)
        return JointHMM(tuple(views), tuple(models), attachment, phrase_edges, header.number("threshold", 0, 1))


def fit_joint(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    quality: Quality = "normal",
    views: tuple[View, ...] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
    embeddings: Embeddings | None = None,
    start: JointHMM | None = None,
    share_of_text: float = 1.0,
    **options: Unpack[HMMOptions],
) -> JointHMM:
    """Fit hidden Markov models of both directions jointly: EM shares their expected links.

    This is what `alignkit align` fits. There is always a view of words. In a small text many words are rare, and
    models of their parts know more about them. With quality ``normal``, texts of fewer than
    :data:`SMALL_TEXT` elements with at least 1,000 types of words on each side are looked at as subwords, too;
    those of fewer than :data:`FEW_WORDS`, whatever their types, as subwords of two sizes, as first letters of
    words and as collocations; if case is folded and there is neither a lexicon nor a model to start from. With
    ``best``, texts of few words are looked at in the same way, others in eight ways. Views of a small text learn
    from each other (:attr:`HMMSettings.co_training`), unless there are embeddings of all pairs or a model to start
    from. With ``fast``, words only are looked at, with fewer iterations, but for texts so small that more take no
    time.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: of the estimation, instead of those of the quality.
        quality: one of :data:`alignkit.classical.hmm.settings.QUALITIES`.
        views: what to look at, instead of what the quality says; subwords are trained on the text, and left out
            where the text is too small.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts for whole words.
        embeddings: of words (:mod:`alignkit.embeddings`); units of words are as alike as they are.
        start: a fitted model that the iterations go on from, with its views.
        share_of_text: the part that the bitext is of the text that is to be linked, which is small or not.
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: an argument is of another type or out of its range, there is no such option, or the text
            needs too much memory.

    >>> from alignkit import Bitext
    >>> text = Bitext.from_sentences([["das", "haus"], ["das", "buch"]], [["the", "house"], ["the", "book"]])
    >>> print(fit_joint(text).fitted_links.to_pharaoh().decode(), end="")
    0-0 1-1
    0-0 1-1
    """
    check_knowledge(prior, start, JointHMM)
    check_type(embeddings, Embeddings | None, "embeddings must have levels, as find_embeddings gives")
    if not 0 <= share_of_text <= 1:
        raise AlignkitError(f"share_of_text must lie in [0, 1], not {share_of_text}")

    # The views of the text, and the settings of each one's estimation.
    text, chosen = training_pairs(bitext)
    # All views link long pairs too, which takes most of the time.
    share_of_text *= matrix_elements(text) / max(matrix_elements(bitext), 1)
    plans = plan_views(text, settings, quality, views, start, prior is not None, share_of_text, options)
    views, count = tuple(view for view, _ in plans), thread_count(threads)
    levels = known_levels(embeddings, text, count, progress)

    # Each view is fitted once, words last; views that learn from each other begin with a rough model of words.
    fits = [(n, plans[n][1], f"view {n + 1}") for n in (*range(1, len(views)), 0)]
    words, unread = plans[0][1], np.ones(1, bool)  # True for elements of pairs of which embeddings know nothing
    is_alone = len(views) == 1 or start is not None or words.co_training == 0
    learn = not is_alone and matrix_elements(text) < SMALL_TEXT * share_of_text
    if learn and levels is not None:
        offsets = flat_offsets(text.shapes)
        best = np.minimum.reduceat(np.append(levels, UNKNOWN), offsets[:-1])  # of each pair; the last may be blank
        unread = np.repeat(best == UNKNOWN, np.diff(offsets))
        learn = bool(unread.any())
    if learn:
        lexical = min(words.lexical_iterations, CO_TRAINED_LEXICAL)
        fits = [(n, replace(own, lexical_iterations=lexical), name) for n, own, name in fits]
        fits.insert(0, (0, replace(words, iterations=ROUGH_ITERATIONS), "rough view 1"))

    models: dict[int, BidirectionalHMM] = {}
    opinions: dict[int, PackedLogOdds] = {}  # of links between words, by the last fit of each view
    total = Scores.from_matrices([])  # their mean
    for step, (n, own_settings, name) in enumerate(fits):
        # The text in the units of the view.
        viewed = ViewedText(views[n], text)
        for tokenizer in views[n].tokenizers or ():
            tokenizer.forget_words()
        for side in (text.source, text.target):
            side.vocabulary.forget_strings()  # several times as large as the vocabulary
        # Evidence for single links: how alike their embeddings are, or what the other views say of them.
        opinions.pop(n, None)  # of the rough model
        evidence = levels
        if learn and opinions:
            evidence = levels_of_links(mean_log_odds(opinions.values()))
            evidence = evidence if levels is None else np.where(unread, evidence, levels)
        evidence = None if evidence is None else viewed.levels(evidence, count)
        # Priors, and EM in both directions.
        report = progress_of_view(progress, step, [each for _, each, _ in fits], name)
        model, log_odds = fit_view(
            viewed,
            own_settings,
            count,
            report,
            prior=prior if viewed.view.has_words else None,
            start=None if start is None else start.models[n],
            levels=evidence,
        )
        del evidence  # as large as all that the next fit keeps, like what follows
        log_odds = viewed.of_words(log_odds, count)
        if len(fits) == 1:
            total = log_odds
        else:
            opinions[n] = packed_log_odds(log_odds.values)
        if not (learn and step == 0):  # of the rough model only its links are kept
            models[n] = model
        del model, log_odds, viewed
    if opinions:
        total = Scores(mean_log_odds(opinions.values()), flat_offsets(text.shapes), text.shapes)
    if chosen is not None and not chosen.any():
        total = Scores.from_matrices([])

    # Log-odds become probabilities, given the links beside them; words without a counterpart are attached.
    phrase_edges = attachment = None
    seen, has_words = ViewedText(views[0], text).bitext, views[0].has_words
    if has_words:
        phrase_edges = PhraseEdges.of_text(seen)
    probabilities = into_probabilities(total, count, phrase_edges.cohesion(seen) if phrase_edges else None)
    if learn:
        trusted(probabilities, trust_in(probabilities))
    fitted = FittedText(bitext, probabilities, chosen)
    if has_words:
        attachment = Attachment.of_links(seen, probabilities, count)
        fitted = replace(fitted, attached=attachment.apply(seen, probabilities, count))
    fitted_models = tuple(models[n] for n in range(len(views)))
    return JointHMM(views, fitted_models, attachment, phrase_edges, threads=threads, fitted=fitted)


def fit_view(
    viewed: ViewedText,
    settings: HMMSettings,
    threads: int,
    progress: Progress | None = None,
    *,
    prior: LexiconPrior | None = None,
    start: BidirectionalHMM | None = None,
    levels: np.ndarray | None = None,
) -> tuple[BidirectionalHMM, Scores]:
    """Fit a model to one view of a text.

    Args:
        viewed: M pairs of units.
        settings: of the estimation.
        threads, progress, prior: as in :func:`fit_joint`.
        start: a model of the same view, which the iterations go on from.
        levels: of :class:`alignkit.classical.hmm.hmm.HMMEstimation`.

    Returns:
        (the model; the log-odds of all links, (T, L) for each pair of the view).
    """
    text, chosen = training_pairs(viewed.bitext)
    estimation = HMMEstimation(text, settings, BOTH, threads, prior, start, levels)
    # Each direction explains the tokens of one side: where that is the longer one, it says more.
    sizes = len(text.source.tokens), len(text.target.tokens)
    share = (sizes[1] + 1) / (sum(sizes) + 2)
    estimate(estimation, progress, OpinionPool(share, 1 - share, is_logarithmic=True))
    return model_and_log_odds(estimation, viewed, chosen)


def model_and_log_odds(
    estimation: HMMEstimation, viewed: ViewedText, chosen: np.ndarray | None, other: BidirectionalHMM | None = None
) -> tuple[BidirectionalHMM, Scores]:
    """The model that was estimated from some pairs of a view, and the log-odds of all its links.

    Args:
        estimation: after its last E-step, whose links are log-odds.
        viewed: the text with its long pairs; chosen: the pairs that were estimated from, as
            :func:`.views.training_pairs` returns them.
        other: the model of the pairs that are not chosen; None: the one that was estimated.
    """
    if not estimation.pool.is_logarithmic:
        raise ValueError("the links of the last E-step are not log-odds")
    text, links = estimation.bitext, estimation.links
    null = np.array([direction.null_total for direction in estimation.directions], np.float32)
    table, counts, directions = estimation.release(0, 1)
    model = BidirectionalHMM(
        text.source.vocabulary,
        text.target.vocabulary,
        table,
        *directions,
        share=estimation.pool.forward,
        threads=estimation.threads,
        counts=FittedCounts(counts, null),
    )
    log_odds = Scores(links.elements.view(np.float32), links.offsets, text.shapes)
    if chosen is None:
        return model, log_odds
    own = log_odds if chosen.any() else Scores.from_matrices([])
    judge = partial((other or model).log_odds, threads=estimation.threads, are_words=viewed.view.has_words)
    rest = scores_in_windows(viewed.bitext.take(np.flatnonzero(~chosen)), judge, float(NO_LINK))
    return model, interleaved_scores(chosen, viewed.bitext.shapes, own, rest)


def plan_views(
    text: Bitext,
    settings: HMMSettings | None,
    quality: str,
    views: tuple[View, ...] | None,
    start: JointHMM | None,
    has_lexicon: bool,
    share_of_text: float,
    options: HMMOptions,
) -> list[tuple[View, HMMSettings]]:
    """Decide what is fitted: the views of the text, and the settings of each one's estimation.

    Args:
        text: the pairs to fit on.

    The others are those of :func:`fit_joint`.
    """
    check_known(quality, QUALITIES, "quality")
    is_fast, elements = quality == "fast", matrix_elements(text)
    usual, is_small = JOINT_SETTINGS, elements < SMALL_TEXT * share_of_text
    if is_fast and elements >= HURRIED_FROM:
        usual = FAST_SETTINGS
    if is_small and len(text) >= SEVERAL:
        usual = replace(usual, tolerance=SMALL_TOLERANCE)
    chosen = with_options(HMMSettings, usual if settings is None else settings, options)
    if start is not None:
        if start.folds_case != chosen.fold_case:
            ways = ("keeps case", "ignores case")
            raise AlignkitError(
                f"the model to start from {ways[start.folds_case]}, and what is fitted {ways[chosen.fold_case]}"
            )
        views = start.views
    elif views is not None:
        views = trained_views(views, text)
    elif quality == "best" or not (is_fast or has_lexicon or not chosen.fold_case):
        if not chosen.fold_case:
            raise AlignkitError("quality best ignores case; choose another quality to keep case")
        limit, few_words = SMALL_TEXT * share_of_text, elements < FEW_WORDS * share_of_text
        if quality == "best" and not few_words:
            views = trained_views(VIEWS, text)
        else:
            views = FEW_WORDS_VIEWS if few_words else SMALL_VIEWS if is_small else ()
            small = []  # without those of which the text is too large, or has long pairs
            for view in trained_views(views, text):
                viewed = ViewedText(view, text).bitext if view.subwords else None
                if viewed is None or (matrix_elements(viewed) < UNITS_LIMIT * limit and not is_long(viewed).any()):
                    small.append(view)
            views = tuple(small)
    if not views:
        views = (View(fold_case=chosen.fold_case),)
    if len(views) > 1 and is_small:
        chosen = replace(chosen, least_own=0.0)  # several views lose by what one gains by (dev parts)
    return [(view, settings_of_view(chosen, view)) for view in views]


def matrix_elements(bitext: Bitext) -> int:
    """The number of elements of all matrices of a text."""
    return int(bitext.source.lengths @ bitext.target.lengths)


def settings_of_view(settings: HMMSettings, view: View) -> HMMSettings:
    """Settings for a text as a view shows it: short units have no spelling, and subwords get few iterations."""
    return replace(
        settings,
        spelling=settings.spelling if not view.subwords or view.subwords >= SPELLED else 0.0,
        least_own=settings.least_own if view.has_words else 0.0,
        iterations=min(settings.iterations, SUBWORD_ITERATIONS) if view.subwords else settings.iterations,
    )


def progress_of_view(progress: Progress | None, n: int, plans: list[HMMSettings], name: str) -> Progress | None:
    """Progress of the n-th of several fits with these settings, which has this name."""
    if progress is None or len(plans) == 1:
        return progress
    steps = [plan.lexical_iterations + plan.iterations for plan in plans]
    before, total = sum(steps[:n]), sum(steps)
    return lambda done, _, message: progress(before + done, total, f"{name}, {message}")


def pruned(model: JointHMM, size: str) -> tuple[JointHMM, str]:
    """The model with as many word pairs as a file of "100M" for example has room for (:func:`pruned_to_pairs`),
    and a sentence that says what is lost.

    Raises:
        AlignkitError: the size is none, or there is room for no word pair; the message has the least size.
    """
    room, fixed = parse_size(size), fixed_size(model)
    if room < fixed + PAIR:
        raise AlignkitError(
            f"a model of {show_size(room)} has no room for word pairs: the words of this text take "
            f"{show_size(fixed + PAIR)}"
        )
    smaller = pruned_to_pairs(model, (room - fixed) // PAIR)
    before, after = ([each.counts.pairs for each in of.models] for of in (model, smaller))
    links, kept = (sum(float(each.sum(dtype=np.float64)) for each in counts) for counts in (before, after))
    lost = 1 - kept / links if links > 0 else 0.0
    pairs = f"{sum(map(len, after)):,} of {sum(map(len, before)):,} word pairs"
    return smaller, f"{pairs} are kept; the others had {lost:.2%} of all expected links"


def fixed_size(model: JointHMM) -> int:
    """Bytes of a saved model beside its word pairs: words, fertilities, jumps, subwords, phrase edges."""
    pairs = sum(len(each.table.values) for each in model.models)
    return sum(array.nbytes for array in model.arrays().values()) - PAIR * pairs + ENVELOPE * len(model.models)


def pruned_to_pairs(model: JointHMM, pairs: int) -> JointHMM:
    """The model with this number of pairs of words, or of subwords, those with the most expected links.

    To the model the others are as pairs that never met: each gets what remains for such. Most pairs that meet in a
    text have hardly any expected link.
    """
    counts = np.concatenate([each.counts.pairs for each in model.models])
    if pairs >= len(counts):
        return model
    # Of equals the first are kept, so that the result does not depend on how a library sorts.
    is_kept = np.zeros(len(counts), bool)
    is_kept[np.argsort(-counts, kind="stable")[:pairs]] = True
    parts = np.split(is_kept, np.cumsum([len(each.table.values) for each in model.models])[:-1])
    models = []
    for each, kept in zip(model.models, parts, strict=True):
        assert each.reverse is not None
        smaller = replace(
            each,
            table=each.table.chosen(kept),
            forward=replace(each.forward, emission=each.forward.emission[kept]),
            reverse=replace(each.reverse, emission=each.reverse.emission[kept]),
            counts=FittedCounts(each.counts.pairs[kept], each.counts.null),
        )
        models.append(smaller)
    return replace(model, models=tuple(models))
