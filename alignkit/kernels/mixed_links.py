"""The links of one sentence pair from the posteriors of both directions, which a hidden Markov E-step leaves.

T and L are the numbers of target and of source tokens; ``shares`` is :class:`.hmm_e_step.Shares`. The rows of each
direction's matrices are padded (:func:`.hmm_rows.padded`); those of the reverse direction are turned.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.hmm_rows import ONE, ZERO, padded, scale_row, sum_changes
from alignkit.kernels.link_odds import pool_links
from alignkit.kernels.machine import part
from alignkit.kernels.packed_links import pack_links


@kernel
def mix_row(t, L, row, reverse_e, high, shares):
    """row float32 (L,), the forward posteriors of target token t = the weighted sum of both directions'."""
    forward, reverse = np.float32(shares.forward), np.float32(shares.reverse)
    place = np.uint64(t)
    for j in range(L):
        value = ZERO
        if forward > 0:
            value += forward * row[j]
        if reverse > 0:
            value += reverse * reverse_e[place]
        row[j] = value
        place += np.uint64(high)


@kernel
def mix_links(T, L, matrices, shares, elements):
    """Sets the links of one sentence pair to the weighted sum of both directions' posteriors; returns the sum of
    the absolute changes.

    Args:
        matrices: :class:`.hmm_emissions.PairMatrices`, with the links as they were; the forward direction's
            posteriors are overwritten.
        elements: uint32 (T * L,).
    """
    wide, high = padded(L), padded(T)
    links, e, reverse_e = matrices.links, matrices.forward, matrices.reverse
    bits = e.view(np.uint32)
    change = 0.0
    for t in range(T):
        mix_row(t, L, part(e, t * wide, (t + 1) * wide), reverse_e, high, shares)
    for t in range(T):  # by itself, as a vector is not read at once where single numbers have been written
        row = part(e, t * wide, (t + 1) * wide)
        change += sum_changes(row, part(links, t * wide, (t + 1) * wide))
        scale_row(row, ONE, part(e, t * L, t * L + wide))  # without padding: most rows are short
    pack_links(bits[: T * L], elements)
    return change


@kernel
def finish_links(T, L, forward_e, reverse_e, shares, links):
    """links float32 (T * L,) of one sentence pair = the mean of both directions' posteriors, or of their log-odds.

    Args:
        forward_e, reverse_e: their posteriors, in padded rows, the reverse one's turned; overwritten.
    """
    if shares.as_log_odds:
        pool_links(T, L, forward_e, reverse_e, shares, links)
        return
    wide, high = padded(L), padded(T)
    for t in range(T):
        row, found = forward_e[t * wide : t * wide + L], links[t * L : (t + 1) * L]
        mix_row(t, L, row, reverse_e, high, shares)
        for j in range(L):
            found[j] = row[j]
