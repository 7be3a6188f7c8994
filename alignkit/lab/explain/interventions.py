"""The tests that train no network: order, other attention in place of the learned one, erasure.

The order of words by attention against that by gradient and leave-one-out (Jain and Wallace 2019); uniform,
permuted, adversarial attention and that of another seed (Wiegreffe and Pinter 2019); erasure word by word until
the decision flips (Serrano and Smith 2019). All is exact, because p is known for any attention.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy.special import expit, logit

from alignkit.lab.explain.subject import (
    LARGEST_DIVERGENCE,
    Decision,
    Row,
    Subject,
    decisions,
    entropy_terms,
    jensen_shannon,
    mean_row,
    sums_to_one,
)
from alignkit.metrics.agreement import agreement
from alignkit.metrics.kendall import kendall
from alignkit.scores import Scores


def order_rows(subject: Subject) -> list[Row]:
    """Kendall's tau-b and top-5 % agreement of attention with gradient and leave-one-out, and of these two."""
    by_size = {"attention": subject.scores("alpha")}
    for name, kind in (("gradient", "delta"), ("leave-one-out", "loo")):
        scores = subject.scores(kind)
        by_size[name] = Scores(np.abs(scores.values), scores.offsets, scores.shapes)
    rows, seed = [], subject.settings.seed
    for by, reference in combinations(by_size, 2):
        name = reference if by == "attention" else f"{by} and {reference}"
        u, v = by_size[by], by_size[reference]
        tau, top = kendall(u, v, seed=seed), agreement(u, v, seed=seed)
        meaning = f"Kendall's tau-b of the words' order by {by} and by the size of the {reference}"
        found = {"value": tau.tau, "low": tau.low, "high": tau.high, "n": tau.rows, "meaning": meaning}
        rows.append({"test": f"tau, {name}", **found})
        meaning = f"the first word by {by} is among the top 5 % by {reference}; by chance {top.chance:.3f}"
        found = {"value": top.agreement, "low": top.low, "high": top.high, "n": top.rows, "meaning": meaning}
        rows.append({"test": f"top 5 %, {name}", **found})
    return rows


def uniform_rows(subject: Subject) -> list[Row]:
    """The change of p by uniform and by permuted attention."""
    rng = np.random.default_rng(subject.settings.seed)
    changes = [uniform_change(one) for one in subject.decisions]
    mixed = [permutation_change(one, rng, subject.settings.permutations) for one in subject.decisions]
    return [
        mean_row("uniform, change", [change for change, _ in changes], "change of p with attention of 1/L"),
        mean_row("uniform, flips", [flips for _, flips in changes], "share of decisions that then change"),
        mean_row("permuted, change", mixed, "median change of p over random permutations of the attention"),
    ]


def adversary_rows(subject: Subject) -> list[Row]:
    """The attention furthest from the learned one that changes p by at most epsilon; only if rows sum to 1."""
    usable, epsilon = subject.distributions, subject.settings.epsilon
    if not usable:
        return []
    found = [adversarial_attention(subject.decisions[m], epsilon)[0] / LARGEST_DIVERGENCE for m in usable]
    meaning = f"largest JSD, of log 2, of an attention that changes p by at most {epsilon:g}"
    return [mean_row("adversary, JSD", found, meaning)]


def seeds_rows(subject: Subject) -> list[Row]:
    """The distance of attention and outputs of other seeds, the yardstick of adversaries; none without others.

    Of texts in which all attention, that of the others too, sums to 1. With several others, the mean over them is
    taken within each text.
    """
    own, every = subject.decisions, [decisions(other.network, subject.text) for other in subject.others]
    usable = [m for m in subject.distributions if all(sums_to_one(others[m].alpha) for others in every)]
    if not usable or not every:
        return []
    apart, outputs, same = [], [], []
    for others in every:
        apart.append([jensen_shannon(own[m].alpha, others[m].alpha) / LARGEST_DIVERGENCE for m in usable])
        p = np.array([float(others[m].probability(others[m].alpha)) for m in usable])
        outputs.append(np.abs(subject.probabilities[usable] - p))
        same.append((subject.probabilities[usable] > 0.5) == (p > 0.5))
    who = "another seed" if len(apart) == 1 else f"other seeds ({len(apart)})"
    return [
        mean_row("seeds, JSD", np.mean(apart, 0), f"JSD, of log 2, of the attention of {who}"),
        mean_row("seeds, change", np.mean(outputs, 0), f"change of p with {who}"),
        mean_row("seeds, same decision", np.mean(same, 0), f"share of decisions that are the same with {who}"),
    ]


def erasure_rows(subject: Subject) -> list[Row]:
    """The share of words erased by attention, gradient, their product and at random until the decision flips."""
    rng = np.random.default_rng([subject.settings.seed, 1])
    decided, gradient = subject.decisions, subject.scores("delta")
    orders: dict[str, Callable[[int], np.ndarray]] = {
        "attention": lambda m: np.argsort(-decided[m].alpha, kind="stable"),
        "gradient": lambda m: np.argsort(-np.abs(gradient[m][0]), kind="stable"),
        "attention x gradient": lambda m: np.argsort(-decided[m].alpha * np.abs(gradient[m][0]), kind="stable"),
        "random": lambda m: rng.permutation(len(decided[m].alpha)),
    }
    shares = {
        name: [erased_until_flip(one, of(m)) for m, one in enumerate(decided)] for name, of in orders.items()
    }
    never = np.isnan(np.array(list(shares.values()))).any(axis=0)
    rows = []
    for name, found in shares.items():
        meaning = f"share of words erased by {name} until the decision flips, where all orders flip it"
        rows.append(mean_row(f"erased, {name}", np.where(never, np.nan, found), meaning))
        rows.append(mean_row(f"flips, {name}", ~np.isnan(found), "share of decisions that flip at all"))
    return rows


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
    bounds = logit(np.clip([p - epsilon, p + epsilon], 0, 1)) - decision.bias
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
