"""Joint hidden Markov models of several views of a text, the log-odds of whose links are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from alignkit.aligner.protocol import check_kind
from alignkit.classical.hmm.joint import JointHMM, Prior, fit_log_odds, lexicon_and_embeddings, unpack_joint
from alignkit.classical.hmm.joint_aligner import FittedText, JointAligner
from alignkit.classical.hmm.link_odds import VIEWS_CERTAINTY, into_probabilities
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit.classical.hmm.views import VIEWS, View, ViewedText, trained_views, unpack_view
from alignkit.classical.hmm.windows import training_pairs
from alignkit.classical.memory import MemoryLimit
from alignkit.classical.priors import LexiconPrior
from alignkit.errors import AlignkitError, InputError
from alignkit.parallel import thread_count
from alignkit.records import Record
from alignkit.representation import brief_repr
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import scratch_array
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.hmm-views", 2
#: The sum of the views' log-odds is kept on disk if it is larger than this part of the memory's limit.
LARGEST_SHARE = 8


@dataclass(frozen=True, eq=False)
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
    name: str = "hmm-views"
    kinds: tuple[str, ...] = ("alpha", "beta")
    fitted: FittedText | None = field(default=None, compare=False, repr=False)

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        if not self.models or len(self.models) != len(self.views):
            raise ValueError("every view needs a model")
        if not 0 <= self.threshold <= 1:
            raise ValueError("the threshold must lie between 0 and 1")

    @property
    def words(self) -> JointHMM:
        """The model of whole words."""
        return self.models[0]

    @cached_property
    def _running(self) -> tuple[JointHMM, ...]:
        """The models, with this aligner's threads; they keep what they prepare for new texts."""
        return tuple(replace(model, threads=self.threads) for model in self.models)

    def whole_probabilities(self, bitext: Bitext) -> Scores:
        """See :meth:`JointAligner.whole_probabilities`."""
        total = Scores.zeros(bitext.shapes)
        for view, model in zip(self.views, self._running, strict=True):
            viewed = ViewedText(view, bitext)
            log_odds = model.whole_log_odds(viewed.bitext)
            viewed.add(log_odds, 1 / len(self.models), total, thread_count(self.threads))
        return into_probabilities(total, self.threads, VIEWS_CERTAINTY)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta: that of the model of words; alpha: :meth:`probabilities`."""
        check_kind(self, kind)
        return self.words.score(bitext, kind) if kind == "beta" else self.probabilities(bitext)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): of the model of words, see :meth:`JointHMM.log_probabilities`."""
        return self.words.log_probabilities(bitext)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): of the model of words."""
        return self.words.reverse_log_probabilities(bitext)

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
    views: tuple[View, ...] = VIEWS,
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
        views: what to look at; subwords are trained on the text, and left out where the text is too small.
        threads, progress, memory: as of :func:`alignkit.classical.hmm.joint.fit_joint`.
        prior: a lexicon from another text, as pseudo-counts, for views whose units are whole words; embeddings of
            words (:mod:`alignkit.embeddings`), whose units are as alike as they are; or both.
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: as of :func:`alignkit.classical.hmm.joint.fit_joint`.
    """
    settings = with_options(settings or JOINT_SETTINGS, options)
    text, chosen = training_pairs(bitext)
    count = thread_count(threads)
    total, memory = _within_memory(text, memory or MemoryLimit())
    lexicon, embeddings = lexicon_and_embeddings(prior)
    levels = None if embeddings is None else embeddings.levels(text, count, progress)
    views = trained_views(views, text)

    def fitted_view(n: int, view: View) -> JointHMM:
        viewed = ViewedText(view, text)
        model, log_odds = fit_log_odds(
            viewed.bitext,
            settings_of_view(settings, view),
            threads=threads,
            progress=None if progress is None else progress_of_view(progress, n, len(views)),
            prior=_priors(viewed, lexicon if view.has_words else None, levels),
            memory=memory,
        )
        viewed.add(log_odds, 1 / len(views), total, count)
        return model

    models = [fitted_view(n, view) for n, view in enumerate(views)]
    if chosen is not None and not chosen.any():
        total = Scores.from_matrices([])
    fitted = FittedText(bitext, into_probabilities(total, threads, VIEWS_CERTAINTY), chosen)
    return JointViews(views, tuple(models), settings.threshold, threads=threads, fitted=fitted)


def _within_memory(bitext: Bitext, memory: MemoryLimit) -> tuple[Scores, MemoryLimit]:
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
    """Settings for a text as a view shows it: its case is folded already, and short units have no spelling."""
    return replace(settings, fold_case=False, spelling=settings.spelling if view.is_spelled else 0.0)


def progress_of_view(progress: Progress, n: int, views: int) -> Progress:
    """Progress of the n-th of several views."""
    return lambda done, total, message: progress(n * total + done, views * total, f"view {n + 1}, {message}")
