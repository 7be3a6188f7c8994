"""The E-step of the hidden Markov aligners over a whole text: matrices of expected links, and what is summed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise

import numpy as np

from alignkit.classical.cooccurrence import token_index
from alignkit.errors import AlignkitError
from alignkit.kernels import expected_links
from alignkit.kernels.expected_links import SEGMENT_BITS, PairPlaces
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import (
    NO_LIKENESS,
    DirectionArrays,
    Likeness,
    LinkArrays,
    Shares,
    TextArrays,
    expect_links,
)
from alignkit.kernels.hmm_m_step import count_fertilities
from alignkit.kernels.hmm_rows import FERTILITIES
from alignkit.kernels.inverted_index import TableRows
from alignkit.scores import flat_offsets
from alignkit.support.threads import blocks, blocks_of_size, run_blocks
from alignkit.text.bitext import Bitext

# The number of blocks that the text is cut into, whatever the number of threads: counts are summed block by block.
BLOCKS = 64
# The same of fertilities: few, as each block needs an array of the size of the vocabulary.
FERTILITY_BLOCKS = 4
# In larger texts, transitions are counted in every nth pair, at least so many: they are few numbers.
COUNTED_PAIRS = 40_000
# Codes are found for blocks of about this number of elements, so that the index of a block takes little memory.
CODED_ELEMENTS = 1 << 25


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
        final=np.empty(0, np.float32),
        null_probability=null_probability,
        leave_one_out=0.0,
    )


def expect(
    bitext: Bitext,
    links: LinkArrays,
    directions: tuple[DirectionArrays, DirectionArrays],
    shares: Shares,
    threads: int,
    copies: np.ndarray | None = None,
    is_last: bool = False,
) -> Expectation:
    """Runs the E-step; the links of ``links``, and NULL's of the directions, are overwritten.

    Args:
        bitext: M pairs.
        shares: of each direction's posteriors in the links.
        threads: how many to use; no result depends on it.
        copies: of :func:`text_arrays`.
        is_last: let float32 numbers replace the elements (:func:`alignkit.kernels.expected_links.as_floats`).
    """
    text, shares = text_arrays(bitext, copies), shares._replace(is_last=is_last)
    shares = shares._replace(counted=max(1, len(bitext) // COUNTED_PAIRS))
    likelihood = np.zeros(len(bitext), np.float64)
    sizes = [size for each in directions for size in 2 * [len(each.transition)] + 4 * [len(each.initial)]]

    def run(low: int, high: int) -> np.ndarray:
        sums = np.zeros(1 + sum(sizes))
        counts = _transition_counts(sums[1:], sizes)
        sums[0] = expect_links(low, high, text, links, directions, shares, likelihood, counts)
        return sums

    source, target = bitext.source.lengths, bitext.target.lengths
    parts = run_blocks(run, blocks(source * target * (source + target), BLOCKS) or [(0, 0)], threads)
    sums = reduce(np.add, parts)
    return Expectation(likelihood, _transition_counts(sums[1:], sizes), float(sums[0]))


def _transition_counts(numbers: np.ndarray, sizes: list[int]) -> tuple[TransitionCounts, TransitionCounts]:
    """Both directions' counts, slices of one array; sizes: of the twelve of them."""
    parts = [numbers[low:high] for low, high in pairwise(accumulate(sizes, initial=0))]
    return TransitionCounts(*parts[:6]), TransitionCounts(*parts[6:])


def expected_fertilities(bitext: Bitext, links: LinkArrays, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """float64 (V_src, F), (V_tgt, F): expected number of occurrences of each word with 0, 1, ... links.

    Args:
        bitext: M pairs.
        links: their expected links.
        threads: how many to use; no result depends on it.
    """
    text, source_types = text_arrays(bitext), len(bitext.source.vocabulary)
    total = np.zeros((source_types + len(bitext.target.vocabulary), FERTILITIES))

    def count(low: int, high: int) -> np.ndarray:
        sums = np.zeros_like(total)
        count_fertilities(low, high, text, links.offsets, links.elements, sums[:source_types], sums[source_types:])
        return sums

    # Blocks are added in their order, and there are no more of them at a time than threads.
    ranges = blocks(np.diff(links.offsets), FERTILITY_BLOCKS)
    for first in range(0, len(ranges), threads):
        for part in run_blocks(count, ranges[first : first + threads], threads):
            total += part
        del part  # before the next ones are there
    return total[:source_types], total[source_types:]


def link_arrays(
    bitext: Bitext,
    rows: TableRows,
    evidence: np.ndarray,
    threads: int,
    likeness: Likeness = NO_LIKENESS,
) -> LinkArrays:
    """Matrices without links.

    Args:
        bitext: M pairs.
        rows: its K word pairs, by source word; the values are not looked at.
        evidence, likeness: of :class:`alignkit.kernels.hmm_e_step.LinkArrays`.
        threads: how many to use; no result depends on it.

    Raises:
        AlignkitError: the word pairs are too many for their numbers.
    """
    if len(rows.columns) >= 2**31:
        raise AlignkitError("the text has more than two thousand million word pairs; fit a sample of it")
    offsets = flat_offsets(bitext.shapes)
    elements = np.zeros(offsets[-1], np.uint32)
    places = _pair_places(rows, len(bitext.target.vocabulary))
    for low, high in blocks_of_size(offsets, CODED_ELEMENTS):
        part = elements[offsets[low] : offsets[high]]
        _fill_codes(bitext.block(low, high), rows.columns, places, part, threads)
    return LinkArrays(offsets, places, evidence, elements, likeness)


def _pair_places(rows: TableRows, target_types: int) -> PairPlaces:
    is_long = np.diff(rows.offsets) > 1 << SEGMENT_BITS
    long_rows = np.where(is_long, np.cumsum(is_long) - 1, -1).astype(np.int32)
    segments = np.empty((int(is_long.sum()), -(-target_types >> SEGMENT_BITS)), np.int64)
    expected_links.fill_segments(rows.columns, rows.offsets, long_rows, segments)
    return PairPlaces(rows.offsets, long_rows, segments)


def _fill_codes(
    bitext: Bitext, columns: np.ndarray, places: PairPlaces, elements: np.ndarray, threads: int
) -> None:
    """The codes of a block of pairs."""
    index, text = token_index(bitext.source, threads), text_arrays(bitext)
    matrices = flat_offsets(bitext.shapes), elements

    def fill(low: int, high: int) -> None:
        room = np.empty(len(bitext.target.vocabulary), np.uint16)
        expected_links.fill_codes(low, high, index, text, matrices, columns, places, room)

    run_blocks(fill, blocks(np.diff(index.starts), 1 if threads == 1 else 8 * threads), threads)
