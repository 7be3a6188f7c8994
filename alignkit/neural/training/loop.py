"""Gradient descent: the one loop that all training of networks goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor

from alignkit.neural.devices import one_thread

CPU = torch.device("cpu")


def adam(parameters: Iterable[Tensor], rate: float) -> torch.optim.Adam:
    """Adam with its usual moments, fused into one pass, which takes a quarter of the time on a CPU."""
    return torch.optim.Adam(list(parameters), lr=rate, fused=True)


def optimise(
    optimiser: torch.optim.Optimizer,
    loss: Callable[[int], Tensor],
    steps: int,
    *,
    start: int = 0,
    seed: int | None = None,
    device: torch.device = CPU,
    pinned: bool = False,
    rate: Callable[[int], float] | None = None,
) -> Iterator[int]:
    """The loop that all training of networks goes through: loss, gradient by autograd, update of the parameters.

    Args:
        optimiser: with the parameters, as of :func:`adam`; a caller that goes on later keeps it.
        loss: the scalar to minimise at a step, given how many were taken before; where it draws a batch or random
            numbers, it does so itself.
        steps: how many steps there are in all.
        start: how many of them were taken before.
        seed: torch's random numbers of a step depend on this and on the number of the step alone, so that a run
            that goes on from a state draws what it would have drawn; None to draw on from where torch is.
        device: where the loss is computed.
        pinned: run the backward pass on one thread of a CPU, where its bits depend on their number.
        rate: the learning rate of a step, given how many were taken before; that of the optimiser if not given.

    Yields:
        the number of steps taken, before the first and after each: every number from ``start`` to ``steps``.

    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> list(optimise(adam([x], 0.1), lambda step: (x * x).sum(), 100))[-1]
    100
    >>> abs(x.item()) < 0.1
    True
    """
    yield start
    for step in range(start, steps):
        if rate is not None:
            for group in optimiser.param_groups:
                group["lr"] = rate(step)
        with seeded(seed, step + 1, device) if seed is not None else nullcontext():
            optimiser.zero_grad()
            value = loss(step)
            with one_thread(device) if pinned else nullcontext():
                value.backward()
        optimiser.step()
        yield step + 1


@contextmanager
def seeded(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Seed torch by (seed, step) within the block; the program's own random numbers are not affected."""
    number = int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng([device] if on_gpu else []):
        # torch.manual_seed asks every kind of device, which takes a millisecond.
        (torch.manual_seed if on_gpu else torch.default_generator.manual_seed)(number)
        yield
