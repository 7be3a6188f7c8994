"""Attention: how much the decoder's state s_t looks at each encoder state h_l (paper, section 3.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DotAttention(nn.Module):
    """a_tl = h_l · (W s_t + b), alpha = softmax over l."""

    def __init__(self, hidden: int, encoding: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, encoding)

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        """Weights (B, T, L) from s (B, T, H), h (B, L, D) and mask (B, L), True where there is a token.

        ``mask`` None says that nothing is padded.
        """
        scores = torch.bmm(self.query(s), h.transpose(1, 2))
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
        return torch.softmax(scores, dim=2)


class UniformAttention(nn.Module):
    """alpha = 1/L whatever the states are: the network that beta_uf comes from."""

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        """As :meth:`DotAttention.forward`; every row t of a pair is the same."""
        return uniform_weights(h, mask).expand(-1, s.shape[1], -1)


def uniform_weights(h: Tensor, mask: Tensor | None) -> Tensor:
    """1/L where there is a token, (B, 1, L); arguments as :meth:`DotAttention.forward`."""
    batch, length = h.shape[:2]
    if mask is None:
        return h.new_full((batch, 1, length), 1.0 / length)
    weights = mask.to(h.dtype)
    return (weights / weights.sum(1, keepdim=True)).unsqueeze(1)
