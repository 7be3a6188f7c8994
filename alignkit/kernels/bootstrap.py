"""Sums over sentence pairs drawn with replacement."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel


@kernel
def resample_sums(statistics, seed, sums):
    """Bootstrap: sums[b] = the columns' sums over M sentence pairs drawn with replacement.

    The draws come from splitmix64 started at ``seed``, so they do not depend on a library's version.

    Args:
        statistics: float64 (M, K), a row per sentence pair.
        seed: of the draws.
        sums: float64 (B, K), filled.
    """
    state = np.uint64(seed)
    pairs, columns = statistics.shape
    count = np.uint64(pairs)
    for b in range(len(sums)):
        for k in range(columns):
            sums[b, k] = 0.0
        for _ in range(pairs):
            state += np.uint64(0x9E3779B97F4A7C15)
            z = state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            m = np.int64(z % count)  # the bias of % is below M / 2^64
            for k in range(columns):
                sums[b, k] += statistics[m, k]
