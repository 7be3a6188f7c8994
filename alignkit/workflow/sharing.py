"""Fits that the ranks of torchrun share: each reads, fits and links its part of a text. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.classical.exchange import exchanging
from alignkit.classical.hmm.expectation import BLOCKS, pair_work
from alignkit.classical.hmm.joint_aligner import JointAligner
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.windows import is_long
from alignkit.classical.settings import Weighting
from alignkit.classical.translation_table import PairTable
from alignkit.distributed.arrays import ArrayGroup
from alignkit.distributed.exchange import GroupExchange
from alignkit.distributed.group import joined_group
from alignkit.distributed.launch import find_launch
from alignkit.distributed.reading import read_shared
from alignkit.errors import AlignkitError
from alignkit.parallel import thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import Progress
from alignkit.workflow.align import AlignedText
from alignkit.workflow.fitting import Fitting
from alignkit.workflow.settings import AlignSettings

REMEDY = "start the same command again: with --checkpoint it goes on after the last complete iteration"


@dataclass(frozen=True)
class SharedText:
    """One rank's part of a text that was aligned by all.

    Attributes:
        aligned: this rank's pairs. Its aligner has the whole table at rank 0, if that was asked for.
        first: the number of pairs before them.
        pairs: that of all pairs.
    """

    aligned: AlignedText
    first: int
    pairs: int


@contextmanager
def joined_ranks() -> Iterator[ArrayGroup]:
    """Join the other ranks that torchrun has started, of which there must be some.

    Raises:
        AlignkitError: as :func:`alignkit.distributed.group.joined_group`.
    """
    with joined_group(REMEDY) as group:
        yield ArrayGroup(group)


def align_shared(
    ranks: ArrayGroup,
    source: str,
    target: str | None,
    settings: AlignSettings,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    gathers_tables: bool = False,
) -> SharedText:
    """Align a text that all ranks read and fit together; the result has the bytes of :func:`.align`.

    Args:
        ranks: all of which call this with the same arguments.
        source, target: files, patterns or lists (:func:`alignkit.distributed.shards.shard_paths`).
        settings: how to read the text, and what to fit.
        threads: of this rank; by default its share of the machine's cores.
        progress: called after each iteration.
        gathers_tables: whether the aligner of rank 0 has the whole table, to be saved.

    Raises:
        AlignkitError: as :func:`.align`, at the first rank that has the problem; or the settings ask for something
            that ranks cannot share.
    """
    threads = thread_count(threads) if threads is not None else own_threads()
    ranks.agreed(lambda: check_shared(settings))
    fitting = ranks.agreed(lambda: Fitting(settings))
    fitting.memory = replace(fitting.memory, processes=_ranks_here())
    is_hidden_markov = isinstance(fitting.estimation, HMMSettings)
    bitext = read_shared(
        ranks,
        source,
        target,
        encoding_errors=settings.encoding_errors,
        lowercase=settings.lowercase,
        work=pair_work if is_hidden_markov else None,
        parts=BLOCKS if is_hidden_markov else None,
    )
    sizes = ranks.sizes(len(bitext))
    first, pairs = int(sizes[: ranks.rank].sum()), int(sizes.sum())
    if is_hidden_markov:
        ranks.agreed(lambda: _check_lengths(bitext, first))
    with exchanging(GroupExchange(ranks, gathers_tables)):
        aligner = fitting.fit(bitext, threads=threads, progress=progress)
    known = aligner.fitted_links_and_probabilities if isinstance(aligner, JointAligner) else None
    return SharedText(AlignedText(bitext, aligner, [(0, len(bitext))], known), first, pairs)


def cooccurrence_shared(
    ranks: ArrayGroup, source: str, target: str | None, weighting: Weighting, threads: int | None, **reading: Any
) -> tuple[PairTable, Bitext, int]:
    """The co-occurrence table, whole at rank 0; this rank's part of the text; and the number of all pairs.

    Arguments as of :func:`align_shared`, and ``encoding_errors`` and ``lowercase`` of
    :func:`alignkit.distributed.reading.read_shared`.
    """
    bitext = read_shared(ranks, source, target, **reading)
    with exchanging(GroupExchange(ranks, gathers_tables=True)):
        table = cooccurrence(bitext, weighting, thread_count(threads) if threads is not None else own_threads())
    return table, bitext, int(ranks.sizes(len(bitext)).sum())


def own_threads() -> int:
    """The share of this machine's cores that a rank has."""
    return max(1, thread_count() // _ranks_here())


def _ranks_here() -> int:
    """The number of ranks on this machine."""
    launch = find_launch()
    return 1 if launch is None else launch.local_world_size


def check_shared(settings: AlignSettings) -> None:
    """Check that ranks can share a fit; raises AlignkitError, naming the setting that they cannot."""
    method, _ = settings.chosen()
    for given, name in (
        (settings.embeddings is not None, "embeddings"),
        (settings.max_memory is not None and "block_tokens" in method.takes, "max_memory"),
        (settings.scored, "score matrices"),
    ):
        if given:
            raise AlignkitError(f"ranks of torchrun cannot share a fit with {name}; run it without torchrun")


def _check_lengths(bitext: Bitext, first: int) -> None:
    """Raises AlignkitError if a pair is too long for the hidden Markov models' matrices."""
    long = np.flatnonzero(is_long(bitext))
    if len(long):
        line = first + int(long[0]) + 1
        raise AlignkitError(
            f"sentence pair {line} is too long to be aligned as a whole, which ranks of torchrun need; "
            "split it, or run ibm1 or diagonal"
        )
