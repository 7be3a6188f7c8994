"""Training of gates: as few words as possible pass, while the output stays where it was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from alignkit.neural.batching import DeviceCorpus, text_batches
from alignkit.neural.classifier_settings import ClassifierTraining
from alignkit.neural.devices import device_of
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.gates import Gates
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.neural.training.in_memory import train_in_steps
from alignkit.neural.training.loop import seeded
from alignkit.text.labelled import LabelledText
from alignkit.types import Progress, no_progress

FIRST_MULTIPLIER, LEAST_MULTIPLIER, LARGEST_MULTIPLIER = 10.0, 0.1, 1000.0
PACE = 0.03  #: by how much, at most, a step changes the logarithm of the multiplier


def output_divergence(logits: Tensor, gated: Tensor) -> Tensor:
    """KL(p || p') in nats of each text, (B,), of outputs with these log odds."""
    p = torch.sigmoid(logits)
    entropy = -(p * logsigmoid(logits) + (1 - p) * logsigmoid(-logits))
    found: Tensor = binary_cross_entropy_with_logits(gated, p, reduction="none") - entropy
    return found.clamp(min=0)


def train_gates(
    network: Classifier,
    layer: int,
    text: LabelledText,
    training: ClassifierTraining,
    margin: float,
    *,
    progress: Progress = no_progress,
) -> Gates:
    """Gates that let few words pass, at an expected divergence of the output of at most ``margin``.

    The expected share of words that pass plus a multiplier times the divergence is minimised by Adam. The
    multiplier rises while the divergence of a batch exceeds the margin, and falls otherwise (De Cao et al. 2020).

    Args:
        network: the classifier.
        layer: the gated layer.
        text: for training; labels are not used.
        training: number of steps, size of batches, learning rate, seed.
        margin: nats, mean over texts.
        progress: of the steps.
    """
    device = device_of(network)
    with seeded(training.seed, 0, device):
        gates = Gates(network, layer).to(device)
    corpus, multiplier = DeviceCorpus(text.corpus, device), FIRST_MULTIPLIER

    def loss(batch: np.ndarray, step: int) -> Tensor:
        nonlocal multiplier
        words, lengths = corpus.gather(batch)
        with torch.no_grad():
            states, logits = gates.states(words, lengths), network(words, lengths)
        found, mask = gates.select(states, lengths, draw=True)
        apart = output_divergence(logits, gates.judge(words, lengths, states[-1], found.z)).mean()
        value = (found.kept.sum(1) / mask.sum(1)).mean() + multiplier * apart
        excess = min(max(apart.item() / margin - 1, -1.0), 1.0)
        multiplier = min(max(multiplier * float(np.exp(PACE * excess)), LEAST_MULTIPLIER), LARGEST_MULTIPLIER)
        return value

    with evaluation_mode(network, gradients=True):
        train_in_steps(gates, gates.parameters(), loss, text, training, progress=progress)
    return gates


@dataclass(frozen=True, eq=False)
class GatedTexts:
    """What gates let pass of M texts, and what the classifier then says.

    Attributes:
        passed: per text bool (L,).
        logits: float64 (M,).
        divergence: float64 (M,), KL(p || p') in nats.
    """

    passed: list[np.ndarray]
    logits: np.ndarray
    divergence: np.ndarray


def gated_texts(gates: Gates, text: LabelledText) -> GatedTexts:
    """The gates at test time, open or shut, on texts that all have words."""
    logits, apart = np.full(len(text), np.nan), np.full(len(text), np.nan)
    passed: list[np.ndarray] = [np.zeros(0, bool)] * len(text)
    with evaluation_mode(gates.network):
        for texts, words, lengths in text_batches(text, device_of(gates)):
            states = gates.states(words, lengths)
            found, _ = gates.select(states, lengths)
            gated = gates.judge(words, lengths, states[-1], found.z)
            logits[texts] = gated.double().cpu().numpy()
            apart[texts] = output_divergence(gates.network(words, lengths), gated).double().cpu().numpy()
            for m, row, length in zip(texts, (found.z > 0).cpu().numpy(), lengths, strict=True):
                passed[m] = row[:length]
    return GatedTexts(passed, logits, apart)
