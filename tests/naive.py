"""Slow, obvious references in plain Python and float64: what the kernels must agree with."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from fractions import Fraction

NULL = object()  # the empty source word


def tokenize(data: bytes) -> list[list[bytes]]:
    """A sentence per line; only \\n and \\r\\n end a line, only space and tab separate tokens."""
    lines = data.split(b"\n")
    last = lines.pop()
    lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    if last:
        lines.append(last)
    return [[token for token in re.split(rb"[ \t]", line) if token] for line in lines]


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
