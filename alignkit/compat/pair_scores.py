"""Eflomal's score of a sentence pair, from links: how unexpected the best link of each of its words is.

A link does not count for itself, so a word that occurs once, in a mismatched pair, gains nothing from being linked
there; and no word is taken for one without a translation. The probability that a model gives to a pair that it was
fitted on is otherwise in both.
"""

from __future__ import annotations

import numpy as np

from alignkit.classical.lexical_model import PairTable
from alignkit.classical.link_counts import LinkedWords, linked_around, table_of_pairs
from alignkit.classical.priors import LexiconPrior
from alignkit.parallel import blocks

#: What eflomal adds to the count of each pair of words, and to that of each jump.
PAIR, JUMP = 0.001, 0.5
BLOCK = 1 << 22  # pairs of a source and a target word that are scored at a time


def pair_scores(words: LinkedWords, prior: LexiconPrior | None = None) -> np.ndarray:
    """float64 (M,): the mean over the target words of -log(p sqrt(q r)), NaN for a pair with a blank side.

    p is the target word's share in the links of a source word, q that of the jump to it from the linked source
    word before, and r that of the jump from it to the linked one behind; of the source word for which the product
    is largest. Eflomal has no root, and so counts each jump twice.

    Args:
        words: M pairs and their links.
        prior: further links of words, as counts.
    """
    source, target = words.bitext.source, words.bitext.target
    table, totals = _counts(words, prior)
    longest = int(source.lengths.max(initial=0))
    jumps = np.full(2 * longest + 2, JUMP)
    for jump, count in words.jumps():
        jumps[longest + jump] += count
    jumps = np.sqrt(jumps / jumps.sum())
    before, behind = _neighbours(words)
    links = words.reversed  # in the order of the target words
    widths, first = (np.repeat(each, target.lengths) for each in (source.lengths, source.offsets[:-1]))
    costs = np.zeros(len(widths))
    for low, high in blocks(widths, max(1, -(-int(widths.sum()) // BLOCK))):
        starts = np.cumsum(widths[low:high]) - widths[low:high]
        t = np.repeat(np.arange(low, high), widths[low:high])
        s = np.arange(len(t)) - starts[t - low]
        x = source.tokens[first[t] + s]
        own, inside = np.zeros(len(t)), slice(*np.searchsorted(links.places[0], [low, high]))
        own[starts[links.places[0][inside] - low] + links.links.pairs[inside, 1]] = 1
        shares = table.lookup(x, target.tokens[t]) - own + PAIR
        shares /= totals[x] - own + PAIR * table.width
        shares *= jumps[longest + s - before[t]] * jumps[longest + behind[t] - s]
        filled = widths[low:high] > 0
        if filled.any():
            costs[low:high][filled] = -np.log(np.maximum.reduceat(shares, starts[filled]))
    sums = np.bincount(np.repeat(np.arange(len(target)), target.lengths), costs, len(target))
    with np.errstate(invalid="ignore"):
        return np.where(source.lengths > 0, sums / target.lengths, np.nan)


def _counts(words: LinkedWords, prior: LexiconPrior | None) -> tuple[PairTable, np.ndarray]:
    """How often pairs of words are linked, and float64 (V_src,), how often each source word is."""
    sides = words.bitext.source, words.bitext.target
    x, y = (side.tokens[place] for side, place in zip(sides, words.places, strict=True))
    counts = np.ones(len(x))
    if prior is not None:
        known = [
            side.vocabulary.translate(own)[ids]
            for side, own, ids in zip(sides, (prior.source, prior.target), prior.pairs.T, strict=True)
        ]
        x, y = (np.append(ids, more) for ids, more in zip((x, y), known, strict=True))
        counts = np.append(counts, prior.values[:, 0])
    shape = len(sides[0].vocabulary), len(sides[1].vocabulary)
    totals = np.bincount(x[x >= 0], counts[x >= 0], shape[0])
    both = (x >= 0) & (y >= 0)
    return table_of_pairs(x[both], y[both], counts[both], shape), totals


def _neighbours(words: LinkedWords) -> tuple[np.ndarray, np.ndarray]:
    """int64 (N,) each: the last source word of the linked target word before each one, -1 if there is none, and
    the first one of that behind it, the number of source words if there is none."""
    target, s, t = words.bitext.target, words.links.pairs[:, 0], words.places[1]
    first, last = np.zeros((2, len(target.tokens) + 1), np.int64)
    last[t], first[t[::-1]] = s, s[::-1]  # of several values the last one stays, and those of a pair are sorted
    before, behind = linked_around(np.bincount(t, minlength=len(target.tokens)) > 0, target)
    starts, ends = (np.repeat(each, target.lengths) for each in (target.offsets[:-1], target.offsets[1:]))
    lengths = np.repeat(words.bitext.source.lengths, target.lengths)
    return np.where(before < starts, -1, last[before]), np.where(behind < ends, first[behind], lengths)
