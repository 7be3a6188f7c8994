"""Align a text: read it, fit or load an aligner, link its words, write the links."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from io import RawIOBase, TextIOBase
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast, overload

import numpy as np

from alignkit import scores as score_files
from alignkit.aligner import Aligner, Reversed, Symmetrized, WordLevel, check_directions, load_aligner
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.memory import HMM, LEXICAL, check_memory
from alignkit.classical.priors import LexiconPrior, read_prior
from alignkit.classical.word_pairs import bags_of
from alignkit.embeddings.find import find_embeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import AlignkitError, InputError, abbreviated, check_list, check_type, find_known, of_file
from alignkit.links.formats import OUTPUT_FORMATS, Alignment, render, sentence_score_lines
from alignkit.links.gold import read_gold
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.links.links import AlignedPair, GoldLinks, Link, Links
from alignkit.pipeline.settings import AlignSettings, FitSettings, LinkSettings, ReadSettings
from alignkit.scores import Scores, first_pairs
from alignkit.support.files import atomic_write, read_header
from alignkit.support.packages import imported
from alignkit.support.stages import Stage
from alignkit.support.threads import run_side_by_side, thread_count
from alignkit.text import bitext as bitext_files
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import (
    PairFiles,
    Side,
    blank_pairs,
    element_bounds,
    pair_batches,
    read_text,
    sampled_pairs,
    shard_range,
)
from alignkit.text.reading import read_chunks
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress, counted, naming_options

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

BLOCK = 10_000  # sentence pairs that a saved aligner links at a time, or that are described at a time
MANY_PAIRS = 10  # in so many pairs without any link something is wrong
FREQUENT = 20  # words that tell the sides of a text
WRITTEN_BLOCK = 100_000  # sentence pairs whose known links are written at a time
#: Elements of the matrices, the sum of (T + 1)(L + 1), that a joint model is adapted to at a time: the more, the
#: better it gets; with so many, the process takes 1.5 GB.
ADAPTED_ELEMENTS = 1 << 26
#: A fitted aligner or the file of one; or two of them, source to target and target to source.
Model = Aligner | PathLike | tuple[Aligner | PathLike, Aligner | PathLike]
_SAMPLE_SIZE = re.compile(r"(\d+)|(\d+(?:\.\d+)?)\s*%")
#: header kind of a saved npz that is no aligner -> its loader
_LOADERS: dict[str, Callable[[PathLike], Scores | Bitext]] = {
    score_files.KIND: Scores.load,
    bitext_files.KIND: Bitext.load,
}


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A text and the aligner that links it; ``aligned[m]`` is pair m with its links and their probabilities.

    Attributes:
        bitext: M pairs of whitespace words.
        aligner: of whitespace words; :func:`alignkit.load` reads what its ``save`` writes.
        fitted: links that were found while the aligner was fitted, and the probability of each, float64 (K,); or
            None.
        block: the number of pairs that are linked at a time; None: all.
        errors: those of malformed lines, which are pairs of blank sides here.
        ids: what was given with each pair to tell it by, or None; empty: nothing with any.
    """

    bitext: Bitext
    aligner: Aligner
    fitted: tuple[Links, np.ndarray] | None = None
    block: int | None = None
    errors: tuple[InputError, ...] = ()
    ids: tuple[Any, ...] = ()

    @cached_property
    def links(self) -> Links:
        """The links of all pairs, source first."""
        return Links.concatenated([alignment.links for alignment in self.alignments()])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """float64 (K,): the probability of each link."""
        if self.fitted is not None:
            return self.fitted[1]
        return self.aligner.link_probabilities(self.bitext, self.links)

    @cached_property
    def sentence_scores(self) -> np.ndarray:
        """float64 (M, 1 or 2): see :func:`alignkit.aligner.sentence_scores`."""
        return self.aligner.sentence_scores(self.bitext)

    def __len__(self) -> int:
        return len(self.bitext)

    @overload
    def __getitem__(self, m: int) -> AlignedPair: ...

    @overload
    def __getitem__(self, m: slice) -> AlignedText: ...

    def __getitem__(self, m: int | slice) -> AlignedPair | AlignedText:
        """Pair m: its words, and its links with their probabilities; or the text of a slice of pairs."""
        if isinstance(m, slice):
            chosen, offsets = np.arange(len(self))[m], self.links.offsets
            kept = [np.empty(0), *(self.probabilities[offsets[k] : offsets[k + 1]] for k in chosen)]
            return AlignedText(
                self.bitext.take(chosen), self.aligner, (self.links.take(chosen), np.concatenate(kept))
            )
        pairs = self.links[m].tolist()
        first = int(self.links.offsets[range(len(self))[m]])
        probabilities = self.probabilities[first : first + len(pairs)].tolist()
        links = tuple(Link(s, t, p) for (s, t), p in zip(pairs, probabilities, strict=True))
        source, target = self.bitext.source, self.bitext.target
        spans = tuple(source.spans_of(m)), tuple(target.spans_of(m))
        return AlignedPair(tuple(source.words(m)), tuple(target.words(m)), links, *spans)

    def __iter__(self) -> Iterator[AlignedPair]:
        return (self[m] for m in range(len(self)))

    def __repr__(self) -> str:
        return f"AlignedText({counted(len(self), 'pair')}, by {self.aligner!r})"

    def _repr_html_(self) -> str:
        """Grids of the first pairs, for notebooks: target by source words, links shaded by their probability."""
        return first_pairs(f"{len(self)} aligned pairs", len(self), lambda m: self[m].heat_map())

    def to_frame(self) -> pd.DataFrame:
        """A data frame with a row for each link: pair, source_index, target_index, source, target, probability."""
        import pandas as pd

        pair, (s, t) = self.links.sentences, self.links.pairs.T
        source, target = (
            np.array(side.vocabulary.tokens, object)[side.tokens[side.offsets[pair] + index]]
            for side, index in ((self.bitext.source, s), (self.bitext.target, t))
        )
        columns = {"pair": pair, "source_index": s, "target_index": t, "source": source, "target": target}
        return pd.DataFrame({**columns, "probability": self.probabilities})

    def score(self, kind: str = "alpha") -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind that the aligner does not have."""
        aligner = self.aligner
        if kind == "alpha" and isinstance(aligner, JointHMM) and aligner.has_fitted(self.bitext):
            return aligner.fitted_probabilities
        return aligner.score(self.bitext, kind)

    def alignments(self, **wanted: bool) -> Iterator[Alignment]:
        """The alignments of blocks of pairs, in their order.

        Args:
            **wanted: as in :func:`alignkit.aligner.Aligner.alignment`.
        """
        size, (links, known) = len(self), self.fitted or (None, None)
        step = BLOCK if any(wanted.values()) else size if links is None else WRITTEN_BLOCK
        step = max(self.block or step, 1)
        if links is None and self.block is None and size > step:
            links = self.aligner.links(self.bitext)
        for low in range(0, max(size, 1), step):
            high, part, values = min(low + step, size), None, None
            if links is not None:
                part = links.block(low, high)
                values = None if known is None else known[links.offsets[low] : links.offsets[high]]
            text = self.bitext if step >= size else self.bitext.block(low, high)
            yield replace(self.aligner.alignment(text, part, values, **wanted), ids=self.ids[low:high])

    def write(
        self, output: PathLike = "-", output_format: str = "pharaoh", sentence_scores: PathLike | None = None
    ) -> None:
        """Write the alignment to a file, whole or not at all; arguments as :func:`write_alignments`."""
        write_alignments([self], output, output_format, sentence_scores)


@dataclass(frozen=True, eq=False)
class AlignedBlocks:
    """A part of a text that is read and linked a block at a time.

    Attributes:
        aligner: that links it; one fitted on a sample does not keep the sample.
        texts: the pairs low <= m < high with their links, in blocks that are read as this is iterated over.
        low, high: the numbers of the pairs.
        pairs: the number of all pairs of the text.
    """

    aligner: Aligner
    texts: Iterator[AlignedText]
    low: int
    high: int
    pairs: int


@naming_options(ReadSettings, FitSettings, LinkSettings)
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
        source, target: a bitext; two files, or one whose lines are ``source ||| target`` or source TAB target, or
            of JSON lines, CSV or Parquet ("-" is standard input); or two equally long sequences of sentences,
            strings of words with spaces between them or lists of words.
        settings: the defaults without them.
        model: a fitted aligner of any kind, its file, checkpoint or run directory; or a pair of them, which are
            symmetrized. None: one is fitted. With a model, settings of a fit are refused.
        threads: all there are by default; no result depends on it.
        progress: called after each iteration.
        **options: the options below, fields of the parts of :class:`AlignSettings`, instead of those of
            ``settings``.

    Raises:
        AlignkitError: the text, a file or a setting is not valid, or the settings do not go together.
    """
    chosen, count = AlignSettings.of(settings, **options), thread_count(threads)
    if model is not None:
        linker = Linker(model, chosen, threads)
        bitext = read_text(source, target, **linker.reading, threads=count)
        gold = _gold(chosen.linking, bitext)
        return linker.linked(bitext) if gold is None else _taught(linker.aligner, bitext, gold, count)
    fit = Fit(chosen)
    bitext = read_text(source, target, **fit.reading, threads=count)
    gold = _gold(chosen.linking, bitext)
    aligner = fit(bitext, count, progress)
    if gold is not None:
        return _taught(aligner, bitext, gold, count)
    fitted = aligner.fitted_links_and_probabilities if isinstance(aligner, JointHMM) else None
    return AlignedText(bitext, aligner, fitted)


