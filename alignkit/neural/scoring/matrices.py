"""Scores of a bitext, batch by batch: from padded matrices on a device to ragged ones in the host's memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.neural.batch_sizes import BatchSizes
from alignkit.neural.batching import Batch, Batcher, scoring_batches, to_device
from alignkit.neural.devices import device_of
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext


def score_batches(
    network: TranslationNetwork,
    bitext: Bitext,
    score: Callable[[Batch], Tensor],
    sizes: BatchSizes,
    gradients: bool = False,
) -> Scores:
    """Scores of a bitext, batch by batch, in evaluation mode.

    Args:
        network: on the device that computes.
        bitext: M pairs of the network's own tokens.
        score: gives the matrix elements of a batch, in the order of :func:`element_places`.
        sizes: of the batches.
        gradients: whether ``score`` needs autograd.
    """
    shapes = bitext.shapes
    offsets = flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device_of(network))
    with evaluation_mode(network, gradients):
        parts = [(pairs, score(batcher(pairs))) for pairs in scoring_batches(bitext, sizes)]
    elements = np.diff(offsets)
    for pairs, flat in parts:  # the host waits for the device only now
        values[_runs(offsets[pairs], elements[pairs])] = flat.cpu().numpy()
    return finite_scores(values, offsets, shapes)


def finite_scores(values: np.ndarray, offsets: np.ndarray, shapes: np.ndarray) -> Scores:
    """The scores of a network; arguments as of :class:`Scores`.

    Raises:
        AlignkitError: one of them is not finite.
    """
    if not np.isfinite(values).all():
        raise AlignkitError(
            "the network gives scores that are not finite, so its weights are damaged or its training diverged; "
            "train it again, with a smaller learning rate"
        )
    return Scores(values, offsets, shapes)


def _runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """int64: the indices in runs of the given starts and sizes, one run after another."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)


def element_places(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """The indices of the two tokens of every matrix element of a batch, pair by pair and row by row.

    Returns:
        int64 indices of t in a flattened (B, T) array, and of l in a flattened (B, L) array.
    """
    tall, wide = batch.target_lengths, batch.source_lengths
    sizes = tall * wide
    inside = _runs(np.zeros_like(sizes), sizes)  # index of the element in its own matrix
    width = np.repeat(wide, sizes)
    pair = np.repeat(np.arange(len(sizes)), sizes)
    row = pair * batch.target.shape[0] + inside // width
    column = pair * batch.source.shape[0] + inside % width
    return to_device(row, device), to_device(column, device)


def elements_of(matrices: Tensor, batch: Batch) -> Tensor:
    """The elements of padded matrices (B, T, L) that are not padding, pair by pair and row by row."""
    row, column = element_places(batch, matrices.device)
    length = matrices.shape[2]
    return matrices.reshape(-1, length)[row, column % length]
