"""Losses that say where a classifier's attention must not lie: far from a teacher's, or not on given words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.training.classification import Judged, Loss, label_loss
from alignkit.scores import Scores

SMALLEST = 1e-12  #: smaller attention counts as this in logarithms


def divergence(p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
    """KL(p || q) in nats of each row, (B,), over the places of the mask (B, L)."""
    p, q = p.clamp(min=SMALLEST), q.clamp(min=SMALLEST)
    kl: Tensor = ((p * (p.log() - q.log())) * mask).sum(1)
    return kl


def adversarial_loss(logits: np.ndarray, alpha: Scores, weight: float) -> Loss:
    """The loss of a network that gives a teacher's outputs with attention far from the teacher's.

    TVD(p_P, p_Q) - lambda KL(alpha_P || alpha_Q), mean over a batch; TVD is the total variation distance,
    |p_P - p_Q| for two classes (Wiegreffe and Pinter 2019, section 5).

    Args:
        logits: float64 (M,), the teacher's outputs on the training text.
        alpha: the teacher's attention there.
        weight: lambda.
    """

    def loss(judged: Judged) -> Tensor:
        device = judged.logits.device
        p = torch.from_numpy(expit(logits[judged.texts])).float().to(device)
        rows = [torch.from_numpy(alpha[m][0]) for m in judged.texts]
        kl = divergence(pad_sequence(rows, batch_first=True).to(device), judged.alpha, judged.mask > 0)
        return ((torch.sigmoid(judged.logits) - p).abs() - weight * kl).mean()

    return loss


def inattention_loss(avoided: Sequence[np.ndarray], weight: float) -> Loss:
    """The loss of a network that must not attend to some words, and still find the labels.

    Cross-entropy minus lambda log(1 - m), means over a batch, m being the attention on the words to avoid
    (Pruthi et al. 2020, section 3).

    Args:
        avoided: per training text bool (L,), True at the words to avoid.
        weight: lambda.
    """

    def loss(judged: Judged) -> Tensor:
        marks = [torch.from_numpy(avoided[m]) for m in judged.texts]
        marked = pad_sequence(marks, batch_first=True).to(judged.alpha.device)
        rest = (judged.alpha * ~marked).sum(1)
        return label_loss(judged) - weight * rest.clamp(min=SMALLEST).log().mean()

    return loss


def copy_but_attention(network: Classifier) -> Callable[[Classifier], None]:
    """Copies the weights of a network to another one, apart from those of its attention."""
    kept = {name: w for name, w in network.state_dict().items() if not name.startswith("attention.")}

    def prepare(other: Classifier) -> None:
        other.load_state_dict(kept, strict=False)

    return prepare
