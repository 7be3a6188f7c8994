"""The training loop: steps, measurements, the best network, and resumption from any measured step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.checkpoints import checked_weights, weights_of
from alignkit.neural.devices import precision
from alignkit.neural.training.log import TrainingLog
from alignkit.neural.training.state import TrainingState, load_moments
from alignkit.types import PathLike, Progress


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
    def backward(self, network: Network, batch: np.ndarray, step: int) -> Tensor:
        """Add the gradient of a batch's loss to the parameters'; returns the loss, a scalar without gradient.

        Args:
            network: in training mode.
            batch: one of :meth:`batches`.
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

    def conclude(self, best: Found) -> list[tuple[str, float]]:
        """Measure the best network once, when all steps are done: (name, value) pairs."""
        return []


class Trainer(Generic[Network, Found]):
    """A training run in progress, with all that its next step depends on.

    Attributes:
        task, plan: as given.
        network: as trained so far.
        step: number of steps taken.
        log: the measurements.
        best: the best network so far, by :meth:`Task.rank`.
        finished: True if nothing is left to do.
    """

    def __init__(self, task: Task[Network, Found], plan: TrainingPlan, network: Network) -> None:
        """A run before its first step.

        Args:
            task: the text, loss and measurements.
            plan: the steps.
            network: the initial network, on the task's device; it is trained in place.
        """
        self.task, self.plan, self.network = task, plan, network
        self.step, self.log, self.finished = 0, TrainingLog(), False
        self.best: Found | None = None
        self._loss = torch.zeros((), device=task.device)
        self._since = 0
        self._optimiser = self._new_optimiser()

    def _new_optimiser(self) -> torch.optim.Adam:
        # One fused pass over parameters, gradients and moments takes a quarter of the time on a CPU.
        return torch.optim.Adam(self.task.parameters(self.network), lr=self.plan.learning_rate, fused=True)

    def run(self, commit: Callable[[Any, bool], None] | None = None, progress: Progress | None = None) -> Found:
        """Train to the end. After :meth:`restore`, the result has the same bits as without interruption.

        Args:
            commit: called at every measured step with this trainer and whether the network is the best so far; it
                may save :meth:`state`.
            progress: called after every step with (steps done, steps in all, message).

        Returns:
            the best network.
        """
        plan = self.plan
        with precision(self.task.device, plan.tf32):
            if not self.log.rows:
                self._measure(commit)
            while self.step < plan.last_step:
                epoch = self.step // plan.epoch_steps
                for batch in self.task.batches(epoch)[self.step % plan.epoch_steps :]:
                    if self.step == plan.last_step:
                        break
                    self.advance(batch)
                    epoch_ends = plan.measure_epochs and self.step % plan.epoch_steps == 0
                    if self.step in plan.logged_steps or epoch_ends:
                        self._measure(commit)
                    if progress is not None:
                        progress(self.step, plan.last_step, self.task.message(epoch, self._best.metrics))
        if not self.finished:
            self.log = self.log.add(self._best.step, self.task.conclude(self._best))
            self.finished = True
            if commit is not None:
                commit(self, False)
        return self._best

    @property
    def _best(self) -> Found:
        assert self.best is not None
        return self.best

    def advance(self, batch: np.ndarray) -> None:
        """Take one step of Adam on a batch, without measuring."""
        # The seed of dropout is derived from the step, so that no generator state has to be saved.
        with seeded(self.plan.seed, self.step + 1, self.task.device):
            self.network.train()
            self._optimiser.zero_grad()
            for group in self._optimiser.param_groups:
                group["lr"] = self.plan.rate(self.step)
            loss = self.task.backward(self.network, batch, self.step)
            self._optimiser.step()
        self._loss += loss
        self._since += 1
        self.step += 1

    def _measure(self, commit: Callable[[Any, bool], None] | None) -> None:
        """Measure, log, keep the network if it is the best, and commit."""
        values = [("train.loss", self._loss.item() / self._since)] if self._since else []
        self._loss.zero_()
        self._since = 0
        values += self.task.measure(self.network, self.step)
        self._check_converging(values)
        rank = self.task.rank
        improved = self.best is None or rank(dict(values)) < rank(self.best.metrics)
        self.log = self.log.add(self.step, values)
        if improved:
            self.best = self.snapshot()
        if commit is not None:
            commit(self, improved)

    def _check_converging(self, values: list[tuple[str, float]]) -> None:
        """Raises AlignkitError if a measurement or a weight has left all bounds."""
        wild = next((name for name, value in values if not math.isfinite(value)), None)
        if wild is None:
            try:
                checked_weights(weights_of(self.network))
            except ValueError:
                wild = "a weight"
        if wild is not None:
            raise AlignkitError(
                f"training diverged: {wild} is not finite or far too large after step {self.step}; "
                "use a smaller learning rate"
            )

    def snapshot(self) -> Found:
        """A copy of the network as it is now, with the measurements of this step."""
        return self.task.snapshot(self.network, self.step, self.log.at(self.step))

    def state(self) -> dict[str, Any]:
        """The state for :meth:`restore`, in plain values and tensors; taken at a measured step."""
        assert self.best is not None
        assert self._since == 0
        return {
            "step": self.step,
            "weights": weights_of(self.network),
            "optimiser": self._optimiser.state_dict(),
            "log": [list(row) for row in self.log.rows],
            "finished": self.finished,
        }

    def restore(self, state: TrainingState, best: Found) -> None:
        """Return to the step at which a :meth:`state` was taken.

        Args:
            state: the state.
            best: the best network at that step, or a later one, which training will reach again.

        Raises:
            KeyError, ValueError, RuntimeError: the state belongs to another network or task.
        """
        self.network = self.task.rebuild(state.weights).to(self.task.device)
        self._optimiser = self._new_optimiser()
        load_moments(self._optimiser, state.moments, state.step)
        rows, self.step = state.log.rows, state.step
        self.finished = state.finished and self.step >= self.plan.last_step
        if state.finished and not self.finished:  # a finished run that is now to be longer
            rows = tuple(row for row in rows if row.name not in self.task.concluding)
        self.log = TrainingLog(rows)
        steps = sorted({row.step for row in self.log.rows})
        step = min(steps, key=lambda step: self.task.rank(self.log.at(step)))
        if best.step != step:
            # A best network from after the state stands in for the state's until training reaches it again.
            changes: Any = {"step": step, "metrics": {**best.metrics, **self.log.at(step)}}
            best = cast(Found, replace(cast(Any, best), **changes))
        self.best = best


@contextmanager
def seeded(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Seed torch by (seed, step) within the block; the program's own random numbers are not affected."""
    number = int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(number)
        yield
