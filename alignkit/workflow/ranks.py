"""Work that trains networks, under torchrun on all of its ranks. Imports torch only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from alignkit.distributed.launch import find_launch

T = TypeVar("T")


def train_on_ranks(work: Callable[[], T]) -> T | None:
    """Do some work in which networks are trained, on all ranks if torchrun has started several.

    Returns:
        its result; None at another rank than 0, where it is not done, but its training runs are shared.

    Raises:
        AlignkitError: the ranks do not find each other.
    """
    launch = find_launch()
    if launch is None or launch.world == 1:
        return work()
    from alignkit.neural.training.ranks import lead_training

    return lead_training(work)
