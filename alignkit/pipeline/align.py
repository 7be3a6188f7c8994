"""Align a text, files of any size, or a stream: read it, fit or load an aligner, link the words."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from io import TextIOBase
from itertools import chain
from operator import attrgetter
from typing import IO, TYPE_CHECKING, Unpack, cast

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.hmm.joint import JointHMM
from alignkit.errors import AlignkitError, abbreviated, check_list, check_type, counted, of_file, of_item, of_list
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks, check_range
from alignkit.pipeline.aligned_text import BLOCK, AlignedText
from alignkit.pipeline.models import ADAPTED_ELEMENTS, Fit, Linker, Model
from alignkit.pipeline.settings import METHODS, AlignOptions, AlignSettings, LinkSettings, StreamOptions
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.blocks import block_bounds, pair_batches, read_blocks, read_sample, sampled_pairs, shard_range
from alignkit.text.pairs import PairFiles, Side, read_text
from alignkit.text.raw_text import warn_of_raw_text
from alignkit.text.reading import read_chunks
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.scores import Scores

log = logging.getLogger("alignkit.pipeline")

_SAMPLE_SIZE = re.compile(r"(\d+)|(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, eq=False)
class AlignedBlocks:
    """A part of a text that is read and linked a block at a time.

    Attributes:
        aligner: the aligner that links it; one fitted on a sample does not keep the sample.
        texts: the pairs low <= m < high with their links, in blocks that are read as this is iterated over.
        low, high: the numbers of the first pair and of the one after the last.
        pairs: the number of pairs of the whole text.
    """

    aligner: Aligner
    texts: Iterator[AlignedText]
    low: int
    high: int
    pairs: int


def align(
    source: Bitext | Side | pd.DataFrame,
    target: Side | None = None,
    *,
    settings: AlignSettings | None = None,
    model: Model | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[AlignOptions],
) -> AlignedText:
    """Align a text with a fitted model, or with one fitted on this text.

    By default two hidden Markov models, one for each direction, are trained jointly.

    Args:
        source, target: a bitext; two files, or one file with lines ``source ||| target`` or source TAB target,
            JSON lines, CSV, Parquet, TMX or XLIFF ("-" is standard input); or two equally long sequences of
            sentences, each a string with spaces between its words or a list of words; open files are sequences of
            strings. A frame with two columns, by their names (source and target, src and tgt or trg) or in this
            order, or a list of tuples (source, target), has both.
        settings: None: the defaults.
        model: a fitted aligner of any kind, or its file, checkpoint or run directory; or a pair of these, which is
            symmetrized. None: fit one. With a model, settings of a fit are refused.
        threads: the number of threads, by default all; no result depends on it.
        progress: called after each iteration.
        **options: fields of the parts of :class:`AlignSettings`, which replace those of ``settings``. Of
            :class:`~alignkit.pipeline.settings.ReadSettings`: encoding_errors, lowercase, tokenize. Of
            :class:`~alignkit.pipeline.settings.FitSettings`: method, estimation, iterations, quality, keep_case,
            reverse, prior, prior_weight, embeddings, start. Of :class:`~alignkit.pipeline.settings.LinkSettings`:
            symmetrization, threshold, links, adapt, gold, gold_base.

    Raises:
        AlignkitError: the text, a file or a setting is not valid, or the settings do not go together.
    """
    chosen, count = AlignSettings.of(settings, **options), thread_count(threads)
    given = Fit(chosen) if model is None else Linker(model, chosen, threads)
    bitext = read_text(source, target, **given.reading, threads=count)
    gold = chosen.linking.gold
    if gold is not None:  # it is checked before any work is done
        from alignkit.supervised import annotated, fit_supervised, with_gold

        if isinstance(gold, GoldLinks):
            check_range("gold links", gold.possible, bitext.shapes)
            annotated(gold)
        else:
            check_type(gold, str | os.PathLike, "gold links must be GoldLinks, as read_gold gives, or their file")
            with of_file(gold):
                gold = read_gold(gold, base=chosen.linking.gold_base, shapes=bitext.shapes)
                annotated(gold)
    if isinstance(given, Linker) and gold is None:
        return given.linked(bitext)
    aligner = given.aligner if isinstance(given, Linker) else given(bitext, count, progress)
    if gold is None:
        return _of_fit(aligner, bitext) if isinstance(aligner, JointHMM) else AlignedText(bitext, aligner)
    aligner = fit_supervised(aligner, bitext, gold, count)
    log.info("these pairs keep their gold links: judge the links by this AER, not by `evaluate` on these pairs")
    if isinstance(aligner, JointHMM) and aligner.has_fitted(bitext):
        text = _of_fit(aligner, bitext)
    else:
        text = AlignedText(bitext, aligner, aligner.links_and_probabilities(bitext))
    assert text.fitted is not None
    return replace(text, fitted=with_gold(*text.fitted, gold), alpha=partial(_alpha_with_gold, text, gold))


def _alpha_with_gold(text: AlignedText, gold: GoldLinks) -> Scores:
    from alignkit.supervised import scores_with_gold

    return scores_with_gold(text.score(), gold)


def _of_fit(aligner: JointHMM, bitext: Bitext) -> AlignedText:
    """The text that the aligner was fitted on, with its links."""
    alpha = partial(attrgetter("fitted_probabilities"), aligner)
    return AlignedText(bitext, aligner, aligner.fitted_links_and_probabilities, alpha=alpha)


def _check_whole(linking: LinkSettings) -> None:
    if linking.gold is not None:
        problem = "gold links need the whole text, and do not go with --fit-on, --shard or a stream"
        raise AlignkitError(f"{problem}; align its first pairs with them, save the model, and use it for the rest")


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
    **options: Unpack[AlignOptions],
) -> AlignedBlocks:
    """Align files of any size in bounded memory, with a fitted model or with one fitted on a sample of the text.

    A joint model fitted on a sample is adapted to each block of the text: the links are those of the same model
    given as ``model`` with ``adapt``, except that the pairs of the sample do not count twice. If the sample is the
    whole text, the links are those of the fit.

    Args:
        source, target: files, which are read two or three times; as in :func:`align`.
        model: as in :func:`align`.
        fit_on: without a model, the number of pairs to fit one on, such as 1000000, or their share, such as "10%".
        shard: (i, n): align only the i-th of n parts, i from 1. The outputs of all parts, joined, equal that of
            the whole text to the byte. Parts start at block boundaries if the links of a pair depend on its block:
            with ``adapt``, or if the model is a network. A part that is therefore empty is logged.
        seed: seed of the random sample.
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
        bounds = block_bounds(files, BLOCK, ADAPTED_ELEMENTS if METHODS[chosen.fitting.method].is_joint else None)
        count = int(bounds[-1])
        sample = sampled_pairs(count, share(count), seed)
        log.info("fitted on a sample of %d of %s", len(sample), counted(count, "pair"))
        bitext = read_sample(files, sample)
        warn_of_raw_text(bitext)
        aligner = fit(bitext, thread_count(threads), progress, count)
        linking = LinkSettings(adapt=isinstance(aligner, JointHMM))
        if isinstance(aligner, JointHMM):
            if len(sample) == count:
                return AlignedBlocks(aligner, iter([_of_fit(aligner, bitext)]), 0, count, count)
            aligner = replace(aligner, fitted=None)
        linker = Linker(aligner, AlignSettings(linking=linking), threads)
    else:
        linker = Linker(model, chosen, threads)
        files = PairFiles(source, target, **linker.reading)
        bounds = block_bounds(files, BLOCK, linker.elements)
        count = int(bounds[-1])
        if linker.depends_on_block:
            low, high = shard_range(len(bounds) - 1, shard)
            undivided = f" in {counted(len(bounds) - 1, 'block')}, and a block is not divided"
            bounds = bounds[low : high + 1]
        else:
            low, high = shard_range(count, shard)
            undivided, bounds = "", np.array([*range(low, high, BLOCK), high])
        if low == high:
            log.warning("part %d of %d is empty: the text has %s%s", *shard, counted(count, "pair"), undivided)
    texts = _linked_blocks(linker, files, bounds, sample)
    return AlignedBlocks(linker.aligner, texts, int(bounds[0]), int(bounds[-1]), count)


