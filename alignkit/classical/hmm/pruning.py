"""Fitted joint aligners without their least likely word pairs, for files of a given size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.joint_views import JointViews
from alignkit.classical.hmm.known_model import FittedCounts
from alignkit.classical.lexical_model import PairTable
from alignkit.classical.memory import parse_size, show_size
from alignkit.errors import AlignkitError

#: Bytes of a word pair in a saved file: its target word, two probabilities and a count.
PAIR = 16
# Names of arrays, the header and the directory of the file.
ENVELOPE = 1 << 14
Model = JointHMM | JointViews


def parse_model_size(text: str) -> tuple[int | None, int | None]:
    """(bytes, None) of "100M", (None, word pairs) of "500000"; raises AlignkitError if it is neither."""
    if text.strip().isdigit():
        pairs = int(text)
        if not 1 <= pairs < 2**63:
            raise AlignkitError(f"a model needs at least one word pair, not {pairs}")
        return None, pairs
    return parse_size(text), None


def fixed_size(model: Model) -> int:
    """Bytes of a saved model beside its word pairs: words, fertilities, jumps, subwords."""
    models = _models(model)
    arrays = [array for each in models for array in each.arrays().values()]
    if isinstance(model, JointViews):
        arrays += [array for view in model.views for array in view.arrays().values()]
    pairs = sum(len(each.table.values) for each in models)
    return sum(array.nbytes for array in arrays) - PAIR * pairs + ENVELOPE * len(models)


def pruned_to_size(model: Model, size: int) -> Model:
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


def pruned_to_pairs(model: Model, pairs: int) -> Model:
    """The model with this number of pairs of words, or of subwords, those with the most expected links.

    To the model the others are as pairs that never met: each gets what remains for such. Most pairs that meet in a
    text have hardly any expected link.

    Raises:
        AlignkitError: the model does not have the counts that it was fitted with.
    """
    models = _models(model)
    counts = np.concatenate([_counts_of(each).pairs for each in models])
    if pairs >= len(counts):
        return model
    # Of equals the first are kept, so that the result does not depend on how a library sorts.
    kept = np.zeros(len(counts), bool)
    kept[np.argsort(-counts, kind="stable")[:pairs]] = True
    parts = np.split(kept, np.cumsum([len(each.table.values) for each in models])[:-1])
    smaller = tuple(_with_pairs(each, part) for each, part in zip(models, parts, strict=True))
    if isinstance(model, JointViews):
        return replace(model, models=smaller)
    return smaller[0]


def pruned(model: Model, size: str) -> tuple[Model, str]:
    """A model pruned to "100M" or "500000" word pairs, and a sentence that says what was lost.

    Raises:
        AlignkitError: as of :func:`parse_model_size`, :func:`pruned_to_size` and :func:`pruned_to_pairs`.
    """
    limit, pairs = parse_model_size(size)
    smaller = pruned_to_pairs(model, pairs or 0) if limit is None else pruned_to_size(model, limit)
    (before, links), (after, kept) = (_pairs_and_links(each) for each in (model, smaller))
    lost = 1 - kept / links if links > 0 else 0.0
    return smaller, f"{after:,} of {before:,} word pairs are kept; the others had {lost:.2%} of all expected links"


def _models(model: Model) -> tuple[JointHMM, ...]:
    return model.models if isinstance(model, JointViews) else (model,)


def _counts_of(model: JointHMM) -> FittedCounts:
    if model.counts is None:
        raise AlignkitError("a model without counts cannot be pruned to a size")
    return model.counts


def _with_pairs(model: JointHMM, kept: np.ndarray) -> JointHMM:
    """A model with those of its word pairs that are in ``kept``, bool (K,)."""
    table, counts, forward, reverse = model.table, _counts_of(model), model.forward, model.reverse
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[table.offsets]
    assert reverse is not None
    return replace(
        model,
        table=PairTable(offsets, table.columns[kept], table.values[kept], table.width),
        forward=replace(forward, emission=forward.emission[kept]),
        reverse=replace(reverse, emission=reverse.emission[kept]),
        counts=FittedCounts(counts.pairs[kept], counts.null),
    )


def _pairs_and_links(model: Model) -> tuple[int, float]:
    """The number of word pairs, and of their expected links."""
    counts = [_counts_of(each).pairs for each in _models(model)]
    return sum(map(len, counts)), sum(float(each.sum(dtype=np.float64)) for each in counts)
