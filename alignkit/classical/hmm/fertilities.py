"""Expected numbers of links of each word, which the fertility factors of hidden Markov aligners are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from alignkit.classical.exchange import Exchange
from alignkit.classical.hmm.expectation import element_blocks, release_matrices, text_arrays
from alignkit.kernels import hmm_m_step
from alignkit.kernels.hmm_e_step import LinkArrays
from alignkit.kernels.hmm_rows import FERTILITIES
from alignkit.parallel import clipped, run_blocks
from alignkit.text.bitext import Bitext

# Fertilities are counted in this number of blocks, whatever the number of threads: few, as each needs an array of
# the size of the vocabulary.
FERTILITY_BLOCKS = 4


def expected_fertilities(
    bitext: Bitext, links: LinkArrays, threads: int, exchange: Exchange
) -> tuple[np.ndarray, np.ndarray]:
    """float64 (V_src, F), (V_tgt, F): expected number of occurrences of each word with 0, 1, ... links.

    Args:
        bitext: M pairs.
        links: their expected links.
        threads: how many to use; no result depends on it.
        exchange: with the processes that have the rest of the text.
    """
    text, (V_src, V_tgt) = text_arrays(bitext), (len(bitext.source.vocabulary), len(bitext.target.vocabulary))
    shape = V_src + V_tgt, FERTILITIES

    def add(low: int, high: int, sums: np.ndarray) -> None:
        for part in clipped(element_blocks(links), low, high):
            hmm_m_step.count_fertilities(*part, text, links.offsets, links.elements, sums[:V_src], sums[V_src:])
            release_matrices(links)

    def count(low: int, high: int) -> np.ndarray:
        sums = np.zeros(shape)
        add(low, high, sums)
        return sums

    def add_all(total: np.ndarray) -> None:
        # Blocks are added in their order, and there are no more of them at a time than threads.
        for first in range(0, len(own), threads):
            for part in run_blocks(count, own[first : first + threads], threads):
                total += part
            del part  # before the next ones are there

    ranges = exchange.text_blocks(np.diff(links.offsets), FERTILITY_BLOCKS)
    own = [part for part in ranges if part[0] < part[1]]
    if exchange.is_shared:
        total = _in_turn(ranges, add, shape, exchange)
    else:
        total = np.zeros(shape)
        add_all(total)
    return total[:V_src], total[V_src:]


def _in_turn(
    ranges: list[tuple[int, int]],
    add: Callable[[int, int, np.ndarray], None],
    shape: tuple[int, int],
    exchange: Exchange,
) -> np.ndarray:
    """The sum of all blocks, of which some are this process's, and some lie in the texts of several.

    Args:
        ranges: what of each block lies in the text of this process.
        add: called as ``add(low, high, sums)``.
    """
    is_here = np.array([low < high for low, high in ranges], bool)
    holders = exchange.summed(is_here.astype(np.int64))
    found: dict[int, np.ndarray] = {}
    for n in np.flatnonzero(is_here & (holders == 1)).tolist():
        found[n] = np.zeros(shape)
        add(*ranges[n], found[n])
    for n in np.flatnonzero(holders > 1).tolist():
        sums = exchange.in_turn(np.zeros(shape), partial(add, *ranges[n]))
        if exchange.largest(exchange.rank if is_here[n] else -1) == exchange.rank:
            found[n] = sums

    def add_found(total: np.ndarray) -> None:
        for n in sorted(found):
            total += found[n]

    return exchange.in_turn(np.zeros(shape), add_found)
