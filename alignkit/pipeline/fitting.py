"""Fit an aligner on a text: in one direction, in both, or jointly; from uniform parameters or from a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from alignkit.aligner import Aligner, Reversed, Symmetrized
from alignkit.classical.cooccurrence import HMM, LEXICAL, bags_of, check_memory
from alignkit.classical.priors import LexiconPrior, read_prior
from alignkit.embeddings.find import find_embeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import InputError, check_type
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.pipeline.linking import loaded_model, read_options
from alignkit.pipeline.settings import METHODS, AlignSettings
from alignkit.support.packages import imported
from alignkit.support.stages import Stage
from alignkit.support.threads import run_side_by_side, thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress


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
        self.fitting, self.linking = settings.fitting, settings.linking
        prior, embeddings = self.fitting.prior, self.fitting.embeddings
        self.prior: LexiconPrior | None = (
            read_prior(prior, self.fitting.prior_weight) if isinstance(prior, str | os.PathLike) else prior
        )
        self.embeddings: Embeddings | None = (
            find_embeddings(embeddings) if isinstance(embeddings, str) else embeddings
        )
        check_type(self.prior, LexiconPrior | None, "a prior must be a lexicon or its file")
        check_type(self.embeddings, Embeddings | None, "embeddings must be an encoder or a file's name")
        self.start = () if self.fitting.start is None else self._read_start(self.fitting.start)
        self.reading = read_options(settings.reading, any(model.raw_text for model in self.start))

    def _read_start(self, start: Aligner | PathLike) -> tuple[Any, ...]:
        """The model to start from, or those of both directions; a :class:`Reversed` one without its wrapper.

        Raises:
            InputError: it is not one of the method, or not of the direction or directions that are fitted.
        """
        model = loaded_model(start, None)
        models: tuple[Aligner, ...] = (model,)
        if self.linking.symmetrization is not None:
            if not isinstance(model, Symmetrized):
                raise InputError(_shown(start), "is a model of one direction; both directions are to be fitted")
            models = (model.forward, model.reverse)
        method, reverse = METHODS[self.fitting.method], self.fitting.reverse
        for each in models:
            if each.name not in method.models:
                remedy = f"give one that `alignkit {method.saved_by}` wrote"
                raise InputError(_shown(start), f"is a model of kind {each.name}", remedy=remedy)
        if isinstance(model, Reversed) != reverse:
            ways = ("source to target", "target to source")
            own, wanted = ways[not reverse], ways[reverse]
            remedy = f"give a model that was fitted with{'' if reverse else 'out'} --reverse"
            raise InputError(_shown(start), f"is a model of {own}, but {wanted} is to be fitted", remedy=remedy)
        return (model.inner,) if isinstance(model, Reversed) else models

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
        heuristic, threshold, reverse = self.linking.symmetrization, self.linking.threshold, self.fitting.reverse
        with Stage("fitting", progress) as stage:
            if heuristic is not None:
                check_memory(bitext, HMM if self.fitting.method == "hmm" else LEXICAL, models=2)

                def fit(text: Bitext, share: int) -> Aligner:
                    if text is bitext:
                        return self._direction(text, False, share, stage)
                    return self._direction(
                        text, True, share, lambda done, total, message: stage(done, total, f"reverse, {message}")
                    )

                return fit_symmetrized(bitext, fit, heuristic, threshold, threads=threads)
            # The size of the whole text decides on a look at subwords, which takes time for every pair.
            share_of_text = 1.0 if pairs is None else len(bitext) / max(pairs, 1)
            text = bitext.reversed if reverse else bitext
            fitted = self._direction(text, reverse, threads, stage, share_of_text)
        if threshold is not None:
            fitted = fitted.with_threshold(threshold)
        return Reversed(fitted, threads) if reverse else fitted

    def _direction(
        self, text: Bitext, reverse: bool, threads: int, progress: Progress, share_of_text: float = 1.0
    ) -> Aligner:
        fitting, options = self.fitting, dict[str, Any]()
        if self.prior is not None:
            options["prior"] = self.prior.reversed if reverse else self.prior
        if self.embeddings is not None:
            options["embeddings"] = self.embeddings
        if self.start:
            start = options["start"] = self.start[-1 if reverse else 0]
            for name, known, side in (
                ("source", start.source, text.source),
                ("target", start.target, text.target),
            ):
                words = side.vocabulary
                if len(words) and not any((w.lower() if fitting.folds_case else w) in known for w in words):
                    # To start from it would do nothing.
                    remedy = "is it of the other direction, or of text in another case?"
                    raise InputError(_shown(fitting.start), f"knows no {name} word of this text", remedy=remedy)
        method = METHODS[fitting.method]
        if method.is_joint:
            options |= {"quality": fitting.quality, "share_of_text": share_of_text}
        if fitting.iterations is not None:
            options["iterations"] = fitting.iterations
        if fitting.keep_case:
            options["fold_case"] = False
        fitted: Aligner = imported(method.fit)(
            text, fitting.estimation, threads=threads, progress=progress, **options
        )
        return replace(fitted, raw_text=text.source.spans is not None)


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


def _shown(start: Any) -> str:
    return os.fspath(start) if isinstance(start, str | os.PathLike) else f"the {start.name} model to start from"
