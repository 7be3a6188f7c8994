"""Score functions of attention: how well an encoder state h_l fits a decoder state s_t, a_tl."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError

#: numbers of a hidden layer, (N, T, L, hidden), that are in memory at a time while scoring; 64 MB
MOST_HIDDEN = 1 << 24


class ScoreFunction(nn.Module, ABC):
    """A score function.

    Without decoder states (``state`` is 0), as in a classifier, h is scored alone: what is made of s is left out,
    or is a learned vector.

    Args:
        state: H, the size of a decoder state, or 0.
        encoding: D, the size of an encoder state.
        hidden: the size of a hidden layer, where there is one.
    """

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        """The scores.

        Args:
            s: (N, T, H), or None.
            h: (N, L, D), arbitrary at padding.
            mask: (N, L), True where there is a token; None if nothing is padded.

        Returns:
            (N, T, L), or (N, 1, L) without ``s``; arbitrary at padding.
        """


class QueryScore(ScoreFunction):
    """a_tl = query_t · h_l with a query made from s_t.

    Without decoder states the query is a learned vector.
    """

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        if not state:
            self.vector = nn.Parameter(torch.empty(encoding).uniform_(-1, 1) * encoding**-0.5)

    def queries(self, s: Tensor | None, h: Tensor) -> Tensor:
        """Queries (N, T, D)."""
        if s is None:
            return self.vector.expand(len(h), 1, -1)
        return self.queries_of(s)

    @abstractmethod
    def queries_of(self, s: Tensor) -> Tensor:
        """Queries (N, T, D) of states (N, T, H)."""

    @abstractmethod
    def pull_back(self, by_query: Tensor) -> Tensor:
        """The derivatives in the states, (N, T, H), from those in the queries, (N, T, D)."""

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        return torch.bmm(self.queries(s, h), h.transpose(1, 2))


class GeneralScore(QueryScore):
    """a_tl = h_l · (W s_t + b), the paper's; "general" in Luong et al. (2015), "bilinear" elsewhere."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        if state:
            self.query = nn.Linear(state, encoding)

    def queries_of(self, s: Tensor) -> Tensor:
        return self.query(s)

    def pull_back(self, by_query: Tensor) -> Tensor:
        return by_query @ self.query.weight


class DotScore(QueryScore):
    """a_tl = h_l · s_t (Luong et al. 2015); the two directions of a bidirectional encoder's h_l are added."""

    scale = 1.0

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        if state and encoding % state:
            raise AlignkitError(f"dot attention needs encoder states of {state} numbers, not {encoding}")
        self.directions = encoding // state if state else 1

    def queries(self, s: Tensor | None, h: Tensor) -> Tensor:
        return super().queries(s, h) * self.scale if s is None else self.queries_of(s)

    def queries_of(self, s: Tensor) -> Tensor:
        queries = s.repeat(1, 1, self.directions)
        return queries if self.scale == 1.0 else queries * self.scale

    def pull_back(self, by_query: Tensor) -> Tensor:
        return by_query.unflatten(2, (self.directions, -1)).sum(2) * self.scale


class ScaledDotScore(DotScore):
    """a_tl = h_l · s_t / sqrt(D) (Vaswani et al. 2017)."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        self.scale = encoding**-0.5


class _HiddenLayer(ScoreFunction):
    """a_tl = v · f(W s_t + Q h_l + b) + c, with one hidden layer."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        self.query = nn.Linear(encoding, hidden)  # of h, as the paper calls it
        self.value = nn.Linear(hidden, 1)
        if state:
            self.state = nn.Linear(state, hidden, bias=False)

    @abstractmethod
    def activation(self, sums: Tensor) -> Tensor:
        """f."""

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        of_h = self.query(h)
        if s is None:
            return self.value(self.activation(of_h)).squeeze(2).unsqueeze(1)
        of_s, rows = self.state(s), s.shape[1]
        if not torch.is_grad_enabled():  # scoring: nothing has to be kept for a backward pass
            rows = max(1, MOST_HIDDEN // max(1, len(h) * h.shape[1] * of_s.shape[2]))
        parts = [
            self.value(self.activation(part.unsqueeze(2) + of_h.unsqueeze(1))).squeeze(3)
            for part in of_s.split(rows, 1)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class AdditiveScore(_HiddenLayer):
    """a_tl = v · tanh(W s_t + U h_l + b), plus a constant (Bahdanau et al. 2015)."""

    def activation(self, sums: Tensor) -> Tensor:
        return torch.tanh(sums)


class FeedForwardScore(_HiddenLayer):
    """a_tl = v · ReLU(W s_t + Q h_l + b) + c; without s, the paper's classifier (section 2.4)."""

    def activation(self, sums: Tensor) -> Tensor:
        return torch.relu(sums)


class ConvolutionScore(ScoreFunction):
    """a_tl = s_t · k_l, where k is a convolution of width 3 over the encoder states (Allamanis et al. 2016)."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        self.keys = nn.Conv1d(encoding, state or 1, 3, padding=1)

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        if not h.shape[1]:  # torch refuses to convolve nothing
            return h.new_zeros(len(h), 1 if s is None else s.shape[1], 0)
        if mask is not None:
            h = h * mask.unsqueeze(2)  # the last token's key must not depend on padding
        keys: Any = self.keys(h.transpose(1, 2))
        return keys if s is None else torch.bmm(s, keys)
