"""The E-step of the hidden Markov models over a text, in blocks of sentence pairs."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import (
    DirectionArrays,
    EStepOptions,
    LinkArrays,
    OpinionPool,
    TextArrays,
    expect_links,
)
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext

# The number of blocks that the text is cut into, whatever the number of threads: counts are summed block by block,
# and the last bits of a pair depend on the longest one of its block.
BLOCKS = 64
# In larger texts, transitions are counted in every nth pair, at least so many: they are few numbers.
COUNTED_PAIRS = 40_000


def text_arrays(bitext: Bitext, copies: np.ndarray | None = None) -> TextArrays:
    """A text as the kernels take it; copies float32 (M,), how often each pair is there: once by default."""
    copies = np.ones(len(bitext), np.float32) if copies is None else copies
    source, target = bitext.source, bitext.target
    return TextArrays(source.tokens, source.offsets, target.tokens, target.offsets, copies)


def pair_blocks(bitext: Bitext, least: int = 0) -> list[tuple[int, int]]:
    """The blocks of pairs low <= m < high that an E-step takes, of about equal work; at least one.

    Args:
        bitext: M pairs.
        least: about how much work a block has at least, L T (L + T) summed over its pairs; there may then be
            fewer blocks than :data:`BLOCKS`.
    """
    if len(bitext) == 1:
        return [(0, 1)]
    source, target = bitext.source.lengths, bitext.target.lengths
    work = offsets_of(source * target * (source + target))
    count = min(BLOCKS, max(int(work[-1]) // least, 1)) if least else BLOCKS
    return blocks(work, count) or [(0, 0)]


def uniform_direction(states: int, emitted: int, tokens: int, null_probability: float) -> DirectionArrays:
    """A direction without transitions or fertility, which emits this number of tokens, and whose emissions are
    uniform: counts of 1, divided by the number of words that there are."""
    return DirectionArrays(
        totals=np.full(states, max(emitted, 1), np.float32),
        null=np.ones(emitted, np.float32),
        null_total=float(max(emitted, 1)),
        null_links=np.zeros(tokens, np.float32),
        fertility=np.ones((states, 1), np.float32),
        transition=np.empty(0, np.float32),
        initial=np.empty(0, np.float32),
        final=np.empty(0, np.float32),
        null_probability=null_probability,
        leave_one_out=0.0,
    )


class Expectation(NamedTuple):
    """What an E-step finds beside the links."""

    likelihood: np.ndarray  # float64 (M,), the log-likelihood of each pair, summed over the directions that ran
    transitions: list[TransitionCounts]  # expected counts of the forward and the reverse direction
    change: float  # the sum of the absolute changes of the links


def expect(
    bitext: Bitext,
    links: LinkArrays,
    directions: tuple[DirectionArrays, DirectionArrays],
    pool: OpinionPool,
    threads: int,
    copies: np.ndarray | None = None,
    is_last: bool = False,
    least_own: float = 0.0,
) -> Expectation:
    """The E-step: the forward-backward algorithm in both directions of every pair.

    The links of ``links``, and NULL's of the directions, are overwritten.

    Args:
        bitext: M pairs.
        pool: of both directions' posteriors, which makes the links.
        threads: how many to use; no result depends on it.
        copies: of :func:`text_arrays`.
        is_last, least_own: of :class:`alignkit.kernels.hmm_e_step.EStepOptions`.
    """
    text, likelihood = text_arrays(bitext, copies), np.zeros(len(bitext), np.float64)
    options = EStepOptions(is_last, least_own, max(1, len(bitext) // COUNTED_PAIRS))
    ranges = pair_blocks(bitext)
    counts = {
        span: tuple(
            TransitionCounts(*(np.zeros(len(of)) for of in 2 * [each.transition] + 4 * [each.initial]))
            for each in directions
        )
        for span in ranges
    }
    arrays = text, links, directions, pool, options, likelihood
    changes = run_blocks(lambda *span: expect_links(*span, *arrays, counts[span]), ranges, threads)
    transitions = [
        TransitionCounts(*(reduce(np.add, numbers) for numbers in zip(*each, strict=True)))
        for each in zip(*counts.values(), strict=True)
    ]
    return Expectation(likelihood, transitions, float(sum(changes)))
