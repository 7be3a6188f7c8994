"""Training runs: a task of steps and measurements, the best network, and resumption from any measured step."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import TrainedAligner
from alignkit.neural.checkpoints import checked_weights, weights_of
from alignkit.neural.devices import pick_device, training_batches
from alignkit.neural.settings import RunSettings, TextSettings, logged_steps
from alignkit.neural.training.log import Row, TrainingLog
from alignkit.neural.training.loop import adam, batch_at, descend, seeded
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer, learn_words, train_subwords
from alignkit.types import Progress

Network = TypeVar("Network", bound=nn.Module)
Found = TypeVar("Found", bound=TrainedAligner)


class Task(ABC, Generic[Network, Found]):
    """A network's text, settings, loss and measurements. A task holds nothing that training changes.

    Args:
        bitext: training text.
        settings: of the network and its training; the size of the vocabulary is the tokenizer's.
        tokenizer: the one that encoded the text.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Attributes:
        bitext, tokenizer, device: as given.
        settings: with the size of the vocabulary filled in.
        epoch_steps: steps of an epoch.
    """

    MEASURES_EPOCHS: ClassVar[bool] = False  #: measure the network after each epoch, too

    def __init__(self, bitext: Bitext, settings: RunSettings, tokenizer: Tokenizer, device: str) -> None:
        self.bitext, self.tokenizer, self.device = bitext, tokenizer, pick_device(device)
        self.settings: Any = settings.change(network={"vocabulary": len(tokenizer.vocabulary)})
        self.epoch_steps = len(self.batches(0))

    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, the same number in each."""
        training = self.settings.training
        return training_batches(self.bitext, training.batch, training.seed, epoch, training.buckets)

    @property
    @abstractmethod
    def last_step(self) -> int:
        """The number of steps in all."""

    @cached_property
    def logged_steps(self) -> frozenset[int]:
        """The steps after which the network is measured and may be kept."""
        return frozenset(logged_steps(self.last_step, self.settings.training.schedule))

    @abstractmethod
    def new_network(self) -> Network:
        """The initial network, from torch's random numbers."""

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
    def aligner(self, network: Network, step: int, metrics: dict[str, float]) -> Found:
        """The aligner that a network of this step is."""

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
        task: as given.
        network: on the task's device, as trained so far.
        step: number of steps taken.
        log: the measurements.
        best: the best network so far, by :meth:`Task.rank`.
        finished: True if nothing is left to do.
    """

    def __init__(self, task: Task[Network, Found]) -> None:
        """A run before its first step."""
        self.task, self._training = task, task.settings.training
        with seeded(self._training.seed, 0, task.device):
            self.network = task.new_network().to(task.device)
        self.step, self.log, self.finished = 0, TrainingLog(), False
        self.best: Found | None = None
        self._metrics: dict[str, float] = {}  # of this step
        self._loss = torch.zeros((), device=task.device)
        self._since = 0
        self._optimiser = adam(task.parameters(self.network), self._training.rate(0))

    def run(self, commit: Callable[[Any, bool], None] | None = None, progress: Progress | None = None) -> Found:
        """Train to the end. After :meth:`restore`, the result has the same bits as without interruption.

        Args:
            commit: called once at every measured step, also the last, with this trainer and True if the network is
                the best so far; it may save :meth:`state`.
            progress: called after every step with (steps done, steps in all, message).

        Returns:
            the best network.
        """
        task = self.task
        if not self.finished:
            self._descend(
                batch_at(task.batches, task.epoch_steps),
                task.last_step,
                measure=lambda step: self._arrive(step, commit),
                progress=progress or no_progress,
                message=lambda: task.message((self.step - 1) // task.epoch_steps, self._best.metrics),
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

        task, training = self.task, self._training
        own: dict[str, Any] = {"seed": training.seed, "device": task.device, "rate": training.rate}
        pinned = task.pinned(self.network)
        descend(self._optimiser, loss, last, start=self.step, pinned=pinned, **own, **following)

    @property
    def _best(self) -> Found:
        assert self.best is not None
        return self.best

    def _arrive(self, step: int, commit: Callable[[Any, bool], None] | None) -> None:
        """Measure if it is due and was not done before the run was interrupted, conclude the last step, commit."""
        self.step, task = step, self.task
        planned = step in task.logged_steps or (task.MEASURES_EPOCHS and step % task.epoch_steps == 0)
        due = planned and not self.log.at(step)
        improved = due and self._measure()
        if step == task.last_step:
            self.log = self.log.add(self._best.step, task.conclude(self._best))
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
        # On a GPU, moving the copy gives the weights of its recurrent layers one block of memory again.
        network = copy.deepcopy(self.network).to(self.task.device).eval()
        network.zero_grad()
        return self.task.aligner(network, self.step, dict(self._metrics))

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

    def restore(self, state: Mapping[str, Any], best: Found) -> None:
        """Return to the step at which a :meth:`state` was taken.

        Args:
            state: the state.
            best: the best network at that step, or a later one, which training will reach again.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: the state belongs to another network or task.
        """
        self.network.load_state_dict(checked_weights(state["weights"]))
        parameters, moments = self.task.parameters(self.network), dict(state["optimiser"]["state"])
        for number, kept in moments.items():
            shape = parameters[number].shape
            wanted = {"step": torch.Size(), "exp_avg": shape, "exp_avg_sq": shape}
            if {name: each.shape for name, each in checked_weights(kept, largest=3e38).items()} != wanted:
                raise ValueError(f"the optimiser's moments of parameter {number} do not fit")
        self._optimiser.load_state_dict({**self._optimiser.state_dict(), "state": moments})
        self.step, self.finished = state["step"], state["finished"]
        self.log = TrainingLog(tuple(Row(*row) for row in state["log"]))
        self._metrics = self.log.at(self.step)
        if not self._metrics or self.step > self.task.last_step:
            raise ValueError(f"it has no measurements of its step {self.step}")
        step = min(sorted({row.step for row in self.log.rows}), key=lambda step: self.task.rank(self.log.at(step)))
        if best.step != step:
            # A best network from after the state stands in for the state's until training reaches it again.
            best = replace(best, step=step, metrics={**best.metrics, **self.log.at(step)})
        self.best = best


def learn_tokenizer(lines: Sequence[str], settings: TextSettings) -> Tokenizer:
    """The tokenizer of a text; both sides of a bitext share one."""
    if settings.tokens == "words":
        return learn_words(lines, settings.minimum)
    return train_subwords(lines, settings.pieces)
