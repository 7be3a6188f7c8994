"""Fitted joint aligners without their least likely word pairs, for files of a given size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.known_model import FittedCounts
from alignkit.classical.memory import parse_size, show_size
from alignkit.classical.translation_table import PairTable
from alignkit.errors import AlignkitError

#: Bytes of a word pair in a saved file: its target word, two probabilities and a count.
PAIR = 16
# Names of arrays, the header and the directory of the file.
ENVELOPE = 1 << 14


def parse_model_size(text: str) -> tuple[int | None, int | None]:
    """(bytes, None) of "100M", (None, word pairs) of "500000"; raises AlignkitError if it is neither."""
    if text.strip().isdigit():
        pairs = int(text)
        if not 1 <= pairs < 2**63:
            raise AlignkitError(f"a model needs at least one word pair, not {pairs}")
        return None, pairs
    return parse_size(text), None


def fixed_size(model: JointHMM) -> int:
    """Bytes of a saved model beside its word pairs: words, fertilities, jumps."""
    arrays = model.arrays()
    return sum(array.nbytes for array in arrays.values()) - PAIR * len(model.table.values) + ENVELOPE


def pruned_to_size(model: JointHMM, size: int) -> JointHMM:
    """The model with as many word pairs as a file of this size has room for; see :func:`pruned_to_pairs`.

    Raises:
        AlignkitError: there is room for none; the message has the least size.
    """
    fixed = fixed_size(model)
    if size < fixed + PAIR:
        raise AlignkitError(
            f"a model of {show_size(size)} has no room for word pairs: the words of this text take "
            f"{show_size(fixed + PAIR)}"
        )
    return pruned_to_pairs(model, (size - fixed) // PAIR)


def pruned_to_pairs(model: JointHMM, pairs: int) -> JointHMM:
    """The model with this number of word pairs, those with the most expected links.

    To the model the others are as pairs that never met: each gets what remains for such. Most pairs that meet in a
    text have hardly any expected link.

    Raises:
        AlignkitError: the model does not have the counts that it was fitted with.
    """
    if model.counts is None:
        raise AlignkitError("a model without counts cannot be pruned to a size")
    counts, table = model.counts.pairs, model.table
    if pairs >= len(counts):
        return model
    # Of equals the first are kept, so that the result does not depend on how a library sorts.
    kept = np.zeros(len(counts), bool)
    kept[np.argsort(-counts, kind="stable")[:pairs]] = True
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[table.offsets]
    assert model.reverse is not None
    return replace(
        model,
        table=PairTable(offsets, table.columns[kept], table.values[kept], table.width),
        forward=replace(model.forward, emission=model.forward.emission[kept]),
        reverse=replace(model.reverse, emission=model.reverse.emission[kept]),
        counts=FittedCounts(counts[kept], model.counts.null),
    )


def pruned(model: JointHMM, size: str) -> tuple[JointHMM, str]:
    """A model pruned to "100M" or "500000" word pairs, and a sentence that says what was lost.

    Raises:
        AlignkitError: as of :func:`parse_model_size`, :func:`pruned_to_size` and :func:`pruned_to_pairs`.
    """
    limit, pairs = parse_model_size(size)
    smaller = pruned_to_pairs(model, pairs or 0) if limit is None else pruned_to_size(model, limit)
    assert model.counts is not None
    assert smaller.counts is not None
    before, after = len(model.table.values), len(smaller.table.values)
    links = float(model.counts.pairs.sum(dtype=np.float64))
    lost = 1 - float(smaller.counts.pairs.sum(dtype=np.float64)) / links if links > 0 else 0.0
    return smaller, f"{after:,} of {before:,} word pairs are kept; the others had {lost:.2%} of all expected links"
