"""Probabilities of links from the log-odds of both directions' posteriors (:mod:`alignkit.kernels.link_odds`)."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.link_odds import HARDLY, judge_matrices
from alignkit.parallel import blocks_of_size, run_blocks, thread_count
from alignkit.scores import Scores
from alignkit.text.on_disk import RELEASED, release

#: How much more the mean of the log-odds of several views of a text is trusted than those of one model.
VIEWS_CERTAINTY = 1.3


def chances(log_odds: np.ndarray) -> np.ndarray:
    """float32: the probabilities of log-odds by themselves; 0 where neither direction sees a link."""
    return np.where(log_odds <= HARDLY, np.float32(0), 1 / (1 + np.exp(-log_odds))).astype(np.float32)


def into_probabilities(log_odds: Scores, threads: int | None = None, certainty: float = 1.0) -> Scores:
    """The probability of every link, (T, L) for each pair, from its log-odds and those of the links beside it.

    Args:
        log_odds: (T, L) for each pair, of one model or the mean of several views'; overwritten by the result.
        threads: all there are by default; no result depends on it.
        certainty: c of the formula: 1 for one model, :data:`VIEWS_CERTAINTY` for several views.
    """
    count, values = thread_count(threads), log_odds.values

    def judge(low: int, high: int) -> None:
        judge_matrices(low, high, log_odds.shapes, log_odds.offsets, values, np.float32(certainty))
        release(values)

    run_blocks(judge, blocks_of_size(log_odds.offsets, RELEASED, least=count), count)
    return log_odds
