"""Other attention put in place of the learned one, at test time: uniform, permuted, adversarial, of another seed.

Jain and Wallace (2019), Wiegreffe and Pinter (2019). All is exact, because p is known for any attention.
"""

from __future__ import annotations

import numpy as np

from alignkit.analysis.explanation.decisions import (
    LARGEST_DISTANCE,
    adversarial_attention,
    attention_distance,
    permutation_change,
    sums_to_one,
    uniform_change,
)
from alignkit.analysis.explanation.rows import Row, mean_row
from alignkit.analysis.explanation.subject import Subject, decisions


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
    found = [adversarial_attention(subject.decisions[m], epsilon)[0] / LARGEST_DISTANCE for m in usable]
    meaning = f"largest JSD, of log 2, of an attention that changes p by at most {epsilon:g}"
    return [mean_row("adversary, JSD", found, meaning)]


def seeds_rows(subject: Subject) -> list[Row]:
    """The distance of attention and outputs of other seeds, the yardstick of adversaries; none without others.

    Of texts in which all attention, that of the others too, sums to 1. With several others, the mean over them is
    taken within each text.
    """
    own, every = subject.decisions, [decisions(other, subject.text) for other in subject.others]
    usable = [m for m in subject.distributions if all(sums_to_one(others[m].alpha) for others in every)]
    if not usable or not every:
        return []
    apart, outputs, same = [], [], []
    for others in every:
        apart.append([attention_distance(own[m].alpha, others[m].alpha) / LARGEST_DISTANCE for m in usable])
        p = np.array([float(others[m].probability(others[m].alpha)) for m in usable])
        outputs.append(np.abs(subject.probabilities[usable] - p))
        same.append((subject.probabilities[usable] > 0.5) == (p > 0.5))
    who = "another seed" if len(apart) == 1 else f"other seeds ({len(apart)})"
    return [
        mean_row("seeds, JSD", np.mean(apart, 0), f"JSD, of log 2, of the attention of {who}"),
        mean_row("seeds, change", np.mean(outputs, 0), f"change of p with {who}"),
        mean_row("seeds, same decision", np.mean(same, 0), f"share of decisions that are the same with {who}"),
    ]
