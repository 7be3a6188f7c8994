"""Saliency of the LSTM encoder-decoder by derivatives that are written out, much faster than autograd.

A first pass stores what the derivatives need (:func:`trace`). Forward mode then carries the derivatives in R
scalars through the encoder (:class:`Tangents`), and reverse mode the derivatives of T outputs back through the
decoder (:func:`pull_back`). Neither computes derivatives in the weights, and one matrix product per step serves
all R or T of them.

With gates i, f, g, o of pre-activations a, the state is c = f c' + i g, h = o tanh(c), so

    dc = f dc' + i(1-i) g da_i + f(1-f) c' da_f + i(1-g²) da_g
    dh = o(1-tanh² c) dc + o(1-o) tanh(c) da_o        da = W dx + U dh'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alignkit.neural.batching import Batch, BatchSizes
from alignkit.neural.devices import one_thread
from alignkit.neural.networks.attention import QueryAttention, StateGradient, UniformAttention
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.scoring.output_layer import feature_gradients

#: Smaller derivatives are set to 0. Over a hundred steps derivatives fade to subnormal numbers, with which a
#: processor computes many times slower.
TINY, FLUSH_EVERY = 1e-30, 8


def _flush(step: int, *arrays: Tensor) -> None:
    """Set tiny numbers to 0, every few steps."""
    if step % FLUSH_EVERY == 0:
        for x in arrays:
            x.masked_fill_(x.abs() < TINY, 0.0)


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
        low: the first of the R places.
        active: the scales on which the state can depend at each step, a slice of the R.
    """

    dh: Tensor
    last: tuple[Tensor, Tensor]
    low: int
    active: tuple[slice, ...]


def first_tangents(cell: Cell, seen: Trace, low: int, high: int) -> Tangents:
    """The tangents of the lowest layer, whose states depend on the scaled inputs that it has read."""
    steps, places = len(seen.h), high - low

    def clamp(place: int) -> int:
        return min(max(place - low, 0), places)

    if cell.reverse:
        active = tuple(slice(clamp(step), places) for step in range(steps))
    else:
        active = tuple(slice(0, clamp(step + 1)) for step in range(steps))
    walk = _Walk(cell, seen, low, active)
    known = slice(0, 0)  # the scales on which the step before depends
    for step in cell.order(steps):
        walk.recur(known)
        if low <= step < high:
            walk.da[step - low] = seen.drive[step]
        walk.advance(step)
        known = active[step]
    return walk.result()


def next_tangents(cell: Cell, seen: Trace, below: Sequence[Tangents]) -> Tangents:
    """The tangents of a layer whose input is the states of ``below``, the directions side by side."""
    steps, places = below[0].dh.shape[:2]
    size = cell.u.shape[1]
    walk = _Walk(cell, seen, below[0].low, (slice(0, places),) * steps)
    weights = [part.t().contiguous() for part in cell.w.split(size, 1)]
    for step in cell.order(steps):
        walk.recur(slice(0, places))
        for part, weight in zip(below, weights, strict=True):
            at = part.active[step]
            walk.da[at].view(-1, 4 * size).addmm_(part.dh[step, at].view(-1, size), weight)
        walk.advance(step)
    return walk.result()


class _Walk:
    """A pass of :class:`Tangents` through a cell: each step computes da (R, B, 4H), then dc and dh from it."""

    def __init__(self, cell: Cell, seen: Trace, low: int, active: tuple[slice, ...]) -> None:
        steps, batch, size = seen.h.shape
        places = max(part.stop for part in active)
        self.seen, self.low, self.active, self.size = seen, low, active, size
        self.u = cell.u.t().contiguous()
        self.dh = seen.h.new_zeros(steps, places, batch, size)
        self.da = seen.h.new_empty(places, batch, 4 * size)
        self.h, self.c = seen.h.new_zeros(places, batch, size), seen.h.new_zeros(places, batch, size)

    def recur(self, known: slice) -> None:
        """da = U dh' for the known scales."""
        if known.start < known.stop:
            out = self.da[known].view(-1, 4 * self.size)
            torch.mm(self.h[known].view(-1, self.size), self.u, out=out)

    def advance(self, step: int) -> None:
        """dc and dh from da, for the scales on which this step depends."""
        at, seen = self.active[step], self.seen
        a = self.da[at].mul_(seen.by_gate[step])
        i, f, g, o = a.chunk(4, 2)
        c = self.c[at].mul_(seen.keep[step]).add_(i).add_(f).add_(g)
        self.h = self.dh[step]
        torch.addcmul(o, c, seen.by_cell[step], out=self.h[at])
        _flush(step, c, self.h[at])

    def result(self) -> Tangents:
        return Tangents(self.dh, (self.h, self.c), self.low, self.active)


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


def has_derivatives(network: TranslationNetwork) -> bool:
    """True if :func:`lstm_saliency` can compute the saliency of this network."""
    return isinstance(network, EncoderDecoder) and isinstance(network.attention, QueryAttention | UniformAttention)


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
    assert isinstance(attention, QueryAttention | UniformAttention)
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
    found = []
    for cell_row, trace_row, starts in zip(cells, traces, by_start, strict=True):
        pairs = list(zip(cell_row, trace_row, strict=True))
        if rows:
            rows = [next_tangents(cell, seen, rows) for cell, seen in pairs]
        else:
            rows = [first_tangents(cell, seen, low, high) for cell, seen in pairs]
        for part, by in enumerate(starts):  # h, then c
            start = torch.stack([row.last[part] for row in rows]).mean(0)
            found.append(_products(by.transpose(0, 1), start))
    delta = sum(found[1:], found[0])
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
