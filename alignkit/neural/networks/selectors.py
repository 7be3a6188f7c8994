"""Selectors: which words are selected, drawn or computed from scores, so that it can be learned.

Each gives z_l, from 0 (left out) to 1 (selected), and how probable it is that z_l is not 0, of which
penalties are made. A rationalizer's generator selects words, and its predictor sees nothing but these (Lei et
al. 2016). Gates on a layer of a classifier show which words' states can be exchanged for a constant (De Cao
et al. 2020).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from entmax import entmax15
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from alignkit.neural.networks.classifier import Classifier, new_text_encoder
from alignkit.neural.networks.mechanisms import UNIFORM
from alignkit.neural.settings import ClassifierSettings


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


class Rationalizer(nn.Module):
    """Generator and predictor, with the same embeddings.

    The predictor is a classifier that sees the embedding of each word times z_l, and whose states are averaged
    with weights z_l: it can learn from a word left out no more than that one was there.

    Args:
        settings: of the predictor's sizes, and of the generator's encoder.
        selector: a name in :data:`alignkit.neural.networks.selectors.SELECTORS`.
    """

    def __init__(self, settings: ClassifierSettings, selector: str) -> None:
        super().__init__()
        self.selector = SELECTORS[selector]()
        self.predictor = Classifier(replace(settings, attention=UNIFORM))
        self.generator = new_text_encoder(settings)
        self.scores = nn.Linear(self.generator.sizes[-1], self.selector.scores)

    def select(self, words: Tensor, lengths: np.ndarray, draw: bool = False) -> tuple[Selection, Tensor]:
        """The selection of B texts and their mask (B, L), True where there is a word.

        Args:
            words, lengths: as in :meth:`Classifier.encode`.
            draw: as in training; otherwise as at test time.
        """
        x = self.predictor.embedding(words)
        h = self.generator(x, lengths).transpose(0, 1)
        mask = torch.from_numpy(np.arange(len(words)) < lengths[:, None]).to(words.device)
        scores = self.scores(h)
        return (self.selector.draw if draw else self.selector.decide)(scores, mask), mask

    def predict(self, words: Tensor, lengths: np.ndarray, z: Tensor) -> Tensor:
        """Logits (B,) of what is selected, z (B, L); that of nothing is the bias."""
        h, _ = self.predictor.encode(words, lengths, z.t())
        return self.predictor.judge_with(h, z / z.sum(1, keepdim=True).clamp(min=1e-6))


PROBE = 64  #: size of the hidden layer of the gates' network


class Gates(nn.Module):
    """Gates z_l on the states x_l of a layer: z_l x_l + (1 - z_l) b takes the place of x_l, with a learned b.

    z_l is computed from the states of l in this layer and in those below, so that gates cannot know what only
    later layers find out.

    Args:
        network: the classifier, which stays as it is.
        layer: the layer; 0 is that of the embeddings.
    """

    def __init__(self, network: Classifier, layer: int) -> None:
        super().__init__()
        sizes = network.encoder.sizes
        self._network = (network,)  # in a tuple, so that it is no part of this one
        self.layer, self.selector = layer, HardConcreteSelector()
        last = nn.Linear(PROBE, 1)
        self.probe = nn.Sequential(nn.Linear(sum(sizes[: layer + 1]), PROBE), nn.Tanh(), last)
        self.baseline = nn.Parameter(torch.zeros(sizes[layer]))
        with torch.no_grad():
            last.bias.fill_(2.0)  # all gates are open at first

    @property
    def network(self) -> Classifier:
        """The classifier."""
        return self._network[0]

    def states(self, words: Tensor, lengths: np.ndarray) -> list[Tensor]:
        """The states (L, B, size) of the layers up to this one; arguments as :meth:`Classifier.encode`."""
        found = [self.network.embedding(words)]
        for number in range(1, self.layer + 1):
            found.append(self.network.encoder.layer(number, found[-1], lengths))
        return found

    def select(self, states: list[Tensor], lengths: np.ndarray, draw: bool = False) -> tuple[Selection, Tensor]:
        """The gates of B texts, and their mask (B, L); ``draw``: as in training."""
        scores = self.probe(torch.cat(states, 2)).transpose(0, 1)
        mask = torch.from_numpy(np.arange(len(states[0])) < lengths[:, None]).to(scores.device)
        return (self.selector.draw if draw else self.selector.decide)(scores, mask), mask

    def judge(self, words: Tensor, lengths: np.ndarray, x: Tensor, z: Tensor) -> Tensor:
        """Logits (B,) by the classifier with the layer's states x (L, B, size) behind gates z (B, L)."""
        z = z.t().unsqueeze(2)
        h, mask = self.network.encode_from(self.layer, z * x + (1 - z) * self.baseline, lengths)
        return self.network.judge(h, self.network.attended(words, mask))[0]
