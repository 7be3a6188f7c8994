"""Saliency: how much the probability of each target token depends on each source token.

Two answers, both under teacher forcing: the derivative with respect to the scale of the token's embedding (delta),
and what is lost if the token is removed (loo).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from alignkit.neural.batching import Batch
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import GeneralAttention
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
from alignkit.neural.scoring.probes import chosen_logs, chunk_rows, elements_of, score_batches
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

#: numbers of an encoder's tangents at a time, per layer and direction; a longer sentence takes several passes
TANGENTS = 1 << 25
#: pairs and matrix elements in a batch of saliency: on a CPU, the working set of a step fits its cache
CPU_SIZES, GPU_SIZES = (64, 1 << 13), (512, 1 << 18)


def saliency_scores(network: EncoderDecoder, bitext: Bitext) -> Scores:
    """delta[t, l] = d log p(y_t | y_<t, x) / d omega_l at omega = 1, where omega_l scales the embedding of x_l.

    The derivative is total: through the attention, the encoder's states and the decoder's first state. It may be
    negative. (DESIGN section 5; the saliency of Snell et al. 2021, section 3.1.)
    """
    return score_batches(network, bitext, _delta_elements, CPU_SIZES, GPU_SIZES, equal=True)


def leave_one_out_scores(network: EncoderDecoder, bitext: Bitext) -> Scores:
    """loo[t, l] = log p(y_t | y_<t, x) - log p(y_t | y_<t, x without x_l), nats.

    Without its only token a source is empty: its encoder gives no state and the decoder starts from zeros.
    """
    return score_batches(network, bitext, _loo_elements, (64, 1 << 12), (256, 1 << 16), equal=True)


def _delta_elements(network: EncoderDecoder, batch: Batch) -> Tensor:
    return elements_of(saliency(network, batch), batch)


def saliency(network: EncoderDecoder, batch: Batch) -> Tensor:
    """delta (B, T, L) of a batch whose sources are of one length, in the network's own precision.

    What does not depend on the source's length, the output layer and the decoder, is done backwards for the T
    outputs at once; the encoder forwards for the L scales at once: so neither runs T or L times.
    """
    layers = range(network.settings.layers)
    cells = [[Cell.of(network.encoder, k, way) for way in _ways(network)] for k in layers]
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
    by_s, by_state = _by_states(network, s.transpose(0, 1), x.transpose(0, 1), batch)
    by_start = pull_back(decoder, steps, by_s.transpose(0, 1).contiguous())
    length, size = len(x), batch.source.shape[1]
    delta = x.new_empty(size, len(s), length)
    places = max(1, TANGENTS // (length * size * max(network.settings.hidden, len(s))))
    for low in range(0, length, places):
        high = min(low + places, length)
        delta[:, :, low:high] = _scaled(cells, traces, by_state, by_start, low, high)
    return delta


def _ways(network: EncoderDecoder) -> tuple[bool, ...]:
    return (False, True) if network.settings.bidirectional else (False,)


def _by_states(
    network: EncoderDecoder, s: Tensor, h: Tensor, batch: Batch
) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
    """The derivatives of log p(y_t) with respect to the states that it is made of.

    Args:
        s: (B, T, H).
        h: (B, L, D).

    Returns:
        with respect to s_t, (B, T, H), also through the attention; and with respect to h_l as a sum of products:
        pairs of weights (B, T, L) and directions (B, T, D).
    """
    attention = network.attention
    with one_thread(s.device):
        context, weights = attention(s, h, None)
    by_s, by_context = _by_features(network, s, network.context(context), batch)
    by_mean = by_context @ network.context.weight
    if not isinstance(attention, GeneralAttention):
        return by_s, ((weights, by_mean),)
    query = attention.query(s)
    with one_thread(s.device):
        by_weight = torch.bmm(by_mean, h.transpose(1, 2))
        by_score = weights * (by_weight - (by_weight * weights).sum(2, keepdim=True))
        by_query = torch.bmm(by_score, h)
    by_s = by_s + by_query @ attention.query.weight
    return by_s, ((weights, by_mean), (by_score, query))


def _by_features(network: EncoderDecoder, s: Tensor, c: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The derivatives of log p(y_t) with respect to s_t and the projected context c_t, each (B, T, H).

    They are independent for each t; of the V x H product of the weights no derivative is made.
    """
    x = network.features(s, c)
    flat = x.flatten(0, 1)[batch.places]
    weight, bias, y = network.output.weight, network.output.bias, batch.targets
    by_feature = weight[y]
    for low in range(0, len(y), chunk_rows(flat, len(bias))):
        part = slice(low, low + chunk_rows(flat, len(bias)))
        logits = torch.addmm(bias, flat[part], weight.t())
        by_feature[part].addmm_(torch.softmax(logits, 1), weight, alpha=-1)
    rows = torch.zeros_like(x).flatten(0, 1)  # nothing depends on what is padded
    rows[batch.places] = by_feature
    rows = rows.view_as(x)
    if network.settings.output == "sum":
        return rows, rows
    rows = rows * (x > 0)
    hidden = network.settings.hidden
    return rows @ network.combine.weight[:, :hidden], rows @ network.combine.weight[:, hidden:]


