"""Saliency: the dependence of each target token's probability on each source token.

There are two measures, both under teacher forcing: the derivative in the scale of the token's embedding (delta),
and the loss of log probability when the token is removed (loo).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from alignkit.neural.batch_sizes import BatchSizes, batch_sizes
from alignkit.neural.batching import Batch
from alignkit.neural.devices import device_of
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.scoring.lstm_saliency import has_derivatives, lstm_saliency
from alignkit.neural.scoring.matrices import elements_of, score_batches
from alignkit.neural.scoring.output_layer import feature_gradients, log_probabilities_of
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


def saliency_scores(network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None) -> Scores:
    """delta[t, l] = d log p(y_t | y_<t, x) / d omega_l at omega = 1, where omega_l scales the embedding of x_l.

    The derivative is total: through the attention, the encoder's states and the decoder's initial state. It may be
    negative (Snell et al. 2021, section 3.1). Where the derivatives of a network and its attention are not written
    out (:func:`alignkit.neural.scoring.lstm_saliency.has_derivatives`), autograd computes them: the result is the
    same, but takes a backward pass for every target position. Arguments as in
    :func:`alignkit.neural.scoring.probes.attention_scores`.
    """
    sizes = sizes or batch_sizes("saliency", device_of(network))
    if has_derivatives(network):
        return score_batches(
            network, bitext, lambda batch: elements_of(lstm_saliency(network, batch, sizes), batch), sizes
        )
    return score_batches(
        network, bitext, lambda batch: elements_of(autograd_saliency(network, batch, sizes), batch), sizes, True
    )


def autograd_saliency(network: TranslationNetwork, batch: Batch, sizes: BatchSizes) -> Tensor:
    """delta (B, T, L) of a batch for any network, by autograd.

    Args:
        network: within :func:`alignkit.neural.scoring.modes.evaluation_mode`, with gradients.
        batch: B pairs.
        sizes: its number of logits at a time is used.
    """
    omega = torch.ones(batch.source.shape, dtype=network.output.weight.dtype, device=batch.source.device)
    omega.requires_grad_()
    encoding = network.encode(batch.source, batch.source_lengths, omega)
    x = network.decode(batch.previous, encoding, encoding.start).features
    with torch.no_grad():
        by_feature = feature_gradients(network.output, x, batch, sizes.logits)
    # Pairs are independent of each other, so one pass serves position t of all of them.
    rows = [
        torch.autograd.grad(x[:, t], omega, by_feature[:, t], retain_graph=True)[0].t() for t in range(x.shape[1])
    ]
    return torch.stack(rows, 1)


def leave_one_out_scores(network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None) -> Scores:
    """loo[t, l] = log p(y_t | y_<t, x) - log p(y_t | y_<t, x without x_l), nats.

    A source without its only token is empty; see :meth:`TranslationNetwork.encode`.
    """
    sizes = sizes or batch_sizes("leave_one_out", device_of(network))
    return score_batches(network, bitext, lambda batch: _leave_one_out(network, batch, sizes), sizes)


def _leave_one_out(network: TranslationNetwork, batch: Batch, sizes: BatchSizes) -> Tensor:
    """The matrix elements of a batch whose sources are of one length."""
    length, size = batch.source.shape
    x = network(batch.source, batch.source_lengths, batch.previous)
    y, output = batch.targets, network.output
    whole = log_probabilities_of(output, y, x.flatten(0, 1)[batch.places].__getitem__, sizes.logits)
    lost = x.new_zeros(size * len(batch.previous), length)
    places = max(1, sizes.derivatives // (length * size * output.in_features))
    for low in range(0, length, places):
        holes = np.arange(low, min(low + places, length))
        rows = _without(network, batch, holes)[:, batch.places].flatten(0, 1)
        logs = log_probabilities_of(output, y.repeat(len(holes)), rows.__getitem__, sizes.logits)
        lost[batch.places, low : low + len(holes)] = (whole - logs.view(len(holes), -1)).t()
    return elements_of(lost.view(size, -1, length), batch)


def _without(network: TranslationNetwork, batch: Batch, holes: np.ndarray) -> Tensor:
    """Features (R, B T, F) of a batch, without the source token at each of the R holes."""
    length, size = batch.source.shape
    left = np.arange(length - 1)[:, None]
    kept = torch.from_numpy(left + (left >= holes)).to(batch.source.device)
    lengths = np.full(len(holes) * size, length - 1, np.int64)
    previous = batch.previous.unsqueeze(1).expand(-1, len(holes), -1).flatten(1)
    x = network(batch.source[kept].flatten(1), lengths, previous)
    return x.reshape(len(holes), -1, x.shape[2])
