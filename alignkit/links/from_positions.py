"""Links from positions: at most one source word for every target word."""

from __future__ import annotations

import numpy as np

from alignkit.kernels import sentence_pairs
from alignkit.links.links import Links
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.text.bitext import Bitext


def links_from_positions(positions: np.ndarray, bitext: Bitext, threads: int | None = None) -> Links:
    """Link each target token to the source token at a given position.

    Args:
        positions: int32 (N_tgt,), for each target token the position of its source token within the sentence, or
            -1 for none.
        bitext: M pairs.
        threads: number of threads, all cores by default; the result does not depend on it.
    """
    threads = thread_count(threads)
    source, target = bitext.source.offsets, bitext.target.offsets
    linked = np.zeros(len(positions) + 1, np.int32 if len(positions) < 2**31 else np.int64)
    np.cumsum(positions >= 0, out=linked[1:])
    offsets = linked[target].astype(np.int64)
    del linked
    pairs = np.empty((offsets[-1], 2), np.int32)
    longest = int(bitext.source.lengths.max(initial=0))

    def fill(low: int, high: int) -> None:
        counts = np.zeros(longest + 1, np.int64)
        sentence_pairs.fill_links_from_positions(low, high, positions, (source, target), offsets, pairs, counts)

    run_blocks(fill, blocks(np.diff(target), threads), threads)
    return Links(pairs, offsets)
