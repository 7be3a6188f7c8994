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
from alignkit.kernels.hmm_rows import ZERO


class KnownClassPairs(NamedTuple):
    """What a model counted between classes of words, for the classes of a text."""

    starts: np.ndarray  # int64 (A,), where the row of each source class of the text starts
    ends: np.ndarray  # int64 (A,), and where it ends
    columns: np.ndarray  # int32, target classes of the model
    values: np.ndarray  # float32, counts
    target_class: np.ndarray  # int32, the text's id of each target class of the model, -1 if it has none
    pairs: np.ndarray  # float32 (K,), which part of the counts in the rows is the model's


@kernel
def known_values(low, high, spans, rows, target_ids, dense, values):
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
def add_known_back_off(low, high, back_off, known, rows, sums, labels, evidence):
    """What :func:`.hmm_m_step.add_back_off` does, with the model's counts of pairs of classes added to the text's.

    Args:
        back_off: :class:`.hmm_m_step.BackOffClasses`; known: :class:`KnownClassPairs`.
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
