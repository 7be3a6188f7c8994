"""Gates on a layer of a classifier: which words' states can be exchanged for a constant (De Cao et al. 2020)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.selectors import HardConcreteSelector, Selection

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
