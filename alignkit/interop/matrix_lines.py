"""Score matrices in lines of text: JSON lines, and Marian's soft alignments."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from alignkit.errors import InputError
from alignkit.interop.external_scores import ExternalScores, ScoreFile
from alignkit.scores import Scores
from alignkit.types import PathLike

MATRIX_KEYS = ("alignment", "attention", "scores", "matrix")
TOKEN_KEYS = {"source": ("source", "src"), "target": ("target", "tgt")}
_SOFT = re.compile(r"[-+0-9.eEinfa]+(,[-+0-9.eEinfa]+)*\Z", re.ASCII)


def read_json_lines(file: ScoreFile) -> ExternalScores:
    """JSON lines: a matrix per line, or an object with the matrix and perhaps the tokens."""
    matrices, source, target = [], [], []
    for number, line in enumerate(file.lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(file.path, f"not JSON: {error}", line=number) from error
        tokens: dict[str, tuple[str, ...] | None] = dict.fromkeys(TOKEN_KEYS)
        if isinstance(value, dict):
            tokens = {side: _tokens(file.path, number, value, keys) for side, keys in TOKEN_KEYS.items()}
            key = next((key for key in MATRIX_KEYS if key in value), None)
            if key is None:
                raise InputError(file.path, f"no matrix under any of {', '.join(MATRIX_KEYS)}", line=number)
            value = value[key]
        width = len(tokens["source"]) if tokens["source"] is not None else 0
        matrices.append(_matrix(file.path, number, value, width))
        source.append(tokens["source"])
        target.append(tokens["target"])
        for side, axis in (("target", 0), ("source", 1)):
            have, size = tokens[side], matrices[-1].shape[axis]
            if have is not None and len(have) != size:
                found = f"{size} {'rows' if axis == 0 else 'columns'}"
                raise InputError(file.path, f"{found} for {len(have)} {side} tokens", line=number)
    scores = Scores.from_matrices(matrices)
    if any(side is None for side in (*source, *target)):
        return ExternalScores(file.name, scores)
    return ExternalScores(file.name, scores, tuple(source), tuple(target))  # type: ignore[arg-type]


def _tokens(path: PathLike, number: int, value: dict[str, Any], keys: tuple[str, ...]) -> tuple[str, ...] | None:
    found = next((value[key] for key in keys if key in value), None)
    if found is None:
        return None
    if isinstance(found, str):
        found = found.split()
    if not isinstance(found, list) or any(not isinstance(token, str) for token in found):
        raise InputError(path, f"{keys[0]} is not a list of tokens", line=number)
    return tuple(found)


def _matrix(path: PathLike, number: int, value: Any, width: int = 0) -> np.ndarray:
    """float32 (T, L) of nested lists; ``width`` is L if there are no rows."""
    problem = "not a matrix: a list of rows of equally many numbers"
    if not isinstance(value, list) or any(not isinstance(row, list) for row in value):
        raise InputError(path, problem, line=number)
    if len({len(row) for row in value}) > 1:
        k = next(i for i, row in enumerate(value) if len(row) != len(value[0]))
        raise InputError(path, f"row {k + 1} has {len(value[k])} numbers, row 1 {len(value[0])}", line=number)
    if any(isinstance(x, bool) or not isinstance(x, int | float) for row in value for x in row):
        raise InputError(path, problem, line=number)
    try:
        exact = np.array(value, np.float64).reshape(len(value), len(value[0]) if value else width)
    except OverflowError as error:
        raise InputError(path, "a score that is too large", line=number) from error
    if np.isnan(exact).any():
        raise InputError(path, "a score that is not a number (NaN)", line=number)
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        return exact.astype(np.float32)


def read_soft_alignments(file: ScoreFile) -> ExternalScores:
    """Marian's soft alignments: rows separated by spaces, numbers by commas."""
    matrices = []
    for number, line in enumerate(file.alignments, 1):
        rows = []
        for item in line.split():
            try:
                if _SOFT.match(item) is None:
                    raise ValueError(item)
                rows.append([float(x) for x in item.split(",")])
            except ValueError as error:
                problem = f"{item[:40]!r} is not a row of scores"
                remedy = "lines look like 0.9,0.1 0.2,0.8: the row of a target token, then the next"
                raise InputError(file.path, problem, line=number, remedy=remedy) from error
        matrices.append(_matrix(file.path, number, rows))
    return ExternalScores(file.name, Scores.from_matrices(matrices))
