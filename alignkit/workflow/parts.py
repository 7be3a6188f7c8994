"""Align texts of any size in bounded memory: by a model of a sample of their pairs, or one part at a time."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.joint_aligner import JointAligner
from alignkit.classical.hmm.joint_views import JointViews
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.errors import AlignkitError, abbreviated
from alignkit.parallel import thread_count
from alignkit.settings import with_options
from alignkit.text.pair_blocks import PairFiles, sampled_pairs, shard_range
from alignkit.types import PathLike, Progress
from alignkit.workflow.align import AlignedText, Linker, Model
from alignkit.workflow.fitting import Fitting
from alignkit.workflow.settings import AlignSettings

log = logging.getLogger(__name__)

Files = tuple[PathLike, PathLike | None]
_SIZE = re.compile(r"(\d+)|(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True)
class SampleSize:
    """How many pairs to fit a model on.

    Attributes:
        pairs: a number of pairs; or
        percent: a share of all pairs, above 0 and at most 100.
    """

    pairs: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> SampleSize:
        """The size that "25000" or "10%" stands for; raises AlignkitError if it is none."""
        match = _SIZE.fullmatch(text.strip())
        if match and match[1] and 1 <= int(match[1]) < 2**62:
            return cls(pairs=int(match[1]))
        if match and match[2] and 0 < float(match[2]) <= 100:
            return cls(percent=float(match[2]))
        raise AlignkitError(f"{abbreviated(text)!r} is not a number of pairs, as 1000000, nor a share, as 10%")

    def of(self, count: int) -> int:
        """The number of pairs, of ``count``."""
        if self.percent is None:
            return min(self.pairs or 0, count)
        return min(max(1, round(count * self.percent / 100)), count)


@dataclass(frozen=True, eq=False)
class SampleFit:
    """An aligner fitted on a sample of a text, and the text that it links.

    Attributes:
        aligner: fitted; it does not keep the sample.
        texts: the whole text with its links, in its order, in blocks that are read as this is iterated over.
        pairs, sampled: the number of all pairs, and of those in the sample.
    """

    aligner: Aligner
    texts: Iterator[AlignedText]
    pairs: int
    sampled: int


@dataclass(frozen=True, eq=False)
class TextPart:
    """The part of a text that a fitted aligner links.

    Attributes:
        texts: the pairs low <= m < high with their links, in blocks that are read as this is iterated over.
        low, high: the numbers of its pairs.
        pairs: the number of all pairs.
    """

    texts: Iterator[AlignedText]
    low: int
    high: int
    pairs: int


def align_part(
    source: PathLike,
    target: PathLike | None,
    model: Model,
    *,
    shard: tuple[int, int] = (1, 1),
    settings: AlignSettings | None = None,
    threads: int | None = None,
    **options: Any,
) -> TextPart:
    """Align the i-th of n parts of a text by a fitted model, a block at a time.

    The parts joined are the whole, to the byte. They start at multiples of 250,000 pairs if the model is adapted,
    and of 10,000 if it is a network, because the links of a pair then depend on its block.

    Args:
        source, target: files, which are read twice; as of :func:`alignkit.workflow.align.align`.
        model, settings, **options: as of ``align``.
        shard: i, from 1, and n.
        threads: all there are by default; no result depends on it.

    Raises:
        AlignkitError: the text, the model or a setting is not valid, or there is no such part.
    """
    chosen = with_options(settings or AlignSettings(), options)
    linker = Linker(model, chosen, threads)
    files = _files(source, target, chosen)
    count = files.count()
    low, high = shard_range(count, shard, linker.unit)
    return TextPart((linker.aligned(block) for block in files.blocks(linker.block, low, high)), low, high, count)


def align_sampled(
    source: PathLike,
    target: PathLike | None,
    size: SampleSize | str | int,
    *,
    seed: int = 0,
    settings: AlignSettings | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SampleFit:
    """Fit a model on a sample of a text's pairs, and align all of them by it, in bounded memory.

    A joint model is adapted to each block of 250,000 pairs: the links are those that :func:`align_part` finds by
    the same model with ``adapt``, but for the pairs of the sample, which do not count twice. If the sample is the
    whole text, they are those of the fit.

    Args:
        source, target: files, which are read three times; as of :func:`alignkit.workflow.align.align`.
        size: of the sample.
        seed: of the sample.
        settings, threads, progress, **options: as of ``align``.

    Raises:
        AlignkitError: the text or a setting is not valid.
    """
    chosen = with_options(settings or AlignSettings(), options)
    size = size if isinstance(size, SampleSize) else SampleSize.parse(str(size))
    fitting, files = Fitting(chosen), _files(source, target, chosen)
    count = files.count()
    pairs = sampled_pairs(count, size.of(count), seed)
    log.info("fitted on a sample of %d of %d pairs", len(pairs), count)
    bitext = files.sample(pairs)
    if isinstance(fitting.estimation, HMMSettings):
        # Whether the text is small enough to be looked at as subwords, which takes time for every pair.
        below = fitting.estimation.subwords_below * len(pairs) // max(count, 1)
        fitting.estimation = replace(fitting.estimation, subwords_below=below)
    aligner = fitting.fit(bitext, threads=thread_count(threads), progress=progress)
    fitted = aligner.fitted_links_and_probabilities if isinstance(aligner, JointAligner) else None
    is_joint = isinstance(aligner, JointHMM | JointViews)
    if isinstance(aligner, JointHMM | JointViews):
        aligner = replace(aligner, fitted=None)
    if fitted is not None and len(pairs) == count:
        whole = AlignedText(bitext, aligner, [(0, count)], fitted)
        return SampleFit(aligner, iter([whole]), count, count)
    linking = AlignSettings()
    if is_joint:
        linking = AlignSettings(adapt=True, max_memory=chosen.max_memory, temp_folder=chosen.temp_folder)
    texts = _linked_blocks(Linker(aligner, linking, threads), files, pairs)
    return SampleFit(aligner, texts, count, len(pairs))


def _linked_blocks(linker: Linker, files: PairFiles, sample: np.ndarray) -> Iterator[AlignedText]:
    """The blocks of a text with their links; ``sample`` are the pairs that the model was fitted on, rising."""
    low = 0
    for block in files.blocks(linker.block):
        first, last = np.searchsorted(sample, (low, low + len(block)))
        counted = np.zeros(len(block), bool)
        counted[sample[first:last] - low] = True
        yield linker.aligned(block, counted=counted)
        low += len(block)


def _files(source: PathLike, target: PathLike | None, settings: AlignSettings) -> PairFiles:
    return PairFiles(source, target, settings.encoding_errors, settings.lowercase)
