"""Training of a network in memory by Adam, determined by a seed; for networks that are used once and not saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.batching import training_batches
from alignkit.neural.classifier_settings import ClassifierTraining
from alignkit.neural.devices import device_of, one_thread
from alignkit.neural.training.loop import adam, batch_at, descend
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
