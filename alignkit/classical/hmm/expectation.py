"""The E-step of the hidden Markov aligners over a whole text, for estimation and for inference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from alignkit.classical.exchange import ALONE, Exchange
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import LinkArrays, Shares, TextArrays, expect_links
from alignkit.kernels.hmm_emissions import DirectionArrays
from alignkit.parallel import blocks_of_size, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import RELEASED, release

# The number of blocks that the text is cut into, whatever the number of threads: counts are summed block by block.
BLOCKS = 64


@dataclass(frozen=True, eq=False)
class Expectation:
    """What an E-step finds beside the links.

    Attributes:
        likelihood: float64 (M,), the log-likelihood of each pair, summed over the directions that ran.
        transitions: expected counts of the forward and the reverse direction.
        change: the sum of the absolute changes of the links.
    """

    likelihood: np.ndarray
    transitions: tuple[TransitionCounts, TransitionCounts]
    change: float


def text_arrays(bitext: Bitext, copies: np.ndarray | None = None) -> TextArrays:
    """A text as the kernels take it; copies float32 (M,), how often each pair is there: once by default."""
    copies = np.ones(len(bitext), np.float32) if copies is None else copies
    source, target = bitext.source, bitext.target
    return TextArrays(source.tokens, source.offsets, target.tokens, target.offsets, copies)


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
        null_probability=null_probability,
        exclude=0.0,
    )


def element_blocks(links: LinkArrays) -> list[tuple[int, int]]:
    """Ranges of sentence pairs, to :func:`release_matrices` after each."""
    return blocks_of_size(links.offsets, RELEASED)


def release_matrices(links: LinkArrays) -> None:
    """Give back the memory of matrices that are on disk."""
    release(links.elements)


def pair_work(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """int64 (M,): how much work pairs with these numbers of tokens are, relative to each other."""
    return source * target * (source + target)


def expect(
    bitext: Bitext,
    links: LinkArrays,
    directions: tuple[DirectionArrays, DirectionArrays],
    shares: Shares,
    threads: int,
    copies: np.ndarray | None = None,
    exchange: Exchange = ALONE,
    is_last: bool = False,
) -> Expectation:
    """Runs the E-step; the links of ``links``, and NULL's of the directions, are overwritten.

    Args:
        bitext: M pairs.
        shares: of each direction's posteriors in the links.
        threads: how many to use; no result depends on it.
        copies: of :func:`text_arrays`.
        exchange: with the processes that have the rest of the text; each has whole blocks of it.
        is_last: whether float32 numbers replace the elements (:func:`alignkit.kernels.packed_links.as_floats`).
    """
    text, shares = text_arrays(bitext, copies), shares._replace(is_last=is_last)
    likelihood = np.zeros(len(bitext), np.float64)
    sizes = [size for each in directions for size in 2 * [len(each.transition)] + 2 * [len(each.initial)]]

    def run(low: int, high: int) -> np.ndarray:
        sums = np.zeros(1 + sum(sizes))
        counts = _transition_counts(sums[1:], sizes)
        sums[0] = expect_links(low, high, text, links, directions, shares, likelihood, counts)
        release_matrices(links)
        return sums

    ranges = exchange.text_blocks(pair_work(bitext.source.lengths, bitext.target.lengths), BLOCKS)
    parts = run_blocks(run, [part for part in ranges if part[0] < part[1]] or [(0, 0)], threads)
    sums = reduce(np.add, exchange.gathered(np.stack(parts)))
    return Expectation(likelihood, _transition_counts(sums[1:], sizes), float(sums[0]))


def _transition_counts(numbers: np.ndarray, sizes: list[int]) -> tuple[TransitionCounts, TransitionCounts]:
    """Both directions' counts, slices of one array; sizes: of the eight of them."""
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    return TransitionCounts(*parts[:4]), TransitionCounts(*parts[4:])