def _linked_blocks(
    linker: Linker, files: PairFiles, bounds: np.ndarray, sample: np.ndarray
) -> Iterator[AlignedText]:
    """The blocks of a text with their links; ``sample`` are the pairs that the model was fitted on, rising."""
    for low, block in zip(bounds, read_blocks(files, bounds), strict=False):
        if low == bounds[0] and not len(sample):
            warn_of_raw_text(block)
        first, last = np.searchsorted(sample, (low, low + len(block)))
        counted = np.zeros(len(block), bool)
        counted[sample[first:last] - low] = True
        yield linker.linked_block(block, counted)


def align_stream(
    stream: IO[bytes] | Iterable[str | bytes],
    model: Model,
    *,
    settings: AlignSettings | None = None,
    threads: int | None = 1,
    skip: bool = False,
    **options: Unpack[StreamOptions],
) -> Iterator[AlignedText]:
    """Align the pairs of a stream with a fitted model as soon as they arrive, in bounded memory.

    The model is loaded immediately; the stream is read while the result is iterated over.

    Args:
        stream: lines ``source ||| target``, source TAB target, or JSON, whose field ``id`` is kept: a stream of
            bytes, or any iterable of lines.
        model, settings, **options: as in :func:`align`, without those of a fit.
        threads: one by default, because batches are small and more threads would cost more than they gain.
        skip: continue after a malformed line: its pair is blank, and its :class:`AlignedText` has the error in
            ``errors``.

    Raises:
        InputError: a line is malformed; the pairs before it have already been yielded.
        AlignkitError: a setting is not valid.
    """
    chosen = AlignSettings.of(settings, **options)
    _check_whole(chosen.linking)
    linker = Linker(model, chosen, threads)
    is_open, is_bytes = hasattr(stream, "read"), not isinstance(stream, TextIOBase)
    name = getattr(stream, "name", None)
    if not isinstance(name, str) or name == "<stdin>":
        name = "-" if is_open and is_bytes else "lines"
    if is_open and is_bytes:
        chunks = read_chunks(name, cast(IO[bytes], stream), 0)
    else:
        check_list(stream, "a stream must be one of bytes, or lines")
        chunks = map(_line, stream)
    # Open files without a line are an error, other lines may be none.
    starts = [b""] if is_open else chunks
    # A network gets one pair at a time: else the last bits of an answer would depend on what came with its pair.
    how = dict(single=linker.depends_on_block, skip=skip, **linker.reading)
    batches = (batch for start in starts for batch in pair_batches(name, chain([start], chunks), **how))

    def linked() -> Iterator[AlignedText]:
        with nullcontext() if is_open else of_list(name):
            for batch in batches:
                errors = batch.errors if is_open else tuple(of_item(name, error) for error in batch.errors)
                yield replace(linker.linked_block(batch.bitext), errors=errors, ids=batch.ids)

    return linked()


def _line(line: str | bytes) -> bytes:
    """A line of a stream, which may lack its end, in UTF-8."""
    check_type(line, (str, bytes), "a line must be text")
    data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    data = data.removesuffix(b"\n")
    if b"\n" in data:
        raise AlignkitError(f"a line cannot have a line end within it: {abbreviated(repr(line))}")
    return data + b"\n"


def sample_share(size: int | str) -> Callable[[int], int]:
    """The size of a sample as a function of the number of all pairs; raises AlignkitError for a bad ``size``.

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
