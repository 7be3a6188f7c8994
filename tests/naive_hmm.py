"""Slow, obvious references for the hidden Markov aligners, in plain Python and NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np


def paths(T, L):
    """All state sequences; a state is (position, whether the word is NULL's)."""
    return itertools.product(itertools.product(range(L), (False, True)), repeat=T)


def path_probability(path, emission, null, jump, start, p0):
    """The probability of one path: NULL leaves the position as it was."""
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


def posteriors(emission, null, jump, start, p0, end=lambda d: 1.0):
    """What the two passes find, by enumeration of all paths.

    Returns:
        (log-likelihood; posteriors (T, L); NULL's (T,); {jump: expected number}; {jump: the expected number of
        jumps from where it was possible, divided by the weights there}; probabilities of first positions (L,), and
        of last ones, counted from the end (L,)). The weights of last positions are not in the likelihood.
    """
    T, L = len(emission), len(emission[0])
    links, nulls, total, likelihood = np.zeros((T, L)), np.zeros(T), 0.0, 0.0
    jumps, shares = ({d: 0.0 for d in range(1 - L, L)} for _ in range(2))
    first, last = np.zeros(L), np.zeros(L)
    for path in paths(T, L):
        probability = path_probability(path, emission, null, jump, start, p0)
        likelihood += probability
        probability *= end(L - 1 - path[-1][0])
        total += probability
        first[path[0][0]] += probability
        last[L - 1 - path[-1][0]] += probability
        for t, (j, is_null) in enumerate(path):
            if is_null:
                nulls[t] += probability
                continue
            links[t, j] += probability
            if t > 0:
                before = path[t - 1][0]
                jumps[j - before] += probability
                possible = range(-before, L - before)
                for d in possible:
                    shares[d] += probability / sum(map(jump, possible))
    scaled = ({d: value / total for d, value in table.items()} for table in (jumps, shares))
    return math.log(likelihood), links / total, nulls / total, *scaled, first / total, last / total


def posteriors_by_matrices(emission, null, transition, initial, p0):
    """The first four of :func:`posteriors`, by products of matrices, for longer sentences.

    Args:
        transition: weights of jumps -W..W; initial: of first positions 0..W; the ends stand for all beyond.
    """
    T, L = emission.shape
    width, places = len(initial) - 1, np.arange(L)
    weight = transition[np.clip(places - places[:, None], -width, width) + width].astype(float)
    first = initial[np.minimum(places, width)].astype(float)
    move, first = weight / weight.sum(axis=1, keepdims=True), first / first.sum()
    # States: x_j, then NULL at x_j.
    step = np.block([[(1 - p0) * move, p0 * np.eye(L)]] * 2)
    emitted = np.concatenate([emission, np.repeat(null[:, None], L, axis=1)], axis=1).astype(float)
    ahead, scales = [np.concatenate([(1 - p0) * first, p0 * first]) * emitted[0]], []
    for t in range(T):
        if t:
            ahead.append(ahead[-1] @ step * emitted[t])
        scales.append(ahead[t].sum())
        ahead[t] /= scales[t]
    behind, moved = np.ones(2 * L), dict.fromkeys(range(1 - L, L), 0.0)
    posterior = np.empty((T, 2 * L))
    for t in range(T - 1, -1, -1):
        posterior[t] = ahead[t] * behind
        if t:
            coming = emitted[t] * behind / scales[t]
            pairs = ahead[t - 1][:, None] * step[:, :L] * coming[:L]
            for d in moved:
                moved[d] += np.trace(pairs[:L] + pairs[L:], d)
            behind = step @ coming
    return np.log(scales).sum(), posterior[:, :L], posterior[:, L:].sum(axis=1), moved


def lexical_em(pairs, iterations, p0, types, prior=0.0, exclude=0.0, least=0.0):
    """IBM Model 1 with a fixed NULL probability: ({(i, o): probability}, {o: NULL's}, log-likelihoods).

    Args:
        types: size of the target vocabulary.
        prior: pseudo-count of each pair that meets, and of each word of NULL's.
        exclude: the share of a link's own expectation, and of its copies', that is taken out of what judges it.
        least: the expectation is taken to be this or more in the last iteration.
    """
    pairs = [(tuple(x), tuple(y)) for x, y in pairs if x and y]
    counts, totals, null_counts, likelihoods, links = {}, {}, {}, [], {}
    null_total = float(types)
    for iteration in range(iterations):
        new, new_null, likelihood = {}, {}, 0.0
        for m, (x, y) in enumerate(pairs):
            copies = exclude * pairs.count((x, y)) if iteration else 0
            for t, o in enumerate(y):
                weights = []
                for j, i in enumerate(x):
                    own = copies * max(links.get((m, t, j), 0.0), least if iteration == iterations - 1 else 0)
                    own = min(own, counts[i, o]) if iteration else 0
                    value = (counts[i, o] - own + prior) / (totals[i] - own) if iteration else 1 / types
                    weights.append((1 - p0) / len(x) * value)
                own = copies * links.get((m, t, None), 0.0)
                weight = p0 * ((null_counts[o] - own) if iteration else 1.0) / null_total
                z = sum(weights) + weight
                likelihood += math.log(z)
                new_null[o] = new_null.get(o, prior) + weight / z
                links[m, t, None] = weight / z
                for j, i in enumerate(x):
                    links[m, t, j] = weights[j] / z
                    new[i, o] = new.get((i, o), 0.0) + weights[j] / z
        counts, null_counts, null_total = new, new_null, 0.0
        null_total = sum(null_counts.values()) + prior * (types - len(null_counts))
        totals = {}
        for (i, _), n in counts.items():
            totals[i] = totals.get(i, 0.0) + n + prior
        likelihoods.append(likelihood)
    trans = {(i, o): (n + prior) / totals[i] for (i, o), n in counts.items()}
    return trans, {o: n / null_total for o, n in null_counts.items()}, likelihoods


def links_with_fertility(emission, null, factors, p0, rounds):
    """(T, L) posteriors where all positions are equally likely, with factors for one more link of a word.

    Args:
        factors: (L, F), of the state with 0, 1, ... other links, interpolated between whole numbers.
        rounds: how often links are found with the factors, after a first time without.
    """
    T, L = emission.shape
    links = np.zeros((T, L))
    for i in range(rounds + 1):
        e = emission.astype(float)
        if i:
            others, numbers = links.sum(axis=0) - links, range(factors.shape[1])
            e *= np.array([np.interp(others[:, j], numbers, factors[j]) for j in range(L)]).T
        weights = (1 - p0) / L * e
        links = weights / (weights.sum(axis=1) + p0 * null)[:, None]
    return links


def fertility_chances(probabilities, last):
    """The distribution of the number of links, ``last`` and more in one: one link after the other."""
    chances = np.zeros(len(probabilities) + 1)
    chances[0] = 1.0
    for p in probabilities:
        chances[1:] = chances[1:] * (1 - p) + chances[:-1] * p
        chances[0] *= 1 - p
    chances = np.pad(chances, (0, last + 1))
    return np.append(chances[:last], chances[last:].sum())


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
        found[i, o] = weight * others / (row + 8) * target_frequency[o] / of_class
    return found


# Twins of the functions in alignkit/kernels/hmm_rows.py, in float32, with the same order of additions.


def sum_row(row):
    sums = np.zeros(8, np.float32)
    for part in row.reshape(-1, 8):
        sums += part
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return sums[0]


def list_above(L, bound, values, dense):
    return [j for j in range(L) if dense >= L or values[j] > bound]


def spread(values, places, weights, size):
    out, middle = np.zeros(size, np.float32), len(weights) // 2
    for j in places:
        out += values[j] * weights[middle - j : middle - j + size]
    return out


def add_moves(stride, values, places, ahead, moves):
    for j in places:
        moves = moves + values[j] * ahead[j : j + 2 * stride]
    return moves


def meet(f, g, b, share, e):
    ahead = e * b * share
    return ahead, f * b, sum_row(g * b), sum_row(f * b), ahead.max()


def count_departures(f, g, leave, coming, least, departures):
    mass = np.where(f + g > least, (f + g) * leave, np.float32(0))
    return mass, departures + mass * coming


def emission(pseudo_counts, links, counts, own, totals, beyond, factors, above, below):
    excluded = np.minimum(own, counts)
    others, nothing = np.minimum(beyond - links, np.float32(1)), np.float32(0)
    fertility = factors + np.maximum(others, nothing) * above + np.minimum(others, nothing) * below
    return (counts - excluded + pseudo_counts) / np.maximum(totals - excluded, np.float32(1e-30)) * fertility


def link_numbers(links, last):
    """(last + 1, 8) from (number, 8): the chances of 0, 1, ... and at least ``last`` links."""
    chances = np.zeros((last + 1, 8), np.float32)
    chances[0] = 1
    for p in links:
        chances[last] += chances[last - 1] * p
        for n in range(last - 1, 0, -1):
            chances[n] += (chances[n - 1] - chances[n]) * p
        chances[0] -= chances[0] * p
    return chances


def pooled(forward, reverse, share, least=0.003):
    """The mean of the log-odds of two matrices (T, L) of posteriors, kept within [least, 1 - least]."""

    def log_odds(p):
        p = np.clip(np.asarray(p, np.float64), least, 1 - least)
        return np.log(p / (1 - p))

    return share * log_odds(forward) + (1 - share) * log_odds(reverse)


def judged(log_odds, least=0.003, cohesion=None):
    """Probabilities of links from a matrix (T, L) of log-odds, element by element.

    cohesion (L + 1,) and (T + 1,) are those between neighbours, by default 1.
    """
    T, L = log_odds.shape
    source, target = cohesion or (np.ones(L + 1), np.ones(T + 1))
    none = math.log(least / (1 - least)) + 1e-3

    def chance(t, j):
        if not (0 <= t < T and 0 <= j < L) or log_odds[t, j] <= none:
            return 0.0
        return 1 / (1 + math.exp(-log_odds[t, j]))

    found = np.empty((T, L))
    for t in range(T):
        for j in range(L):
            if not chance(t, j):
                found[t, j] = 0
                continue
            in_row = max((chance(t, k) for k in range(L) if k != j), default=0.0)
            in_column = max((chance(k, j) for k in range(T) if k != t), default=0.0)
            across = max(chance(t, j - 1) * source[j], chance(t, j + 1) * source[j + 1]) * (1 - in_column)
            along = max(chance(t - 1, j) * target[t], chance(t + 1, j) * target[t + 1]) * (1 - in_row)
            same_step = chance(t - 1, j - 1) + chance(t + 1, j + 1)
            logit = -0.1 + 0.66 * log_odds[t, j] + 2.2 * max(across, along) - 0.66 * same_step
            logit -= 0.4 * min(log_odds[t, j] + 3, 0)
            found[t, j] = 1 / (1 + math.exp(-logit))
    return found
