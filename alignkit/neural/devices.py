"""What runs where: devices, threads and precision of torch, evaluation, and batches of text on the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError, first_line
from alignkit.support.threads import core_count, thread_count
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import BOS, PAD

Products = Literal["float32", "bfloat16"]
UNLIMITED = 1 << 40
MIB = 1 << 20


def set_threads(threads: int | None) -> None:
    """Set the number of threads that torch uses on the CPU; None leaves it as it is, but for a container's limit.

    With MKL (see :mod:`alignkit.neural`) results have the same bits with any number.

    Raises:
        AlignkitError: the number is out of range.
    """
    chosen = thread_count(threads) if threads is not None else min(torch.get_num_threads(), core_count())
    torch.set_num_threads(chosen)


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """On a CPU, the block runs on one thread."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; ``auto`` is a CUDA GPU where there is one, else the CPU.

    From then on, products on a GPU are those of float32, not of TF32.

    Raises:
        AlignkitError: there is no such device here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise AlignkitError(f"cannot compute on device {name!r}: {first_line(error)}") from error
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return device


def gpu_names() -> list[str]:
    """The names of the GPUs that torch can use."""
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def device_of(network: nn.Module) -> torch.device:
    """The device that a network's parameters lie on."""
    return next(network.parameters()).device


@contextmanager
def rounded(products: Products) -> Iterator[None]:
    """Let matrix products of float32 numbers round their factors to bfloat16 within the block, if asked to.

    Sums and all other operations stay in float32. Processors with units for bfloat16 (AMX) then multiply several
    times faster; on others nothing changes. The setting applies to the CPU and to the whole process.
    """
    if products == "float32":
        yield
        return
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@contextmanager
def evaluation_mode(network: nn.Module, gradients: bool = False) -> Iterator[None]:
    """Inference mode, unless gradients are asked for, with the network in evaluation mode.

    Afterwards every part of the network is in the mode that it was in, also if the block raises an error.

    Args:
        network: on the device that computes.
        gradients: keep what autograd needs.
    """
    parts = list(network.modules())
    modes = [part.training for part in parts]
    recurrent = [part for part in parts if isinstance(part, nn.RNNBase)]
    dropouts = [part.dropout for part in recurrent]
    network.eval()
    if gradients:
        # cuDNN has a recurrent layer's gradient only in training mode, which without dropout computes the same.
        for layer in recurrent:
            layer.dropout, layer.training = 0.0, True
    try:
        with torch.inference_mode(not gradients):
            yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
        for layer, dropout in zip(recurrent, dropouts, strict=True):
            layer.dropout = dropout


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

    def rows(self, output: nn.Linear) -> int:
        """The number of rows of an output layer's logits at a time; at least 16."""
        return max(16, self.logits // (4 * output.out_features))


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


@dataclass(frozen=True, eq=False)
class Batch:
    """B sentence pairs, padded at the end, time first.

    Attributes:
        pairs: int64 (B,), their indices in the bitext.
        source: int64 (L, B).
        source_lengths: int64 (B,), in the host's memory.
        target: int64 (T, B), y_1..y_T.
        previous: int64 (T, B), BOS y_1..y_{T-1}, the decoder's input.
        target_lengths: int64 (B,), in the host's memory.
        places: int64 (N,), the indices of the N tokens that are not padding in a flattened (B, T) array.
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
        """int64 (N,): the target tokens without padding, pair by pair."""
        return self.target.t().reshape(-1)[self.places]


class DeviceCorpus:
    """A corpus whose tokens are stored on the device, where a batch is gathered by one indexing operation."""

    def __init__(self, corpus: Corpus, device: torch.device) -> None:
        self.lengths = corpus.lengths
        self._starts = corpus.offsets[:-1]
        # The last token is the one that padding reads.
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
    """The array on the device; a copy to a GPU does not block."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Batcher:
    """A bitext on a device, and batches of it."""

    def __init__(self, bitext: Bitext, device: torch.device) -> None:
        self.device = device
        self.source = DeviceCorpus(bitext.source, device)
        self.target = DeviceCorpus(bitext.target, device)

    def __call__(self, pairs: np.ndarray) -> Batch:
        source, source_lengths = self.source.gather(pairs)
        target, target_lengths = self.target.gather(pairs)
        previous = torch.cat([torch.full_like(target[:1], BOS), target[:-1]])
        real = np.arange(target.shape[0]) < target_lengths[:, None]
        places = to_device(np.flatnonzero(real), self.device)
        return Batch(pairs, source, source_lengths, target, previous, target_lengths, places)


def usable(bitext: Bitext) -> np.ndarray:
    """int64: the pairs with tokens on both sides; the others have no matrix elements and no loss."""
    return np.flatnonzero(bitext.shapes.min(1) > 0)


def training_batches(bitext: Bitext, batch: int, seed: int, epoch: int, buckets: bool = True) -> list[np.ndarray]:
    """The batches of an epoch: every usable pair once, in an order determined by (seed, epoch).

    With ``buckets``, a batch holds pairs of one source length: pairs are shuffled and grouped by length, what does
    not fill a batch is joined in order of length, and the batches are shuffled. The number of batches is thus the
    same in every epoch.
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
    """All usable pairs in batches of similar lengths, which need little padding."""
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


def text_batches(text: LabelledText, device: torch.device) -> Iterator[tuple[np.ndarray, Tensor, np.ndarray]]:
    """The texts that have words, in batches for a classifier on a device.

    Yields:
        int64 (B,), which texts they are, and what :meth:`DeviceCorpus.gather` returns of them.
    """
    corpus = DeviceCorpus(text.corpus, device)
    for texts in scoring_batches(text.bitext, batch_sizes("classifier", device)):
        yield (texts, *corpus.gather(texts))
