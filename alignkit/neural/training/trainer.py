"""Training runs: a task of steps and measurements, the best network, and resumption from any measured step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.checkpoints import checked_weights, weights_of
from alignkit.neural.devices import precision
from alignkit.neural.training.log import Row, TrainingLog, log_row
from alignkit.neural.training.loop import adam, batch_at, descend
from alignkit.records import Record
from alignkit.types import PathLike, Progress, no_progress


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
        rate: the learning rate of Adam in the step after so many others.
        last_step: steps in all.
        epoch_steps: steps of an epoch.
        logged_steps: the steps after which the network is measured.
        keep_logged: keep the network of each logged step.
        measure_epochs: measure the network after each epoch, too.
        tf32: on a GPU, allow TF32 matrix products while training.
    """

    seed: int
    rate: Callable[[int], float]
    last_step: int
    epoch_steps: int
    logged_steps: frozenset[int]
    keep_logged: bool
    measure_epochs: bool
    tf32: bool = False

    def measured(self, step: int) -> bool:
        """True if the network is measured after so many steps."""
        return step in self.logged_steps or (self.measure_epochs and step % self.epoch_steps == 0)


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
    def loss(self, network: Network, batch: np.ndarray, step: int) -> Tensor:
        """The loss of a batch, a scalar.

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

    def pinned(self, network: Network) -> bool:
        """True if the backward pass is to run on one thread (:func:`alignkit.neural.training.loop.descend`)."""
        return False

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
        self._metrics: dict[str, float] = {}  # of this step
        self._loss = torch.zeros((), device=task.device)
        self._since = 0
        self._optimiser = self._new_optimiser()

    def _new_optimiser(self) -> torch.optim.Adam:
        return adam(self.task.parameters(self.network), self.plan.rate(0))

    def run(self, commit: Callable[[Any, bool], None] | None = None, progress: Progress | None = None) -> Found:
        """Train to the end. After :meth:`restore`, the result has the same bits as without interruption.

        Args:
            commit: called once at every measured step, also the last, with this trainer and True if the network is
                the best so far; it may save :meth:`state`.
            progress: called after every step with (steps done, steps in all, message).

        Returns:
            the best network.
        """
        plan, task = self.plan, self.task

        def message() -> str:
            return task.message((self.step - 1) // plan.epoch_steps, self._best.metrics)

        if not self.finished:
            batches = batch_at(task.batches, plan.epoch_steps)
            self._descend(
                batches,
                plan.last_step,
                measure=lambda step: self._arrive(step, commit),
                progress=progress or no_progress,
                message=message,
            )
        return self._best

    def advance(self, batch: np.ndarray) -> None:
        """Take one step of Adam on a batch, without measuring."""
        self._descend(lambda _: batch, self.step + 1)
        self.step += 1

    def _descend(self, batches: Callable[[int], np.ndarray], last: int, **following: Any) -> None:
        def loss(step: int) -> Tensor:
            self.network.train()
            found = self.task.loss(self.network, batches(step), step)
            self._loss += found.detach()
            self._since += 1
            return found

        plan, task = self.plan, self.task
        own: dict[str, Any] = {
            "seed": plan.seed,
            "device": task.device,
            "pinned": task.pinned(self.network),
            "rate": plan.rate,
        }
        with precision(task.device, plan.tf32):
            descend(self._optimiser, loss, last, start=self.step, **own, **following)

    @property
    def _best(self) -> Found:
        assert self.best is not None
        return self.best

    def _arrive(self, step: int, commit: Callable[[Any, bool], None] | None) -> None:
        """Measure if it is due and was not done before the run was interrupted, conclude the last step, commit."""
        self.step = step
        due = self.plan.measured(step) and not self.log.at(step)
        improved = due and self._measure()
        if step == self.plan.last_step:
            self.log = self.log.add(self._best.step, self.task.conclude(self._best))
            self.finished = True
        if commit is not None and (due or self.finished):
            commit(self, improved)

    def _measure(self) -> bool:
        """Measure, log, and keep the network if it is the best; returns whether it is."""
        values = [("train.loss", self._loss.item() / self._since)] if self._since else []
        self._loss.zero_()
        self._since = 0
        values += self.task.measure(self.network, self.step)
        self._check_converging(values)
        rank = self.task.rank
        self.log, self._metrics = self.log.add(self.step, values), dict(values)
        if self.best is not None and rank(self._metrics) >= rank(self.best.metrics):
            return False
        self.best = self.snapshot()
        return True

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
        return self.task.snapshot(self.network, self.step, dict(self._metrics))

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
        self._metrics = self.log.at(self.step)
        steps = sorted({row.step for row in self.log.rows})
        step = min(steps, key=lambda step: self.task.rank(self.log.at(step)))
        if best.step != step:
            # A best network from after the state stands in for the state's until training reaches it again.
            changes: Any = {"step": step, "metrics": {**best.metrics, **self.log.at(step)}}
            best = cast(Found, replace(cast(Any, best), **changes))
        self.best = best


#: What Adam keeps of each parameter; ``step`` is a number, the others have the parameter's shape.
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, eq=False)
class TrainingState:
    """What a run goes on from, as :meth:`Trainer.state` gives it, checked before any of it is used.

    Attributes:
        step: number of steps taken.
        weights: of the network, by name; checked by what builds it.
        moments: Adam's, by the number of the parameter; checked by :func:`load_moments`.
        log: the measurements, those of this step too.
        finished: True if nothing was left to do.
    """

    step: int
    weights: object
    moments: object
    log: TrainingLog
    finished: bool

    @classmethod
    def read(cls, path: PathLike, values: object, last_step: int) -> TrainingState:
        """The state in the content of a file; raises InputError if it cannot be one of a run of these steps."""
        record = Record(path, values)
        step = record.whole("step", 0, last_step)
        rows = tuple(_row(path, place, row, last_step) for place, row in enumerate(record.rows("log"), 1))
        if not any(row.step == step for row in rows):
            raise InputError(path, f"damaged: its log has no row of step {step}")
        moments = record.part("optimiser").value("state")
        return cls(step, record.value("weights"), moments, TrainingLog(rows), record.flag("finished"))


def _row(path: PathLike, place: int, row: object, last_step: int) -> Row:
    if not isinstance(row, list | tuple) or len(row) != len(Row._fields):
        raise InputError(path, f"damaged: row {place} of its log should be {', '.join(Row._fields)}")
    named = dict(zip(Row._fields, row, strict=True))
    return log_row(Record(path, named, name=f"row {place} of its log"), last_step)


def load_moments(optimiser: torch.optim.Optimizer, moments: object, steps: int) -> None:
    """Give an Adam optimiser these moments; its settings stay its own.

    Args:
        optimiser: a new one, of the network's parameters.
        moments: number of the parameter -> :data:`MOMENTS`; parameters that had no gradient yet have none.
        steps: how many the run has taken.

    Raises:
        ValueError: they are not those of such a run.
    """
    if not isinstance(moments, Mapping):
        raise ValueError("the optimiser's moments are missing")
    parameters = [each for group in optimiser.param_groups for each in group["params"]]
    for number, found in moments.items():
        if type(number) is not int or not 0 <= number < len(parameters):
            raise ValueError("the optimiser's moments are of other parameters")
        if not isinstance(found, Mapping) or set(found) != set(MOMENTS):
            raise ValueError(f"the optimiser's moments of parameter {number} should be {', '.join(MOMENTS)}")
        for name in MOMENTS:
            _check_moment(f"{name} of parameter {number}", found[name], parameters[number], name == "step")
        if not (0 < found["step"].item() <= steps and bool((found["exp_avg_sq"] >= 0).all())):
            raise ValueError(f"the optimiser's moments of parameter {number} are out of their range")
    settings: dict[str, Any] = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": dict(moments), "param_groups": settings})


def _check_moment(name: str, value: object, parameter: Tensor, is_number: bool) -> None:
    shape = torch.Size() if is_number else parameter.shape
    if not isinstance(value, Tensor) or value.dtype != torch.float32 or value.shape != shape:
        raise ValueError(f"the optimiser's {name} should be float32 numbers of shape {tuple(shape)}")
    if value.layout != torch.strided or not bool(torch.isfinite(value).all()):
        raise ValueError(f"the optimiser's {name} is not finite")
