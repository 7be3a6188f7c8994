"""Estimate the memory that a model of a text takes, and refuse a text that is too large for the machine."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alignkit.classical.word_pairs import IndexedBitext
from alignkit.errors import AlignkitError, abbreviated
from alignkit.text.bitext import Bitext, check_bitext

#: What the program takes before it reads anything: Python, NumPy, Numba and the kernels.
BASE = 200 << 20


class Needs(NamedTuple):
    """Bytes that a model takes while it is fitted, as measured."""

    pair: int  # of words that occur together
    token: int
    sentence: int  # by pair of sentences
    type: int
    element: int  # (t, l), if the matrices are in memory


LEXICAL = Needs(pair=16, token=24, sentence=30, type=16, element=0)
HMM = Needs(pair=16, token=12, sentence=50, type=600, element=4)
_SAMPLED = 20_000  # pairs of sentences in which pairs of words are counted
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGT]?)I?B?", re.IGNORECASE)


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


def machine_memory() -> int:
    """The memory of the machine, or what this process's control group may have."""
    found = [1 << 62]
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(ValueError, OSError):
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(found)


def check_memory(bitext: Bitext, needs: Needs = LEXICAL, models: int = 1) -> None:
    """Refuse a text whose model is too large for the machine.

    How many pairs of words occur together in n pairs of sentences is extrapolated from two samples: the number
    grows about as a power of n.

    Args:
        bitext: the text.
        needs: of the model.
        models: how many are in memory at the same time.

    Raises:
        AlignkitError: the message has the estimate, and the size of a sample that can be fitted.
    """
    check_bitext(bitext)
    limit, size = machine_memory(), len(bitext)
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    words = sum(len(side.vocabulary.text) for side in (bitext.source, bitext.target)) + needs.type * sum(types)
    tokens = (len(bitext.source.tokens) + len(bitext.target.tokens)) / max(size, 1)  # of a pair
    meetings = float(bitext.source.lengths.astype(np.float64) @ bitext.target.lengths)
    sentence = needs.token * tokens + needs.sentence + needs.element * meetings / max(size, 1)
    most = min(meetings, float(types[0]) * types[1])

    def needed(count: int, pairs: float) -> float:
        types_there = math.sqrt(count / max(size, 1))  # at most: of a sample, by Heaps' law
        return BASE + models * (words * types_there + needs.pair * pairs + sentence * count)

    if needed(size, most) <= limit:
        return
    whole = min(_SAMPLED, size)
    half = max(whole // 2, 1)
    samples = (bitext.take(np.linspace(0, size - 1, count).astype(np.int64)) for count in (half, whole))
    few, many = (len(IndexedBitext.of(sample, 1, keep_bags=False).pairs().columns) for sample in samples)
    power = math.log(many / few) / math.log(whole / half) if whole > half and few else 1.0

    def estimate(count: int) -> float:
        return needed(count, min(most, many * (count / whole) ** power))

    if estimate(size) <= limit:
        return
    fitting = size
    while fitting > 1 and estimate(fitting) > limit:
        fitting = fitting * 9 // 10
    unit = 10 ** max(len(str(fitting)) - 2, 0)
    raise AlignkitError(
        f"a model of this text needs about {show_size(estimate(size))} of memory, more than the "
        f"{show_size(limit)} of this machine; a sample of it fits: "
        f"--fit-on {max(fitting // unit * unit, 1)} of align, ibm1, diagonal and hmm"
    )
