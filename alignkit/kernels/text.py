"""Bytes to token ids, and links to Pharaoh text.

Only ``\\n`` (and ``\\r`` right before it) ends a line, only space and tab separate tokens.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.jit import kernel

_SPACE, _TAB, _NEWLINE, _RETURN = 32, 9, 10, 13
_DASH = 45
_FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)


@kernel
def is_separator(data, i):
    """Whether byte i of ``data`` ends a token."""
    c = data[i]
    if c == _SPACE or c == _TAB or c == _NEWLINE:
        return True
    return c == _RETURN and i + 1 < len(data) and data[i + 1] == _NEWLINE


@kernel
def count_lines_and_tokens(data):
    """Lines and tokens of ``data`` uint8 (B,); a last line without its newline counts."""
    lines = 0
    tokens = 0
    inside = False
    for i in range(len(data)):
        if is_separator(data, i):
            inside = False
            if data[i] == _NEWLINE:
                lines += 1
        elif not inside:
            inside = True
            tokens += 1
    if len(data) > 0 and data[-1] != _NEWLINE:
        lines += 1
    return lines, tokens


@kernel
def hash_bytes(data, start, end):
    """FNV-1a of data[start:end], folded so that the low bits depend on all of it."""
    h = _FNV_START
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * _FNV_PRIME
    return h ^ (h >> np.uint64(32))


@kernel
def same_bytes(data, a, b, length):
    """Whether the runs of ``length`` bytes at a and b are equal."""
    for i in range(length):
        if data[a + i] != data[b + i]:
            return False
    return True


@kernel
def encode(data, tokens, offsets, table, types, state):
    """Numbers the tokens of ``data`` in order of first appearance, up to the end or until the table is half full.

    Args:
        data: uint8 (B,).
        tokens: int32 (N,), filled with ids.
        offsets: int64 (M + 1,), filled with where each line starts in ``tokens``; offsets[0] must be 0.
        table: int32 (power of two,), open addressing, -1 where free.
        types: int64 (at least half the table, 2), filled with start and length of each type's first appearance.
        state: int64 (4,): position in data, lines done, tokens done, types found; a later call goes on there.
    """
    mask = np.uint64(len(table) - 1)
    limit = len(table) // 2
    i, line, token, found = state[0], state[1], state[2], state[3]
    n = len(data)
    while i < n:
        if data[i] == _NEWLINE:
            line += 1
            offsets[line] = token
            i += 1
        elif is_separator(data, i):
            i += 1
        else:
            if found >= limit:
                break
            start = i
            while i < n and not is_separator(data, i):
                i += 1
            slot = hash_bytes(data, start, i) & mask
            while True:
                known = table[slot]
                if known < 0:
                    table[slot] = found
                    types[found, 0] = start
                    types[found, 1] = i - start
                    known = found
                    found += 1
                    break
                if types[known, 1] == i - start and same_bytes(data, types[known, 0], start, i - start):
                    break
                slot = (slot + np.uint64(1)) & mask
            tokens[token] = known
            token += 1
    if i >= n and n > 0 and data[n - 1] != _NEWLINE:
        offsets[line + 1] = token
    state[0], state[1], state[2], state[3] = i, line, token, found


@kernel
def rehash(data, types, found, table):
    """Fills a new, larger ``table`` (all -1) with the first ``found`` types."""
    mask = np.uint64(len(table) - 1)
    for known in range(found):
        slot = hash_bytes(data, types[known, 0], types[known, 0] + types[known, 1]) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = known


@kernel
def gather_types(data, types, offsets, text):
    """Copies the bytes of each type to ``text``; offsets int64 (V + 1,) say where."""
    for v in range(len(offsets) - 1):
        for i in range(types[v, 1]):
            text[offsets[v] + i] = data[types[v, 0] + i]


@kernel
def digits(number):
    """How many decimal digits a number >= 0 has."""
    count = 1
    while number >= 10:
        number //= 10
        count += 1
    return count


@kernel
def pharaoh_size(pairs, offsets):
    """Bytes that :func:`write_pharaoh` writes."""
    size = len(offsets) - 1  # a newline each
    for k in range(len(pairs)):
        size += digits(pairs[k, 0]) + digits(pairs[k, 1]) + 1
    for m in range(len(offsets) - 1):
        size += max(offsets[m + 1] - offsets[m] - 1, 0)
    return size


@kernel
def write_number(number, out, place):
    """Writes a number >= 0 in decimal at ``place``; returns the place after it."""
    end = place + digits(number)
    i = end - 1
    while i >= place:
        out[i] = 48 + number % 10
        number //= 10
        i -= 1
    return end


@kernel
def write_pharaoh(pairs, offsets, out):
    """Links int32 (K, 2) with int64 offsets (M + 1,) to lines ``s-t s-t`` in ``out`` uint8."""
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