def _gold(linking: LinkSettings, bitext: Bitext) -> GoldLinks | None:
    """The gold links to learn from, checked before any work is done; None: there are none."""
    gold = linking.gold
    if gold is None:
        return None
    from alignkit.supervised.aligner import annotated

    if isinstance(gold, GoldLinks):
        annotated(gold)
        return gold
    check_type(gold, str | os.PathLike, "gold links must be GoldLinks, as read_gold gives, or their file")
    with of_file(gold):
        found = read_gold(gold, shapes=bitext.shapes)
        annotated(found)
    return found


def _taught(aligner: Aligner, bitext: Bitext, gold: GoldLinks, threads: int) -> AlignedText:
    """A text that is linked as its gold links teach."""
    from alignkit.supervised.aligner import teach, with_gold

    aligner = teach(aligner, bitext, gold, threads)
    if isinstance(aligner, JointHMM) and aligner.has_fitted(bitext):
        linked = aligner.fitted_links_and_probabilities
    else:
        linked = aligner.links_and_probabilities(bitext)
    return AlignedText(bitext, aligner, with_gold(*linked, gold))


def _check_whole(linking: LinkSettings) -> None:
    if linking.gold is not None:
        problem = "gold links need the whole text, and do not go with --fit-on, --shard or a stream"
        raise AlignkitError(f"{problem}; align its first pairs with them, save the model, and use it for the rest")


