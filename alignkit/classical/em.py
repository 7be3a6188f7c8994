"""Expectation maximisation (Dempster, Laird and Rubin 1977): the protocol of a model, and the one loop."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from alignkit.support.stages import Stage
from alignkit.types import Progress

# :func:`exact_sum` counts in parts of 2^-32; a sum of 2^31 numbers of this size does not overflow.
_ONE, _LARGEST = 2.0**32, 2.0**30


class EMModel(Protocol):
    """A model while it is estimated: its parameters, and the expected counts of its hidden alignments."""

    def initialise(self) -> None:
        """Set the parameters that the first E-step uses: uniform ones, or those of a fitted model."""

    def e_step(self) -> None:
        """Compute expected counts under the current parameters."""

    def m_step(self) -> None:
        """Set the parameters from the expected counts, and from priors where there are any."""

    @property
    def log_likelihood(self) -> float:
        """log p(text), natural logarithm, under the parameters that the last E-step used."""

    @property
    def status(self) -> str:
        """The text of a progress message after an iteration, such as ``log-likelihood -1.2e+06``."""

    def has_converged(self, history: list[float]) -> bool:
        """Decide whether to stop before the last iteration.

        Args:
            history: :attr:`log_likelihood` after each E-step so far.
        """


def run_em(
    model: EMModel, iterations: int, progress: Progress | None = None, *, before: int = 0, after: int = 0
) -> list[float]:
    """Run at most ``iterations`` iterations of EM, each an E-step and an M-step.

    The caller calls :meth:`EMModel.initialise`, so that a model can go through several runs in a row.

    Args:
        model: initialised; it is changed in place.
        iterations: at least 0.
        progress: called after each iteration; one that converged early counts as the last.
        before, after: iterations of other runs of the same model, which ``progress`` counts too.

    Returns:
        The log-likelihood that each E-step found. Maximum likelihood makes it rise at every step.
    """
    history: list[float] = []
    with Stage("fitting", progress) as stage:
        for iteration in range(iterations):
            model.e_step()
            history.append(model.log_likelihood)
            model.m_step()
            converged = model.has_converged(history)
            done = iterations if converged else iteration + 1
            stage(before + done, before + iterations + after, model.status)
            if converged:
                break
    return history


def has_settled(history: list[float], tolerance: float) -> bool:
    """Tell if the last E-step raised the log-likelihood by less than ``tolerance`` times its size; 0: never."""
    if tolerance <= 0 or len(history) < 2:
        return False
    return history[-1] - history[-2] < tolerance * abs(history[-2])


def exact_sum(values: np.ndarray) -> float:
    """The sum of values (n,), each to 2^-33: a sum of whole numbers, the same in any order.

    Args:
        values: of a size below 2^30, as logarithms of probabilities are.

    >>> exact_sum(np.array([0.5, -3.0, 0.25]))
    -2.25
    """
    numbers = np.rint(np.clip(np.nan_to_num(values), -_LARGEST, _LARGEST) * _ONE).astype(np.int64)
    return ((int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())) / _ONE
