"""Batches: which pairs go together, and their padded tensors, cut from text that stays on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from alignkit.neural.batch_sizes import BatchSizes
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, PAD


@dataclass(frozen=True, eq=False)
class Batch:
    """B sentence pairs, padded at the end, time first.

    Attributes:
        pairs: int64 (B,), their places in the bitext.
        source: int64 (L, B).
        source_lengths: int64 (B,), in the host's memory.
        target: int64 (T, B), y_1..y_T.
        previous: int64 (T, B), BOS y_1..y_{T-1}, the decoder's input.
        target_lengths: int64 (B,), in the host's memory.
        places: int64 (N,), where the N real tokens stand in a flattened (B, T) array, pair by pair.
    """

    pairs: np.ndarray
    source: Tensor
    source_lengths: np.ndarray
    target: Tensor
    previous: Tensor
    target_lengths: np.ndarray
    places: Tensor

    @property
    def targets(self) -> Tensor:
        """int64 (N,): the real target tokens, pair by pair."""
        return self.target.t().reshape(-1)[self.places]


class DeviceCorpus:
    """A corpus whose tokens lie on the device, so that a batch is one gather there."""

    def __init__(self, corpus: Corpus, device: torch.device) -> None:
        self.lengths = corpus.lengths
        self._starts = corpus.offsets[:-1]
        # One more token at the end: the place that padding reads.
        tokens = np.append(corpus.tokens.astype(np.int64), PAD)
        self._tokens = torch.from_numpy(tokens).to(device)
        self.device = device

    def gather(self, pairs: np.ndarray) -> tuple[Tensor, np.ndarray]:
        """The sentences as int64 (L, B), padded with PAD, and their lengths (B,)."""
        lengths = self.lengths[pairs]
        steps = np.arange(lengths.max(initial=0))[:, None]
        places = np.where(steps < lengths, steps + self._starts[pairs], len(self._tokens) - 1)
        return self._tokens[to_device(places, self.device)], lengths


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """The array on the device; a copy to a GPU does not hold the program up."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Batcher:
    """Makes batches of a bitext on a device."""

    def __init__(self, bitext: Bitext, device: torch.device) -> None:
        self.device = device
        self.source = DeviceCorpus(bitext.source, device)
        self.target = DeviceCorpus(bitext.target, device)

    def __call__(self, pairs: np.ndarray) -> Batch:
        source, source_lengths = self.source.gather(pairs)
        target, target_lengths = self.target.gather(pairs)
        first = torch.full_like(target[:1], BOS)
        real = np.arange(target.shape[0]) < target_lengths[:, None]
        return Batch(
            pairs,
            source,
            source_lengths,
            target,
            torch.cat([first, target[:-1]]),
            target_lengths,
            to_device(np.flatnonzero(real), self.device),
        )


def usable(bitext: Bitext) -> np.ndarray:
    """int64: the pairs in which both sides have a token; the others have no matrix element and no loss."""
    return np.flatnonzero(bitext.shapes.min(1) > 0)


def training_batches(bitext: Bitext, batch: int, seed: int, epoch: int, buckets: bool = True) -> list[np.ndarray]:
    """The batches of an epoch: every usable pair once, in an order that (seed, epoch) decides.

    With ``buckets``, a batch holds pairs of one source length: pairs are shuffled, dealt to their lengths,
    and the remainders too few for a batch are joined, nearest lengths together; then the batches are
    shuffled. So the number of batches is the same in every epoch.
    """
    rng = np.random.default_rng([seed, epoch])
    pairs = rng.permutation(usable(bitext))
    if not buckets:
        return [pairs[i : i + batch] for i in range(0, len(pairs), batch)]
    lengths = bitext.source.lengths[pairs]
    pairs = pairs[np.argsort(lengths, kind="stable")]
    bounds = np.flatnonzero(np.diff(bitext.source.lengths[pairs])) + 1
    full, rest = [], [np.empty(0, np.int64)]
    for group in np.split(pairs, bounds):
        whole = len(group) // batch * batch
        full += [group[i : i + batch] for i in range(0, whole, batch)]
        rest.append(group[whole:])
    left = np.concatenate(rest)
    full += [left[i : i + batch] for i in range(0, len(left), batch)]
    return [full[i] for i in rng.permutation(len(full))]


def scoring_batches(bitext: Bitext, sizes: BatchSizes) -> Iterator[np.ndarray]:
    """All usable pairs in batches of like lengths, whose padding wastes little."""
    able = usable(bitext)
    rows, columns = bitext.target.lengths[able], bitext.source.lengths[able]
    order = np.lexsort((rows, columns))
    able, rows, columns = able[order], rows[order], columns[order]
    start, high = 0, 0
    for i in range(len(able)):
        high = max(high, int(rows[i]))
        size = i - start
        changed = sizes.equal_lengths and columns[i] != columns[start]
        elements = (size + 1) * high * int(columns[i])
        if size and (changed or size == sizes.pairs or elements > sizes.elements):
            yield able[start:i]
            start, high = i, int(rows[i])
    if start < len(able):
        yield able[start:]
