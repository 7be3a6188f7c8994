"""The bag-of-words proxy of section 2.3: word translation learned without attention.

p(y | x) = softmax(W mean_l e(x_l)), with no bias by default, is trained to predict every word of the target
sentence regardless of its position. Its gradient at initialisation is the co-occurrence table (equations 13, 14).
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import PROXY, ProxyAligner, load_payload, readable
from alignkit.neural.devices import batch_sizes, pick_device, to_device, usable
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.loop import adam, optimise
from alignkit.support.files import Record
from alignkit.support.stages import Stage
from alignkit.text.bitext import Bitext
from alignkit.types import Progress


class BagLoss(torch.autograd.Function):
    """Mean of -log softmax(W x_m)[y] over all (m, y) in the bags, in nats: the loss of the proxy.

    ``BagLoss.apply(x (B, K), weight (V, K), rows int64 (N,), y int64 (N,))``: token n belongs to bag rows[n].
    As of :class:`alignkit.neural.training.translation.TokenLoss`, the gradients come with the value.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, rows: Tensor, y: Tensor) -> Tensor:
        logits = x.mm(weight.t())
        count = max(len(y), 1)
        right = logits[rows, y].sum()
        lengths = torch.bincount(rows, minlength=len(x)).to(x.dtype)
        loss = (torch.logsumexp(logits, 1).dot(lengths) - right) / count
        # d loss / d logits[m] = (T_m softmax - counts of the words in bag m) / N
        torch.softmax(logits, 1, out=logits)
        logits *= (lengths / count).unsqueeze(1)
        ones = torch.full_like(y, -1.0 / count, dtype=x.dtype)
        logits.view(-1).index_add_(0, rows * len(weight) + y, ones)
        ctx.save_for_backward(logits.mm(weight), logits.t().mm(x))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient.mul_(grads[0]) for gradient in ctx.saved_tensors), None, None)


class _Bags:
    """The usable pairs of a bitext, as bags of words on a device."""

    def __init__(self, bitext: Bitext, device: torch.device) -> None:
        self.bitext, self.device, self.pairs = bitext, device, usable(bitext)

    def loss(self, pairs: np.ndarray, weights: list[Tensor]) -> Tensor:
        """Mean loss of the target tokens of some pairs, nats."""
        source, target = self.bitext.source.take(pairs), self.bitext.target.take(pairs)
        bags = np.repeat(np.arange(len(pairs)), target.lengths)
        arrays = (source.tokens.astype(np.int64), source.offsets[:-1], bags, target.tokens.astype(np.int64))
        words, starts, rows, y = (to_device(array, self.device) for array in arrays)
        embedding, output, *bias = weights
        x = embedding_bag(words, embedding, starts, mode="mean")
        if bias:  # is the weight of an input of 1
            x = torch.cat([x, x.new_ones(len(x), 1)], 1)
            output = torch.cat([output, bias[0].unsqueeze(1)], 1)
        return BagLoss.apply(x, output, rows, y)

    def total_loss(self, weights: list[Tensor]) -> float:
        """Mean loss of all target tokens, nats."""
        total, step = 0.0, batch_sizes("proxy", self.device).pairs
        lengths = self.bitext.target.lengths
        with torch.inference_mode():
            for low in range(0, len(self.pairs), step):
                some = self.pairs[low : low + step]
                total += self.loss(some, weights).item() * int(lengths[some].sum())
        return total / max(int(lengths[self.pairs].sum()), 1)


def fit_proxy(
    bitext: Bitext,
    valid: Bitext,
    settings: ProxySettings | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> ProxyAligner:
    """Train the proxy; the epoch with the lowest validation loss is kept.

    Args:
        bitext: training text; its two sides may have different vocabularies.
        valid: held-out text with the same vocabularies.
        settings: the paper's if not given.
        progress: called after each batch with (batches done, batches in all epochs, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the vocabularies of ``valid`` differ, or no pair has tokens on both sides.
    """
    settings = settings or ProxySettings()
    sides = ((bitext.source, valid.source), (bitext.target, valid.target))
    if any(one.vocabulary != other.vocabulary for one, other in sides):
        raise AlignkitError("the proxy's training and validation text must share their vocabularies")
    place = pick_device(device)
    bags, held = _Bags(bitext, place), _Bags(valid, place)
    if not len(bags.pairs):
        raise AlignkitError("cannot train a proxy: no pair of the text has tokens on both sides")
    # Without validation text, the loss of the training text chooses the epoch.
    judge = held if len(held.pairs) else bags
    # The initial weights are drawn as torch initialises such layers.
    generator, size = torch.Generator().manual_seed(settings.seed), settings.embedding
    bound, words = size**-0.5, len(bitext.target.vocabulary)
    embedding = torch.randn(len(bitext.source.vocabulary), size, generator=generator)
    shapes = ((words, size), (words,))[: 1 + settings.bias]
    output = [torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in shapes]
    weights = [part.to(place).requires_grad_() for part in (embedding, *output)]
    best, lowest = weights, math.inf
    starts = range(0, len(bags.pairs), settings.batch)
    steps, order = settings.epochs * len(starts), bags.pairs

    def loss(step: int) -> Tensor:
        nonlocal order
        epoch, number = divmod(step, len(starts))
        if number == 0:
            order = np.random.default_rng([settings.seed, epoch]).permutation(bags.pairs)
        return bags.loss(order[starts[number] : starts[number] + settings.batch], weights)

    with Stage("training", progress) as stage:
        for step in optimise(adam(weights, settings.learning_rate), loss, steps):
            if step % len(starts) == 0 and (now := judge.total_loss(weights)) < lowest:
                best, lowest = [part.detach().clone() for part in weights], now
            if step:
                stage(step, steps, f"proxy: validation loss {lowest:.3f}")
    vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
    return ProxyAligner(best[0], best[1], *vocabularies, settings, lowest, bitext.fingerprint())


PROXY_CACHE, BIASED_PROXY_CACHE = "proxy.pt", "proxy-bias.pt"  #: in a run directory


def proxy_of(
    folder: Path | None,
    training: Bitext,
    valid: Bitext,
    settings: ProxySettings,
    progress: Progress | None = None,
    device: str = "auto",
) -> ProxyAligner:
    """The proxy of the text that networks were trained on, kept beside them: read from there, or trained.

    Args:
        folder: where to keep the proxy, a run directory; None to train it in any case.
        training: the text.
        valid: says which epoch is the best. Without the run's validation text, the scored pairs do.
        settings, progress, device: as in :func:`fit_proxy`.
    """
    cache = None if folder is None else folder / (BIASED_PROXY_CACHE if settings.bias else PROXY_CACHE)
    if cache is not None and cache.exists():
        with suppress(AlignkitError):  # a damaged cache is trained again
            with readable(cache):
                kept = ProxyAligner.read(Record(cache, load_payload(cache, PROXY)), pick_device(device))
            if (kept.settings, kept.fingerprint) == (settings, training.fingerprint()):
                return kept
    proxy = fit_proxy(training, valid, settings, progress, device)
    if cache is not None:
        with suppress(AlignkitError):  # a run that cannot be written to can be compared all the same
            proxy.save(cache)
    return proxy
