"""Tests of attention as an explanation of one decision, on a classifier's last step.

The classifier's logit of a text is z = sum over l of alpha_l r_l + b, where r_l = W · h_l is what its encoder
state h_l would give by itself. With alpha and r known, all tests here are exact and run without the network.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

LARGEST_DIVERGENCE = float(np.log(2))  #: of :func:`jensen_shannon`, nats


class Decision(NamedTuple):
    """What the decision about a text rests on.

    Attributes:
        alpha: float64 (L,), the attention.
        strength: float64 (L,), r_l = W · h_l.
        bias: b.
    """

    alpha: np.ndarray
    strength: np.ndarray
    bias: float

    @property
    def logit(self) -> float:
        """z, log p(y = 1) - log p(y = 0)."""
        return float(self.alpha @ self.strength + self.bias)

    def probability(self, alpha: np.ndarray) -> np.ndarray:
        """p(y = 1) if the attention were alpha, (..., L) -> (...)."""
        return np.asarray(expit(alpha @ self.strength + self.bias))


def jensen_shannon(one: np.ndarray, other: np.ndarray) -> float:
    """The Jensen-Shannon divergence of two distributions (L,), nats; 0 if equal, log 2 if disjoint.

    Both sum to 1: otherwise the value means nothing.

    >>> round(jensen_shannon(np.array([0.5, 0.5]), np.array([1.0, 0.0])), 3)
    0.216
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(
        entropy_terms((one + other) / 2).sum() - (entropy_terms(one).sum() + entropy_terms(other).sum()) / 2
    )


def entropy_terms(p: np.ndarray) -> np.ndarray:
    """-p log p of every element, nats; 0 at 0."""
    return -p * np.log(np.where(p > 0, p, 1.0))


def uniform_change(decision: Decision) -> tuple[float, bool]:
    """What attention of 1/L in place of alpha does (Wiegreffe and Pinter 2019, at test time).

    Returns:
        the total variation distance |p - p'| of the outputs, and whether the decision changes.
    """
    even = np.full(len(decision.alpha), 1 / len(decision.alpha))
    after = float(decision.probability(even))
    before = float(expit(decision.logit))
    return abs(after - before), (after > 0.5) != (before > 0.5)


def permutation_change(decision: Decision, rng: np.random.Generator, permutations: int = 100) -> float:
    """The median of |p - p'| over random permutations of the attention (Jain and Wallace 2019)."""
    orders = rng.permuted(np.tile(decision.alpha, (permutations, 1)), axis=1)
    return float(np.median(np.abs(decision.probability(orders) - expit(decision.logit))))


def erased_until_flip(decision: Decision, order: np.ndarray) -> float:
    """The share of words whose attention is set to 0, in this order, until the decision flips.

    As Serrano and Smith (2019) erase attention: the rest of the attention is divided by its sum.

    Args:
        decision: of a text of L words.
        order: int (L,), the words, those that are erased first before the others.

    Returns:
        a share between 1/L and 1 - 1/L; NaN if the decision never flips while any attention is left.
    """
    alpha, strength = decision.alpha[order], decision.strength[order]
    left = np.cumsum(alpha[::-1])[::-1][1:]  # of the attention after 1, 2, ... words are erased
    sums = np.cumsum((alpha * strength)[::-1])[::-1][1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        logits = sums / left + decision.bias
    flipped = (left > 0) & ((logits > 0) != (decision.logit > 0))
    return float((np.argmax(flipped) + 1) / len(order)) if flipped.any() else float("nan")


def sums_to_one(attention: np.ndarray) -> bool:
    """Whether the attention of each row of (..., L) is a distribution; that of sigmoids, for one, is not."""
    return bool((np.abs(attention.sum(-1) - 1) < 1e-4).all())


def adversarial_attention(decision: Decision, epsilon: float = 0.01) -> tuple[float, np.ndarray]:
    """The attention furthest from alpha that changes the output by at most epsilon, exactly.

    Jain and Wallace (2019) search for it by gradients. The divergence is convex in the other attention, so that
    it is largest at a corner of those allowed: the distributions with lower <= sum alpha'_l r_l <= upper. A
    corner has weight on at most two words: one whose own strength lies within the bounds, or two between which a
    bound lies. All of them are tried.

    Args:
        decision: whose alpha sums to 1.
        epsilon: the largest |p - p'|.

    Returns:
        the Jensen-Shannon divergence, nats, and the attention (L,).
    """
    alpha, r = decision.alpha, decision.strength
    p = float(expit(decision.logit))
    bounds = [_logit(p - epsilon) - decision.bias, _logit(p + epsilon) - decision.bias]
    halves = entropy_terms(alpha / 2)
    constant = halves.sum() - entropy_terms(alpha).sum() / 2
    inside = (r >= bounds[0]) & (r <= bounds[1])
    alone = np.where(inside, constant - halves + entropy_terms((alpha + 1) / 2), -np.inf)
    best = int(np.argmax(alone))
    found, value = np.eye(len(r))[best], float(alone[best])
    for bound in bounds:
        low, high = np.flatnonzero(r < bound), np.flatnonzero(r > bound)
        if not np.isfinite(bound) or not len(low) or not len(high):
            continue
        i, j = low[:, None], high[None, :]
        share = (r[j] - bound) / (r[j] - r[i])  # of i
        mixed = entropy_terms((alpha[i] + share) / 2) + entropy_terms((alpha[j] + 1 - share) / 2)
        own = (entropy_terms(share) + entropy_terms(1 - share)) / 2
        values = constant - halves[i] - halves[j] + mixed - own
        place = np.unravel_index(int(np.argmax(values)), values.shape)
        if values[place] > value:
            value = float(values[place])
            found = np.zeros(len(r))
            found[low[place[0]]], found[high[place[1]]] = share[place], 1 - share[place]
    return max(value, 0.0), found


def _logit(p: float) -> float:
    if p <= 0:
        return -np.inf
    return np.inf if p >= 1 else float(np.log(p) - np.log1p(-p))
