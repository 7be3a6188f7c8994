"""Scores in tidy data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import InputError
from alignkit.scores import Scores, flat_offsets
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd


def scores_from_frame(path: PathLike, frame: pd.DataFrame, shapes: np.ndarray | None = None) -> Scores:
    """Scores of a tidy frame with the columns sentence, t, s and value; an element that no row names is 0.

    Args:
        path: the file of the frame, for messages.
        frame: columns run, step and kind may be there as well, but must not have several values.
        shapes: int (M, 2), T and L; if not given, as large as the indices in the frame require.

    Raises:
        InputError: a column is missing, an index is out of range or an element is named twice, with the row.
    """
    m, t, s, values = _columns(path, frame)
    negative = (m < 0) | (t < 0) | (s < 0)
    if shapes is None and not negative.any():
        shapes = np.zeros((int(m.max(initial=-1)) + 1, 2), np.int32)
        np.maximum.at(shapes[:, 0], m, t + 1)
        np.maximum.at(shapes[:, 1], m, s + 1)
    known = np.zeros((0, 2), np.int32) if shapes is None else np.asarray(shapes, np.int32)
    inside = ~negative & (m < len(known))
    inside[inside] = (t[inside] < known[m[inside], 0]) & (s[inside] < known[m[inside], 1])
    _check_rows(path, ~inside, "is out of range of the text", m, t, s)
    _check_rows(path, np.isnan(values), "has no value", m, t, s)
    offsets = flat_offsets(known)
    place = offsets[m] + t * known[m, 1] + s
    order = np.argsort(place, kind="stable")
    twice = np.zeros(len(place), bool)
    twice[order[1:]] = place[order[1:]] == place[order[:-1]]
    _check_rows(path, twice, "is there twice", m, t, s)
    flat = np.zeros(int(offsets[-1]), np.float32)
    flat[place] = values
    return Scores(flat, offsets, known)


def _columns(path: PathLike, frame: pd.DataFrame) -> tuple[np.ndarray, ...]:
    """Columns sentence, t and s as int64, value as float32."""
    for name in ("sentence", "t", "s"):
        if name not in frame or frame[name].dtype.kind not in "iu":
            problem = f"needs the columns sentence, t, s (integers) and value; {name} is not such a column"
            raise InputError(path, problem)
    if "value" not in frame or frame["value"].dtype.kind not in "fiu":
        raise InputError(path, "needs a column value with numbers")
    for name in ("run", "step", "kind"):
        if name in frame and frame[name].nunique(dropna=False) > 1:
            raise InputError(path, f"contains several sets of scores: column {name} varies; keep one")
    indices = (frame[name].to_numpy(np.int64) for name in ("sentence", "t", "s"))
    return *indices, frame["value"].to_numpy(np.float32)


def _check_rows(path: PathLike, wrong: np.ndarray, problem: str, *columns: np.ndarray) -> None:
    if wrong.any():
        k = int(wrong.argmax())
        place = ", ".join(
            f"{name} {column[k]}" for name, column in zip(("sentence", "t", "s"), columns, strict=True)
        )
        raise InputError(path, f"row {k + 1} ({place}) {problem}")
