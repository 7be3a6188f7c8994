"""Training of rationalizers and of gates, in memory: networks that are used once and not saved.

A rationalizer's predictions should be right, its selections short and contiguous; gates let as few words pass as
possible, while the output stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from alignkit.errors import AlignkitError
from alignkit.neural.batching import DeviceCorpus, text_batches, training_batches
from alignkit.neural.devices import device_of, evaluation_mode, one_thread
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.selectors import Gates, Rationalizer, scattering
from alignkit.neural.settings import ClassifierRunSettings, ClassifierTraining
from alignkit.neural.training.loop import adam, batch_at, descend, seeded
from alignkit.text.labelled import LabelledText
from alignkit.types import Progress, no_progress

LARGEST_GRADIENT = 5.0  #: its norm; larger ones are scaled down


def train_in_steps(
    network: nn.Module,
    parameters: Iterable[nn.Parameter],
    loss: Callable[[np.ndarray, int], Tensor],
    text: LabelledText,
    training: ClassifierTraining,
    *,
    progress: Progress = no_progress,
) -> None:
    """Train in place, and leave the network in evaluation mode.

    Args:
        network: with the parameters.
        parameters: those that are trained.
        loss: the scalar to minimise, of (the texts of a batch, steps taken before); it may draw random numbers.
        text: for training.
        training: number of steps, size of batches, learning rate and seed.
        progress: called after every step with (steps done, steps in all, message).

    Raises:
        AlignkitError: the loss is no longer finite.
    """

    def batches(epoch: int) -> list[np.ndarray]:
        return training_batches(text.bitext, training.batch, training.seed, epoch, training.buckets)

    count, device = len(batches(0)), device_of(network)
    batch, last = batch_at(batches, count), torch.zeros(())

    def value(step: int) -> Tensor:
        nonlocal last
        last = loss(batch(step), step)
        return last

    def check(step: int) -> None:
        if step and (step % count == 0 or step == training.steps) and not torch.isfinite(last):
            raise AlignkitError(f"training diverged after step {step}; use a smaller learning rate")

    network.train()
    with one_thread(device):
        descend(
            adam(parameters, training.learning_rate),
            value,
            training.steps,
            seed=training.seed,
            device=device,
            measure=check,
            largest_gradient=LARGEST_GRADIENT,
            progress=progress,
        )
    network.eval()


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
