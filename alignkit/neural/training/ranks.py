"""Training on several ranks: rank 0 runs the program, and the others take part in every training run it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from alignkit.distributed.group import Group, joined_group
from alignkit.neural.devices import set_threads
from alignkit.neural.training.trainer import Job, Trainer

REMEDY = "give the same command again, on any number of ranks, to go on from the last state written"

T = TypeVar("T")


def lead_training(work: Callable[[], T]) -> T | None:
    """Do some work at rank 0, where all training runs are shared with the other ranks; to be called by all.

    The parts of every batch are divided among the ranks; batches, their order and, within rounding, gradients are
    those of a run on a single rank. Rank 0 alone reads the text, measures and writes files.

    Returns:
        the result of the work at rank 0, None at the others.

    Raises:
        AlignkitError: the ranks do not find each other.
    """
    with joined_group(REMEDY) as group:
        if not group.leads:
            follow_training(group)
            return None
        found = work()
        group.broadcast_object(None)
        return found


def follow_training(group: Group) -> None:
    """Take part in all training runs that rank 0 begins, until it says that there are no more."""
    while (job := group.broadcast_object(None)) is not None:
        trainer_of_job(job, group).follow()


def trainer_of_job(job: Job, group: Group) -> Trainer:
    """The training run of a job at this rank, at the job's step."""
    set_threads(job.threads)
    device = "cpu"
    if job.gpu and torch.cuda.is_available():
        local = 0 if group.launch is None else group.launch.local_rank
        device = f"cuda:{local % torch.cuda.device_count()}"
    make, arguments = job.recipe
    task = make(*arguments, device=device)
    return Trainer.of_job(task, job, group)
