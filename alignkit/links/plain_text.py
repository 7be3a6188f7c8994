"""Fast reading of plain Pharaoh lines, a chunk at a time by NumPy."""

from __future__ import annotations

import numpy as np

from alignkit.links.links import Links

CHUNK = 1 << 24  # bytes read at a time
_LONGEST = 9  # digits of a number
_DASH, _NEWLINE = ord("-"), ord("\n")


def read_plain_links(data: bytes) -> Links | None:
    """The links of lines ``s-t s-t``, or None if anything else is in them, an error or not.

    Args:
        data: valid UTF-8, one line per sentence pair; without a line end at its end if the last one lacks it.
    """
    parts, begin = [], 0
    while begin < len(data):
        end = data.rfind(b"\n", begin, begin + CHUNK) + 1
        end = end if end > begin else data.find(b"\n", begin) + 1 or len(data)
        part = _links_of(np.frombuffer(data, np.uint8, end - begin, begin))
        if part is None:
            return None
        parts.append(part)
        begin = end
    return Links.concatenated(parts)


def _links_of(text: np.ndarray) -> Links | None:
    digit = (text - ord("0")) < 10  # uint8 wraps around
    dashes = text == _DASH
    blank = (text == ord(" ")) | (text == ord("\t")) | (text == ord("\r")) | (text == _NEWLINE)
    if not (digit | dashes | blank).all():
        return None
    edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    if len(starts) % 2 or len(starts) != 2 * int(dashes.sum()) or (ends - starts > _LONGEST).any():
        return None
    if not (np.array_equal(ends[::2] + 1, starts[1::2]) and dashes[ends[::2]].all()):
        return None
    numbers = _numbers(text, digit, starts, ends).reshape(-1, 2)
    newlines = np.flatnonzero(text == _NEWLINE)
    lines = len(newlines) + int(text[-1] != _NEWLINE)
    return _sorted(np.searchsorted(newlines, starts[::2]), numbers, lines)


def _numbers(text: np.ndarray, digit: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """int64: the numbers in the runs [start, end) of digits."""
    if not len(starts):
        return np.zeros(0, np.int64)
    sizes = ends - starts
    places = np.repeat(ends, sizes) - np.flatnonzero(digit) - 1
    values = (text[digit] - ord("0")).astype(np.int64) * (10 ** np.arange(_LONGEST, dtype=np.int64))[places]
    return np.add.reduceat(values, np.cumsum(sizes) - sizes)


def _sorted(line: np.ndarray, numbers: np.ndarray, lines: int) -> Links | None:
    """Links from (s, t) in the order of their lines; None if the numbers are too large to sort them so."""
    widths = numbers.max(axis=0, initial=0) + 1
    if lines * int(widths[0]) * int(widths[1]) >= 1 << 62:
        return None
    keys = (line * widths[0] + numbers[:, 0]) * widths[1] + numbers[:, 1]
    if (keys[1:] <= keys[:-1]).any():
        keys.sort()
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    rows, target = np.divmod(keys, widths[1])
    offsets = np.searchsorted(rows, np.arange(lines + 1, dtype=np.int64) * widths[0]).astype(np.int64)
    return Links(np.stack([rows % widths[0], target], axis=1).astype(np.int32), offsets)
