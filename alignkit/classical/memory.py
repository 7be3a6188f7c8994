"""Estimate the memory that a model of a text takes, and what has to be on disk, or in blocks, to keep a limit."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from alignkit.errors import AlignkitError, abbreviated
from alignkit.kernels import out_of_core as kernels
from alignkit.kernels.out_of_core import Words
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import release_bitext

#: What the program takes before it reads anything: Python, NumPy, Numba and the kernels.
BASE = 200 << 20
#: Memory by token and by pair, as measured (docs/performance.md): of a text in memory, and of one in blocks.
WHOLE_TOKEN, WHOLE_PAIR = 24, 30
BLOCK_TOKEN, SPOOLED_PAIR = 40, 30
#: Memory by pair of words that occur together: while a table is fitted, and afterwards.
FITTED, KEPT = 16, 8
#: Memory of a hidden Markov model while it is fitted, as measured: by pair of words that occur together, token,
#: pair of sentences, and type; and by element (t, l), if its matrices are in memory.
HMM_FITTED, HMM_TOKEN, HMM_SENTENCE, HMM_TYPE, HMM_ELEMENT = 16, 12, 50, 600, 4
#: A limit of this many times the size of the text always allows reading it at once.
TEXT = 8
LEAST_BLOCK = 1 << 18  # tokens
_BUCKETS = 4096  # of the sketch: its standard error is 1 / sqrt(4096), 1.6 %
_SKETCHED = 1 << 22  # tokens at a time
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGT]?)I?B?", re.IGNORECASE)


Made = TypeVar("Made")


@dataclass(frozen=True)
class MemoryLimit:
    """Memory that a fit should not exceed.

    Attributes:
        bytes: as a number; None: half of the machine's memory, as far as that can be kept.
        folder: where the rest is kept; None: where the system has temporary files.
        processes: how many share what the machine has, if ``bytes`` does not say it.
    """

    bytes: int | None = None
    folder: str | None = None
    processes: int = 1

    @property
    def limit(self) -> int:
        """The number of bytes."""
        return usual_limit() // self.processes if self.bytes is None else self.bytes


def parse_size(text: str) -> int:
    """Bytes of "800M", "4G" or "1.5T" (powers of 1,024); a bare number is bytes.

    Raises:
        AlignkitError: it is none of these, or 0.
    """
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if not 1 <= size < 2**63:
        raise AlignkitError(f"{abbreviated(text)!r} is not an amount of memory; it looks like 800M or 4G")
    return int(size)


def show_size(size: float) -> str:
    """Bytes as in "3.2G", rounded up; :func:`parse_size` reads it."""
    if size >= 2**30:
        return f"{math.ceil(size * 10 / 2**30) / 10}G"
    return f"{math.ceil(size / 2**20)}M" if size > 2**19 else f"{math.ceil(size / 2**10)}K"


def usual_limit() -> int:
    """Half of the memory of the machine, or of what this process's control group may have."""
    found = [1 << 62]
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(ValueError, OSError):
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(found) // 2


def word_pairs(bitext: Bitext, threads: int) -> float:
    """Estimate the number of pairs of a source and a target word that occur together (within 5 % or so).

    One pass without a table: pairs are hashed into buckets, and the least hash of a bucket tells how many
    different ones fell into it (Giroire 2009). The result is at least ``_BUCKETS``.
    """
    draw = np.random.default_rng(0)
    vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
    seeds = [draw.integers(0, 2**64, max(len(words), 1), np.uint64) for words in vocabularies]
    ends = bitext.source.offsets + bitext.target.offsets
    smallest = np.full(_BUCKETS, 2**32 - 1, np.uint32)
    for low, high in block_ranges(ends, _SKETCHED):
        part = bitext.block(low, high)
        sides = zip((part.source, part.target), seeds, strict=True)
        texts = [Words(side.tokens, side.offsets, numbers) for side, numbers in sides]

        def sketch(low: int, high: int, texts: list[Words] = texts) -> np.ndarray:
            own = np.full(_BUCKETS, 2**32 - 1, np.uint32)
            kernels.sketch_pairs(*(text._replace(offsets=text.offsets[low : high + 1]) for text in texts), own)
            return own

        ranges = blocks(part.source.lengths * part.target.lengths, threads)
        for own in run_blocks(sketch, ranges, threads):
            np.minimum(smallest, own, out=smallest)
        release_bitext(bitext)
    shares = (smallest.astype(np.float64) + 0.5) / 2**32
    return _BUCKETS * (_BUCKETS - 1) / float(shares.sum())


