"""Slow, obvious references for the hidden Markov aligner, in plain Python."""

from __future__ import annotations

import itertools
import math


def paths(T, L):
    """All state sequences; a state is (position, whether the word is NULL's)."""
    return itertools.product(itertools.product(range(L), (False, True)), repeat=T)


def path_probability(path, emission, null, jump, start, p0):
    """The probability of one path: NULL leaves the chain where it is."""
    L = len(emission[0])
    total = sum(start(j) for j in range(L))
    probability, before = 1.0, None
    for t, (j, is_null) in enumerate(path):
        if before is None:
            probability *= start(j) / total
        elif is_null:
            probability *= float(j == before)
        else:
            probability *= jump(j - before) / sum(jump(k - before) for k in range(L))
        probability *= p0 * null[t] if is_null else (1 - p0) * emission[t][j]
        before = j
    return probability


def posteriors(emission, null, jump, start, p0):
    """(log-likelihood, (T, L) posteriors, NULL's (T,), {jump: expected number}) by enumeration of all paths."""
    T, L = len(emission), len(emission[0])
    links, nulls, jumps, total = [[0.0] * L for _ in range(T)], [0.0] * T, {}, 0.0
    for path in paths(T, L):
        probability = path_probability(path, emission, null, jump, start, p0)
        total += probability
        for t, (j, is_null) in enumerate(path):
            if is_null:
                nulls[t] += probability
                continue
            links[t][j] += probability
            if t > 0:
                d = j - path[t - 1][0]
                jumps[d] = jumps.get(d, 0.0) + probability
    return (
        math.log(total),
        [[value / total for value in row] for row in links],
        [value / total for value in nulls],
        {d: value / total for d, value in jumps.items()},
    )


def fertility_chances(probabilities, last):
    """The distribution of the number of links, ``last`` and more in one, by enumeration."""
    chances = [0.0] * (last + 1)
    for choice in itertools.product((0, 1), repeat=len(probabilities)):
        chance = math.prod(p if taken else 1 - p for p, taken in zip(probabilities, choice, strict=True))
        chances[min(sum(choice), last)] += chance
    return chances


def back_off(counts, source_class, target_class, source_frequency, target_frequency, weight):
    """{(i, o): what other pairs of their classes add to the pseudo-count of o in the row of i}."""

    def total(a, b, exclude):
        return sum(
            n
            for (i, o), n in counts.items()
            if source_class[i] == a and (b is None or target_class[o] == b) and not exclude(i, o)
        )

    found = {}
    for i, o in counts:
        a, b = source_class[i], target_class[o]
        others = total(a, b, lambda k, n, i=i, o=o: (k, n) == (i, o))
        row = total(a, None, lambda k, _, i=i: k == i)
        of_class = sum(n for word, n in target_frequency.items() if target_class[word] == b)
        found[i, o] = weight * others / (row + 1) * target_frequency[o] / of_class
    return found
