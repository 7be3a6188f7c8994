"""Fit an aligner by its method: one direction, or both at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from alignkit.aligner import Aligner, Reversed, Symmetrized, load_aligner, with_threshold
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.memory import MemoryLimit, parse_size
from alignkit.classical.priors import LexiconPrior, read_prior
from alignkit.classical.word_pairs import bags_of
from alignkit.embeddings.find import find_embeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import InputError
from alignkit.lazy import imported
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.parallel import thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import Progress
from alignkit.workflow.settings import AlignSettings, Method


class Fitting:
    """The fit of an aligner: what it starts from is read and checked first, before any text.

    Args:
        settings: what to fit.

    Raises:
        AlignkitError: settings exclude each other; or ``prior`` or ``start`` cannot be read, or is of another kind
            than the method's.
    """

    def __init__(self, settings: AlignSettings) -> None:
        settings.check_fit()
        self.settings = settings
        self.method, self.estimation = settings.chosen()
        self.memory = memory_limit(settings)
        self.prior = _prior(settings)
        self.embeddings = _embeddings(settings)
        self.start: tuple[Aligner, ...] = ()
        if settings.start is not None:
            self.start = _starts(settings, self.method)

    def fit(
        self,
        bitext: Bitext,
        *,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Aligner:
        """Fit the aligner on a bitext of whitespace words.

        Args:
            bitext: M pairs.
            threads: all there are by default; the result has the same bits for any number.
            progress: called after each iteration of each direction.

        Raises:
            AlignkitError: the model to start from shares no words with a side of the text.
        """
        threads, settings = thread_count(threads), self.settings

        def fit(text: Bitext, share: int) -> Aligner:
            report = _labelled(progress) if text is not bitext and settings.symmetrization else progress
            return self._fit_direction(text, text is not bitext, share, report)

        if settings.symmetrization is not None:
            both = (settings.symmetrization, settings.threshold)
            return fit_symmetrized(bitext, fit, *both, threads=threads)
        fitted = fit(bitext.reversed if settings.reverse else bitext, threads)
        if settings.threshold is not None:
            fitted = with_threshold(fitted, settings.threshold)
        return Reversed(fitted, threads) if settings.reverse else fitted

    def _fit_direction(self, text: Bitext, turned: bool, threads: int, progress: Progress | None) -> Aligner:
        more: dict[str, Any] = {}
        if self.prior is not None:
            more["prior"] = self.prior.reversed if turned else self.prior
        if self.embeddings is not None:
            more["prior"] = [each for each in (self.prior, self.embeddings) if each is not None]
        if self.start:
            more["start"] = self.start[-1] if turned else self.start[0]
            folds_case = isinstance(self.estimation, HMMSettings) and self.estimation.fold_case
            _check_words_shared(self.settings.start, more["start"], text, folds_case)
        if "memory" in self.method.takes:
            more["memory"] = self.memory
        return imported(self.method.fit)(text, self.estimation, threads=threads, progress=progress, **more)


def memory_limit(settings: AlignSettings) -> MemoryLimit:
    """The memory that a joint model may take; raises AlignkitError if ``max_memory`` is no size."""
    given = settings.max_memory
    return MemoryLimit(None if given is None else parse_size(str(given)), settings.temp_folder)


def fit_symmetrized(
    bitext: Bitext,
    fit: Callable[[Bitext, int], Aligner],
    method: str = DEFAULT_METHOD,
    threshold: float | None = None,
    *,
    threads: int | None = None,
) -> Symmetrized:
    """Fit both directions, at the same time with half of the threads each.

    A fit has stretches that only one thread can do, and two fits never have them at the same time.

    Args:
        bitext: M pairs.
        fit: called as ``fit(bitext, threads)``; its result must not depend on the threads.
        method, threshold: of :class:`Symmetrized`.
        threads: for both together; all there are by default. With one, the fits follow each other.
    """
    threads = thread_count(threads)
    sides = [bitext, bitext.reversed]
    if threads == 1:
        forward, reverse = (fit(side, threads) for side in sides)
    else:
        bags_of(bitext, threads)  # both directions use them
        with ThreadPoolExecutor(2) as pool:
            forward, reverse = pool.map(fit, sides, (threads - threads // 2, threads // 2))
    return Symmetrized(forward, reverse, method, threshold, threads)


def _prior(settings: AlignSettings) -> LexiconPrior | None:
    prior = settings.prior
    return read_prior(prior, settings.prior_weight) if isinstance(prior, str | os.PathLike) else prior


def _embeddings(settings: AlignSettings) -> Embeddings | None:
    if not isinstance(settings.embeddings, str):
        return settings.embeddings
    return find_embeddings(settings.embeddings)


def _starts(settings: AlignSettings, method: Method) -> tuple[Aligner, ...]:
    """The model to start from, or those of both directions; a :class:`Reversed` one without its wrapper.

    Raises:
        InputError: it is not one of the method, or not of the direction or directions that are fitted.
    """
    start = settings.start
    assert start is not None
    model = load_aligner(start) if isinstance(start, str | os.PathLike) else start
    models: tuple[Aligner, ...] = (model,)
    if settings.symmetrization is not None:
        if not isinstance(model, Symmetrized):
            raise InputError(_shown(start), "is a model of one direction; both directions are to be fitted")
        models = (model.forward, model.reverse)
    for each in models:
        if each.name not in method.models:
            remedy = f"give one that `alignkit {method.saved_by}` wrote"
            raise InputError(_shown(start), f"is a model of kind {each.name}", remedy=remedy)
    if isinstance(model, Reversed) != settings.reverse:
        ways = ("source to target", "target to source")
        own, wanted = ways[not settings.reverse], ways[settings.reverse]
        remedy = f"give a model that was fitted with{'' if settings.reverse else 'out'} --reverse"
        raise InputError(_shown(start), f"is a model of {own}, but {wanted} is to be fitted", remedy=remedy)
    return (model.inner,) if isinstance(model, Reversed) else models


def _check_words_shared(start: Any, model: Any, text: Bitext, folds_case: bool) -> None:
    """Refuse a model that shares no word with one side of a text: to start from it would do nothing."""
    for name, known, side in (("source", model.source, text.source), ("target", model.target, text.target)):
        words = side.vocabulary
        if len(words) and not any((word.lower() if folds_case else word) in known for word in words):
            remedy = "is it of the other direction, or of text in another case?"
            raise InputError(_shown(start), f"knows no {name} word of this text", remedy=remedy)


def _shown(start: Any) -> str:
    return os.fspath(start) if isinstance(start, str | os.PathLike) else f"the {start.name} model to start from"


def _labelled(progress: Progress | None) -> Progress | None:
    """Progress of the reverse direction."""
    if progress is None:
        return None
    return lambda done, total, message: progress(done, total, f"reverse, {message}")
