"""Align a text: read it, fit or load an aligner, link its words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

import numpy as np

from alignkit.aligner import (
    Aligner,
    Symmetrized,
    WordLevel,
    alignment_of,
    link_probabilities,
    links_of,
    load_aligner,
    on_words,
    sentence_scores,
    with_threads,
    with_threshold,
)
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.joint_aligner import JointAligner
from alignkit.classical.hmm.joint_views import JointViews
from alignkit.classical.hmm.views_adaptation import ViewsAdapter, adapter_of
from alignkit.errors import AlignkitError, InputError
from alignkit.links.aligned_pair import AlignedPair, Link
from alignkit.links.formats import Alignment
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.links.links import Links
from alignkit.parallel import thread_count
from alignkit.scores import MOST_PAIRS, Scores, first_pairs
from alignkit.settings import with_options
from alignkit.text.bitext import Bitext
from alignkit.text.reading import encode_text
from alignkit.text.streaming import PairBatch, pair_batches
from alignkit.types import PathLike, Progress
from alignkit.workflow.fitting import Fitting, memory_limit
from alignkit.workflow.reading import Side, read_text
from alignkit.workflow.settings import ON_ERROR, AlignSettings
from alignkit.workflow.writing import AlignmentWriter

BLOCK = 10_000  # sentence pairs that a saved aligner links at a time, or that are described at a time
WRITTEN_BLOCK = 100_000  # sentence pairs whose known links are written at a time
ADAPTED_BLOCK = 250_000  # sentence pairs that a joint model is adapted to at a time: the more, the better it gets
#: A fitted aligner or the file of one; or two of them, source to target and target to source.
Model = Aligner | PathLike | tuple[Aligner | PathLike, Aligner | PathLike]


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A text and the aligner that links it; ``aligned[m]`` is pair m with its links and their probabilities.

    Attributes:
        bitext: M pairs of whitespace words.
        aligner: of whitespace words; :func:`alignkit.load_aligner` reads what its ``save`` writes.
        ranges: the blocks [low, high) of pairs that are linked at a time.
        fitted: links that were found while the aligner was fitted, and the probability of each, float64 (K,); or
            None.
        errors: those of malformed lines, which are pairs of blank sides here.
    """

    bitext: Bitext
    aligner: Aligner
    ranges: list[tuple[int, int]]
    fitted: tuple[Links, np.ndarray] | None = None
    errors: tuple[InputError, ...] = ()

    @cached_property
    def links(self) -> Links:
        """The links of all pairs, source first."""
        return Links.concatenated([alignment.links for alignment in self.alignments()])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """float64 (K,): the probability of each link."""
        if self.fitted is not None:
            return self.fitted[1]
        return link_probabilities(self.aligner, self.bitext, self.links)

    @cached_property
    def sentence_scores(self) -> np.ndarray:
        """float64 (M, 1 or 2): see :func:`alignkit.aligner.sentence_scores`."""
        return sentence_scores(self.aligner, self.bitext)

    def __len__(self) -> int:
        return len(self.bitext)

    def __getitem__(self, m: int) -> AlignedPair:
        """Pair m: its words, and its links with their probabilities."""
        pairs = self.links[m].tolist()
        first = int(self.links.offsets[range(len(self))[m]])
        probabilities = self.probabilities[first : first + len(pairs)].tolist()
        links = tuple(Link(s, t, p) for (s, t), p in zip(pairs, probabilities, strict=True))
        return AlignedPair(tuple(self.bitext.source.words(m)), tuple(self.bitext.target.words(m)), links)

    def __iter__(self) -> Iterator[AlignedPair]:
        return (self[m] for m in range(len(self)))

    def __repr__(self) -> str:
        return f"AlignedText({len(self)} pairs, by {self.aligner!r})"

    def _repr_html_(self) -> str:
        """Grids of the first pairs, for notebooks: target by source words, links shaded by their probability."""
        shown = range(min(len(self), MOST_PAIRS))
        return first_pairs(f"{len(self)} aligned pairs", [self[m].heat_map() for m in shown], len(self))

    def score(self, kind: str = "alpha") -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind that the aligner does not have."""
        aligner = self.aligner
        if kind == "alpha" and isinstance(aligner, JointAligner) and aligner.has_fitted(self.bitext):
            return aligner.fitted_probabilities
        return aligner.score(self.bitext, kind)

    def alignments(self, **wanted: bool) -> Iterator[Alignment]:
        """The alignments of blocks of pairs, in their order.

        Args:
            **wanted: as of :func:`alignkit.aligner.alignment_of`.
        """
        for low, high in self.ranges:
            text = self.bitext if len(self.ranges) == 1 else self.bitext.block(low, high)
            links, known = self._fitted_block(low, high) or (None, None)
            step = BLOCK if any(wanted.values()) else max(len(text) if links is None else WRITTEN_BLOCK, 1)
            if links is None and len(text) > step:
                links = links_of(self.aligner, text)
            for start in range(0, max(len(text), 1), step):
                end = min(start + step, len(text))
                part, values = None, None
                if links is not None:
                    part = links.block(start, end)
                    values = None if known is None else known[links.offsets[start] : links.offsets[end]]
                yield alignment_of(self.aligner, text.block(start, end), part, values, **wanted)

    def _fitted_block(self, low: int, high: int) -> tuple[Links, np.ndarray] | None:
        """What :attr:`fitted` has of pairs low <= m < high."""
        if self.fitted is None:
            return None
        links, probabilities = self.fitted
        return links.block(low, high), probabilities[links.offsets[low] : links.offsets[high]]

    def write(
        self, output: PathLike = "-", output_format: str = "pharaoh", sentence_scores: PathLike | None = None
    ) -> None:
        """Write the alignment to a file, whole or not at all; arguments as of :class:`AlignmentWriter`."""
        with AlignmentWriter(output, output_format, sentence_scores) as writer:
            for alignment in self.alignments(**writer.wanted):
                writer.write(alignment)


def align(
    source: Bitext | Side,
    target: Side | None = None,
    *,
    settings: AlignSettings | None = None,
    model: Model | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> AlignedText:
    """Align a text by a fitted model, or by one that is fitted on it.

    By default two hidden Markov models, one for each direction, are trained jointly.

    Args:
        source, target: a bitext; two files, or one whose lines are ``source ||| target`` or source TAB target
            ("-" is standard input); or two equally long sequences of sentences, strings of words with spaces
            between them or lists of words.
        settings: the defaults without them.
        model: a fitted aligner of any kind, its file, checkpoint or run directory; or a pair of them, which are
            symmetrized. None: ``settings.method`` is fitted. With a model, settings of a fit are refused.
        threads: all there are by default; no result depends on it.
        progress: called after each iteration.
        **options: fields of :class:`AlignSettings`, which replace those of ``settings``.

    Raises:
        AlignkitError: the text, a file or a setting is not valid, or the settings do not go together.
    """
    chosen = with_options(settings or AlignSettings(), options)
    count = thread_count(threads)
    if model is not None:
        linker = Linker(model, chosen, threads)
        bitext = read_text(source, target, chosen, count)
        size, step = len(bitext), linker.block
        return linker.aligned(bitext, [(low, min(low + step, size)) for low in range(0, size, step)])
    fitting = Fitting(chosen)
    bitext = read_text(source, target, chosen, count)
    if fitting.method.is_joint:
        return _align_jointly(fitting, bitext, count, progress)
    aligner = fitting.fit(bitext, threads=count, progress=progress)
    return AlignedText(bitext, aligner, [(0, len(bitext))])


def align_stream(
    stream: IO[bytes],
    model: Model,
    *,
    settings: AlignSettings | None = None,
    threads: int | None = 1,
    on_error: str = ON_ERROR[0],
    **options: Any,
) -> Iterator[AlignedText]:
    """Align the pairs of a stream by a fitted model as soon as they come, in bounded memory.

    The model is loaded immediately; the stream is read while the result is iterated over.

    Args:
        stream: lines ``source ||| target`` or source TAB target.
        model, settings, **options: as of :func:`align`.
        threads: one by default: batches are small, and more threads would cost more than they gain.
        on_error: ``stop`` at a malformed line, or ``skip`` it: its pair is blank, and the error is among the
            ``errors`` of its :class:`AlignedText`.

    Raises:
        InputError: as for files; the pairs before the bad line have been handed on by then.
        AlignkitError: a setting is not valid.
    """
    if on_error not in ON_ERROR:
        raise AlignkitError(f"on_error must be {' or '.join(ON_ERROR)}, not {on_error!r}")
    chosen = with_options(settings or AlignSettings(), options)
    linker = Linker(model, chosen, threads)
    # A network gets one pair at a time: else the last bits of an answer would depend on what came with its pair.
    batches = pair_batches(
        "-",
        stream,
        encoding_errors=chosen.encoding_errors,
        lowercase=chosen.lowercase,
        single=linker.unit > 1,
        skip=on_error == "skip",
    )
    return (_aligned_batch(batch, linker) for batch in batches)


def _aligned_batch(batch: PairBatch, linker: Linker) -> AlignedText:
    bitext = Bitext(encode_text(batch.source), encode_text(batch.target))
    return linker.aligned(bitext, errors=batch.errors)


class Linker:
    """A fitted aligner that links the pairs of texts.

    Args:
        model, threads: as of :func:`align`.
        settings: ``adapt`` and what a fitted model can be given.

    Attributes:
        aligner: of whitespace words.
        adapter: where the aligner is adapted to each block of pairs.
        block: the number of pairs that are linked at a time.
        unit: the number of pairs in the blocks that the links of a pair may depend on; 1 if they depend on that
            pair alone.

    Raises:
        AlignkitError: the model cannot be read, or a setting is not for it.
    """

    def __init__(self, model: Model, settings: AlignSettings, threads: int | None) -> None:
        self.aligner = aligner = _usable(model, settings, threads)
        self.adapter: Adapter | ViewsAdapter | None = None
        if settings.adapt:
            if not isinstance(aligner, JointHMM | JointViews):
                raise AlignkitError(
                    f"a model of kind {aligner.name} cannot be adapted to a text; one of `alignkit align` can"
                )
            self.adapter = adapter_of(aligner, threads, memory_limit(settings))
        self.block = BLOCK if self.adapter is None else ADAPTED_BLOCK
        parts = (aligner.forward, aligner.reverse) if isinstance(aligner, Symmetrized) else (aligner,)
        alone = self.adapter is None and not any(isinstance(part, WordLevel) for part in parts)
        self.unit = 1 if alone else self.block

    def aligned(
        self,
        bitext: Bitext,
        ranges: list[tuple[int, int]] | None = None,
        errors: tuple[InputError, ...] = (),
        counted: np.ndarray | None = None,
    ) -> AlignedText:
        """A text with its links; ranges and errors are of :class:`AlignedText`, by default the whole text.

        ``counted``, bool (M,), are the pairs that the model was fitted on, for one that is adapted
        (:meth:`alignkit.classical.hmm.adaptation.Adapter.adapt`).
        """
        whole = [(0, len(bitext))]
        if self.adapter is None:
            return AlignedText(bitext, self.aligner, ranges or whole, errors=errors)
        counted = np.zeros(len(bitext), bool) if counted is None else counted
        linked = [
            self.adapter.links_and_probabilities(bitext.block(low, high), counted[low:high])
            for low, high in ranges or whole
        ]
        links = Links.concatenated([each for each, _ in linked])
        probabilities = np.concatenate([np.empty(0), *(values for _, values in linked)])
        return AlignedText(bitext, self.aligner, whole, (links, probabilities), errors)


def _usable(model: Model, settings: AlignSettings, threads: int | None) -> Aligner:
    """The fitted aligner, loaded if need be, as one of whitespace words.

    Raises:
        AlignkitError: it cannot be read, or a setting is not for it.
    """
    settings.check_model()
    if isinstance(model, tuple):
        forward, reverse = (_loaded(each, threads) for each in model)
        return Symmetrized(
            forward, reverse, settings.symmetrization or DEFAULT_METHOD, settings.threshold, threads
        )
    if settings.symmetrization is not None:
        raise AlignkitError("a heuristic combines two models; give a pair of them, or none")
    aligner = _loaded(model, threads)
    if settings.threshold is not None:
        aligner = with_threshold(aligner, settings.threshold)
    return on_words(aligner)


def _loaded(model: Aligner | PathLike, threads: int | None) -> Aligner:
    if isinstance(model, str | os.PathLike):
        return load_aligner(model, threads)
    return model if threads is None else with_threads(model, threads)


def _align_jointly(fitting: Fitting, bitext: Bitext, threads: int, progress: Progress | None) -> AlignedText:
    """The text aligned by the joint model, with what was found while it was fitted."""
    aligner = fitting.fit(bitext, threads=threads, progress=progress)
    assert isinstance(aligner, JointAligner)
    return AlignedText(bitext, aligner, [(0, len(bitext))], aligner.fitted_links_and_probabilities)
