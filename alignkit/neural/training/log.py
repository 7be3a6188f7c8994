"""The log of a training run: what it measured, one row per (step, name)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from alignkit.errors import reading
from alignkit.support.files import atomic_write
from alignkit.support.records import Record, parse_json
from alignkit.types import PathLike


class Row(NamedTuple):
    """One measured value. Names: ``train.loss``, ``valid.loss`` (nats per token), ``valid.accuracy`` (share
    of tokens), ``valid.bleu`` (beam) and ``valid.bleu_greedy`` (0 to 100)."""

    step: int
    name: str
    value: float


@dataclass(frozen=True)
class TrainingLog:
    """The rows, in the order of measurement."""

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
