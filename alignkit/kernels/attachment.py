"""Words that take the partners of a linked word beside them (:mod:`alignkit.classical.hmm.attachment`).

Matrices are (T, L), row by row. The words of one side of a pair are those of its rows, or of its columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.hmm_rows import ONE, ZERO

#: Kinds of words beside numbers and directions.
CONTENT, MARK = 100, 101
#: A word is attached if that is so many times as likely as its likeliest link, or more.
LIKELY = np.float32(0.8)


class Side(NamedTuple):
    """One side of some sentence pairs."""

    tokens: np.ndarray  # int32 (N,)
    offsets: np.ndarray  # int64 (M + 1,)
    # int8 (V,), of each word: CONTENT, MARK (no word at all), or else its number among the frequent words
    # (:func:`count_shared`) or the direction, 1 or -1, in which its partners are looked for (:func:`attach`).
    kinds: np.ndarray


class LinkValues(NamedTuple):
    """The probabilities of links of some sentence pairs."""

    values: np.ndarray  # float32 (P,)
    offsets: np.ndarray  # int64 (M + 1,)
    threshold: float  # the least of a link


@kernel
def share_a_partner(values, first, second, step, count, threshold):
    """True if two words, whose elements begin at ``first`` and at ``second``, have a partner in common."""
    for k in range(count):
        if values[first + k * step] >= threshold and values[second + k * step] >= threshold:
            return True
    return False


@kernel
def count_shared(low, high, own, other, links, are_rows, counts):
    """Counts how often frequent words share a partner with the word after and the word before them.

    Args:
        own, other: :class:`Side`; are_rows: whether the words of ``own`` are those of the rows.
        links: :class:`LinkValues`.
        counts: int64 (2, K), added to: for each of K frequent words how often it was the word after, or before,
            which is itself a content word.
    """
    for m in range(low, high):
        start, size = own.offsets[m], own.offsets[m + 1] - own.offsets[m]
        others = other.offsets[m + 1] - other.offsets[m]
        row, step = (others, 1) if are_rows else (1, size)
        place = links.offsets[m]
        for k in range(size):
            kind = own.kinds[own.tokens[start + k]]
            if kind >= CONTENT:
                continue
            for which in range(2):
                q = k + 1 - 2 * which
                if 0 <= q < size and own.kinds[own.tokens[start + q]] == CONTENT:
                    counts[which, kind] += share_a_partner(
                        links.values, place + k * row, place + q * row, step, others, links.threshold
                    )


@kernel
def find_linked(place, T, L, links, linked):
    """Fills ``linked`` bool (2, N): which words of the rows, and of the columns, of one pair have a link."""
    linked[0, :T] = False
    linked[1, :L] = False
    for t in range(T):
        for j in range(L):
            if links.values[place + t * L + j] >= links.threshold:
                linked[0, t] = True
                linked[1, j] = True


@kernel
def attach_side(m, own, other, are_rows, links, linked, floor):
    """Attaches the words of one side of a pair; new probabilities are negative: they are no links yet."""
    start, size = own.offsets[m], own.offsets[m + 1] - own.offsets[m]
    first, others = other.offsets[m], other.offsets[m + 1] - other.offsets[m]
    row, step = (others, 1) if are_rows else (1, size)
    place, values = links.offsets[m], links.values
    for k in range(size):
        direction = own.kinds[own.tokens[start + k]]
        beside = k + direction
        if linked[k] or direction >= CONTENT or not 0 <= beside < size:
            continue
        if own.kinds[own.tokens[start + beside]] == MARK:
            continue
        likeliest = ZERO
        for o in range(others):
            likeliest = max(likeliest, abs(values[place + k * row + o * step]))
        for o in range(others):
            here, partner = place + k * row + o * step, values[place + beside * row + o * step]
            is_word = other.kinds[other.tokens[first + o]] != MARK
            is_likely = values[here] > ZERO and values[here] >= LIKELY * likeliest
            if partner >= links.threshold and is_word and is_likely:
                values[here] = -(floor + (ONE - floor) * values[here])


@allocating_kernel
def attach(low, high, rows, columns, links, floor):
    """Gives words without a link that of the word beside them, in pairs low <= m < high.

    A word that has a direction takes the partners of the word next to it there, if these are words, that are about
    as likely as its likeliest link.

    Args:
        rows, columns: :class:`Side`; links: :class:`LinkValues`, changed.
        floor: float32, f: such a link gets the probability f + (1 - f) p.
    """
    most = 1
    for m in range(low, high):
        most = max(most, rows.offsets[m + 1] - rows.offsets[m], columns.offsets[m + 1] - columns.offsets[m])
    linked = np.empty((2, most), np.bool_)
    for m in range(low, high):
        place, end = links.offsets[m], links.offsets[m + 1]
        T, L = rows.offsets[m + 1] - rows.offsets[m], columns.offsets[m + 1] - columns.offsets[m]
        find_linked(place, T, L, links, linked)
        attach_side(m, rows, columns, True, links, linked[0], floor)
        attach_side(m, columns, rows, False, links, linked[1], floor)
        for k in range(place, end):
            links.values[k] = abs(links.values[k])
