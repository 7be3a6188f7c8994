"""Saliency of the LSTM encoder-decoder by derivatives that are written out, much faster than autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from alignkit.neural.batch_sizes import BatchSizes
from alignkit.neural.batching import Batch
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import AttentionWithDerivatives, StateGradient
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.scoring.lstm_derivatives import (
    Cell,
    Tangents,
    Trace,
    first_tangents,
    next_tangents,
    pull_back,
    trace,
)
from alignkit.neural.scoring.output_layer import feature_gradients


def has_derivatives(network: TranslationNetwork) -> bool:
    """True if :func:`lstm_saliency` can compute the saliency of this network."""
    return isinstance(network, EncoderDecoder) and isinstance(network.attention, AttentionWithDerivatives)


def lstm_saliency(network: TranslationNetwork, batch: Batch, sizes: BatchSizes) -> Tensor:
    """delta (B, T, L) of a batch whose sources are of one length, in the network's own precision.

    Derivatives of the output layer and the decoder are computed in reverse mode, for the T outputs at once, and
    those of the encoder in forward mode, for the L scales at once, so that neither runs T or L times.

    Args:
        network: one for which :func:`has_derivatives` is true.
        batch: B pairs.
        sizes: its numbers of logits and of derivatives at a time are used.
    """
    assert isinstance(network, EncoderDecoder)
    layers = range(network.settings.layers)
    ways = (False, True) if network.settings.bidirectional else (False,)
    cells = [[Cell.of(network.encoder, k, way) for way in ways] for k in layers]
    traces, x = [], network.embedding(batch.source)
    for row in cells:
        traces.append([trace(cell, x) for cell in row])
        x = torch.cat([seen.h for seen in traces[-1]], 2)
    decoder = [Cell.of(network.decoder, k) for k in layers]
    steps, s = [], network.embedding(batch.previous)
    for cell, seen in zip(decoder, traces, strict=True):
        start = [torch.stack([way.last[part] for way in seen]).mean(0) for part in (0, 1)]
        steps.append(trace(cell, s, (start[0], start[1])))
        s = steps[-1].h
    by_s, by_encoding = _by_states(network, s.transpose(0, 1), x.transpose(0, 1), batch, sizes)
    by_start = pull_back(decoder, steps, by_s.transpose(0, 1).contiguous())
    length, size = len(x), batch.source.shape[1]
    delta = x.new_empty(size, len(s), length)
    places = max(1, sizes.derivatives // (length * size * max(network.settings.hidden, len(s))))
    for low in range(0, length, places):
        high = min(low + places, length)
        delta[:, :, low:high] = _scaled(cells, traces, by_encoding, by_start, low, high)
    return delta


def _by_states(
    network: EncoderDecoder, s: Tensor, h: Tensor, batch: Batch, sizes: BatchSizes
) -> tuple[Tensor, tuple[StateGradient, ...]]:
    """The derivatives of log p(y_t) in s_t (B, T, H), also through the attention, and the terms of those in h_l.

    Args:
        network, batch, sizes: as of :func:`lstm_saliency`.
        s: (B, T, H).
        h: (B, L, D).
    """
    attention = network.attention
    assert isinstance(attention, AttentionWithDerivatives)
    with one_thread(s.device):
        context, weights = attention(s, h, None)
    c = network.context(context).expand(-1, s.shape[1], -1)
    by_s, by_projected = _by_features(network, s, c, batch, sizes)
    by_query, by_encoding = attention.derivatives(s, h, weights, by_projected @ network.context.weight)
    return by_s if by_query is None else by_s + by_query, by_encoding


def _by_features(
    network: EncoderDecoder, s: Tensor, c: Tensor, batch: Batch, sizes: BatchSizes
) -> tuple[Tensor, Tensor]:
    """The derivatives of log p(y_t) in s_t and in the projected context c_t, each (B, T, H)."""
    x = network.features(s, c)
    rows = feature_gradients(network.output, x, batch, sizes.logits)
    if network.settings.output == "sum":
        return rows, rows
    rows = rows * (x > 0)
    hidden = network.settings.hidden
    return rows @ network.combine.weight[:, :hidden], rows @ network.combine.weight[:, hidden:]


def _scaled(
    cells: list[list[Cell]],
    traces: list[list[Trace]],
    by_encoding: Sequence[StateGradient],
    by_start: list[tuple[Tensor, Tensor]],
    low: int,
    high: int,
) -> Tensor:
    """delta (B, T, R) of the places low <= l < high."""
    rows: list[Tangents] = []
    delta: Tensor | None = None
    for cell_row, trace_row, starts in zip(cells, traces, by_start, strict=True):
        pairs = list(zip(cell_row, trace_row, strict=True))
        if rows:
            rows = [next_tangents(cell, seen, rows) for cell, seen in pairs]
        else:
            rows = [first_tangents(cell, seen, low, high) for cell, seen in pairs]
        for part, by in enumerate(starts):  # h, then c
            start = torch.stack([row.last[part] for row in rows]).mean(0)
            found = _products(by.transpose(0, 1), start)
            delta = found if delta is None else delta + found
    assert delta is not None
    steps, places = rows[0].dh.shape[:2]
    size = rows[0].dh.shape[3]
    for weights, directions in by_encoding:
        along = [
            _products(part, row.dh.flatten(0, 1))
            for part, row in zip(directions.split(size, 2), rows, strict=True)
        ]
        shares = torch.stack(along).sum(0).view(*weights.shape[:2], steps, places)
        delta += (weights.unsqueeze(3) * shares).sum(2)
    return delta


def _products(rows: Tensor, tangents: Tensor) -> Tensor:
    """(B, T, N): the products of rows (B, T, H) with tangents (N, B, H)."""
    with one_thread(rows.device):  # as in attention: the last bits of small products depend on the threads
        return torch.bmm(rows, tangents.permute(1, 2, 0))