@naming_options(ReadSettings, FitSettings, LinkSettings)
def align_blocks(
    source: PathLike,
    target: PathLike | None = None,
    *,
    model: Model | None = None,
    fit_on: int | str | None = None,
    shard: tuple[int, int] = (1, 1),
    seed: int = 0,
    settings: AlignSettings | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> AlignedBlocks:
    """Align files of any size in bounded memory: by a fitted model, or by one that is fitted on a sample of them.

    A joint model that was fitted on a sample is adapted to each block of the text: the links are those that it
    finds as ``model`` with ``adapt``, but for the pairs of the sample, which do not count twice. If the sample is
    the whole text, they are those of the fit.

    Args:
        source, target: files, which are read two or three times; as in :func:`align`.
        model: as in :func:`align`.
        fit_on: without a model, how many pairs to fit one on, as 1000000, or a share of them, as "10%".
        shard: align the i-th of n parts only, i from 1. The parts joined are the whole, to the byte; they start at
            blocks where the links of a pair depend on its block: with ``adapt``, or if the model is a network.
        seed: of the sample.
        settings, threads, progress, **options: as in :func:`align`.

    Raises:
        AlignkitError: the text, the model or a setting is not valid, or there is no such part.
    """
    chosen = AlignSettings.of(settings, **options)
    _check_whole(chosen.linking)
    sample = np.empty(0, np.int64)
    if model is None:
        chosen.check_fit()
        if fit_on is None or shard != (1, 1):
            raise AlignkitError("a text in blocks needs a model, or for the whole of it the size of a sample")
        share, fit = sample_share(fit_on), Fit(chosen)
        files = PairFiles(source, target, **fit.reading)
        bounds = files.bounds(BLOCK, ADAPTED_ELEMENTS if chosen.fitting.chosen.is_joint else None)
        count = int(bounds[-1])
        sample = sampled_pairs(count, share(count), seed)
        log.info("fitted on a sample of %d of %s", len(sample), counted(count, "pair"))
        bitext = files.sample(sample)
        aligner = fit(bitext, thread_count(threads), progress, count)
        linking = LinkSettings(adapt=isinstance(aligner, JointHMM))
        if isinstance(aligner, JointHMM):
            fitted = aligner.fitted_links_and_probabilities
            aligner = replace(aligner, fitted=None)
            if len(sample) == count:
                return AlignedBlocks(aligner, iter([AlignedText(bitext, aligner, fitted)]), 0, count, count)
        linker = Linker(aligner, AlignSettings(linking=linking), threads)
    else:
        linker = Linker(model, chosen, threads)
        files = PairFiles(source, target, **linker.reading)
        bounds = files.bounds(BLOCK, linker.elements)
        count = int(bounds[-1])
        if linker.depends_on_block:
            low, high = shard_range(len(bounds) - 1, shard)
            bounds = bounds[low : high + 1]
        else:
            low, high = shard_range(count, shard)
            bounds = np.array([*range(low, high, BLOCK), high])
    texts = _linked_blocks(linker, files, bounds, sample)
    return AlignedBlocks(linker.aligner, texts, int(bounds[0]), int(bounds[-1]), count)


def _linked_blocks(
    linker: Linker, files: PairFiles, bounds: np.ndarray, sample: np.ndarray
) -> Iterator[AlignedText]:
    """The blocks of a text with their links; ``sample`` are the pairs that the model was fitted on, rising."""
    for low, block in zip(bounds, files.blocks(bounds), strict=False):
        first, last = np.searchsorted(sample, (low, low + len(block)))
        counted = np.zeros(len(block), bool)
        counted[sample[first:last] - low] = True
        yield linker.linked_block(block, counted)


@naming_options(ReadSettings, LinkSettings)
def align_stream(
    stream: IO[bytes] | Iterable[str | bytes],
    model: Model,
    *,
    settings: AlignSettings | None = None,
    threads: int | None = 1,
    skip: bool = False,
    **options: Any,
) -> Iterator[AlignedText]:
    """Align the pairs of a stream by a fitted model as soon as they come, in bounded memory.

    The model is loaded immediately; the stream is read while the result is iterated over.

    Args:
        stream: lines ``source ||| target``, source TAB target, or JSON, whose field ``id`` is kept: a stream of
            bytes, or any iterable of lines.
        model, settings, **options: as in :func:`align`.
        threads: one by default: batches are small, and more threads would cost more than they gain.
        skip: go on after a malformed line: its pair is blank, and the error is among the ``errors`` of its
            :class:`AlignedText`.

    Raises:
        InputError: as for files; the pairs before the bad line have been handed on by then.
        AlignkitError: a setting is not valid.
    """
    chosen = AlignSettings.of(settings, **options)
    _check_whole(chosen.linking)
    linker = Linker(model, chosen, threads)
    if hasattr(stream, "read") and not isinstance(stream, TextIOBase):
        name, chunks = "-", read_chunks("-", cast(IO[bytes], stream), 0)
    else:
        check_list(stream, "a stream must be one of bytes, or lines")
        name, chunks = "lines", map(_line, stream)
    # A network gets one pair at a time: else the last bits of an answer would depend on what came with its pair.
    batches = pair_batches(name, chunks, **linker.reading, single=linker.depends_on_block, skip=skip)
    return (replace(linker.linked_block(batch.bitext), errors=batch.errors, ids=batch.ids) for batch in batches)


def _line(line: str | bytes) -> bytes:
    """A line of a stream, which may lack its end, in UTF-8."""
    check_type(line, (str, bytes), "a line must be text")
    data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    data = data.removesuffix(b"\n")
    if b"\n" in data:
        raise AlignkitError(f"a line cannot have a line end within it: {abbreviated(repr(line))}")
    return data + b"\n"


def sample_share(size: int | str) -> Callable[[int], int]:
    """The number of pairs in a sample, as a function of that of all; raises AlignkitError if it is no size.

    >>> sample_share("10%")(5000), sample_share(25000)(5000)
    (500, 5000)
    """
    match = _SAMPLE_SIZE.fullmatch(str(size).strip())
    if match and match[1] and 1 <= int(match[1]) < 2**62:
        pairs = int(match[1])
        return lambda count: min(pairs, count)
    if match and match[2] and 0 < float(match[2]) <= 100:
        percent = float(match[2])
        return lambda count: min(max(1, round(count * percent / 100)), count)
    raise AlignkitError(f"{abbreviated(str(size))!r} is not a number of pairs, as 1000000, nor a share, as 10%")


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
        self.reading = _reading(settings.reading, any(model.raw_text for model in self.start))

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
        model = _loaded(start, None)
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
        bags_of(bitext, threads)  # both directions use them
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
        self.aligner = aligner = _usable(model, linking, threads)
        self.reading = _reading(settings.reading, aligner.raw_text)
        self.adapter: Adapter | None = None
        if linking.adapt:
            if not isinstance(aligner, JointHMM):
                of = f"{os.fspath(model)}: " if isinstance(model, str | os.PathLike) else ""
                problem = f"a model of kind {aligner.name} cannot be adapted to a text"
                raise AlignkitError(f"{of}{problem}; one of `alignkit align` can")
            self.adapter = Adapter(aligner, threads=threads)
        self.elements = None if self.adapter is None else ADAPTED_ELEMENTS
        parts = (aligner.forward, aligner.reverse) if isinstance(aligner, Symmetrized) else (aligner,)
        self.depends_on_block = self.adapter is not None or any(isinstance(part, WordLevel) for part in parts)

    def linked(self, bitext: Bitext) -> AlignedText:
        """A text with its links, found a block at a time."""
        if self.elements is None:
            return AlignedText(bitext, self.aligner, block=BLOCK)
        bounds = element_bounds([bitext], self.elements).tolist()
        parts = [self.linked_block(bitext.block(low, high)) for low, high in pairwise(bounds)]
        links = Links.concatenated([part.links for part in parts])
        probabilities = np.concatenate([np.empty(0), *(part.probabilities for part in parts)])
        return AlignedText(bitext, self.aligner, (links, probabilities))

    def linked_block(self, bitext: Bitext, counted: np.ndarray | None = None) -> AlignedText:
        """One block of a text with its links.

        Args:
            bitext: M pairs.
            counted: bool (M,), the pairs that the model was fitted on, for one that is adapted
                (:meth:`alignkit.classical.hmm.adaptation.Adapter.adapt`).
        """
        if self.adapter is None:
            return AlignedText(bitext, self.aligner, block=BLOCK)
        counted = np.zeros(len(bitext), bool) if counted is None else counted
        return AlignedText(bitext, self.aligner, self.adapter.links_and_probabilities(bitext, counted))


def _reading(settings: ReadSettings, raw_text: bool) -> dict[str, Any]:
    """How to read a text: where the settings do not say whether to tokenize it, a model does."""
    return vars(settings) | ({"tokenize": raw_text} if settings.tokenize is None else {})


def _usable(model: Model, linking: LinkSettings, threads: int | None) -> Aligner:
    """The fitted aligner, loaded if need be, as one of whitespace words.

    Raises:
        AlignkitError: it cannot be read, or a setting is not for it.
    """
    if isinstance(model, tuple | list):
        if len(model) != 2:
            raise AlignkitError(f"give one model, or a pair of opposite directions, not a list of {len(model)}")
        forward, reverse = (_loaded(each, threads) for each in model)
        both = Symmetrized(forward, reverse, linking.symmetrization or DEFAULT_METHOD, linking.threshold, threads)
        check_directions(both.forward, both.reverse)
        return both
    if linking.symmetrization is not None:
        raise AlignkitError("a heuristic combines two models; give a pair of them, or none")
    aligner = _loaded(model, threads)
    if linking.threshold is not None:
        aligner = aligner.with_threshold(linking.threshold)
    return aligner.on_words()


def _loaded(model: Aligner | PathLike, threads: int | None) -> Aligner:
    if isinstance(model, str | os.PathLike):
        return load_aligner(model, threads)
    check_type(model, Aligner, "a model must be an aligner or its file")
    return model if threads is None else model.with_threads(threads)


def load(path: PathLike, threads: int | None = None) -> Aligner | Scores | Bitext:
    """Load a file that ``save`` wrote: a fitted aligner, scores or a bitext; a checkpoint or a run directory.

    Args:
        path: the file or folder.
        threads: of an aligner, as in :func:`alignkit.aligner.load_aligner`.

    Raises:
        InputError: the file is missing, damaged, or none of these.
        AlignkitError: ``path`` is no path.
    """
    check_type(path, str | os.PathLike, "what is loaded must be a file or folder")
    header = (read_header(path) if Path(path).is_file() else None) or {}
    loader = _LOADERS.get(str(header.get("kind")))
    return load_aligner(path, threads) if loader is None else loader(path)


class Written(NamedTuple):
    """What :func:`write_alignments` wrote: pairs, their links and target words, and lines that are empty.

    ``blank`` are the pairs with a blank side, ``malformed`` the lines that are no pairs.
    """

    pairs: int = 0
    links: int = 0
    words: int = 0
    blank: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        """The numbers as text, as ``6 pairs (1 with a blank side), 12 links (0.92 per target word)``."""
        empty = [
            *([f"{self.blank:,} with a blank side"] if self.blank else []),
            *([f"{self.malformed:,} malformed and skipped"] if self.malformed else []),
        ]
        left_out = f" ({', '.join(empty)})" if empty else ""
        density = f" ({self.links / self.words:.2f} per target word)" if self.words else ""
        return f"{counted(self.pairs, 'pair')}{left_out}, {counted(self.links, 'link')}{density}"


def write_alignments(
    texts: Iterable[AlignedText],
    output: PathLike = "-",
    output_format: str = "pharaoh",
    sentence_scores: PathLike | None = None,
    first: int = 0,
) -> Written:
    """Write the alignments of texts in one format, as they come.

    Files take their place only when all is written; standard output is flushed after every block. A threshold that
    no link reaches is logged.

    Args:
        texts: in their order.
        output: a file; "-" for standard output.
        output_format: a name in :data:`alignkit.links.formats.OUTPUT_FORMATS`.
        sentence_scores: a file for the scores of the sentences, or None.
        first: the number of the first pair, from 0, in formats that number pairs.

    Raises:
        AlignkitError: there is no such format, or a file cannot be written.
    """
    chosen, scored = find_known(output_format, OUTPUT_FORMATS, "format"), sentence_scores is not None
    counts = np.zeros(len(Written()), np.int64)
    with (
        _opened(output) as links,
        _opened("-" if sentence_scores is None else sentence_scores) as scores,
        Stage("pairs linked") as stage,
    ):
        for text in texts:
            for alignment in text.alignments(
                probabilities=chosen.needs_probabilities, words=chosen.needs_words, scored=scored
            ):
                links.write(render(alignment, output_format, first + int(counts[0]) + 1))
                links.flush()
                if scored and alignment.sentence_scores is not None:
                    scores.write(sentence_score_lines(alignment.sentence_scores))
                    scores.flush()
                counts[:2] += len(alignment.links), len(alignment.links.pairs)
                stage(int(counts[0]), 0)
            if text.errors and not counts[4]:
                log.warning("skipped %s", text.errors[0])
            errors = len(text.errors)
            counts[2:] += text.bitext.target.lengths.sum(), blank_pairs(text.bitext) - errors, errors
    written = Written(*counts.tolist())
    filled = written.pairs - written.blank - written.malformed
    if filled >= MANY_PAIRS and not written.links and isinstance(text.aligner, JointHMM):
        log.warning("no link reaches the threshold of %g; a lower one gives links", text.aligner.threshold)
    if filled >= MANY_PAIRS and text.fitted is None and _seem_exchanged(text):
        log.warning("the model knows more of the source words as target words: are source and target exchanged?")
    return written


def _seem_exchanged(text: AlignedText) -> bool:
    """Whether the model knows more of the most frequent source words as target words than as source words."""
    model, side = text.aligner, text.bitext.source
    known = getattr(model, "source", None), getattr(model, "target", None)
    frequent = np.argsort(-np.bincount(side.tokens), kind="stable")[:FREQUENT]
    words = {form for i in frequent.tolist() for form in (side.vocabulary[i], side.vocabulary[i].lower())}
    source, target = (sum(w in each for w in words) if isinstance(each, Vocabulary) else 0 for each in known)
    return target > source


def _opened(path: PathLike) -> AbstractContextManager[IO[bytes]]:
    if path != "-":
        return atomic_write(path)
    if isinstance(sys.stdout.buffer, RawIOBase):  # python -u: a write may stop short there, without an error
        return open(os.dup(sys.stdout.fileno()), "wb")
    return nullcontext(sys.stdout.buffer)
