"""Links from the posteriors of both directions: their log-odds, and what links beside them say.

The posteriors f and r of a link are put together as a logarithmic opinion pool (Genest and Zidek 1986, section
3.3): the mean of their log-odds, weighted by what each direction explains. A matrix of such log-odds l becomes one
of probabilities by

    logit q = INTERCEPT + SLOPE l + SAME_WORD s - SAME_STEP d

where s is what the likelier neighbour in the same row and the likelier one in the same column have (a word that
translates several mostly translates neighbours, of which the direction that must choose finds one only), d is what
the elements (t - 1, j - 1) and (t + 1, j + 1) have (both directions have counted these already, as jumps of 1), and
a neighbour has the probability of its l. The weights were fitted to gold links of three pairs of languages,
each judged with those of the others.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.hmm_rows import ONE, ZERO, padded

#: Posteriors are taken to lie in [LEAST, 1 - LEAST].
LEAST = np.float32(0.003)
#: The log-odds of LEAST: neither direction sees a link.
NO_LINK = np.float32(math.log(0.003 / 0.997))
INTERCEPT = np.float32(0.4)
SLOPE = np.float32(0.7)
SAME_WORD = np.float32(1.5)
SAME_STEP = np.float32(0.7)
#: Below these log-odds the slope is larger by 1, so that q is small where there is hardly a link.
UNLIKELY = np.float32(-3)


@kernel
def log_odds(probability):
    """log(p / (1 - p)) of a probability, moved into [LEAST, 1 - LEAST]."""
    if probability <= LEAST:
        return NO_LINK
    if probability >= ONE - LEAST:
        return -NO_LINK
    return np.float32(math.log(probability / (ONE - probability)))


@kernel
def probability_of(odds):
    """1 / (1 + exp(-l)) of log-odds; 0 if neither direction sees a link."""
    if odds <= NO_LINK:
        return ZERO
    return np.float32(ONE / (ONE + math.exp(-odds)))


@kernel
def pool_links(T, L, forward_e, reverse_e, shares, links):
    """links = the weighted mean of the log-odds of both directions' posteriors of one sentence pair.

    Args:
        forward_e, reverse_e: their posteriors, in padded rows, the reverse one's turned.
        shares: :class:`.hmm_e_step.Shares`, which sum to 1.
        links: float32 (T * L,), overwritten.
    """
    forward_share, reverse_share = np.float32(shares.forward), np.float32(shares.reverse)
    wide, high = padded(L), padded(T)
    for t in range(T):
        row, found = forward_e[t * wide : (t + 1) * wide], links[t * L : (t + 1) * L]
        for j in range(L):
            forward, reverse = row[j], reverse_e[j * high + t]
            if forward <= LEAST and reverse <= LEAST:
                found[j] = NO_LINK
            else:
                found[j] = forward_share * log_odds(forward) + reverse_share * log_odds(reverse)


@kernel
def judge_matrix(T, L, links, near):
    """Log-odds (T, L) of one sentence pair become probabilities, by the formula above.

    Args:
        links: float32 (T * L,), overwritten.
        near: float32 ((T + 2) * (L + 2),), work space.
    """
    wide = L + 2
    for place in range(wide):
        near[place] = ZERO
        near[(T + 1) * wide + place] = ZERO
    for t in range(T):
        here = (t + 1) * wide
        near[here] = ZERO
        near[here + L + 1] = ZERO
        for j in range(L):
            near[here + j + 1] = probability_of(links[t * L + j])
    for t in range(T):
        above, here, below = t * wide, (t + 1) * wide, (t + 2) * wide
        for j in range(L):
            odds = links[t * L + j]
            same_word = max(near[here + j], near[here + j + 2]) + max(near[above + j + 1], near[below + j + 1])
            same_step = near[above + j] + near[below + j + 2]
            logit = INTERCEPT + SLOPE * odds + SAME_WORD * same_word - SAME_STEP * same_step
            logit += min(odds - UNLIKELY, ZERO)
            links[t * L + j] = np.float32(ONE / (ONE + math.exp(-logit)))


@allocating_kernel
def judge_matrices(low, high, shapes, offsets, links):
    """The log-odds of pairs low <= m < high become probabilities.

    Args:
        shapes: int (M, 2), T and L of each; offsets: int64 (M + 1,), where each matrix starts in ``links``.
        links: float32, overwritten.
    """
    most = 1
    for m in range(low, high):
        most = max(most, (shapes[m, 0] + 2) * (shapes[m, 1] + 2))
    near = np.empty(most, np.float32)
    for m in range(low, high):
        judge_matrix(shapes[m, 0], shapes[m, 1], links[offsets[m] : offsets[m + 1]], near)
