"""The training loop: steps, measurements, the best network, and resumption from any measured step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from alignkit.distributed.group import Group, current_group
from alignkit.errors import AlignkitError
from alignkit.neural.checkpoints import checked_weights, weights_of
from alignkit.neural.devices import precision
from alignkit.neural.training.data_parallel import share_network, split_batch, sum_gradients
from alignkit.neural.training.log import TrainingLog
from alignkit.neural.training.state import TrainingState, load_moments
from alignkit.neural.training.task import Found, Network, Task, TrainingPlan
from alignkit.types import Progress


class Job(NamedTuple):
    """What another rank needs to take part in a training run.

    Attributes:
        recipe: :meth:`Task.recipe`.
        plan: the steps.
        weights, moments, step: of the trainer as it is when the run begins.
        threads: the number of each rank's.
        gpu: whether a GPU is used.
    """

    recipe: tuple[Callable[..., Any], tuple[Any, ...]]
    plan: TrainingPlan
    weights: dict[str, Tensor]
    moments: dict[int, Any]
    step: int
    threads: int
    gpu: bool


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
        self._group = Group()  # the ranks that take part in a step
        self._loss = torch.zeros((), device=task.device)
        self._since = 0
        self._optimiser = self._new_optimiser()

    def _new_optimiser(self) -> torch.optim.Adam:
        # One fused pass over parameters, gradients and moments takes a quarter of the time on a CPU.
        self._parameters = self.task.parameters(self.network)
        return torch.optim.Adam(self._parameters, lr=self.plan.learning_rate, fused=True)

    def run(self, commit: Callable[[Any, bool], None] | None = None, progress: Progress | None = None) -> Found:
        """Train to the end. After :meth:`restore`, the result has the same bits as without interruption.

        Args:
            commit: called at every measured step with this trainer and whether the network is the best so far; it
                may save :meth:`state`.
            progress: called after every step with (steps done, steps in all, message).

        Returns:
            the best network.
        """
        plan, self._group = self.plan, self._shared_group()
        with precision(self.task.device, plan.tf32):
            if not self.log.rows:
                self._measure(commit)
            for epoch in self._steps():
                if plan.measured(self.step):
                    self._measure(commit)
                if progress is not None:
                    progress(self.step, plan.last_step, self.task.message(epoch, self._best.metrics))
        self._group = Group()
        if not self.finished:
            self.log = self.log.add(self._best.step, self.task.conclude(self._best))
            self.finished = True
            self._commit(commit, False)
        return self._best

    def follow(self) -> None:
        """Take part, at another rank than 0, in the run of rank 0 to its end."""
        with precision(self.task.device, self.plan.tf32):
            for _ in self._steps():
                if self.plan.measured(self.step):
                    share_network(self._group, self.network, self._optimiser)

    @classmethod
    def of_job(cls, task: Task[Network, Found], job: Job, group: Group) -> Trainer[Network, Found]:
        """The run of a job at a rank of the group."""
        trainer = cls(task, job.plan, task.rebuild(job.weights).to(task.device))
        load_moments(trainer._optimiser, job.moments, job.step)
        trainer.step, trainer._group = job.step, group
        return trainer

    def _shared_group(self) -> Group:
        """The ranks that this process has joined, which now begin to follow; or a group of one.

        It is of one if the task cannot be made at other ranks, and if no step is left.
        """
        joined = current_group()
        recipe = self.task.recipe() if joined.world_size > 1 else None
        if recipe is None or self.step == self.plan.last_step:
            return Group()
        moments = self._optimiser.state_dict()["state"]
        weights, threads = weights_of(self.network), torch.get_num_threads()
        gpu = self.task.device.type == "cuda"
        joined.broadcast_object(Job(recipe, self.plan, weights, moments, self.step, threads, gpu))
        return joined

    def _steps(self) -> Iterator[int]:
        """Take all steps that are left; gives the epoch after each."""
        plan = self.plan
        while self.step < plan.last_step:
            epoch = self.step // plan.epoch_steps
            for batch in self.task.batches(epoch)[self.step % plan.epoch_steps :]:
                if self.step == plan.last_step:
                    break
                self.advance(batch)
                yield epoch

    @property
    def _best(self) -> Found:
        assert self.best is not None
        return self.best

    def advance(self, batch: np.ndarray) -> None:
        """Take one step of Adam on a batch, without measuring."""
        self.network.train()
        self._optimiser.zero_grad()
        for group in self._optimiser.param_groups:
            group["lr"] = self.plan.rate(self.step)
        ranks = self._group
        parts = split_batch(batch, max(self.plan.parts, ranks.world_size))
        loss = torch.zeros_like(self._loss)
        for number in range(ranks.rank, len(parts), ranks.world_size):
            # The seed of dropout is derived from the step, so that no generator state has to be saved.
            with seeded(self.plan.seed, self.step + 1, self.task.device, number):
                loss += self.task.backward(self.network, parts[number], batch, self.step)
        self._loss += sum_gradients(ranks, self._parameters, loss)
        self._optimiser.step()
        self._since += 1
        self.step += 1

    def _measure(self, commit: Callable[[Any, bool], None] | None) -> None:
        """Measure, log, keep the network if it is the best, and commit."""
        if self._since:
            share_network(self._group, self.network, self._optimiser)
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
        self._commit(commit, improved)

    def _commit(self, commit: Callable[[Any, bool], None] | None, improved: bool) -> None:
        if commit is not None:
            with current_group().writing():
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
def seeded(seed: int, step: int, device: torch.device, part: int = 0) -> Iterator[None]:
    """Seed torch by (seed, step, part) within the block; the program's own random numbers are not affected."""
    entropy = [seed, step, part] if part else [seed, step]
    number = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(number)
        yield