def _scaled(
    cells: list[list[Cell]],
    traces: list[list[Trace]],
    by_state: tuple[tuple[Tensor, Tensor], ...],
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
    for weights, directions in by_state:
        along = [
            _products(part, row.dh.flatten(0, 1))
            for part, row in zip(directions.split(size, 2), rows, strict=True)
        ]
        shares = torch.stack(along).sum(0).view(*weights.shape[:2], steps, places)
        delta += (weights.unsqueeze(3) * shares).sum(2)
    return delta


def _products(rows: Tensor, tangents: Tensor) -> Tensor:
    """(B, T, N): the products of rows (B, T, H) with tangents (N, B, H)."""
    with one_thread(rows.device):  # as in the attention: small products, of which threads would change the bits
        return torch.bmm(rows, tangents.permute(1, 2, 0))


def _loo_elements(network: EncoderDecoder, batch: Batch) -> Tensor:
    length, size = batch.source.shape
    x = network(batch.source, batch.source_lengths, batch.previous)
    y = batch.targets
    whole = chosen_logs(network, y, x.flatten(0, 1)[batch.places].__getitem__)
    lost = x.new_zeros(size * len(batch.previous), length)
    places = max(1, TANGENTS // (length * size * network.settings.hidden))
    for low in range(0, length, places):
        holes = np.arange(low, min(low + places, length))
        rows = _without(network, batch, holes)[:, batch.places]
        logs = chosen_logs(network, y.repeat(len(holes)), rows.flatten(0, 1).__getitem__)
        lost[batch.places, low : low + len(holes)] = (whole - logs.view(len(holes), -1)).t()
    return elements_of(lost.view(size, -1, length), batch)


def _without(network: EncoderDecoder, batch: Batch, holes: np.ndarray) -> Tensor:
    """Features (R, B T, H) of a batch, without the source token at each of the R holes."""
    length, size = batch.source.shape
    previous = batch.previous.unsqueeze(1).expand(-1, len(holes), -1).flatten(1)
    if length == 1:
        x = without_source(network, previous)
    else:
        left = np.arange(length - 1)[:, None]
        kept = torch.from_numpy(left + (left >= holes)).to(batch.source.device)
        lengths = np.full(len(holes) * size, length - 1, np.int64)
        x = network(batch.source[kept].flatten(1), lengths, previous)
    return x.reshape(len(holes), -1, x.shape[2])


def without_source(network: EncoderDecoder, previous: Tensor) -> Tensor:
    """Features (B, T, H) if there is no source token: the decoder starts from zeros and the context is empty."""
    size = network.settings
    zero = network.output.weight.new_zeros(size.layers, previous.shape[1], size.hidden)
    s, _ = network.states(previous, (zero, zero))
    return network.features(s, network.context(s.new_zeros(*s.shape[:2], size.encoding)))