def block_ranges(ends: np.ndarray, tokens: int) -> list[tuple[int, int]]:
    """Ranges [low, high) of sentences with about ``tokens`` tokens each, and at least one sentence.

    Args:
        ends: int64 (M + 1,), how many tokens stand before each sentence.
        tokens: at least 1.
    """
    count = max(1, -(-int(ends[-1]) // tokens))
    goals = ends[-1] * np.arange(1, count) // count
    bounds = np.unique([0, *np.searchsorted(ends, goals).tolist(), len(ends) - 1]).tolist()
    return list(pairwise(bounds))


def in_turn(bitext: Bitext, ranges: list[tuple[int, int]], make: Callable[[int, int], Made]) -> Iterator[Made]:
    """``make(low, high)`` for ranges of sentences; after each, the memory of a text on disk is given back."""
    for low, high in ranges:
        yield make(low, high)
        release_bitext(bitext)


def block_tokens(bitext: Bitext, limit: int, *, both: bool, threads: int, strict: bool) -> int | None:
    """The number of tokens to fit at a time so that IBM Model 1 stays within ``limit`` bytes; None: all at once.

    Args:
        bitext: the text, which is read.
        both: whether both directions are fitted.
        threads: how many are used.
        strict: whether a limit that cannot be kept is an error; otherwise it is exceeded as little as possible.

    Raises:
        AlignkitError: the table alone is too large for the limit; the message has the estimate.
    """
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    tokens = len(bitext.source.tokens) + len(bitext.target.tokens)
    meetings = float(bitext.source.lengths.astype(np.float64) @ bitext.target.lengths)
    words = sum(len(side.vocabulary.text) for side in (bitext.source, bitext.target)) + 16 * sum(types)
    tables = 2 * FITTED if both else FITTED

    def whole(pairs: float) -> float:
        return BASE + words + tables * pairs + WHOLE_TOKEN * tokens + WHOLE_PAIR * len(bitext)

    most = min(meetings, types[0] * types[1])
    if whole(most) <= limit:
        return None
    pairs = min(most, word_pairs(bitext, threads))
    if whole(pairs) <= limit:
        return None
    # Each thread has a number for every word of the other language, in three arrays.
    fixed = BASE + words + (FITTED + (KEPT if both else 0)) * pairs + SPOOLED_PAIR * len(bitext)
    fixed += 16 * max(types) * threads
    room = int((limit - fixed) // BLOCK_TOKEN)
    if room < LEAST_BLOCK and strict:
        needed = show_size(fixed + LEAST_BLOCK * BLOCK_TOKEN)
        raise AlignkitError(
            f"this text needs about {needed} of memory ({pairs:.3g} pairs of words meet in it), more than the "
            f"{show_size(limit)} of --max-memory; allow {needed}, or give less text"
        )
    return max(room, LEAST_BLOCK)


def hmm_memory(bitext: Bitext, pairs: int) -> int:
    """Bytes that a hidden Markov model of a text takes without its matrices; ``pairs`` of words occur together."""
    tokens = len(bitext.source.tokens) + len(bitext.target.tokens)
    types = len(bitext.source.vocabulary) + len(bitext.target.vocabulary)
    return BASE + HMM_FITTED * pairs + HMM_TOKEN * tokens + HMM_SENTENCE * len(bitext) + HMM_TYPE * types


def are_links_on_disk(bitext: Bitext, pairs: int, elements: int, memory: MemoryLimit) -> bool:
    """Whether the matrices of a hidden Markov model have to be kept on disk while it is fitted.

    Args:
        bitext: the text.
        pairs: how many pairs of words occur together.
        elements: of all (T, L) matrices.
        memory: the limit.

    Raises:
        AlignkitError: the rest alone is larger than a limit that was asked for.
    """
    fixed = hmm_memory(bitext, pairs)
    if memory.bytes is not None and fixed > memory.bytes:
        needed = show_size(fixed)
        raise AlignkitError(
            f"this text needs about {needed} of memory ({pairs:.3g} pairs of words meet in it), more than the "
            f"{show_size(memory.bytes)} of --max-memory; allow {needed}, or give less text"
        )
    return fixed + HMM_ELEMENT * elements > memory.limit
