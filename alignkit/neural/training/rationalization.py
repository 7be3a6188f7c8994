"""Training of a rationalizer: its predictions should be right, its selections short and contiguous."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from alignkit.neural.batching import DeviceCorpus, text_batches
from alignkit.neural.classifier_settings import ClassifierRunSettings
from alignkit.neural.devices import device_of
from alignkit.neural.networks.rationalizer import Rationalizer
from alignkit.neural.networks.selectors import scattering
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.neural.training.in_memory import train_in_steps
from alignkit.neural.training.loop import seeded
from alignkit.text.labelled import LabelledText
from alignkit.types import Progress, no_progress

DRAWS = 2  #: selections of each text per step where REINFORCE estimates the gradient; each is the other's baseline


@dataclass(frozen=True)
class SelectionPenalty:
    """The penalty on what is selected, added to the cross-entropy.

    short * max(0, expected share of words selected - share) + contiguous * expected share of neighbours of which
    one is selected and one is not, mean over texts. The weights are 0 in the first quarter of the training and
    grow to these by its end, because a network that does not know yet which words it needs would drop all.

    Attributes:
        share: the share of words that costs nothing.
        short, contiguous: the weights.
    """

    share: float = 0.2
    short: float = 1.0
    contiguous: float = 0.05

    def at(self, done: float) -> SelectionPenalty:
        """The penalty when a share of the training is done."""
        factor = min(max((4 * done - 1) / 3, 0.0), 1.0)
        return replace(self, short=factor * self.short, contiguous=factor * self.contiguous)


def rationalizer_loss(
    network: Rationalizer, words: Tensor, lengths: np.ndarray, y: Tensor, penalty: SelectionPenalty
) -> Tensor:
    """The loss of a batch, a scalar.

    Where selections are drawn from probabilities without a gradient through z, that of the cross-entropy is
    estimated by REINFORCE: each text is drawn twice, and each draw's baseline is the loss of the other
    (Kool et al. 2019). The penalties are expectations, so that their gradients are exact.

    Args:
        network: in training mode.
        words, lengths: as in :meth:`alignkit.neural.networks.classifier.Classifier.encode`.
        y: (B,), 0 or 1.
        penalty: on the selections.
    """
    first, mask = network.select(words, lengths, draw=True)
    drawn = first.log_probability is not None
    losses = binary_cross_entropy_with_logits(network.predict(words, lengths, first.z), y, reduction="none")
    shares = first.kept.sum(1) / mask.sum(1)
    loss = losses.mean()
    loss = loss + penalty.short * (shares - penalty.share).clamp(min=0).mean()
    loss = loss + penalty.contiguous * scattering(first.kept, mask, network.selector.independent).mean()
    if not drawn:
        return loss
    second, _ = network.select(words, lengths, draw=True)
    others = binary_cross_entropy_with_logits(network.predict(words, lengths, second.z), y, reduction="none")
    assert first.log_probability is not None
    assert second.log_probability is not None
    advantage = (losses - others).detach()
    score = (advantage * (first.log_probability - second.log_probability)).mean() / DRAWS
    return loss + (others.mean() - losses.mean()) / DRAWS + score - score.detach()


def train_rationalizer(
    selector: str,
    text: LabelledText,
    settings: ClassifierRunSettings,
    penalty: SelectionPenalty,
    *,
    progress: Progress = no_progress,
    device: str = "cpu",
) -> Rationalizer:
    """A trained rationalizer.

    Args:
        selector: a name in :data:`alignkit.neural.networks.selectors.SELECTORS`.
        text: for training.
        settings: of networks (with the size of the vocabulary) and training.
        penalty: on the selections.
        progress: of the steps.
        device: where it is trained.
    """
    training, where = settings.training, torch.device(device)
    with seeded(training.seed, 0, where):
        network = Rationalizer(settings.network, selector).to(where)
    corpus = DeviceCorpus(text.corpus, where)
    labels = torch.from_numpy(text.labels.astype(np.float32)).to(where)

    def loss(batch: np.ndarray, step: int) -> Tensor:
        now = penalty.at(step / training.steps)
        return rationalizer_loss(network, *corpus.gather(batch), labels[batch], now)

    train_in_steps(network, network.parameters(), loss, text, training, progress=progress)
    return network


@dataclass(frozen=True, eq=False)
class Rationales:
    """What a rationalizer selects of M texts, and what it predicts from that.

    Attributes:
        selected: per text bool (L,).
        logits: float64 (M,).
    """

    selected: list[np.ndarray]
    logits: np.ndarray


def rationales_of(network: Rationalizer, text: LabelledText) -> Rationales:
    """The rationales of texts, all of which have words."""
    logits = np.full(len(text), np.nan)
    selected: list[np.ndarray] = [np.zeros(0, bool)] * len(text)
    with evaluation_mode(network):
        for texts, words, lengths in text_batches(text, device_of(network)):
            found, _ = network.select(words, lengths)
            logits[texts] = network.predict(words, lengths, found.z).double().cpu().numpy()
            for m, row, length in zip(texts, (found.z > 0).cpu().numpy(), lengths, strict=True):
                selected[m] = row[:length]
    return Rationales(selected, logits)
