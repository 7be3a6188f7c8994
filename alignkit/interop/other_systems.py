"""Attention from elsewhere: the scores of any system, read as ``Scores`` and fitted to the tokens of a bitext.

Formats, told by the file itself:

- ``.npz`` of :meth:`Scores.save`, or any npz with one two-dimensional array per pair, in the order of their names;
- ``.parquet`` or ``.csv``: a tidy frame with the columns sentence, t, s and value (:meth:`Scores.to_frame`);
- JSON lines: per pair a list of rows, or an object with the matrix as ``alignment``, ``attention``, ``scores`` or
  ``matrix`` and, if they are at hand, its tokens as lists ``source`` and ``target``;
- Marian's soft alignments: per pair rows separated by spaces, numbers by commas; what stands before a last ``|||``
  is passed over;
- Pharaoh links ``s-t`` as scores 0 and 1.

A row belongs to a target token, a column to a source token.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.links.links import Links, check_range, parse_links
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.storage import read_header
from alignkit.text.reading import read_bytes
from alignkit.text.utf8 import BOM, split_lines, valid_text

if TYPE_CHECKING:
    import pandas as pd

Path = str | os.PathLike[str]
MATRIX_KEYS = ("alignment", "attention", "scores", "matrix")
SIDES = {"source": ("source", "src"), "target": ("target", "tgt")}
_SOFT = re.compile(r"[-+0-9.eEinfa]+(,[-+0-9.eEinfa]+)*\Z", re.ASCII)
_LINKS = re.compile(r"\s*\d+[-p?]\d+(:[0-9.e+-]+)?(\s|\Z)", re.ASCII)


@dataclass(frozen=True, eq=False)
class ExternalScores:
    """Scores as a file has them.

    Attributes:
        path: where they come from.
        scores: of M pairs.
        source, target: the tokens of each pair's columns and rows, if the file tells them.
    """

    path: str
    scores: Scores
    source: tuple[tuple[str, ...], ...] | None = None
    target: tuple[tuple[str, ...], ...] | None = None


def read_scores(path: Path, shapes: np.ndarray | None = None) -> ExternalScores:
    """Reads the scores of any system.

    Args:
        path: a file in one of the formats of this module.
        shapes: int (M, 2), T and L of the text's pairs in words; needed for links, and in a frame for pairs and
            tokens at the end that no row names.

    Raises:
        InputError: unreadable, malformed or out of range, with the line (or the pair) where there is one.
    """
    name = os.fspath(path)
    if name.endswith(".parquet"):
        return ExternalScores(name, from_frame(path, _parquet(path), shapes))
    if name.endswith(".csv"):
        return ExternalScores(name, from_frame(path, _csv(path), shapes))
    data = read_bytes(path)
    if data.startswith(b"PK\x03\x04"):
        if read_header(path) is not None:
            return ExternalScores(name, Scores.load(path))
        return ExternalScores(name, _arrays(path, data))
    lines = split_lines(valid_text(path, data.removeprefix(BOM)))
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith(("[", "{")):
        return _json_lines(path, lines)
    soft = [line.rpartition("|||")[2] for line in lines]
    if _LINKS.match(next((line for line in soft if line.strip()), "0-0")):
        return ExternalScores(name, scores_of_links(path, parse_links(path, soft).possible, shapes))
    return ExternalScores(name, _soft_alignments(path, soft))


def scores_of_links(path: Path, links: Links, shapes: np.ndarray | None) -> Scores:
    """1 where there is a link, 0 elsewhere; raises InputError, with the line, for one outside its pair."""
    if shapes is None:
        raise InputError(path, "holds links, which do not tell how long a pair is", remedy="give the text as well")
    if len(links) != len(shapes):
        raise InputError(path, f"has links for {len(links)} sentence pairs, the text has {len(shapes)}")
    check_range(path, links, shapes)
    shapes = np.ascontiguousarray(shapes, np.int32)
    offsets = flat_offsets(shapes)
    values = np.zeros(int(offsets[-1]), np.float32)
    m = links.sentences
    values[offsets[m] + links.pairs[:, 1].astype(np.int64) * shapes[m, 1] + links.pairs[:, 0]] = 1
    return Scores(values, offsets, shapes)


def _arrays(path: Path, data: bytes) -> Scores:
    """One array per pair, as ``numpy.savez(file, *matrices)`` writes them; ``arr_10`` comes after ``arr_9``."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            matrices = []
            for name in sorted(names, key=lambda n: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", n)]):
                with archive.open(name) as member:
                    matrices.append((name, np.lib.format.read_array(member, allow_pickle=False)))
    except Exception as error:  # a damaged archive makes zipfile and numpy raise almost anything
        raise InputError(path, f"damaged, or with objects in it: {error or type(error).__name__}") from error
    if not matrices:
        raise InputError(path, "holds no arrays")
    for name, matrix in matrices:
        numeric = matrix.dtype.kind in "fiub"
        if matrix.ndim != 2 or not numeric or np.isnan(matrix.astype(np.float32)).any():
            shown = f"{matrix.dtype} with {matrix.ndim} dimensions"
            problem = f"array {name.removesuffix('.npy')} is no matrix of numbers (T, L), but {shown} or with NaN"
            raise InputError(path, problem)
    return Scores.from_matrices(matrix for _, matrix in matrices)


def _json_lines(path: Path, lines: Sequence[str]) -> ExternalScores:
    matrices, source, target = [], [], []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(path, f"not JSON: {error}", line=number) from error
        tokens: dict[str, tuple[str, ...] | None] = dict.fromkeys(SIDES)
        if isinstance(value, dict):
            tokens = {side: _tokens(path, number, value, keys) for side, keys in SIDES.items()}
            key = next((key for key in MATRIX_KEYS if key in value), None)
            if key is None:
                raise InputError(path, f"no matrix under any of {', '.join(MATRIX_KEYS)}", line=number)
            value = value[key]
        width = len(tokens["source"]) if tokens["source"] is not None else 0
        matrices.append(_matrix(path, number, value, width))
        source.append(tokens["source"])
        target.append(tokens["target"])
        for side, axis, have in (("target", 0, tokens["target"]), ("source", 1, tokens["source"])):
            if have is not None and len(have) != matrices[-1].shape[axis]:
                found = f"{matrices[-1].shape[axis]} {'rows' if axis == 0 else 'columns'}"
                raise InputError(path, f"{found} for {len(have)} {side} tokens", line=number)
    known = all(side is not None for side in (*source, *target))
    scores = Scores.from_matrices(matrices)
    if not known:
        return ExternalScores(os.fspath(path), scores)
    return ExternalScores(os.fspath(path), scores, tuple(source), tuple(target))  # type: ignore[arg-type]


def _tokens(path: Path, number: int, value: dict[str, Any], keys: tuple[str, ...]) -> tuple[str, ...] | None:
    found = next((value[key] for key in keys if key in value), None)
    if found is None:
        return None
    if isinstance(found, str):
        found = found.split()
    if not isinstance(found, list) or any(not isinstance(token, str) for token in found):
        raise InputError(path, f"{keys[0]} is not a list of tokens", line=number)
    return tuple(found)


def _matrix(path: Path, number: int, value: Any, width: int = 0) -> np.ndarray:
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
        raise InputError(path, "a score that is too large for a number", line=number) from error
    if np.isnan(exact).any():
        raise InputError(path, "a score that is not a number (NaN)", line=number)
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite
        return exact.astype(np.float32)


def _soft_alignments(path: Path, lines: Sequence[str]) -> Scores:
    matrices = []
    for number, line in enumerate(lines, 1):
        rows = []
        for item in line.split():
            try:
                if _SOFT.match(item) is None:
                    raise ValueError(item)
                rows.append([float(x) for x in item.split(",")])
            except ValueError as error:
                remedy = "lines look like 0.9,0.1 0.2,0.8: a target token's row, then the next"
                raise InputError(path, f"{item[:40]!r} is no row of scores", line=number, remedy=remedy) from error
        matrices.append(_matrix(path, number, rows))
    return Scores.from_matrices(matrices)


def _parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise AlignkitError("Parquet needs pyarrow: pip install pyarrow, or give .npz or .csv") from error
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from error
    except Exception as error:  # pyarrow's own errors have several bases
        raise InputError(path, f"not a Parquet file, or damaged: {error}") from error


def _csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(io.BytesIO(read_bytes(path)))
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(path, f"not a CSV table: {error}") from error


def from_frame(path: Path, frame: pd.DataFrame, shapes: np.ndarray | None = None) -> Scores:
    """Scores of a tidy frame with the columns sentence, t, s and value; a place that no row names is 0.

    Args:
        path: where it comes from, for messages.
        frame: further columns (run, step, kind) must not tell several sets of scores apart.
        shapes: int (M, 2), T and L; as large as the frame's indices ask for if not given.

    Raises:
        InputError: a column is missing, an index is out of range or a place named twice, with the row.
    """
    columns = {}
    for name in ("sentence", "t", "s"):
        if name not in frame or frame[name].dtype.kind not in "iu":
            raise InputError(path, f"needs the columns sentence, t, s (whole numbers) and value; {name} is not so")
        columns[name] = frame[name].to_numpy(np.int64)
    if "value" not in frame or frame["value"].dtype.kind not in "fiu":
        raise InputError(path, "needs a column value of numbers")
    for name in ("run", "step", "kind"):
        if name in frame and frame[name].nunique(dropna=False) > 1:
            raise InputError(path, f"holds several sets of scores: column {name} varies; keep one")
    m, t, s = columns.values()
    values = frame["value"].to_numpy(np.float32)
    negative = (m < 0) | (t < 0) | (s < 0)
    if shapes is None and not negative.any():
        shapes = np.zeros((int(m.max(initial=-1)) + 1, 2), np.int32)
        np.maximum.at(shapes, (m, 0), t + 1)
        np.maximum.at(shapes, (m, 1), s + 1)
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
    _check_rows(path, twice, "comes twice", m, t, s)
    flat = np.zeros(int(offsets[-1]), np.float32)
    flat[place] = values
    return Scores(flat, offsets, known)


def _check_rows(path: Path, wrong: np.ndarray, problem: str, *columns: np.ndarray) -> None:
    if wrong.any():
        k = int(wrong.argmax())
        place = ", ".join(
            f"{name} {column[k]}" for name, column in zip(("sentence", "t", "s"), columns, strict=True)
        )
        raise InputError(path, f"row {k + 1} ({place}) {problem}")
