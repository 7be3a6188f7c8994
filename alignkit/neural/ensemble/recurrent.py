"""The LSTM of an ensemble: every tensor has a first dimension S, the networks.

The input projection of a token depends on its type alone, so it is looked up in a table of V rows instead of
being computed for every token. That halves the arithmetic of an LSTM and gives the same numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class EnsembleLSTM(torch.autograd.Function):
    """An LSTM of one layer and one direction, with gates in the order input, forget, output, candidate.

    The backward pass is written out because autograd would keep some ten tensors per step.
    """

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, weight: Tensor, tokens: Tensor, start_h: Tensor, start_c: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes the states.

        Args:
            ctx: autograd's context.
            table: (S, V, 4H), the input to the gates from each type, biases included.
            weight: (S, H, 4H), from the previous state to the gates.
            tokens: int64 (S, T, B).
            start_h, start_c: (S, B, H), the initial state.

        Returns:
            all states h (S, T, B, H), and the last cell state c (S, B, H).
        """
        networks, types, width = table.shape
        steps, batch = tokens.shape[1:]
        size = width // 4
        places = tokens + torch.arange(networks).view(-1, 1, 1) * types
        gates = table.reshape(-1, width).index_select(0, places.view(-1)).view(networks, steps, batch, width)
        h, c, squashed = (table.new_empty(networks, steps, batch, size) for _ in range(3))
        h_before, c_before = start_h, start_c
        for t in range(steps):
            now = gates[:, t].baddbmm_(h_before, weight)
            now[..., : 3 * size].sigmoid_()
            now[..., 3 * size :].tanh_()
            i, f, o, u = now.split(size, -1)
            c_before = torch.mul(f, c_before, out=c[:, t]).addcmul_(i, u)
            torch.tanh(c_before, out=squashed[:, t])
            h_before = torch.mul(o, squashed[:, t], out=h[:, t])
        ctx.save_for_backward(weight, places, start_h, start_c, gates, h, c, squashed)
        ctx.types = types
        return h, c_before.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, places, start_h, start_c, gates, h, c, squashed = ctx.saved_tensors
        networks, steps, batch, size = h.shape
        transposed = weight.transpose(1, 2)
        by_gates = torch.empty_like(gates)
        by_h, by_c = torch.zeros_like(start_h), grads[1]
        scratch = torch.empty_like(start_h)
        for t in range(steps - 1, -1, -1):
            i, f, o, u = gates[:, t].split(size, -1)
            now = by_gates[:, t]
            by_h = by_h + grads[0][:, t]
            by_c = by_c + _tanh_backward(by_h * o, squashed[:, t], grad_input=scratch)
            torch.mul(by_c, u, out=now[..., :size])
            torch.mul(by_c, c[:, t - 1] if t else start_c, out=now[..., size : 2 * size])
            torch.mul(by_h, squashed[:, t], out=now[..., 2 * size : 3 * size])
            squeezed = now[..., : 3 * size]
            _sigmoid_backward(squeezed, gates[:, t, :, : 3 * size], grad_input=squeezed)
            _tanh_backward(by_c * i, u, grad_input=now[..., 3 * size :])
            by_c = by_c * f
            by_h = torch.bmm(now, transposed)
        flat = by_gates.view(networks, -1, 4 * size)
        by_weight = torch.bmm(start_h.transpose(1, 2), by_gates[:, 0])
        if steps > 1:
            before = h[:, :-1].reshape(networks, -1, size)
            by_weight.baddbmm_(before.transpose(1, 2), flat[:, batch:])
        by_table = flat.new_zeros(networks * ctx.types, 4 * size)
        by_table.index_add_(0, places.view(-1), flat.reshape(-1, 4 * size))
        return by_table.view(networks, ctx.types, -1), by_weight, None, by_h, by_c
