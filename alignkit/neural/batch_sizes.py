"""The sizes of scoring batches, for CPUs and for GPUs. Results depend on them in their last bits at most."""

from __future__ import annotations

from typing import NamedTuple

import torch

UNLIMITED = 1 << 40
MIB = 1 << 20


class BatchSizes(NamedTuple):
    """Limits of a batch and of what is made of it at a time.

    Attributes:
        pairs: sentence pairs (or texts, or hypotheses).
        elements: matrix elements T·L, counted with padding; one pair may have more.
        equal_lengths: only pairs of one source length share a batch: to pack sentences of unlike lengths takes a
            CPU longer than smaller batches do.
        logits: bytes of logits at a time: on a CPU, smaller products use it less well and larger sums leave its
            cache.
        derivatives: numbers at a time, in saliency, of an encoder's derivatives per layer and direction, and, in
            leave-one-out, of its states; a longer sentence takes several passes.
    """

    pairs: int
    elements: int = UNLIMITED
    equal_lengths: bool = True
    logits: int = 16 * MIB
    derivatives: int = 1 << 25


#: what is computed -> sizes on a CPU; on a CPU the working set of a step of saliency fits its cache
CPU = {
    "probes": BatchSizes(64, 1 << 14),
    "saliency": BatchSizes(64, 1 << 13),
    "leave_one_out": BatchSizes(64, 1 << 12),
    "classifier": BatchSizes(64, 1 << 13, equal_lengths=False),
    "evaluation": BatchSizes(64),
    "translation": BatchSizes(128),
    "proxy": BatchSizes(256),
}
GPU = {
    "probes": BatchSizes(1024, 1 << 20, equal_lengths=False, logits=512 * MIB),
    "saliency": BatchSizes(512, 1 << 18, logits=512 * MIB),
    "leave_one_out": BatchSizes(256, 1 << 16, logits=512 * MIB),
    "classifier": BatchSizes(512, 1 << 18, equal_lengths=False),
    "evaluation": BatchSizes(64, equal_lengths=False),
    "translation": BatchSizes(128, equal_lengths=False),
    "proxy": BatchSizes(256),
}


def batch_sizes(purpose: str, device: torch.device) -> BatchSizes:
    """The sizes for a purpose, a name in :data:`CPU`, on a device."""
    return (GPU if device.type == "cuda" else CPU)[purpose]
