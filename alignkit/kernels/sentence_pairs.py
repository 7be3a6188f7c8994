"""Kernels over sentence pairs and their matrices of scores."""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel

_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_HALF = np.uint64(32)


@kernel
def hash_ids(h, tokens, low, high):
    """FNV-1a of the number of ids in tokens[low:high] and of the ids, going on from ``h``."""
    h = (h ^ np.uint64(high - low)) * _FNV_PRIME
    for k in range(low, high):
        h = (h ^ np.uint64(tokens[k])) * _FNV_PRIME
    return h


@kernel
def same_ids(tokens, offsets, a, b):
    """Whether sentences a and b are the same."""
    length = offsets[a + 1] - offsets[a]
    if length != offsets[b + 1] - offsets[b]:
        return False
    for k in range(length):
        if tokens[offsets[a] + k] != tokens[offsets[b] + k]:
            return False
    return True


@kernel
def count_copies(source, target, table, first, counts):
    """counts[m] = how many pairs are the same as m, itself counted.

    Args:
        source, target: (tokens int32 (N,), offsets int64 (M + 1,)).
        table: int64 (power of two, more than M), -1 everywhere: open addressing, the first pair of each kind.
        first: int64 (M,), work space.
        counts: int64 (M,), zeros.
    """
    mask = np.uint64(len(table) - 1)
    for m in range(len(counts)):
        h = hash_ids(_FNV_START, source[0], source[1][m], source[1][m + 1])
        h = hash_ids(h, target[0], target[1][m], target[1][m + 1])
        slot = (h ^ (h >> _HALF)) & mask
        while table[slot] >= 0 and not (
            same_ids(source[0], source[1], table[slot], m) and same_ids(target[0], target[1], table[slot], m)
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
    """counts[1 + m] = how many values of matrix m are positive and at least ``threshold``, low <= m < high."""
    for m in range(low, high):
        count = 0
        for k in range(offsets[m], offsets[m + 1]):
            count += values[k] >= threshold and values[k] > 0
        counts[1 + m] = count


@kernel
def points_above(low, high, matrices, threshold, point_offsets, points):
    """The places (s, t), sorted, of these values.

    Args:
        matrices: (values float32 (P,), offsets int64 (M + 1,), shapes int32 (M, 2), T and L).
        point_offsets: int64 (M + 1,), given.
        points: int32 (K, 2), filled.
    """
    values, offsets, shapes = matrices
    for m in range(low, high):
        place = point_offsets[m]
        if place == point_offsets[m + 1]:
            continue
        height, width = np.int64(shapes[m, 0]), np.int64(shapes[m, 1])
        for s in range(width):
            for t in range(height):
                value = values[offsets[m] + t * width + s]
                if value >= threshold and value > 0:
                    points[place, 0], points[place, 1] = s, t
                    place += 1
