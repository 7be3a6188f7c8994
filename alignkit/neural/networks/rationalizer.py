"""A rationalizer: a generator selects words, and a predictor sees nothing but these (Lei et al. 2016)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.neural.classifier_settings import ClassifierSettings
from alignkit.neural.networks.classifier import Classifier, new_text_encoder
from alignkit.neural.networks.mechanisms import UNIFORM
from alignkit.neural.networks.selectors import SELECTORS, Selection


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
