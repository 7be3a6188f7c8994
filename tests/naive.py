"""Slow, obvious references in plain Python and float64: what the kernels must agree with."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from fractions import Fraction

NULL = object()  # the empty source word


def tokenize(data: bytes) -> list[list[bytes]]:
    """A sentence per line, blank if none of it shows; only space, U+3000, tab and \\r separate tokens."""
    lines = data.split(b"\n")
    last = lines.pop()
    if last:
        lines.append(last)
    return [
        [token for token in re.split(rb"[ \t\r]|\xe3\x80\x80", line) if token] if shows(line) else []
        for line in lines
    ]


def shows(line: bytes) -> bool:
    """Whether a line has a character that is neither white space nor invisible."""
    hidden = {*range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070), 0xAD, 0xFEFF}
    return any(
        ord(c) not in hidden and (c == "\u1680" or not c.isspace()) for c in line.decode("utf-8", "replace")
    )


def cooccurrence(pairs, weighting="source-length"):
    """{(source word, target word): count}."""
    table = defaultdict(float)
    for x, y in pairs:
        if weighting == "presence":
            for i in set(x):
                for o in set(y):
                    table[i, o] += 1
            continue
        for i in x:
            for o in y:
                table[i, o] += {"source-length": 1 / len(x), "target-length": 1 / len(y), "one": 1}[weighting]
    return dict(table)


def ibm1(pairs, iterations, null, target_types):
    """({(source word or NULL, target word): probability}, log-likelihood before each iteration).

    EM from the uniform start; ``target_types`` is the size of the target vocabulary.
    """
    trans = defaultdict(lambda: 1 / target_types)
    likelihoods = []
    for _ in range(iterations):
        counts, totals, likelihood = defaultdict(float), defaultdict(float), 0.0
        for x, y in pairs:
            sources = [*x, NULL] if null else list(x)
            if not x:
                continue
            for o in y:
                z = sum(trans[i, o] for i in sources)
                likelihood += math.log(z / len(sources))
                for i in sources:
                    counts[i, o] += trans[i, o] / z
                    totals[i] += trans[i, o] / z
        trans = {(i, o): count / totals[i] for (i, o), count in counts.items()}
        likelihoods.append(likelihood)
    return trans, likelihoods


def em_step(pairs, trans, prior, alpha):
    """One EM step of p(y_t | x) = sum over (source, share) of prior(x, y, t) of share * trans(y_t | source).

    Returns:
        (parameters, log-likelihood before the step, [(x, y, t, posteriors in the order of the prior)]).
    """
    counts, likelihood, posteriors = defaultdict(float), 0.0, []
    for x, y in pairs:
        for t, o in enumerate(y if x else []):
            shares = [(i, share * trans[i, o]) for i, share in prior(x, y, t)]
            z = sum(value for _, value in shares)
            likelihood += math.log(z)
            posteriors.append((x, y, t, [value / z for _, value in shares]))
            for i, value in shares:
                counts[i, o] += value / z
    return estimate(counts, alpha), likelihood, posteriors


def estimate(counts, alpha=None):
    """Counts to parameters; with alpha, exp(digamma(c + alpha) - digamma(sum of c + alpha over the row))."""
    from scipy.special import digamma

    totals = defaultdict(float)
    for (i, _), count in counts.items():
        totals[i] += count + (alpha or 0)
    if alpha is None:
        return {(i, o): count / totals[i] for (i, o), count in counts.items()}
    return {(i, o): math.exp(digamma(c + alpha) - digamma(totals[i])) for (i, o), c in counts.items()}


def ibm1_with_options(pairs, iterations, target_types, null_probability=None, dirichlet=None):
    """(parameters, log-likelihoods) as :func:`ibm1` with NULL, whose probability may be fixed, and a prior."""

    def prior(x, y, t):
        null = 1 / (len(x) + 1) if null_probability is None else null_probability
        return [(NULL, null), *((i, (1 - null) / len(x)) for i in x)]

    trans, likelihoods = defaultdict(lambda: 1 / target_types), []
    for _ in range(iterations):
        trans, likelihood, _ = em_step(pairs, trans, prior, dirichlet)
        likelihoods.append(likelihood)
    return trans, likelihoods


def ibm1_links_in_double(source, target, iterations, null_probability):
    """Pharaoh lines of IBM Model 1 in float64, every token pair an array element; for texts of some size."""
    import numpy as np

    # A row per (target token, source place); place -1 is NULL.
    t_lengths, s_lengths = np.diff(target.offsets), np.diff(source.offsets)
    width = s_lengths + 1
    row_width = np.repeat(width, t_lengths)
    rows = np.repeat(np.arange(len(row_width)), row_width)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(row_width) - row_width, row_width) - 1
    sentence = np.repeat(np.arange(len(t_lengths)), t_lengths)
    types = len(source.vocabulary) + 1
    word = np.where(
        place < 0, types - 1, source.tokens[np.repeat(source.offsets[:-1][sentence], row_width) + place]
    )
    pair, index = np.unique(
        word.astype(np.int64) * len(target.vocabulary) + target.tokens[rows], return_inverse=True
    )
    share = np.where(place < 0, null_probability, ((1 - null_probability) / s_lengths[sentence])[rows])
    trans = np.ones(len(pair))
    for _ in range(iterations):
        values = share * trans[index]
        counts = np.bincount(index, values / np.bincount(rows, values)[rows])
        trans = counts / np.bincount(pair // len(target.vocabulary), counts)[pair // len(target.vocabulary)]
    values = share * trans[index]
    starts = np.cumsum(row_width) - row_width
    best = np.maximum.reduceat(values, starts)
    chosen = np.full(len(starts), len(rows))
    np.minimum.at(chosen, rows[values == best[rows]], np.flatnonzero(values == best[rows]))
    position = np.arange(len(sentence)) - np.repeat(target.offsets[:-1], t_lengths)
    lines = [[] for _ in t_lengths]
    for m, s, t in zip(sentence.tolist(), place[chosen].tolist(), position.tolist(), strict=True):
        if s >= 0:
            lines[m].append((s, t))
    return [" ".join(f"{s}-{t}" for s, t in sorted(line)) for line in lines]


def diagonal_prior(T, L, t, tension):
    """[p(a_t = l) for l = 1..L], target position t from 1: proportional to exp(-tension |t/T - l/L|)."""
    weights = [math.exp(-tension * abs(t / T - s / L)) for s in range(1, L + 1)]
    return [weight / sum(weights) for weight in weights]


def diagonal_distance(T, L, t, tension):
    """The expected |t/T - l/L| under the prior."""
    return sum(p * abs(t / T - s / L) for s, p in enumerate(diagonal_prior(T, L, t, tension), 1))


def diagonal_shares(x, y, t, null_probability, tension):
    """[(source word or NULL, prior probability)] of target position t, from 0; NULL first if it has any."""
    null = [(NULL, null_probability)] if null_probability else []
    places = zip(x, diagonal_prior(len(y), len(x), t + 1, tension), strict=True)
    return [*null, *((i, (1 - null_probability) * p) for i, p in places)]


def diagonal(pairs, iterations, target_types, null_probability, alpha, tension, optimize):
    """(parameters, log-likelihoods, tension after the last iteration): Dyer, Chahuneau and Smith (2013).

    The posterior's distances are |(t-1)/T - l/L|, those of the prior |t/T - l/L|.
    """
    pairs = [(x, y) for x, y in pairs if x and y]
    trans, likelihoods = defaultdict(lambda: 1 / target_types), []
    for iteration in range(iterations):

        def prior(x, y, t, tension=tension):
            return diagonal_shares(x, y, t, null_probability, tension)

        trans, likelihood, posteriors = em_step(pairs, trans, prior, alpha)
        likelihoods.append(likelihood)
        if not optimize or iteration == 0:
            continue
        words = [(x, y, t, shares[1:] if null_probability else shares) for x, y, t, shares in posteriors]
        distance = sum(
            p * abs(t / len(y) - s / len(x)) for x, y, t, shares in words for s, p in enumerate(shares, 1)
        )
        for _ in range(8):
            expected = sum(diagonal_distance(len(y), len(x), t + 1, tension) for x, y, t, _ in words)
            tension = min(max(tension + 20 * (expected - distance) / len(words), 0.1), 14)
    return trans, likelihoods, tension


def diagonal_alpha(trans, x, y, null_probability, tension):
    """Posteriors; a row without evidence is its prior."""
    rows = []
    for t, o in enumerate(y):
        shares = diagonal_shares(x, y, t, null_probability, tension)
        values = [share * trans.get((i, o), 0.0) for i, share in shares]
        total = sum(values)
        if total == 0:
            values, total = [share for _, share in shares], 1
        rows.append([value / total for value in values[1 if null_probability else 0 :]])
    return rows


def diagonal_links(trans, x, y, null_probability, tension):
    """[source positions that are best, but for rounding] for each target position; [] where none may be linked."""
    found = []
    for t, o in enumerate(y):
        shares = diagonal_shares(x, y, t, null_probability, tension) if x else []
        values = [share * trans.get((i, o), 0.0) for i, share in shares]
        null = values.pop(0) if null_probability and x else 0.0
        best = max(values, default=0.0)
        linked = best > 0 and best >= null
        found.append([s for s, value in enumerate(values) if linked and value > best * (1 - 1e-5)])
    return found


def beta(trans, x, y):
    """[[Trans(y_t | x_l) for l] for t], 0 for pairs never seen."""
    return [[trans.get((i, o), 0.0) for i in x] for o in y]


def alpha(trans, x, y, null):
    """Posteriors; a row without evidence is uniform over the source words and NULL."""
    rows = []
    for o, row in zip(y, beta(trans, x, y), strict=True):
        total = sum(row) + (trans.get((NULL, o), 0.0) if null else 0.0)
        rows.append([value / total if total > 0 else 1 / (len(x) + null) for value in row])
    return rows


def links(trans, x, y, null):
    """[(s, t)]: the leftmost best source word, none where NULL is better or nothing is known."""
    found = []
    for t, (o, row) in enumerate(zip(y, beta(trans, x, y), strict=True)):
        best = max(row, default=0.0)
        if best > 0 and not (null and trans.get((NULL, o), 0.0) > best):
            found.append((row.index(best), t))
    return sorted(found)


def agrees(u, v, percent=5):
    """Whether fewer than percent/100 * L entries of v exceed v at the first argmax of u."""
    k = list(u).index(max(u))
    return place_agrees(v, k, percent)


def place_agrees(v, k, percent=5):
    """Whether v_k is in the top of v, ties in its favour."""
    return sum(value > v[k] for value in v) < Fraction(str(percent)) / 100 * len(v)


def tie_decides(u, v, percent=5):
    """Whether the row agrees, and would not if equal entries counted against it."""
    k = list(u).index(max(u))
    others = sum(value >= v[k] for j, value in enumerate(v) if j != k)
    return agrees(u, v, percent) and not others < Fraction(str(percent)) / 100 * len(v)


def agreement(u, v, percent=5):
    """(agreement, chance, share of ties, rows) over lists of matrices."""
    rows = [(a, b) for p, q in zip(u, v, strict=True) for a, b in zip(p, q, strict=True) if len(a)]
    count = len(rows)
    chance = sum(sum(place_agrees(b, k, percent) for k in range(len(b))) / len(b) for _, b in rows)
    return (
        sum(agrees(a, b, percent) for a, b in rows) / count,
        chance / count,
        sum(tie_decides(a, b, percent) for a, b in rows) / count,
        count,
    )


def evaluate(sure, possible, found):
    """(AER, precision, recall) of lists of sets of (s, t)."""
    a = {(m, *link) for m, sentence in enumerate(found) for link in sentence}
    s = {(m, *link) for m, sentence in enumerate(sure) for link in sentence}
    p = {(m, *link) for m, sentence in enumerate(possible) for link in sentence} | s
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s)), len(a & p) / len(a), len(a & s) / len(s)


def links_above(matrices, threshold):
    """Lists of the (s, t) whose value is positive and at least the threshold, both as float32."""
    import numpy as np

    bound = np.float32(threshold)
    return [
        [
            (s, t)
            for s in range(matrix.shape[1])
            for t in range(len(matrix))
            if matrix[t, s] >= bound and matrix[t, s] > 0
        ]
        for matrix in matrices
    ]


def symmetrize(forward, reverse, length, width, method):
    """The set of (s, t) that two alignments grow to; sets, a matrix walk, and the published steps one by one.

    Koehn, Och, Marcu (2003) and the pseudocode in Moses' manual: e runs over the ``width`` target words, f over
    the ``length`` source words; ``forward`` links every e to one f at most, so it goes first in the final step.
    """
    if method in ("intersection", "union"):
        return forward & reverse if method == "intersection" else forward | reverse
    neighbours = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]  # (e, f)
    alignment = {(e, f) for f, e in forward & reverse}
    union = {(e, f) for f, e in forward | reverse}

    def free(e, f):
        return e not in {e for e, _ in alignment}, f not in {f for _, f in alignment}

    added = True
    while added:
        added = False
        for e in range(width):
            for f in range(length):
                if (e, f) in alignment:
                    for de, df in neighbours:
                        new = (e + de, f + df)
                        if any(free(*new)) and new in union:
                            alignment.add(new)
                            added = True
    if method != "grow-diag":
        rule = all if method == "grow-diag-final-and" else any
        for direction in (forward, reverse):
            for e in range(width):
                for f in range(length):
                    if (f, e) in direction and rule(free(e, f)):
                        alignment.add((e, f))
    return {(f, e) for e, f in alignment}


def resample_sums(rows, seed, resamples):
    """For each resample the column sums over as many rows, drawn with replacement by splitmix64."""
    mask, state, sums = (1 << 64) - 1, seed, []
    for _ in range(resamples):
        drawn = []
        for _ in rows:
            state = (state + 0x9E3779B97F4A7C15) & mask
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            drawn.append(rows[(z ^ (z >> 31)) % len(rows)])
        sums.append([sum(column) for column in zip(*drawn, strict=True)])
    return sums
