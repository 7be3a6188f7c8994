"""The tests that train no network: order, other attention in place of the learned one, erasure.

The order of words by attention against that by gradient and leave-one-out (Jain and Wallace 2019); uniform,
permuted, adversarial attention and that of another seed (Wiegreffe and Pinter 2019); erasure word by word until
the decision flips (Serrano and Smith 2019). All is exact, because p is known for any attention.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alignkit.lab.explain.decisions import (
    LARGEST_DIVERGENCE,
    adversarial_attention,
    erased_until_flip,
    jensen_shannon,
    permutation_change,
    sums_to_one,
    uniform_change,
)
from alignkit.lab.explain.subject import Row, Subject, decisions, mean_row
from alignkit.metrics.agreement import agreement
from alignkit.metrics.kendall import kendall
from alignkit.scores import Scores


def order_rows(subject: Subject) -> list[Row]:
    """Kendall's tau-b and top-5 % agreement of attention with gradient and leave-one-out, and of these two."""
    alpha, seed = (subject.scores("alpha"), "attention"), subject.settings.seed
    gradient = _size(subject.scores("delta")), "gradient"
    loo = _size(subject.scores("loo")), "leave-one-out"
    return [
        *_pair("gradient", alpha, gradient, seed),
        *_pair("leave-one-out", alpha, loo, seed),
        *_pair("gradient and leave-one-out", gradient, loo, seed),
    ]


def _pair(name: str, one: tuple[Scores, str], other: tuple[Scores, str], seed: int) -> list[Row]:
    """The rows of one pair of scores; each comes with what it is called."""
    (u, by), (v, reference) = one, other
    tau = kendall(u, v, seed=seed)
    meaning = f"Kendall's tau-b of the words' order by {by} and by the size of the {reference}"
    found = {"value": tau.tau, "low": tau.low, "high": tau.high, "n": tau.rows, "meaning": meaning}
    top = agreement(u, v, seed=seed)
    meaning = f"the first word by {by} is among the top 5 % by {reference}; by chance {top.chance:.3f}"
    best = {"value": top.agreement, "low": top.low, "high": top.high, "n": top.rows, "meaning": meaning}
    return [{"test": f"tau, {name}", **found}, {"test": f"top 5 %, {name}", **best}]


def _size(scores: Scores) -> Scores:
    return Scores(np.abs(scores.values), scores.offsets, scores.shapes)


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
