"""Text to token ids by open-addressing hash tables, and links to Pharaoh text.

Only ``\\n`` ends a line, only it, space, tab and ``\\r`` separate tokens. A hash table is int32
with a power of two slots, at most half of them in use: -1 where free, else the id of a token.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel

_SPACE, _TAB, _NEWLINE, _RETURN = 32, 9, 10, 13
_DASH = 45
_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_ONE = np.uint64(1)
_HALF = np.uint64(32)


@kernel
def is_separator(data, i):
    """Whether byte i (uint64) of ``data`` ends a token."""
    c = data[i]
    return c == _SPACE or c == _TAB or c == _NEWLINE or c == _RETURN


@kernel
def hash_bytes(data, start, end):
    """FNV-1a of data[start:end], folded so that the low bits depend on all of it; as in :func:`encode`."""
    h = _FNV_START
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * _FNV_PRIME
    return h ^ (h >> _HALF)


@kernel
def same_bytes(data, a, b, length):
    """Whether the runs of ``length`` bytes at a and b (all uint64) are equal."""
    for i in range(length):
        if data[a + i] != data[b + i]:
            return False
    return True


@kernel
def encode(data, tokens, offsets, table, bounds, state):
    """Numbers the tokens of ``data`` in order of first appearance, up to the end or until the table is half full.

    Args:
        data: uint8 (B,).
        tokens: int32, room for all tokens: B // 2 + 1 at most; filled with ids.
        offsets: int64 (M + 1,), filled with where each line starts in ``tokens``; offsets[0] must be 0.
        table: the hash table.
        bounds: int64 (2, at least half the table), filled with where each type first appears: start and end.
        state: int64 (4,): position in data, lines done, tokens done, types so far; a later call goes on there.
    """
    mask = np.uint64(len(table) - 1)
    limit = len(table) // 2
    i, line, token, types = np.uint64(state[0]), state[1], state[2], state[3]
    n = np.uint64(len(data))
    while i < n:
        if data[i] == _NEWLINE:
            line += 1
            offsets[line] = token
            i += _ONE
        elif is_separator(data, i):
            i += _ONE
        else:
            if types >= limit:
                break
            start = i
            h = _FNV_START
            # Almost every byte above a space is part of the token; the others are looked at more closely.
            while i < n and (data[i] > _SPACE or not is_separator(data, i)):
                h = (h ^ np.uint64(data[i])) * _FNV_PRIME
                i += _ONE
            slot = (h ^ (h >> _HALF)) & mask
            while True:
                number = table[slot]
                if number < 0:
                    table[slot] = types
                    bounds[0, types], bounds[1, types] = start, i
                    number = types
                    types += 1
                    break
                place = np.uint32(number)
                first = np.uint64(bounds[0, place])
                if np.uint64(bounds[1, place]) - first == i - start and same_bytes(data, first, start, i - start):
                    break
                slot = (slot + _ONE) & mask
            tokens[token] = number
            token += 1
    if i >= n and n > 0 and data[n - _ONE] != _NEWLINE:
        offsets[line + 1] = token
    state[0], state[1], state[2], state[3] = i, line, token, types


@kernel
def fill_table(text, starts, ends, count, table):
    """Fills a new hash table (all -1) with the first ``count`` tokens, text[starts[v] : ends[v]]."""
    mask = np.uint64(len(table) - 1)
    for v in range(count):
        slot = hash_bytes(text, starts[v], ends[v]) & mask
        while table[slot] >= 0:
            slot = (slot + _ONE) & mask
        table[slot] = v


@kernel
def copy_tokens(data, starts, offsets, text):
    """Copies the bytes of each token from its start in ``data`` to text[offsets[v] : offsets[v + 1]]."""
    for v in range(len(offsets) - 1):
        for i in range(offsets[v + 1] - offsets[v]):
            text[offsets[v] + i] = data[starts[v] + i]


@kernel
def digits(number):
    """The number of decimal digits of a number in [0, 2**31)."""
    count = 1 + (number >= 10) + (number >= 100) + (number >= 1000)
    power = 10_000
    while number >= power:
        power *= 10
        count += 1
    return count


@kernel
def write_number(number, out, place):
    """Writes a number >= 0 in decimal at ``place``; returns the place after it."""
    if number < 10:
        out[place] = 48 + number
        return place + 1
    rest = np.uint32(number)
    end = place + digits(rest)
    for i in range(end - 1, place - 1, -1):
        tenth = rest // np.uint32(10)
        out[i] = np.uint32(48) + rest - tenth * np.uint32(10)
        rest = tenth
    return end


@kernel
def write_pharaoh(pairs, offsets, out):
    """Writes links as lines ``s-t s-t``; returns the number of bytes.

    Args:
        pairs: int32 (K, 2); offsets: int64 (M + 1,), where each line's links start.
        out: uint8, filled; with room for the longest numbers and two more bytes by link, and one by line.
    """
    place = 0
    for m in range(len(offsets) - 1):
        for k in range(offsets[m], offsets[m + 1]):
            if k > offsets[m]:
                out[place] = _SPACE
                place += 1
            place = write_number(pairs[k, 0], out, place)
            out[place] = _DASH
            place = write_number(pairs[k, 1], out, place + 1)
        out[place] = _NEWLINE
        place += 1
    return place
