"""Total-variation denoising of sequences, on which fusedmax and SparseMAP attention stand."""

from __future__ import annotations

from alignkit.kernels.compile import kernel


@kernel
def fill(out, first, last, value):
    """Writes a value at the places ``first`` to ``last``, both inclusive."""
    for i in range(first, last + 1):
        out[i] = value


@kernel
def denoise(values, out, strength):
    """The minimiser x of 1/2 sum (x_i - v_i)^2 + strength · sum |x_{i+1} - x_i| (Condat 2013, algorithm 1).

    Args:
        values: float64 (L,), L >= 1.
        out: float64 (L,), receives x; neighbours that are fused have the same bits.
        strength: at least 0.
    """
    last = len(values) - 1
    start = place = low_end = high_end = 0  # of the segment; the current place; the ends of both candidates
    low, high = values[0] - strength, values[0] + strength
    low_slack, high_slack = strength, -strength
    while start <= last:  # Numba 0.68 miscompiles this loop as `while True` with a return
        if place == last:
            if low_slack < 0.0:  # the segment must jump down, and did so after low_end
                low_end = max(low_end, start)
                fill(out, start, low_end, low)
                start = low_end + 1
                place = low_end = start
                low = values[start]
                low_slack = strength
                high_slack = low + strength - high
            elif high_slack > 0.0:
                high_end = max(high_end, start)
                fill(out, start, high_end, high)
                start = high_end + 1
                place = high_end = start
                high = values[start]
                high_slack = -strength
                low_slack = high - strength - low
            else:
                low += low_slack / (place - start + 1)
                fill(out, start, last, low)
                start = last + 1
        elif values[place + 1] + low_slack < low - strength:
            fill(out, start, low_end, low)
            start = low_end + 1
            place = low_end = high_end = start
            low, high = values[start], values[start] + 2.0 * strength
            low_slack, high_slack = strength, -strength
        elif values[place + 1] + high_slack > high + strength:
            fill(out, start, high_end, high)
            start = high_end + 1
            place = low_end = high_end = start
            low, high = values[start] - 2.0 * strength, values[start]
            low_slack, high_slack = strength, -strength
        else:
            place += 1
            low_slack += values[place] - low
            high_slack += values[place] - high
            if low_slack >= strength:
                low += (low_slack - strength) / (place - start + 1)
                low_slack = strength
                low_end = place
            if high_slack <= -strength:
                high += (high_slack + strength) / (place - start + 1)
                high_slack = -strength
                high_end = place


@kernel
def denoise_rows(values, lengths, strength, out):
    """:func:`denoise` of the first ``lengths[n]`` numbers of every row; the rest of ``out`` is not touched.

    Args:
        values: float64 (N, L).
        lengths: int64 (N,), from 0 to L.
        strength: at least 0.
        out: float64 (N, L).
    """
    for n in range(len(values)):
        if lengths[n]:
            denoise(values[n, : lengths[n]], out[n, : lengths[n]], strength)
