"""Joint hidden Markov models of several views of a text, the log-odds of whose links are averaged.

:func:`fit_views` fits them. :func:`fit_aligner`, which `alignkit align` runs by default, does so for small texts,
in which most words are rare, and fits the model of words alone to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from alignkit.classical.exchange import Exchange, current_exchange, exchanging, with_work
from alignkit.classical.hmm.expectation import pair_work
from alignkit.classical.hmm.joint import (
    JointHMM,
    Prior,
    fit_joint,
    fit_log_odds,
    lexicon_and_embeddings,
    matrix_elements,
    unpack_joint,
)
from alignkit.classical.hmm.joint_aligner import FittedText, JointAligner
from alignkit.classical.hmm.link_odds import VIEWS_CERTAINTY, into_probabilities
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit.classical.hmm.views import SMALL_VIEWS, VIEWS, View, ViewedText, trained_views, unpack_view
from alignkit.classical.hmm.windows import is_long, scores_in_windows, training_pairs
from alignkit.classical.memory import MemoryLimit
from alignkit.classical.priors import LexiconPrior
from alignkit.errors import AlignkitError, InputError
from alignkit.kernels.link_odds import NO_LINK
from alignkit.parallel import thread_count
from alignkit.records import Record
from alignkit.scores import Scores, flat_offsets
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import scratch_array
from alignkit.text.units import lowercased
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress, with_options

KIND, VERSION = "alignkit.hmm-views", 2
#: The sum of the views' log-odds is kept on disk if it is larger than this part of the memory's limit.
LARGEST_SHARE = 8
#: The most iterations with transitions of a model of subwords: with more, it finds fewer right links.
SUBWORD_ITERATIONS = 4
#: How many times as many elements as of words a small text may have of subwords.
UNITS_LIMIT = 4


@dataclass(frozen=True, eq=False, repr=False)
class JointViews(JointAligner):
    """Fitted joint models of several views, which give link probabilities together.

    Attributes:
        views: what the models see; the first is words.
        models: one for each view.

    The others are those of :class:`JointAligner`.
    """

    views: tuple[View, ...]
    models: tuple[JointHMM, ...]
    threshold: float = JOINT_THRESHOLD
    threads: int | None = field(default=None, compare=False, kw_only=True)
    name = "hmm-views"
    kinds = ("alpha", "beta")
    predicts = ("target", "source")
    fitted: FittedText | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.models or len(self.models) != len(self.views):
            raise ValueError("every view needs a model")
        if not 0 <= self.threshold <= 1:
            raise ValueError("the threshold must lie between 0 and 1")

    @property
    def words(self) -> JointHMM:
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

    @cached_property
    def _running(self) -> tuple[JointHMM, ...]:
        """The models, with this aligner's threads; they keep what they prepare for new texts."""
        return tuple(replace(model, threads=self.threads) for model in self.models)

    def whole_probabilities(self, bitext: Bitext) -> Scores:
        """See :meth:`JointAligner.whole_probabilities`."""
        total = Scores.zeros(bitext.shapes)
        bitext = bitext.with_own_words()  # only their units are needed
        for view, model in zip(self.views, self._running, strict=True):
            viewed = ViewedText(view, bitext)
            # A pair that is not long may be long in parts of words.
            judge = partial(model.whole_log_odds, are_words=view.has_words)
            log_odds = scores_in_windows(viewed.bitext, judge, float(NO_LINK))
            viewed.add(log_odds, 1 / len(self.models), total, thread_count(self.threads))
        return into_probabilities(total, self.threads, VIEWS_CERTAINTY)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta: that of the model of words; alpha: :meth:`probabilities`."""
        self.check_kind(kind)
        return self.words.score(lowercased(bitext), kind) if kind == "beta" else self.probabilities(bitext)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): of the model of words, see :meth:`JointHMM.log_probabilities`."""
        return self.words.log_probabilities(lowercased(bitext))

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): of the model of words."""
        return self.words.reverse_log_probabilities(lowercased(bitext))

    def save(self, path: PathLike) -> None:
        """Writes the models; :func:`alignkit.load_aligner` reads them."""
        arrays: dict[str, np.ndarray] = {}
        headers = []
        for n, (view, model) in enumerate(zip(self.views, self.models, strict=True)):
            arrays |= {f"{n}.{name}": array for name, array in (model.arrays() | view.arrays()).items()}
            headers.append({"model": model.header(), "view": view.header()})
        save_arrays(path, KIND, VERSION, arrays, {"threshold": self.threshold, "parts": headers})


def load_views(path: PathLike) -> JointViews:
    """Reads what :meth:`JointViews.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, values = load_arrays(path, KIND, VERSION)
    header, views, models = Record(path, values), [], []
    try:
        for n, values in enumerate(header.rows("parts")):
            part = Record(path, values, name=f"part {n}")
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{n}.")}
            views.append(unpack_view(Fields(path, own), part.part("view")))
            models.append(unpack_joint(Fields(path, own), part.part("model")))
        return JointViews(tuple(views), tuple(models), header.number("threshold", 0, 1))
    except InputError:
        raise
    except (AlignkitError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_views(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    views: tuple[View, ...] | JointViews = VIEWS,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | Sequence[Prior] | None = None,
    memory: MemoryLimit | None = None,
    **options: Any,
) -> JointViews:
    """Fits a joint model to each view of a text, and averages the log-odds of their links on words.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: of the estimation, by default :data:`JOINT_SETTINGS`; case is folded whatever they say.
        views: what to look at; subwords are trained on the text, and left out where the text is too small. Or
            fitted models, which the iterations go on from, with their views.
        threads, progress, memory: as of :func:`alignkit.classical.hmm.joint.fit_joint`.
        prior: a lexicon from another text, as pseudo-counts, for views whose units are whole words; embeddings of
            words (:mod:`alignkit.embeddings`), whose units are as alike as they are; or both.
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: as of :func:`alignkit.classical.hmm.joint.fit_joint`; or a pair is too long for processes
            that share the text.
    """
    if {"iterations", "lexical_iterations"} & options.keys():
        options = {"hurry_from": 0} | options
    settings = with_options(settings or JOINT_SETTINGS, options)
    text, chosen = training_pairs(bitext)
    settings = settings.for_size(matrix_elements(text))
    count, exchange = thread_count(threads), current_exchange()
    total, memory = within_memory(text, memory or MemoryLimit())
    lexicon, embeddings = lexicon_and_embeddings(prior)
    levels = None if embeddings is None else embeddings.levels(text, count, progress)
    start = views.models if isinstance(views, JointViews) else None
    views = views.views if isinstance(views, JointViews) else trained_views(views, text, exchange)
    plans = [settings_of_view(settings, view) for view in views]

    def fit(n: int, viewed: ViewedText) -> tuple[JointHMM, Scores]:
        exchange.agreed(partial(_check_lengths, viewed.bitext, exchange))
        return fit_log_odds(
            viewed.bitext,
            plans[n],
            threads=threads,
            progress=None if progress is None else progress_of_view(progress, n, plans),
            prior=_priors(viewed, lexicon if views[n].has_words else None, levels),
            start=None if start is None else start[n],
            memory=memory,
        )

    with exchanging(with_work(exchange, pair_work(text.source.lengths, text.target.lengths))):
        models, probabilities = judged(views, text, chosen, fit, total, count)
    fitted = FittedText(bitext, probabilities, chosen)
    return JointViews(views, models, settings.threshold, threads=threads, fitted=fitted)


def judged(
    views: Sequence[View],
    text: Bitext,
    chosen: np.ndarray | None,
    fit: Callable[[int, ViewedText], tuple[JointHMM, Scores]],
    total: Scores,
    threads: int,
) -> tuple[tuple[JointHMM, ...], Scores]:
    """The models of several views of a text, and the probabilities of its links by all of them.

    Args:
        views: trained.
        text, chosen: as of :func:`training_pairs`.
        fit: called as ``fit(n, viewed)`` for the n-th view of the text; returns its model, and log-odds of links.
        total: zeros, (T, L) for each pair; overwritten.
        threads: how many to use; no result depends on it.
    """
    models = []
    for n, view in enumerate(views):
        viewed = ViewedText(view, text)
        model, log_odds = fit(n, viewed)
        viewed.add(log_odds, 1 / len(views), total, threads)
        models.append(model)
    if chosen is not None and not chosen.any():
        total = Scores.from_matrices([])
    return tuple(models), into_probabilities(total, threads, VIEWS_CERTAINTY)


def fit_aligner(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | Sequence[Prior] | None = None,
    start: JointHMM | JointViews | None = None,
    memory: MemoryLimit | None = None,
) -> JointHMM | JointViews:
    """Fits a joint model to a text, and to a small one a second model, which looks at the same text as subwords.

    The second one knows more of rare words, of which small texts have many, and it costs little there. It needs a
    text of at least 1,000 types of words on each side, whose matrices have fewer elements in all than
    ``settings.subwords_below``, and as subwords than :data:`UNITS_LIMIT` times as many, without a pair that is too
    long as subwords (:mod:`.windows`). If case is kept, or there is a lexicon, or a model of words to start from,
    words are all that is looked at.

    Args:
        start: a fitted model that the iterations go on from, with its views.

    The others are those of :func:`fit_views`.

    Raises:
        AlignkitError: as of :func:`fit_views`.
    """
    settings = settings or JOINT_SETTINGS
    arguments: dict[str, Any] = {"threads": threads, "progress": progress, "prior": prior, "memory": memory}
    if isinstance(start, JointViews):
        if not settings.fold_case:
            raise AlignkitError("models of words and subwords fold case; to keep case, do not start from them")
        return fit_views(bitext, settings, views=start, **arguments)
    lexicon, _ = lexicon_and_embeddings(prior)
    views = _views_by_size(bitext, settings) if start is None and lexicon is None and settings.fold_case else ()
    if views:
        return fit_views(bitext, settings, views=views, **arguments)
    return fit_joint(bitext, settings, start=start, **arguments)


def _views_by_size(bitext: Bitext, settings: HMMSettings) -> tuple[View, ...]:
    """Words and subwords if :func:`fit_aligner` looks at both, otherwise nothing; the same in all processes."""
    text, _ = training_pairs(bitext)
    if not matrix_elements(text) < settings.subwords_below:
        return ()
    views = trained_views(SMALL_VIEWS, text, current_exchange())
    if len(views) < 2:
        return ()
    viewed = ViewedText(views[1], text).bitext
    long = current_exchange().summed(np.array([np.count_nonzero(is_long(viewed))]))[0]
    if long or matrix_elements(viewed) >= UNITS_LIMIT * settings.subwords_below:
        return ()
    return views


def _check_lengths(viewed: Bitext, exchange: Exchange) -> None:
    """Raises AlignkitError if a pair is too long to be aligned as a whole, where processes share a text."""
    if exchange.is_shared and is_long(viewed).any():
        raise AlignkitError(
            "a sentence pair is too long to be aligned as subwords by ranks of torchrun; split it, or give "
            "--quality fast, which looks at words only"
        )


def within_memory(bitext: Bitext, memory: MemoryLimit) -> tuple[Scores, MemoryLimit]:
    """Zeros (T, L) for each pair, on disk if they are large, and what they leave of the memory."""
    offsets = flat_offsets(bitext.shapes)
    elements = int(offsets[-1])
    size = 4 * elements
    if size > memory.limit // LARGEST_SHARE:
        return Scores(scratch_array(elements, np.float32, memory.folder), offsets, bitext.shapes), memory
    rest = None if memory.bytes is None else memory.bytes - size
    return Scores.zeros(bitext.shapes), replace(memory, bytes=rest)


class _KnownLevels:
    """Embeddings of which it is known how alike the units of a view are."""

    def __init__(self, viewed: ViewedText, levels: np.ndarray) -> None:
        self.viewed, self.of_words = viewed, levels

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        return self.viewed.levels(self.of_words, threads)


def _priors(viewed: ViewedText, lexicon: LexiconPrior | None, levels: np.ndarray | None) -> list[Prior]:
    found: list[Prior] = [] if lexicon is None else [lexicon.lowercased]
    return found if levels is None else [*found, _KnownLevels(viewed, levels)]


def settings_of_view(settings: HMMSettings, view: View) -> HMMSettings:
    """Settings for a text as a view shows it: its case is folded already, short units have no spelling, and
    subwords get few iterations."""
    return replace(
        settings,
        fold_case=False,
        spelling=settings.spelling if view.is_spelled else 0.0,
        iterations=min(settings.iterations, SUBWORD_ITERATIONS) if view.subwords else settings.iterations,
    )


def progress_of_view(progress: Progress, n: int, plans: Sequence[HMMSettings]) -> Progress:
    """Progress of the n-th of several fits with these settings."""
    steps = [plan.lexical_iterations + plan.iterations for plan in plans]
    before, total = sum(steps[:n]), sum(steps)
    return lambda done, _, message: progress(before + done, total, f"view {n + 1}, {message}")
