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
from alignkit.neural.training.trainer import seeded
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
    trained, device = list(parameters), device_of(network)
    optimiser = torch.optim.Adam(trained, lr=training.learning_rate, fused=True)
    network.train()
    step, epoch = 0, 0
    with one_thread(device):
        while step < training.steps:
            batches = training_batches(text.bitext, training.batch, training.seed, epoch, training.buckets)
            for batch in batches[: training.steps - step]:
                with seeded(training.seed, step + 1, device):
                    optimiser.zero_grad()
                    value = loss(batch, step)
                    value.backward()
                nn.utils.clip_grad_norm_(trained, LARGEST_GRADIENT)
                optimiser.step()
                step += 1
                progress(step, training.steps, "")
            if not torch.isfinite(value):
                raise AlignkitError(f"training diverged after step {step}; use a smaller learning rate")
            epoch += 1
    network.eval()
