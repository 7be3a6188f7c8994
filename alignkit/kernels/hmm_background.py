"""Counts of a fitted hidden Markov aligner for the word pairs of another text, which it is adapted to.

Arguments that recur:
    rows: (offsets int64 (V_src + 1,), columns int32 (K,), values float32 (K,)), the word pairs of the text by
        source word, and their counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import kernel
from alignkit.kernels.hmm_m_step import share_class_counts
from alignkit.kernels.hmm_rows import ONE, ZERO


class BackgroundClasses(NamedTuple):
    """What a model counted between classes of words, for the classes of a text."""

    starts: np.ndarray  # int64 (A,), where the row of each source class of the text starts
    ends: np.ndarray  # int64 (A,), and where it ends
    columns: np.ndarray  # int32, target classes of the model
    values: np.ndarray  # float32, counts
    target_class: np.ndarray  # int32, the text's id of each target class of the model, -1 if it has none
    pairs: np.ndarray  # float32 (K,), which part of the counts in the rows is the model's


@kernel
def background_values(low, high, spans, rows, target_ids, dense, values):
    """values float32 (K,) = the model's number for the word pairs of source words low <= i < high.

    Args:
        spans: :class:`.translation_table.RowSpans`, the model's row of each source word of the text.
        target_ids: int32 (V_tgt,), the model's id of each target word of the text, -1 if unknown.
        dense: float32, zeros, one for each target word of the model; left so.
    """
    starts, ends, known_columns, known = spans
    offsets, columns, _ = rows
    for i in range(low, high):
        for k in range(starts[i], ends[i]):
            dense[known_columns[k]] = known[k]
        for k in range(offsets[i], offsets[i + 1]):
            o = target_ids[columns[k]]
            values[k] = dense[o] if o >= 0 else ZERO
        for k in range(starts[i], ends[i]):
            dense[known_columns[k]] = ZERO


@kernel
def add_background_back_off(low, high, back_off, known, rows, sums, labels, evidence):
    """What :func:`.hmm_m_step.add_back_off` does, with the model's counts of pairs of classes added to the text's.

    Args:
        back_off: :class:`.hmm_m_step.BackOffClasses`; known: :class:`BackgroundClasses`.
        rows: the values are the text's counts and the model's.
        sums, labels, evidence: as of ``add_back_off``.
    """
    members, first, target_class, _, _ = back_off
    starts, ends, known_columns, known_counts, known_class, known_pairs = known
    offsets, columns, values = rows
    for a in range(low, high):
        for k in range(starts[a], ends[a]):
            b = known_class[known_columns[k]]
            if b >= 0:
                sums[b] += known_counts[k]
        count = 0
        for j in range(first[a], first[a + 1]):
            i = members[j]
            for k in range(offsets[i], offsets[i + 1]):
                b = target_class[columns[k]]
                labels[count] = b
                count += 1
                sums[b] += values[k] - known_pairs[k]
        share_class_counts(a, back_off, rows, sums, labels, evidence)
        for k in range(starts[a], ends[a]):
            b = known_class[known_columns[k]]
            if b >= 0:
                sums[b] = 0.0


@kernel
def add_class_counts(low, high, text, offsets, is_new, counts, factors, evidence):
    """Adds the pseudo-counts of back-off to the new elements of pairs low <= m < high.

    Args:
        text: :class:`.hmm_e_step.TextArrays`; offsets: int64 (M + 1,), where its (T, L) matrices start.
        is_new: bool (P,), the elements that get something.
        counts: float32 (P,), what a model counted of pairs of the same classes.
        factors: float32 (V_src, 2) and (V_tgt, 2), as of :class:`.hmm_m_step.BackOffClasses`.
        evidence: float32 (P, 3), of which columns 1 and 2 are the forward and the reverse direction's.
    """
    source_factors, target_factors = factors
    x_tokens, x_offsets, y_tokens, y_offsets, _ = text
    for m in range(low, high):
        place = offsets[m]
        for t in range(y_offsets[m], y_offsets[m + 1]):
            o = y_tokens[t]
            for s in range(x_offsets[m], x_offsets[m + 1]):
                if is_new[place] and counts[place] > ZERO:
                    i = x_tokens[s]
                    for side in range(2):
                        factor = source_factors[i, side] * target_factors[o, side]
                        evidence[place, 1 + side] += counts[place] * factor
                place += 1


@kernel
def divide_by_totals(low, high, text, offsets, is_new, source_totals, target_totals, evidence):
    """Divides the new elements of pairs low <= m < high by the total of the state's word, in each direction.

    Args:
        text, offsets, is_new, evidence: as of :func:`add_class_counts`; no quotient exceeds 1.
        source_totals, target_totals: float32 (V_src,) and (V_tgt,).
    """
    x_tokens, x_offsets, y_tokens, y_offsets, _ = text
    for m in range(low, high):
        place = offsets[m]
        for t in range(y_offsets[m], y_offsets[m + 1]):
            o = y_tokens[t]
            for s in range(x_offsets[m], x_offsets[m + 1]):
                if is_new[place]:
                    evidence[place, 1] = min(evidence[place, 1] / source_totals[x_tokens[s]], ONE)
                    evidence[place, 2] = min(evidence[place, 2] / target_totals[o], ONE)
                place += 1
