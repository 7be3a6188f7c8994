"""Kernels that sort the values of word pairs by the process they go to, or come from.

A word pair that several processes have is counted by them in their order: ``before`` and ``after`` are the numbers
of its next neighbours, and a mask has a bit for each of its processes.
"""

from __future__ import annotations

import numpy as np

from alignkit.kernels.compile import kernel

#: The number of no process.
NONE = 255
_ONE = np.uint64(1)


@kernel
def neighbours(masks, rank, before, after):
    """For the masks uint64 (K,) that have the bit of ``rank``, one after another: the numbers uint8 of the next
    lower and of the next higher bit, or NONE; returns how many there are."""
    n = 0
    own = _ONE << np.uint64(rank)
    for k in range(len(masks)):
        if masks[k] & own:
            lower = NONE
            for bit in range(rank - 1, -1, -1):
                if masks[k] & (_ONE << np.uint64(bit)):
                    lower = bit
                    break
            higher = NONE
            for bit in range(rank + 1, 64):
                if masks[k] & (_ONE << np.uint64(bit)):
                    higher = bit
                    break
            before[n] = lower
            after[n] = higher
            n += 1
    return n


@kernel
def highest_bits(masks, numbers):
    """numbers uint8 (K,), filled with that of the highest bit of each mask uint64 (K,)."""
    for k in range(len(masks)):
        bit, mask = 0, masks[k] >> _ONE
        while mask:
            mask >>= _ONE
            bit += 1
        numbers[k] = bit


@kernel
def pack(processes, values, places, out):
    """out[places[p]] = values[k], p = processes[k] uint8 (K,), and places[p] moves on; places int64 (256,)."""
    for k in range(len(processes)):
        p = processes[k]
        out[places[p]] = values[k]
        places[p] += 1


@kernel
def unpack(processes, packed, places, values):
    """The inverse of :func:`pack`; values of the process NONE stay as they are."""
    for k in range(len(processes)):
        p = processes[k]
        if p != NONE:
            values[k] = packed[places[p]]
            places[p] += 1


@kernel
def add_unpacked(processes, packed, places, values):
    """values (K, 1 + C)[k, 1:] += packed[places[p]], p = processes[k] uint8 (K,), and places[p] moves on."""
    for k in range(len(processes)):
        p = processes[k]
        place = places[p]
        for c in range(packed.shape[1]):
            values[k, 1 + c] += packed[place, c]
        places[p] = place + 1


@kernel
def add_of_process(masks, rank, packed, sums):
    """sums int64 (K,) += the next one of ``packed``, where the masks uint64 (K,) have the bit of ``rank``."""
    own = _ONE << np.uint64(rank)
    n = 0
    for k in range(len(masks)):
        if masks[k] & own:
            sums[k] += packed[n]
            n += 1


@kernel
def pack_of_process(masks, rank, values, out):
    """Copies the rows of values (K, C) whose masks uint64 (K,) have the bit of ``rank`` to ``out``, one after
    another."""
    own = _ONE << np.uint64(rank)
    n = 0
    for k in range(len(masks)):
        if masks[k] & own:
            for c in range(values.shape[1]):
                out[n, c] = values[k, c]
            n += 1
