"""Selectors: which words are selected, drawn or computed from scores, so that it can be learned.

Each gives z_l, from 0 (left out) to 1 (selected), and how probable it is that z_l is not 0, of which penalties are
made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from entmax import entmax15
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus


class Selection(NamedTuple):
    """What was selected of B texts.

    Attributes:
        z: (B, L), from 0 to 1; 0 at padding.
        kept: (B, L), the probability that z is not 0, with a gradient; 0 at padding.
        log_probability: (B,), of drawing z, where that is how its gradient is estimated; None if z has one.
    """

    z: Tensor
    kept: Tensor
    log_probability: Tensor | None = None


class Selector(ABC):
    """A way to select words.

    Attributes:
        scores: how many scores of each word it needs.
        independent: whether it selects each word independently of the others, given the scores.
    """

    scores: int = 1
    independent: bool = True

    @abstractmethod
    def draw(self, scores: Tensor, mask: Tensor) -> Selection:
        """A selection in training.

        Args:
            scores: (B, L, self.scores).
            mask: (B, L), True where there is a word.
        """

    @abstractmethod
    def kept(self, scores: Tensor, mask: Tensor) -> Tensor:
        """(B, L): the probability that z is not 0, from the arguments of :meth:`draw`."""

    def decide(self, scores: Tensor, mask: Tensor) -> Selection:
        """The selection at test time: the words whose z is more probably not 0, with z = 1."""
        kept = self.kept(scores, mask)
        return Selection((kept > 0.5).to(scores.dtype), kept)


class BernoulliSelector(Selector):
    """z_l is 1 with probability sigmoid(a_l), else 0; the gradient is estimated by REINFORCE (Lei et al. 2016)."""

    def draw(self, scores: Tensor, mask: Tensor) -> Selection:
        a, kept = scores[..., 0], self.kept(scores, mask)
        z = torch.bernoulli(kept.detach())
        logs = torch.where(z > 0, logsigmoid(a), logsigmoid(-a)) * mask
        return Selection(z, kept, logs.sum(1))

    def kept(self, scores: Tensor, mask: Tensor) -> Tensor:
        return torch.sigmoid(scores[..., 0]) * mask


class StretchedSelector(Selector):
    """z_l is drawn on (LOW, HIGH) by inverting its distribution function, and cut to [0, 1].

    0 and 1 have probabilities of their own, and the gradient passes between them.
    """

    LOW, HIGH = -0.1, 1.1

    @abstractmethod
    def inverse(self, u: Tensor, scores: Tensor) -> Tensor:
        """(B, L): the value on (0, 1) below which a share u lies, before stretching."""

    def draw(self, scores: Tensor, mask: Tensor) -> Selection:
        u = torch.rand_like(scores[..., 0]).clamp(1e-6, 1 - 1e-6)
        stretched = self.LOW + (self.HIGH - self.LOW) * self.inverse(u, scores)
        return Selection(stretched.clamp(0, 1) * mask, self.kept(scores, mask))


class HardKumaSelector(StretchedSelector):
    """The stretched Kumaraswamy distribution, F(x) = 1 - (1 - x^a)^b (Bastings et al. 2019)."""

    scores = 2

    def parameters(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """a and b (B, L), from 0.01 to 100, about 1 for scores of 0."""
        a, b = (softplus(scores + 0.5413).clamp(1e-2, 100.0)).unbind(-1)
        return a, b

    def inverse(self, u: Tensor, scores: Tensor) -> Tensor:
        a, b = self.parameters(scores)
        rest = torch.exp(torch.log1p(-u) / b).clamp(1e-6, 1 - 1e-6)
        return torch.exp(torch.log1p(-rest) / a)

    def kept(self, scores: Tensor, mask: Tensor) -> Tensor:
        a, b = self.parameters(scores)
        zero = -self.LOW / (self.HIGH - self.LOW)
        return ((1 - torch.tensor(zero).to(a) ** a).clamp(1e-6, 1.0) ** b) * mask


class HardConcreteSelector(StretchedSelector):
    """The stretched binary concrete distribution, sigmoid((logit(u) + a) / temperature) (Louizos et al. 2018)."""

    TEMPERATURE = 2 / 3

    def inverse(self, u: Tensor, scores: Tensor) -> Tensor:
        return torch.sigmoid((torch.logit(u) + scores[..., 0]) / self.TEMPERATURE)

    def kept(self, scores: Tensor, mask: Tensor) -> Tensor:
        zero = -self.LOW / (self.HIGH - self.LOW)
        shift = self.TEMPERATURE * torch.logit(torch.tensor(zero)).to(scores)
        return torch.sigmoid(scores[..., 0] - shift) * mask


class EntmaxSelector(Selector):
    """z = p / max p with p = 1.5-entmax of the scores, exactly 0 at most words; nothing is drawn.

    After the sparse attention of Treviso and Martins (2020). z itself stands for the probability that it is not 0.
    """

    independent = False

    def draw(self, scores: Tensor, mask: Tensor) -> Selection:
        z = self.kept(scores, mask)
        return Selection(z, z)

    def kept(self, scores: Tensor, mask: Tensor) -> Tensor:
        p = entmax15(scores[..., 0].masked_fill(~mask, float("-inf")), -1)
        found: Tensor = p / p.amax(1, keepdim=True)
        return found

    def decide(self, scores: Tensor, mask: Tensor) -> Selection:
        return self.draw(scores, mask)


#: name -> class
SELECTORS: dict[str, type[Selector]] = {
    "reinforce": BernoulliSelector,
    "hardkuma": HardKumaSelector,
    "entmax": EntmaxSelector,
    "hard-concrete": HardConcreteSelector,
}


def scattering(kept: Tensor, mask: Tensor, independent: bool) -> Tensor:
    """(B,): the expected share of neighbouring words of which one is selected and one is not.

    Args:
        kept: (B, L), of a selection.
        mask: (B, L).
        independent: whether words are selected independently with these probabilities; otherwise kept is z itself.
    """
    one, other = kept[:, :-1], kept[:, 1:]
    differ = one * (1 - other) + other * (1 - one) if independent else (one - other).abs()
    both = (mask[:, :-1] & mask[:, 1:]).to(kept.dtype)
    found: Tensor = (differ * both).sum(1) / both.sum(1).clamp(min=1)
    return found
