"""Training runs: a task of steps and measurements, their log, the best network, and resumption."""

from __future__ import annotations

import copy
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError, reading
from alignkit.neural.aligners import TrainedAligner, checked_weights, weights_of
from alignkit.neural.devices import pick_device, training_batches
from alignkit.neural.settings import TextSettings, logged_steps
from alignkit.neural.training.loop import adam, optimise, seeded
from alignkit.support.files import Record, atomic_write, parse_json
from alignkit.support.stages import Stage
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer, learn_words, train_subwords
from alignkit.types import PathLike, Progress

Network = TypeVar("Network", bound=nn.Module)
AlignerT = TypeVar("AlignerT", bound=TrainedAligner)


class Row(NamedTuple):
    """One measured value. Names: ``train.loss``, ``valid.loss`` (nats per token), ``valid.accuracy`` (share
    of tokens), ``valid.bleu`` (beam) and ``valid.bleu_greedy`` (0 to 100)."""

    step: int
    name: str
    value: float


@dataclass(frozen=True)
class TrainingLog:
    """What a run measured: one row per (step, name), in the order of measurement."""

    rows: tuple[Row, ...] = ()

    def add(self, step: int, values: Iterable[tuple[str, float]]) -> TrainingLog:
        """This log with more rows at ``step``."""
        return TrainingLog(self.rows + tuple(Row(step, name, float(value)) for name, value in values))

    def at(self, step: int) -> dict[str, float]:
        """name -> value of the rows at a step."""
        return {row.name: row.value for row in self.rows if row.step == step}

    def series(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of every row of that name."""
        return [(row.step, row.value) for row in self.rows if row.name == name]

    def best(self, name: str, largest: bool = False) -> tuple[int, float]:
        """The (step, value) with the smallest (or largest) value, the first among equals.

        Raises:
            ValueError: there is no row of that name.
        """
        return min(self.series(name), key=lambda row: -row[1] if largest else row[1])

    def save(self, path: PathLike) -> None:
        """Write JSONL, one object ``{"step", "name", "value"}`` per row."""
        with atomic_write(path) as stream:
            for row in self.rows:
                stream.write(json.dumps(row._asdict()).encode() + b"\n")

    @classmethod
    def load(cls, path: PathLike) -> TrainingLog:
        """Read a file that :meth:`save` wrote; raises InputError, with the line, if it is damaged."""
        rows = []
        with reading(path), open(path, encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                row = Record(path, parse_json(path, line, line=number), line=number)
                rows.append(Row(row.whole("step"), row.text("name"), row.number("value")))
        return cls(tuple(rows))


@dataclass(eq=False, repr=False)
class Task(ABC, Generic[Network, AlignerT]):
    """A network's text, settings, loss and measurements. A task holds nothing that training changes.

    Attributes:
        text: training text, a bitext or labelled.
        valid: held-out text, likewise.
        settings: of the network and its training; the size of the vocabulary is filled in.
        tokenizer: the one that encoded the text.
        device: as :func:`alignkit.neural.devices.pick_device`, which it becomes.
        bitext: of the training text.
        epoch_steps, last_step: steps of an epoch, and in all.
        logged_steps: the steps after which the network is measured and may be kept.
    """

    MEASURES_EPOCHS: ClassVar[bool] = False  #: measure the network after each epoch, too

    text: Any
    valid: Any
    settings: Any
    tokenizer: Tokenizer
    device: Any = field(default="auto", kw_only=True)

    def __post_init__(self) -> None:
        self.device, training = pick_device(self.device), self.settings.training
        self.bitext: Bitext = self.text if isinstance(self.text, Bitext) else self.text.bitext
        self.settings = self.settings.change(network={"vocabulary": len(self.tokenizer.vocabulary)})
        self.epoch_steps = len(self.batches(0))
        self.last_step: int = training.last_step(self.epoch_steps)
        self.logged_steps = frozenset(logged_steps(self.last_step, training.schedule))

    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch, the same number in each."""
        training = self.settings.training
        return training_batches(self.bitext, training.batch, training.seed, epoch, training.buckets)

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
    def aligner(self, network: Network, step: int, metrics: dict[str, float]) -> AlignerT:
        """The aligner that a network of this step is."""

    @abstractmethod
    def message(self, epoch: int, best: Mapping[str, float]) -> str:
        """A message for the progress bar: the epoch, and the measurements of the best network so far."""

    def parameters(self, network: Network) -> list[nn.Parameter]:
        """The parameters that are trained."""
        return list(network.parameters())

    def conclude(self, best: AlignerT) -> list[tuple[str, float]]:
        """Measure the best network once, when all steps are done: (name, value) pairs."""
        return []


class Trainer(Generic[Network, AlignerT]):
    """A training run in progress, with all that its next step depends on.

    Attributes:
        task: as given.
        network: on the task's device, as trained so far.
        optimiser: of its parameters.
        step: number of steps taken.
        log: the measurements.
        best: the best network so far, by :meth:`Task.rank`.
        finished: True if nothing is left to do.
    """

    def __init__(self, task: Task[Network, AlignerT]) -> None:
        """A run before its first step."""
        self.task, training = task, task.settings.training
        with seeded(training.seed, 0, task.device):
            self.network = task.new_network().to(task.device)
        self.optimiser = adam(task.parameters(self.network), training.rate(0))
        self.step, self.log, self.finished = 0, TrainingLog(), False
        self.best: AlignerT | None = None
        self._metrics: dict[str, float] = {}  # of this step

    def run(self, progress: Progress | None = None, look: Callable[[AlignerT], None] | None = None) -> AlignerT:
        """Train to the end as :meth:`measured_steps` does, and return the best network.

        ``look`` is called with the network as it is at every logged step, if it is given.
        """
        for _ in self.measured_steps(progress):
            if look is not None and self.step in self.task.logged_steps:
                look(self.snapshot())
        assert self.best is not None
        return self.best

    def measured_steps(self, progress: Progress | None = None) -> Iterator[bool]:
        """Train to the end. After :meth:`restore`, the result has the same bits as without interruption.

        Args:
            progress: called after every step with (steps done, steps in all, message).

        Yields:
            at every measured step, also the last, whether the network is the best so far; that is the moment to
            save :meth:`state`.
        """
        if self.finished:
            return
        task, start = self.task, self.step
        batches = lru_cache(maxsize=1)(task.batches)  # of the epoch
        total, since = torch.zeros((), device=task.device), start  # of the losses since the last measurement

        def loss(step: int) -> Tensor:
            epoch, place = divmod(step, task.epoch_steps)
            value = task.loss(self.network.train(), batches(epoch)[place], step)
            total.add_(value.detach())
            return value

        training = task.settings.training
        how: dict[str, Any] = {"start": start, "seed": training.seed, "rate": training.rate}
        how |= {"device": task.device, "pinned": self.network.pinned}
        with Stage("training", progress) as stage:
            for step in optimise(self.optimiser, loss, task.last_step, **how):
                self.step, ends_epoch, improved = step, step % task.epoch_steps == 0, False
                planned = step in task.logged_steps or (task.MEASURES_EPOCHS and ends_epoch)
                due = planned and not self.log.at(step)  # it was done before if the run was interrupted here
                if due:  # measure, log, and keep the network if it is the best
                    values = [("train.loss", total.item() / (step - since))] if step > since else []
                    values += task.measure(self.network, step)
                    check_converging(self.network, step, values)
                    self.log, self._metrics = self.log.add(step, values), dict(values)
                    total.zero_()
                    since = step
                    if self.best is None or task.rank(self._metrics) < task.rank(self.best.metrics):
                        self.best, improved = self.snapshot(), True
                assert self.best is not None
                if step == task.last_step:
                    self.log = self.log.add(self.best.step, task.conclude(self.best))
                    self.finished = True
                if due or self.finished:
                    yield improved
                if step > start:
                    message = task.message((step - 1) // task.epoch_steps, self.best.metrics)
                    stage(step, task.last_step, message)

    def snapshot(self) -> AlignerT:
        """A copy of the network as it is now, with the measurements of this step."""
        # On a GPU, moving the copy gives the weights of its recurrent layers one block of memory again.
        network = copy.deepcopy(self.network).to(self.task.device).eval()
        network.zero_grad()
        return self.task.aligner(network, self.step, dict(self._metrics))

    def state(self) -> dict[str, Any]:
        """The state for :meth:`restore`, in plain values and tensors; taken at a measured step."""
        return {
            "step": self.step,
            "weights": weights_of(self.network),
            "optimiser": self.optimiser.state_dict(),
            "log": [list(row) for row in self.log.rows],
            "finished": self.finished,
        }

    def restore(self, state: Mapping[str, Any], best: AlignerT) -> None:
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
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
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


def check_converging(network: nn.Module, step: int, values: Iterable[tuple[str, float]]) -> None:
    """Raises AlignkitError if a measurement or a weight has left all bounds after this step."""
    wild = next((name for name, value in values if not math.isfinite(value)), None)
    if wild is None:
        try:
            checked_weights(weights_of(network))
        except ValueError:
            wild = "a weight"
    if wild is not None:
        raise AlignkitError(
            f"training diverged: {wild} is not finite or far too large after step {step}; "
            "use a smaller learning rate"
        )


def learn_tokenizer(lines: Sequence[str], settings: TextSettings) -> Tokenizer:
    """The tokenizer of a text; both sides of a bitext share one."""
    if settings.tokens == "words":
        return learn_words(lines, settings.minimum)
    return train_subwords(lines, settings.pieces)
