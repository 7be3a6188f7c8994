"""Copies of sentence pairs; links of sentence pairs, from positions and from matrices of scores."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel

_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_HALF = np.uint64(32)


@kernel
def hash_ids(h, tokens, low, high):
    """Continue an FNV-1a hash ``h`` with the length and the ids of tokens[low:high]."""
    h = (h ^ np.uint64(high - low)) * _FNV_PRIME
    for k in range(low, high):
        h = (h ^ np.uint64(tokens[k])) * _FNV_PRIME
    return h


@kernel
def same_ids(tokens, offsets, a, b):
    """Whether sentences a and b are equal."""
    length = offsets[a + 1] - offsets[a]
    if length != offsets[b + 1] - offsets[b]:
        return False
    for k in range(length):
        if tokens[offsets[a] + k] != tokens[offsets[b] + k]:
            return False
    return True


@kernel
def count_copies(source, target, table, first, counts):
    """counts[m] = the number of pairs that are equal to pair m, itself included.

    Args:
        source, target: (tokens int32 (N,), offsets int64 (M + 1,)).
        table: int64 (a power of two above M,), -1 everywhere: a hash table with the first of equal pairs.
        first: int64 (M,), work space.
        counts: int64 (M,), zeros on entry.
    """
    source_tokens, source_offsets = source
    target_tokens, target_offsets = target
    mask = np.uint64(len(table) - 1)
    for m in range(len(counts)):
        h = hash_ids(_FNV_START, source_tokens, source_offsets[m], source_offsets[m + 1])
        h = hash_ids(h, target_tokens, target_offsets[m], target_offsets[m + 1])
        slot = (h ^ (h >> _HALF)) & mask
        while table[slot] >= 0 and not (
            same_ids(source_tokens, source_offsets, table[slot], m)
            and same_ids(target_tokens, target_offsets, table[slot], m)
        ):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = m
        first[m] = table[slot]
        counts[first[m]] += 1
    for m in range(len(counts)):
        counts[m] = counts[first[m]]


@kernel
def count_above(low, high, values, offsets, threshold, counts):
    """counts[m + 1] = the number of values of matrix m that are positive and at least ``threshold``, for
    low <= m < high."""
    for m in range(low, high):
        count = 0
        for k in range(offsets[m], offsets[m + 1]):
            count += values[k] >= threshold and values[k] > 0
        counts[m + 1] = count


@kernel
def fill_links_above(low, high, matrices, threshold, link_offsets, pairs, scores):
    """The links (s, t), sorted, of the values that :func:`count_above` counts.

    Args:
        matrices: (values float32 (P,), offsets int64 (M + 1,), shapes int32 (M, 2), T and L).
        link_offsets: int64 (M + 1,), given.
        pairs: int32 (K, 2), and scores: float64 (K,), filled for sentence pairs low <= m < high.
    """
    values, offsets, shapes = matrices
    for m in range(low, high):
        place = link_offsets[m]
        if place == link_offsets[m + 1]:
            continue
        height, width = np.int64(shapes[m, 0]), np.int64(shapes[m, 1])
        for s in range(width):
            for t in range(height):
                value = values[offsets[m] + t * width + s]
                if value >= threshold and value > 0:
                    pairs[place, 0], pairs[place, 1], scores[place] = s, t, value
                    place += 1


@kernel
def fill_links_from_positions(low, high, positions, offsets, link_offsets, pairs, counts):
    """The links (s, t), sorted, between each target token and the source token at its position.

    Args:
        positions: int32 (N_tgt,), positions within the source sentence, -1 for none.
        offsets: (source, target) int64 (M + 1,), the first token of every sentence.
        link_offsets: int64 (M + 1,), given.
        pairs: int32 (K, 2), filled for sentence pairs low <= m < high.
        counts: int64 (longest source + 1,), work space; zeros on entry and on return.
    """
    source_offsets, target_offsets = offsets
    for m in range(low, high):
        width = source_offsets[m + 1] - source_offsets[m]
        for k in range(target_offsets[m], target_offsets[m + 1]):
            if positions[k] >= 0:
                counts[positions[k] + 1] += 1
        for s in range(width):
            counts[s + 1] += counts[s]
        for k in range(target_offsets[m], target_offsets[m + 1]):
            s = positions[k]
            if s >= 0:
                place = link_offsets[m] + counts[s]
                counts[s] += 1
                pairs[place, 0] = s
                pairs[place, 1] = k - target_offsets[m]
        for s in range(width + 1):
            counts[s] = 0


@kernel
def reverse_links(pairs, offsets, counts, out):
    """Exchange the columns of links (s, t) and sort each sentence pair again, by a counting sort.

    Args:
        pairs: int32 (K, 2), sorted in each sentence pair; offsets: int64 (M + 1,).
        counts: int32 (the largest t + 2,), zeros on entry and on return.
        out: int32 (K, 2), filled.
    """
    for m in range(len(offsets) - 1):
        last = -1
        for k in range(offsets[m], offsets[m + 1]):
            counts[pairs[k, 1] + 1] += 1
            last = max(last, pairs[k, 1])
        for t in range(last + 1):
            counts[t + 1] += counts[t]
        for k in range(offsets[m], offsets[m + 1]):
            t = pairs[k, 1]
            place = offsets[m] + counts[t]
            counts[t] += 1
            out[place, 0] = t
            out[place, 1] = pairs[k, 0]
        counts[: last + 2] = 0


@kernel
def find_products(forward, reverse, shapes, offsets, bound, filling, out):
    """Links (s, t) of the points whose values in both directions have a product of at least ``bound``, above 0.

    Args:
        forward: float32, matrices (T, L) one after another; reverse: the same of shape (L, T).
        shapes: int32 (M, 2), T and L; offsets: int64 (M + 1,), where each matrix starts, in both.
        filling: whether to fill in the links, not only their offsets.
        out: (links int32 (K, 2), offsets int64 (M + 1,)).
    """
    pairs, pair_offsets = out
    total = 0
    pair_offsets[0] = 0
    for m in range(len(shapes)):
        height, width = shapes[m, 0], shapes[m, 1]
        for s in range(width):
            for t in range(height):
                f, r = forward[offsets[m] + t * width + s], reverse[offsets[m] + s * height + t]
                value = np.float64(f) * np.float64(r)
                if value >= bound and value > 0.0:
                    if filling:
                        pairs[total, 0] = s
                        pairs[total, 1] = t
                    total += 1
        pair_offsets[m + 1] = total
