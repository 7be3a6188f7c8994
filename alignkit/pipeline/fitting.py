"""Fit an aligner on a text: in one direction, in both, or jointly; from uniform parameters or from a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alignkit.aligner import Aligner, Reversed, Symmetrized
from alignkit.classical.cooccurrence import HMM, LEXICAL, bags_of, check_memory
from alignkit.classical.priors import LexiconPrior, read_prior
from alignkit.embeddings.find import find_embeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import InputError, check_type
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.pipeline.settings import AlignSettings
from alignkit.support.packages import imported
from alignkit.support.stages import Stage
from alignkit.support.threads import run_side_by_side, thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

if TYPE_CHECKING:
    pass
from alignkit.pipeline.linking import loaded_model, read_options


class Fit:
    """The fit of an aligner: what it starts from is read and checked first, before any text.

    Args:
        settings: what to fit, and how it is to link.

    Attributes:
        reading: how to read the text, as in :class:`Linker`.

    Raises:
        AlignkitError: settings exclude each other; or ``prior`` or ``start`` cannot be read, or is of another kind
            than the method's.
    """

    def __init__(self, settings: AlignSettings) -> None:
        settings.check_fit()
        fitting = self.fitting = settings.fitting
        self.linking = settings.linking
        prior, embeddings = fitting.prior, fitting.embeddings
        self.prior: LexiconPrior | None = (
            read_prior(prior, fitting.prior_weight) if isinstance(prior, str | os.PathLike) else prior
        )
        self.embeddings: Embeddings | None = (
            find_embeddings(embeddings) if isinstance(embeddings, str) else embeddings
        )
        check_type(self.prior, LexiconPrior | None, "a prior must be a lexicon or its file")
        check_type(self.embeddings, Embeddings | None, "embeddings must be an encoder or a file's name")
        self.start = self._starts()
        self.reading = read_options(settings.reading, any(model.raw_text for model in self.start))

    def __call__(
        self, bitext: Bitext, threads: int, progress: Progress | None = None, pairs: int | None = None
    ) -> Aligner:
        """Fit the aligner on a bitext of whitespace words.

        Args:
            bitext: M pairs.
            threads: how many to use; the result has the same bits for any number.
            progress: called after each iteration of each direction.
            pairs: those of the whole text, if this is a sample.

        Raises:
            AlignkitError: the model to start from shares no words with a side of the text.
        """
        linking, reverse = self.linking, self.fitting.reverse
        with Stage("fitting", progress) as stage:
            if linking.symmetrization is not None:
                check_memory(bitext, HMM if self.fitting.method == "hmm" else LEXICAL, models=2)

                def fit(text: Bitext, share: int) -> Aligner:
                    is_reverse = text is not bitext
                    return self._direction(text, is_reverse, share, _labelled(stage) if is_reverse else stage)

                return fit_symmetrized(bitext, fit, linking.symmetrization, linking.threshold, threads=threads)
            # The size of the whole text decides on a look at subwords, which takes time for every pair.
            share_of_text = 1.0 if pairs is None else len(bitext) / max(pairs, 1)
            text = bitext.reversed if reverse else bitext
            fitted = self._direction(text, reverse, threads, stage, share_of_text)
        if linking.threshold is not None:
            fitted = fitted.with_threshold(linking.threshold)
        return Reversed(fitted, threads) if reverse else fitted

    def _direction(
        self, text: Bitext, reverse: bool, threads: int, progress: Progress, share_of_text: float = 1.0
    ) -> Aligner:
        more: dict[str, Any] = {}
        if self.prior is not None:
            more["prior"] = self.prior.reversed if reverse else self.prior
        if self.embeddings is not None:
            more["embeddings"] = self.embeddings
        if self.start:
            more["start"] = self.start[-1 if reverse else 0]
            _check_words_shared(self.fitting.start, more["start"], text, self.fitting.folds_case)
        if self.fitting.chosen.is_joint:
            more |= {"quality": self.fitting.quality, "share_of_text": share_of_text}
        options = self.fitting.estimation_options
        fit = imported(self.fitting.chosen.fit)
        fitted: Aligner = fit(text, self.fitting.estimation, threads=threads, progress=progress, **more, **options)
        return replace(fitted, raw_text=text.source.spans is not None)

    def _starts(self) -> tuple[Any, ...]:
        """The model to start from, or those of both directions; a :class:`Reversed` one without its wrapper.

        Raises:
            InputError: it is not one of the method, or not of the direction or directions that are fitted.
        """
        start, method = self.fitting.start, self.fitting.chosen
        if start is None:
            return ()
        model = loaded_model(start, None)
        models: tuple[Aligner, ...] = (model,)
        if self.linking.symmetrization is not None:
            if not isinstance(model, Symmetrized):
                raise InputError(_shown(start), "is a model of one direction; both directions are to be fitted")
            models = (model.forward, model.reverse)
        for each in models:
            if each.name not in method.models:
                remedy = f"give one that `alignkit {method.saved_by}` wrote"
                raise InputError(_shown(start), f"is a model of kind {each.name}", remedy=remedy)
        reverse = self.fitting.reverse
        if isinstance(model, Reversed) != reverse:
            ways = ("source to target", "target to source")
            own, wanted = ways[not reverse], ways[reverse]
            remedy = f"give a model that was fitted with{'' if reverse else 'out'} --reverse"
            raise InputError(_shown(start), f"is a model of {own}, but {wanted} is to be fitted", remedy=remedy)
        return (model.inner,) if isinstance(model, Reversed) else models


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
        for side in (bitext.source, bitext.target):
            bags_of(side, threads)  # both directions use them
        forward, reverse = run_side_by_side(fit, sides, (threads - threads // 2, threads // 2))
    return Symmetrized(forward, reverse, method, threshold, threads)


def _check_words_shared(start: Any, model: Any, text: Bitext, folds_case: bool) -> None:
    """Refuse a model that shares no word with one side of a text: to start from it would do nothing."""
    for name, known, side in (("source", model.source, text.source), ("target", model.target, text.target)):
        words = side.vocabulary
        if len(words) and not any((word.lower() if folds_case else word) in known for word in words):
            remedy = "is it of the other direction, or of text in another case?"
            raise InputError(_shown(start), f"knows no {name} word of this text", remedy=remedy)


def _shown(start: Any) -> str:
    return os.fspath(start) if isinstance(start, str | os.PathLike) else f"the {start.name} model to start from"


def _labelled(progress: Progress) -> Progress:
    """Progress of the reverse direction."""
    return lambda done, total, message: progress(done, total, f"reverse, {message}")
