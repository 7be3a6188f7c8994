"""The state of a training run: what a file of it must hold, checked before any of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alignkit.errors import InputError
from alignkit.neural.training.log import Row, TrainingLog, log_row
from alignkit.records import Record
from alignkit.types import PathLike

#: What Adam keeps of each parameter; ``step`` is a number, the others have the parameter's shape.
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, eq=False)
class TrainingState:
    """What a run goes on from, as :meth:`alignkit.neural.training.trainer.Trainer.state` gives it.

    Attributes:
        step: number of steps taken.
        weights: of the network, by name; checked by what builds it.
        moments: Adam's, by the number of the parameter; checked by :func:`load_moments`.
        log: the measurements, those of this step too.
        finished: whether nothing was left to do.
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
