"""The (T, L) matrices of expected links of a text, and of each of their elements the word pair."""

from __future__ import annotations

import logging

import numpy as np

from alignkit.classical.hmm.expectation import text_arrays
from alignkit.classical.memory import HMM_ELEMENT, MemoryLimit, are_links_on_disk, show_size
from alignkit.classical.word_pairs import token_index
from alignkit.errors import AlignkitError
from alignkit.kernels import hmm_pairs
from alignkit.kernels.hmm_e_step import NO_LIKENESS, Likeness, LinkArrays
from alignkit.kernels.hmm_pairs import SEGMENT_BITS, PairPlaces
from alignkit.kernels.inverted_index import TableRows
from alignkit.parallel import blocks, blocks_of_size, run_blocks
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import release, scratch_array

log = logging.getLogger(__name__)

# Codes are found for blocks of about this number of elements, so that the index of a block takes little memory.
BLOCK_ELEMENTS = 1 << 25


def link_arrays(
    bitext: Bitext,
    rows: TableRows,
    evidence: np.ndarray,
    memory: MemoryLimit,
    threads: int,
    likeness: Likeness = NO_LIKENESS,
) -> LinkArrays:
    """Matrices without links.

    Args:
        bitext: M pairs.
        rows: its K word pairs, by source word; the values are not looked at.
        evidence, likeness: of :class:`alignkit.kernels.hmm_e_step.LinkArrays`.
        memory: not to be exceeded; larger matrices are kept on disk.
        threads: how many to use; no result depends on it.

    Raises:
        AlignkitError: the word pairs alone are too many for the memory, or for their numbers.
    """
    if len(rows.columns) >= 2**31:
        raise AlignkitError("the text has more than two thousand million word pairs; give it in parts")
    offsets = flat_offsets(bitext.shapes)
    on_disk = are_links_on_disk(bitext, len(rows.columns), int(offsets[-1]), memory)
    elements = _elements(int(offsets[-1]), memory.folder, on_disk)
    places = _pair_places(rows, len(bitext.target.vocabulary))
    for low, high in blocks_of_size(offsets, BLOCK_ELEMENTS):
        part = elements[offsets[low] : offsets[high]]
        _fill_codes(bitext.block(low, high), rows.columns, places, part, threads)
        release(elements)
    return LinkArrays(offsets, places, evidence, elements, likeness)


def _elements(count: int, folder: str | None, on_disk: bool) -> np.ndarray:
    """uint32 (count,), zeros, in memory or on disk."""
    if not on_disk:
        return np.zeros(count, np.uint32)
    size = show_size(HMM_ELEMENT * count)
    log.info("a large text: matrices of %.3g elements (%s) are kept on disk", count, size)
    return scratch_array(count, np.uint32, folder)


def _pair_places(rows: TableRows, target_types: int) -> PairPlaces:
    is_long = np.diff(rows.offsets) > 1 << SEGMENT_BITS
    long_rows = np.where(is_long, np.cumsum(is_long) - 1, -1).astype(np.int32)
    segments = np.empty((int(is_long.sum()), -(-target_types >> SEGMENT_BITS)), np.int64)
    hmm_pairs.fill_segments(rows.columns, rows.offsets, long_rows, segments)
    return PairPlaces(rows.offsets, long_rows, segments)


def _fill_codes(
    bitext: Bitext, columns: np.ndarray, places: PairPlaces, elements: np.ndarray, threads: int
) -> None:
    """The codes of a block of pairs."""
    index, text = token_index(bitext.source, threads), text_arrays(bitext)
    matrices = flat_offsets(bitext.shapes), elements

    def fill(low: int, high: int) -> None:
        room = np.empty(len(bitext.target.vocabulary), np.uint16)
        hmm_pairs.fill_codes(low, high, index, text, matrices, columns, places, room)

    run_blocks(fill, blocks(np.diff(index.starts), 1 if threads == 1 else 8 * threads), threads)
