"""What a training run is made of: its plan of steps, and its task, the text with its loss and measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.types import PathLike


class Snapshot(Protocol):
    """A network at some step, as a frozen dataclass; the result of training."""

    @property
    def step(self) -> int: ...

    @property
    def metrics(self) -> dict[str, float]: ...

    def save(self, path: PathLike) -> None: ...


Network = TypeVar("Network", bound=nn.Module)
Found = TypeVar("Found", bound=Snapshot)


@dataclass(frozen=True)
class TrainingPlan:
    """The steps of a run.

    Attributes:
        seed: of dropout.
        learning_rate: of Adam.
        rate_warmup, rate_decay: how it changes, as in :class:`alignkit.neural.settings.TrainingSettings`.
        last_step: steps in all.
        epoch_steps: steps of an epoch.
        logged_steps: the steps after which the network is measured.
        keep_logged: whether the network of each logged step is kept.
        measure_epochs: whether the network is measured after each epoch, too.
        tf32: on a GPU, allow TF32 matrix products while training.
        parts: in how many the gradient of a batch is computed, at least one per rank.
    """

    seed: int
    learning_rate: float
    last_step: int
    epoch_steps: int
    logged_steps: frozenset[int]
    keep_logged: bool
    measure_epochs: bool
    tf32: bool = False
    rate_warmup: int = 0
    rate_decay: str = "none"
    parts: int = 1

    def measured(self, step: int) -> bool:
        """True if the network is measured after so many steps."""
        return step in self.logged_steps or (self.measure_epochs and step % self.epoch_steps == 0)

    def rate(self, step: int) -> float:
        """The learning rate of the step after ``step`` others."""
        number, peak = step + 1, max(self.rate_warmup, 1)
        if number < peak:
            return self.learning_rate * number / peak
        if self.rate_decay == "inverse-sqrt":
            return self.learning_rate * (peak / number) ** 0.5
        return self.learning_rate


class Task(ABC, Generic[Network, Found]):
    """A network's text, loss and measurements. A task holds nothing that training changes.

    Attributes:
        device: where the network is.
        concluding: the names that :meth:`conclude` gives, dropped from the log if a finished run is continued.
    """

    device: torch.device
    concluding: tuple[str, ...] = ()

    @abstractmethod
    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, the same number in each."""

    @abstractmethod
    def backward(self, network: Network, part: np.ndarray, whole: np.ndarray, step: int) -> Tensor:
        """Add the gradient of a part of a batch's loss to the parameters'; returns that part of the loss.

        The parts add up to the loss of the whole batch, a scalar without gradient.

        Args:
            network: in training mode.
            part: some pairs of the batch, or all.
            whole: one of :meth:`batches`.
            step: number of steps taken before this one.
        """

    @abstractmethod
    def measure(self, network: Network, step: int) -> list[tuple[str, float]]:
        """Measure the network: (name, value) pairs."""

    @abstractmethod
    def rank(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """The rank of a step by its measurements; smaller is better."""

    @abstractmethod
    def snapshot(self, network: Network, step: int, metrics: dict[str, float]) -> Found:
        """A copy of the network as it is now."""

    @abstractmethod
    def rebuild(self, weights: object) -> Network:
        """A network with these weights.

        Raises:
            ValueError, RuntimeError: the weights do not fit.
        """

    @abstractmethod
    def message(self, epoch: int, best: Mapping[str, float]) -> str:
        """A message for the progress bar: the epoch, and the measurements of the best network so far."""

    def parameters(self, network: Network) -> list[nn.Parameter]:
        """The parameters that are trained."""
        return list(network.parameters())

    def recipe(self) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """A function and arguments, which can be pickled, that make this task at another rank.

        The function also takes the ``device``. None if the task cannot be made elsewhere: rank 0 trains alone.
        """
        return None

    def conclude(self, best: Found) -> list[tuple[str, float]]:
        """Measure the best network once, when all steps are done: (name, value) pairs."""
        return []
