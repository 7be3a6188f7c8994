"""Training of an ensemble on sequences that are drawn anew for every step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.neural.devices import Products, one_thread, rounded
from alignkit.neural.ensemble.networks import ForwardPass, Parameters, forward, losses, stack, token_accuracies
from alignkit.neural.ensemble.pointer import point
from alignkit.neural.training.loop import adam, descend
from alignkit.types import Progress

#: (generator, B) -> int64 source (B, L), previous (B, T) and target (B, T)
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray, np.ndarray]]
EnsembleNetwork = Literal["encoder-decoder", "pointer"]
FORWARD: dict[str, Callable[[Parameters, Tensor, Tensor], ForwardPass]] = {
    "encoder-decoder": forward,
    "pointer": point,
}
CONFIRMED = 2  #: consecutive measurements at which a network must have solved the task to stop


@dataclass(frozen=True)
class EnsembleTraining:
    """Settings of training; the defaults are the paper's for copying (section 3.3).

    Attributes:
        steps: of Adam.
        batch: sequences per step.
        every: steps between measurements.
        learning_rate: of Adam.
        solved: a network stops once its accuracy was at least this at two consecutive measurements; never if
            above 1.
        together: networks in one batched model. No result depends on it.
        network: an ``encoder-decoder``, or a ``pointer`` network (:mod:`alignkit.neural.ensemble.pointer`).
        products: precision of the factors of matrix products, see :func:`alignkit.neural.devices.rounded`. With
            bfloat16, results depend on whether the processor has units for it, but not on the number of threads.
        frozen: names of the parameters that keep their initial values.
    """

    steps: int = 300
    batch: int = 128
    every: int = 10
    learning_rate: float = 1e-3
    solved: float = 0.99
    together: int = 1
    products: Products = "float32"
    network: EnsembleNetwork = "encoder-decoder"
    frozen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every", "together"):
            if getattr(self, name) < 1:
                raise AlignkitError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise AlignkitError(f"learning_rate must be above 0, not {self.learning_rate}")
        if self.products not in get_args(Products):
            raise AlignkitError(f"products must be one of {', '.join(get_args(Products))}, not {self.products!r}")
        if self.network not in FORWARD:
            raise AlignkitError(f"network must be one of {', '.join(FORWARD)}, not {self.network!r}")


@dataclass(frozen=True, eq=False)
class MemberRun:
    """The training run of one network of the ensemble.

    Attributes:
        steps: int64 (N,), the steps at which it was measured, from 0; fewer if it stopped early.
        accuracy: float64 (N,), token accuracy under teacher forcing, on new sequences.
        loss: float64 (N,), nats per token, on the same sequences.
        parameters: after the last step (S = 1).
    """

    steps: np.ndarray
    accuracy: np.ndarray
    loss: np.ndarray
    parameters: Parameters

    def at(self, steps: np.ndarray) -> np.ndarray:
        """The accuracies at some of the measured steps; a network that stopped keeps its last."""
        places = np.searchsorted(self.steps, steps, side="right") - 1
        return self.accuracy[places]


def train_ensemble(
    starts: Sequence[Parameters],
    seeds: Sequence[int],
    draw: Draw,
    settings: EnsembleTraining | None = None,
    progress: Progress | None = None,
) -> list[MemberRun]:
    """Trains a network from each of these starts by Adam, on batches of its own.

    A network is measured on the batch of a step before it is trained on it, so always on new sequences.

    Args:
        starts: the initial parameters of each network (S = 1), all of one shape.
        seeds: of each network's sequences.
        draw: draws a batch.
        settings: the paper's if not given.
        progress: called with the steps done by all networks together.

    Returns:
        the runs, in the order of ``starts``. They depend neither on the number of threads nor on ``together``.
    """
    settings = settings or EnsembleTraining()
    counter = _StepCounter(len(starts) * settings.steps, progress)
    bounds = range(0, len(starts), settings.together)
    chunks = [(starts[low : low + settings.together], seeds[low : low + settings.together]) for low in bounds]

    def work(chunk: tuple[Sequence[Parameters], Sequence[int]]) -> list[MemberRun]:
        with one_thread(torch.device("cpu")):  # torch counts threads per thread
            return _Group(*chunk, settings, counter).train(draw)

    workers = min(torch.get_num_threads(), len(chunks))
    with rounded(settings.products):
        if workers <= 1:
            found = [work(chunk) for chunk in chunks]
        else:
            with ThreadPoolExecutor(workers) as pool:
                try:
                    found = list(pool.map(work, chunks))
                except BaseException:  # Ctrl-C too: without this the other threads would go on for minutes
                    counter.stop.set()
                    raise
    return [run for chunk in found for run in chunk]


@dataclass(eq=False)
class _StepCounter:
    """The number of steps done by all threads."""

    total: int
    progress: Progress | None
    done: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, steps: int) -> None:
        if self.stop.is_set():
            raise AlignkitError("stopped")
        with self.lock:
            self.done += steps
            if self.progress is not None:
                self.progress(self.done, self.total, "")


class _Group:
    """Networks that are trained as one batched model."""

    def __init__(
        self, starts: Sequence[Parameters], seeds: Sequence[int], settings: EnsembleTraining, counter: _StepCounter
    ) -> None:
        self.settings, self.counter = settings, counter
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        self.alive = list(range(len(starts)))
        self.curves: list[list[tuple[int, float, float]]] = [[] for _ in starts]
        self.last: list[Parameters] = [{} for _ in starts]
        self._set_parameters({name: value.clone() for name, value in stack(starts).items()})

    def _set_parameters(self, parameters: Parameters) -> None:
        frozen = self.settings.frozen
        self.parameters = {name: x.detach().requires_grad_(name not in frozen) for name, x in parameters.items()}
        trained = [value for value in self.parameters.values() if value.requires_grad]
        self.optimiser = adam(trained, self.settings.learning_rate, fused=False)

    def train(self, draw: Draw) -> list[MemberRun]:
        """Train to the last step, or until every network has solved the task."""
        last, step = self.settings.steps, 0
        solved: list[int] = []

        def loss(step: int) -> Tensor:
            nonlocal solved
            found, target, each = self._forward(draw)
            solved = self._measure(step, found, target, each) if step % self.settings.every == 0 else []
            return each.sum()

        def measure(step: int) -> bool:
            if step == last and not solved:
                with torch.no_grad():
                    self._measure(step, *self._forward(draw))
            return bool(solved)

        def progress(done: int, total: int, _: str) -> None:
            self.counter.add(len(self.alive) + len(solved) * (total - done))

        while self.alive:
            step = descend(self.optimiser, loss, last, start=step, measure=measure, progress=progress)
            if not solved:
                self._keep(range(len(self.alive)))
                break
            self._drop(solved)
            solved = []
        return [self._member_run(curve, last) for curve, last in zip(self.curves, self.last, strict=True)]

    def _forward(self, draw: Draw) -> tuple[ForwardPass, Tensor, Tensor]:
        """The networks' output for new sequences, their targets, and the loss of each network, (S,)."""
        drawn = [draw(self.generators[i], self.settings.batch) for i in self.alive]
        source, previous, target = (torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True))
        found = FORWARD[self.settings.network](self.parameters, source, previous)
        return found, target, losses(found, target)

    @staticmethod
    def _member_run(curve: list[tuple[int, float, float]], parameters: Parameters) -> MemberRun:
        steps, accuracy, loss = zip(*curve, strict=True)
        return MemberRun(np.array(steps), np.array(accuracy), np.array(loss), parameters)

    def _measure(self, step: int, found: ForwardPass, target: Tensor, each: Tensor) -> list[int]:
        """Records all measurements; returns the places of the networks that solved the task."""
        accuracy, loss = token_accuracies(found, target), each.detach().double().numpy()
        solved = []
        for place, i in enumerate(self.alive):
            self.curves[i].append((step, float(accuracy[place]), float(loss[place])))
            latest = self.curves[i][-CONFIRMED:]
            if len(latest) == CONFIRMED and all(point[1] >= self.settings.solved for point in latest):
                solved.append(place)
        return solved

    def _keep(self, places: Sequence[int]) -> None:
        for place in places:
            self.last[self.alive[place]] = {
                name: value.detach()[place : place + 1].clone() for name, value in self.parameters.items()
            }

    def _drop(self, places: list[int]) -> None:
        """Ends the training of some networks; the others keep their moments of Adam."""
        self._keep(places)
        stay = [place for place in range(len(self.alive)) if place not in places]
        self.alive = [self.alive[place] for place in stay]
        if not self.alive:
            return
        old = [self.optimiser.state[value] for value in self.parameters.values()]
        self._set_parameters({name: value.detach()[stay] for name, value in self.parameters.items()})
        for value, state in zip(self.parameters.values(), old, strict=True):
            self.optimiser.state[value] = {
                name: part[stay] if part.dim() else part.clone() for name, part in state.items()
            }
