"""Saliency of translation networks: by autograd for any, and by derivatives that are written out for the LSTMs.

The latter are much faster. A first pass stores what the derivatives need (:func:`trace`). Forward mode then
carries the derivatives in R scalars through the encoder (:func:`tangents`), and reverse mode the derivatives of T
outputs back through the decoder (:func:`pull_back`). Neither computes derivatives in the weights, and one matrix
product per step serves all R or T of them.

With gates i, f, g, o of pre-activations a, the state is c = f c' + i g, h = o tanh(c), so

    dc = f dc' + i(1-i) g da_i + f(1-f) c' da_f + i(1-g²) da_g
    dh = o(1-tanh² c) dc + o(1-o) tanh(c) da_o        da = W dx + U dh'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alignkit.neural.devices import Batch, BatchSizes, one_thread
from alignkit.neural.networks.attention import ComposedAttention, UniformAttention
from alignkit.neural.networks.encoder_decoder import EncoderDecoder, TranslationNetwork

#: Smaller derivatives are set to 0. Over a hundred steps derivatives fade to subnormal numbers, with which a
#: processor computes many times slower.
TINY, FLUSH_EVERY = 1e-30, 8


def autograd_saliency(network: TranslationNetwork, batch: Batch, sizes: BatchSizes) -> Tensor:
    """delta (B, T, L) of a batch for any network, by autograd, with a backward pass for every target position.

    Args:
        network: within :func:`alignkit.neural.devices.evaluation_mode`, with gradients.
        batch: B pairs.
        sizes: its number of logits at a time is used.
    """
    omega = torch.ones(batch.source.shape, dtype=network.output.weight.dtype, device=batch.source.device)
    omega.requires_grad_()
    encoding = network.encode(batch.source, batch.source_lengths, omega)
    x = network.decode(batch.previous, encoding, encoding.start).features
    with torch.no_grad():
        by_feature = feature_gradients(network.output, x, batch, sizes)
    # Pairs are independent of each other, so one pass serves position t of all of them.
    steps = range(x.shape[1])
    rows = [torch.autograd.grad(x[:, t], omega, by_feature[:, t], retain_graph=True)[0].t() for t in steps]
    return torch.stack(rows, 1)


def feature_gradients(output: nn.Linear, x: Tensor, batch: Batch, sizes: BatchSizes) -> Tensor:
    """The derivatives of log p(y_t) in the features x_t, (B, T, F); 0 where padded.

    Args:
        output: the output layer; no derivatives in its weights are computed.
        x: (B, T, F), the features of the batch.
        batch: whose targets the y_t are.
        sizes: its number of logits at a time is used.
    """
    flat = x.flatten(0, 1)[batch.places]
    weight, bias, y = output.weight, output.bias, batch.targets
    by_feature = weight[y]
    step = sizes.rows(output)
    for low in range(0, len(y), step):
        part = slice(low, low + step)
        shares = torch.softmax(torch.addmm(bias, flat[part], weight.t()), 1)
        by_feature[part].addmm_(shares, weight, alpha=-1)
    rows = torch.zeros_like(x).flatten(0, 1)
    rows[batch.places] = by_feature
    return rows.view_as(x)


def has_derivatives(network: TranslationNetwork) -> bool:
    """True if :func:`lstm_saliency` can compute the saliency of this network."""
    if not isinstance(network, EncoderDecoder):
        return False
    attention = network.attention
    by_query = isinstance(attention, ComposedAttention) and attention.by_query
    return by_query or isinstance(attention, UniformAttention)


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
    assert isinstance(network.attention, ComposedAttention | UniformAttention)
    # Forwards: the encoder's states x (L, B, D), then the decoder's s (T, B, H), starting from the last of them.
    layers, hidden = range(network.settings.layers), network.settings.hidden
    ways = (False, True) if network.settings.bidirectional else (False,)
    cells = [[Cell.of(network.encoder, k, way) for way in ways] for k in layers]
    traces, x = [], network.embedding(batch.source)
    for row in cells:
        traces.append([trace(cell, x) for cell in row])
        x = torch.cat([seen.h for seen in traces[-1]], 2)
    decoder = [Cell.of(network.decoder, k) for k in layers]
    steps, s = [], network.embedding(batch.previous)
    for cell, read in zip(decoder, traces, strict=True):
        start = [torch.stack([way.last[part] for way in read]).mean(0) for part in (0, 1)]
        steps.append(trace(cell, s, (start[0], start[1])))
        s = steps[-1].h
    states, h = s.transpose(0, 1), x.transpose(0, 1)
    with one_thread(s.device):
        context, weights = network.attention(states, h, None)
    projected = network.context(context).expand(-1, states.shape[1], -1)
    features = network.features(states, projected)
    # Backwards: the derivatives of log p(y_t) in the features, in s_t and the context, through the attention in
    # s_t and the h_l, and through the decoder in its initial state.
    rows = feature_gradients(network.output, features, batch, sizes)
    if network.settings.output == "sum":
        by_s = by_projected = rows
    else:
        rows = rows * (features > 0)
        by_s, by_projected = rows @ network.combine.weight[:, :hidden], rows @ network.combine.weight[:, hidden:]
    by_context = by_projected @ network.context.weight
    by_query, by_encoding = network.attention.derivatives(states, h, weights, by_context)
    by_s = by_s if by_query is None else by_s + by_query
    by_start = pull_back(decoder, steps, by_s.transpose(0, 1).contiguous())
    # Forwards again: the derivatives of the encoder's states in the scales, some places of them at a time.
    length, size = len(x), batch.source.shape[1]
    delta = x.new_empty(size, len(s), length)
    places = max(1, sizes.derivatives // (length * size * max(hidden, len(s))))
    for low in range(0, length, places):
        high = min(low + places, length)
        terms, below = [], list[Tangents]()
        for cell_row, trace_row, starts in zip(cells, traces, by_start, strict=True):
            below = [tangents(*pair, low, high, below) for pair in zip(cell_row, trace_row, strict=True)]
            for part, by in enumerate(starts):  # h, then c
                terms.append(_products(by.transpose(0, 1), torch.stack([way.last[part] for way in below]).mean(0)))
        total = sum(terms[1:], terms[0])
        for shares, directions in by_encoding:
            pairs = zip(directions.split(hidden, 2), below, strict=True)
            along = [_products(part, way.dh.flatten(0, 1)) for part, way in pairs]
            moved = torch.stack(along).sum(0).view(*shares.shape[:2], length, high - low)
            total += (shares.unsqueeze(3) * moved).sum(2)
        delta[:, :, low:high] = total
    return delta


def _products(rows: Tensor, tangents: Tensor) -> Tensor:
    """(B, T, N): the products of rows (B, T, H) with tangents (N, B, H)."""
    with one_thread(rows.device):  # as in attention: the last bits of small products depend on the threads
        return torch.bmm(rows, tangents.permute(1, 2, 0))


@dataclass(frozen=True, eq=False)
class Cell:
    """One direction of one layer of an ``nn.LSTM``; rows of 4H are in PyTorch's order i, f, g, o.

    Attributes:
        w: (4H, inputs), of the input.
        u: (4H, H), of the previous state.
        bias: (4H,), both biases together.
        reverse: whether it reads from the end.
    """

    w: Tensor
    u: Tensor
    bias: Tensor
    reverse: bool

    @classmethod
    def of(cls, lstm: nn.LSTM, layer: int, reverse: bool = False) -> Cell:
        """The cell of that layer and direction."""
        suffix = f"_l{layer}" + ("_reverse" if reverse else "")
        parts = [getattr(lstm, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        return cls(parts[0], parts[1], parts[2] + parts[3], reverse)

    def order(self, steps: int) -> Sequence[int]:
        """The steps in the order in which the cell reads them."""
        return range(steps - 1, -1, -1) if self.reverse else range(steps)


@dataclass(frozen=True, eq=False)
class Trace:
    """The states of a cell over L steps of B sentences, and their derivatives.

    Attributes:
        h: (L, B, H), its states.
        drive: (L, B, 4H), W x without bias: the derivative of the pre-activation if x is scaled.
        by_gate: (L, B, 4H), dc / da_i, dc / da_f, dc / da_g, and dh / da_o at fixed c.
        by_cell: (L, B, H), dh / dc.
        keep: (L, B, H), dc / dc'.
        last: h and c after the last step, each (B, H).
    """

    h: Tensor
    drive: Tensor
    by_gate: Tensor
    by_cell: Tensor
    keep: Tensor
    last: tuple[Tensor, Tensor]


def trace(cell: Cell, x: Tensor, start: tuple[Tensor, Tensor] | None = None) -> Trace:
    """Run a cell over x (L, B, inputs), from zeros or from h and c, each (B, H)."""
    steps, batch = x.shape[:2]
    size = cell.u.shape[1]
    drive = (x.flatten(0, 1) @ cell.w.t()).view(steps, batch, 4 * size)
    zero = x.new_zeros(batch, size)
    h, c = (zero, zero) if start is None else start
    states, before, squashed = (x.new_empty(steps, batch, size) for _ in range(3))
    gates = drive + cell.bias
    u = cell.u.t().contiguous()
    for step in cell.order(steps):
        a = gates[step].addmm_(h, u)
        before[step] = c
        g = a[:, 2 * size : 3 * size].tanh_()
        i, f = a[:, : 2 * size].sigmoid_().chunk(2, 1)
        o = a[:, 3 * size :].sigmoid_()
        c = f * c + i * g
        torch.tanh(c, out=squashed[step])
        h = torch.mul(o, squashed[step], out=states[step])
    i, f, g, o = gates.chunk(4, 2)
    by_cell = o * (1 - squashed * squashed)
    parts = (g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o))
    return Trace(states, drive, torch.cat(parts, 2), by_cell, f.contiguous(), (h, c))


@dataclass(frozen=True, eq=False)
class Tangents:
    """Derivatives of a cell's states in the scales of the inputs at ``low`` .. ``low`` + R - 1.

    Attributes:
        dh: (L, R, B, H), of the state at every step.
        last: of h and c after the last step, each (R, B, H).
        active: the scales on which the state can depend at each step, a slice of the R.
    """

    dh: Tensor
    last: tuple[Tensor, Tensor]
    active: tuple[slice, ...]


def tangents(cell: Cell, seen: Trace, low: int, high: int, below: Sequence[Tangents] = ()) -> Tangents:
    """The tangents of a cell for the scales at low <= l < high, R of them.

    Args:
        cell: the cell.
        seen: its trace.
        low, high: the places.
        below: the tangents of the layer below, the directions side by side; none for the lowest layer, whose
            states depend on the scaled inputs that it has read.
    """
    (steps, batch, size), places = seen.h.shape, high - low
    ends = [min(max(step + (not cell.reverse) - low, 0), places) for step in range(steps)]
    if below:
        active = [slice(0, places)] * steps
    else:
        active = [slice(end, places) if cell.reverse else slice(0, end) for end in ends]
    u = cell.u.t().contiguous()
    weights = [part.t().contiguous() for part in cell.w.split(size, 1)] if below else []
    dh, da = seen.h.new_zeros(steps, places, batch, size), seen.h.new_empty(places, batch, 4 * size)
    h, c = (seen.h.new_zeros(places, batch, size) for _ in range(2))
    known = slice(0, places if below else 0)  # the scales on which the step before depends
    for step in cell.order(steps):
        at = active[step]
        if known.start < known.stop:  # da = U dh' + W dx
            torch.mm(h[known].view(-1, size), u, out=da[known].view(-1, 4 * size))
        for part, weight in zip(below, weights, strict=True):
            own = part.active[step]
            da[own].view(-1, 4 * size).addmm_(part.dh[step, own].view(-1, size), weight)
        if not below and low <= step < high:
            da[step - low] = seen.drive[step]
        i, f, g, o = da[at].mul_(seen.by_gate[step]).chunk(4, 2)
        dc = c[at].mul_(seen.keep[step]).add_(i).add_(f).add_(g)
        h = dh[step]
        torch.addcmul(o, dc, seen.by_cell[step], out=h[at])
        _flush(step, dc, h[at])
        known = at
    return Tangents(dh, (h, c), tuple(active))


def pull_back(cells: Sequence[Cell], traces: Sequence[Trace], rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The derivatives of T outputs in the initial state of an LSTM.

    Args:
        cells: the layers, lowest first, all of them reading forwards.
        traces: of the layers, over T steps.
        rows: (T, B, H), the derivatives of output t in the top layer's state at step t; output t depends on no
            later state.

    Returns:
        per layer, the derivatives in the initial h and c, each (T, B, H).
    """
    size = rows.shape[2]
    top = len(cells) - 1
    dh = [torch.zeros_like(rows) for _ in cells]
    dh[top].copy_(rows)
    dc = [torch.zeros_like(rows) for _ in cells]
    da = rows.new_empty(*rows.shape[:2], 4 * size)
    above = torch.empty_like(rows)
    for step in range(len(rows) - 1, -1, -1):
        at = slice(step, len(rows))  # earlier outputs do not depend on this step
        for layer in range(top, -1, -1):
            seen, a = traces[layer], da[at]
            h, c = dh[layer][at], dc[layer][at]
            if layer < top:
                h.add_(above[at])
            c.addcmul_(h, seen.by_cell[step])
            for gate in range(4):
                part = slice(gate * size, (gate + 1) * size)
                torch.mul(h if gate == 3 else c, seen.by_gate[step, :, part], out=a[:, :, part])
            c.mul_(seen.keep[step])
            flat = a.view(-1, 4 * size)
            torch.mm(flat, cells[layer].u, out=h.view(-1, size))
            _flush(step, h, c)
            if layer:
                torch.mm(flat, cells[layer].w, out=above[at].view(-1, size))
    return list(zip(dh, dc, strict=True))


def _flush(step: int, *arrays: Tensor) -> None:
    """Set tiny numbers to 0, every few steps."""
    if step % FLUSH_EVERY == 0:
        for x in arrays:
            x.masked_fill_(x.abs() < TINY, 0.0)
