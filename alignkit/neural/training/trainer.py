"""The training loop: steps, measured steps, the best network, and going on from any measured step."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.neural.checkpoints import weights_of
from alignkit.neural.devices import precision
from alignkit.neural.training.log import Row, TrainingLog

Progress = Callable[[int, int, str], None]  #: (done, total, message)


class Snapshot(Protocol):
    """A network as it was at a step, a frozen dataclass: what training gives."""

    @property
    def step(self) -> int: ...

    @property
    def metrics(self) -> dict[str, float]: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...


Found = TypeVar("Found", bound=Snapshot)


class Loop(ABC, Generic[Found]):
    """A training run in progress: everything that its next step depends on.

    What is trained, on what and how it is measured is a subclass's.

    Attributes:
        network: as trained so far.
        device: where.
        step: steps taken.
        last: steps in all.
        epoch_steps: steps of an epoch.
        logged: the steps after which the network is measured and, with ``keep``, kept; also after each epoch if
            ``each_epoch``.
        log: what was measured.
        best: the best network so far, by :meth:`rank`.
        finished: nothing is left to do.
    """

    network: nn.Module
    device: torch.device
    seed: int
    learning_rate: float
    last: int
    epoch_steps: int
    logged: set[int]
    keep: bool
    tf32: bool = False
    each_epoch: bool = True

    def start(self) -> None:
        """Puts the loop before its first step; the subclass has set everything else."""
        self.step, self.log, self.finished = 0, TrainingLog(), False
        self.best: Found | None = None
        self._loss = torch.zeros((), device=self.device)
        self._since = 0
        self._optimise()

    @abstractmethod
    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, ``epoch_steps`` of them."""

    @abstractmethod
    def backward(self, pairs: np.ndarray) -> Tensor:
        """Adds the gradient of a batch's loss to the parameters' and gives the loss, a scalar without gradient."""

    @abstractmethod
    def measure(self) -> list[tuple[str, float]]:
        """(name, value) of what is measured at this step."""

    @staticmethod
    @abstractmethod
    def rank(metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Smaller is better, of what was measured at a step."""

    @abstractmethod
    def snapshot(self) -> Found:
        """The network as it is now, which further training does not change."""

    @abstractmethod
    def message(self, epoch: int) -> str:
        """For the progress bar."""

    def trained(self) -> list[nn.Parameter]:
        """The parameters that are trained."""
        return list(self.network.parameters())

    def conclude(self) -> list[tuple[int, str, float]]:
        """(step, name, value) of what is measured once, when all steps are done."""
        return []

    def concluded(self) -> tuple[str, ...]:
        """The names that :meth:`conclude` gives; a run that goes on beyond its end forgets them."""
        return ()

    def _optimise(self) -> None:
        # One fused pass over parameters, gradients and moments: a quarter of the time on a CPU.
        self.optimiser = torch.optim.Adam(self.trained(), lr=self.learning_rate, fused=True)

    def run(self, commit: Callable[[Any, bool], None] | None = None, progress: Progress | None = None) -> Found:
        """Trains to the end, or goes on from where :meth:`restore` put it, to the same bits.

        Args:
            commit: called with this run and whether the network is the best so far, at every measured step;
                it may keep :meth:`state`.
            progress: called after every step with (steps done, steps in all, message).

        Returns:
            the best network.
        """
        with precision(self.device, self.tf32):
            if not self.log.rows:
                self._measure(commit)
            while self.step < self.last:
                epoch = self.step // self.epoch_steps
                for pairs in self.batches(epoch)[self.step % self.epoch_steps :][: self.last - self.step]:
                    self._train(pairs)
                    epoch_ends = self.each_epoch and self.step % self.epoch_steps == 0
                    if self.step in self.logged or epoch_ends:
                        self._measure(commit)
                    if progress is not None:
                        progress(self.step, self.last, self.message(epoch))
        if not self.finished:
            for step, name, value in self.conclude():
                self.log = self.log.add(step, [(name, value)])
            self.finished = True
            if commit is not None:
                commit(self, False)
        assert self.best is not None
        return self.best

    def _train(self, pairs: np.ndarray) -> None:
        """One step of Adam."""
        # The seed of dropout follows from the step, so no state of a generator has to be kept.
        with seeded(self.seed, self.step + 1, self.device):
            self.network.train()
            self.optimiser.zero_grad()
            loss = self.backward(pairs)
            self.optimiser.step()
        self._loss += loss
        self._since += 1
        self.step += 1

    def _measure(self, commit: Callable[[Any, bool], None] | None) -> None:
        """Measures, logs, keeps the network if it is the best, and commits."""
        values = [("train.loss", self._loss.item() / self._since)] if self._since else []
        self._loss.zero_()
        self._since = 0
        values += self.measure()
        improved = self.best is None or self.rank(dict(values)) < self.rank(self.best.metrics)
        self.log = self.log.add(self.step, values)
        if improved:
            self.best = self.snapshot()
        if commit is not None:
            commit(self, improved)

    def metrics(self, step: int) -> dict[str, float]:
        """What was measured at a step."""
        return {row.name: row.value for row in self.log.rows if row.step == step}

    def state(self) -> dict[str, Any]:
        """What :meth:`restore` needs, in plain values and tensors; to be taken at a measured step."""
        assert self.best is not None
        assert self._since == 0
        return {
            "step": self.step,
            "weights": weights_of(self.network),
            "optimiser": self.optimiser.state_dict(),
            "log": [list(row) for row in self.log.rows],
            "finished": self.finished,
        }

    def restore(self, state: dict[str, Any], best: Found) -> None:
        """Goes back to where :meth:`state` was taken.

        Args:
            state: what it gave.
            best: the best network at that step, or a later one, which training will come to again.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: the state is damaged or of another network.
        """
        self.network = self.rebuild(state["weights"]).to(self.device)
        self._optimise()
        self.optimiser.load_state_dict(state["optimiser"])
        rows = [Row(int(s), str(n), float(v)) for s, n, v in state["log"]]
        self.step = int(state["step"])
        self.finished = bool(state["finished"]) and self.step >= self.last
        if state["finished"] and not self.finished:  # it was a shorter run's end
            rows = [row for row in rows if row.name not in self.concluded()]
        self.log = TrainingLog(tuple(rows))
        steps = sorted({row.step for row in self.log.rows})
        step = min(steps, key=lambda step: self.rank(self.metrics(step)))
        if best.step != step:
            # A best network from after the state counts as the state's, until training comes to it again.
            changes: Any = {"step": step, "metrics": {**best.metrics, **self.metrics(step)}}
            best = cast(Found, replace(cast(Any, best), **changes))
        self.best = best

    @abstractmethod
    def rebuild(self, weights: object) -> nn.Module:
        """A network of these weights.

        Raises:
            ValueError, RuntimeError: the weights do not fit.
        """


@contextmanager
def seeded(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Random numbers that (seed, step) decides; the program's own stream is left as it was."""
    number = int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(number)
        yield
