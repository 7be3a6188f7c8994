"""Scores of other systems: read from files and checked.

Formats, recognised by the file itself:

- ``.npz`` of :meth:`Scores.save`, or any npz with one two-dimensional array per pair, in the order of their names;
- ``.parquet`` or ``.csv``: a tidy frame with the columns sentence, t, s and value (:meth:`Scores.to_frame`);
- JSON lines: for each pair a list of rows, or an object with the matrix as ``alignment``, ``attention``,
  ``scores`` or ``matrix`` and, optionally, its tokens as lists ``source`` and ``target``;
- Marian's soft alignments: for each pair, rows separated by spaces and numbers separated by commas; anything up to
  the last ``|||`` of a line is ignored;
- Pharaoh links ``s-t`` as scores 0 and 1.

A row belongs to a target token, a column to a source token.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.interop.frames import scores_from_frame
from alignkit.links.links import Links, check_range, parse_links
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.storage import read_header
from alignkit.text.reading import read_bytes
from alignkit.text.utf8 import BOM, split_lines, valid_text
from alignkit.types import PathLike

MATRIX_KEYS = ("alignment", "attention", "scores", "matrix")
TOKEN_KEYS = {"source": ("source", "src"), "target": ("target", "tgt")}
_SOFT = re.compile(r"[-+0-9.eEinfa]+(,[-+0-9.eEinfa]+)*\Z", re.ASCII)
_LINKS = re.compile(r"\s*\d+[-p?]\d+(:[0-9.e+-]+)?(\s|\Z)", re.ASCII)


@dataclass(frozen=True, eq=False)
class ExternalScores:
    """Scores as they are in a file.

    Attributes:
        path: the file.
        scores: of M pairs.
        source, target: the tokens of each pair's columns and rows, if the file has them.
    """

    path: str
    scores: Scores
    source: tuple[tuple[str, ...], ...] | None = None
    target: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """A file of scores: its contents are read when they are first asked for.

    Attributes:
        path: the file.
        shapes: int (M, 2), T and L of the text's pairs in words, if the text is known.
    """

    path: PathLike
    shapes: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The path as text."""
        return os.fspath(self.path)

    @cached_property
    def data(self) -> bytes:
        """The bytes, decompressed."""
        return read_bytes(self.path)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of a text file."""
        return split_lines(valid_text(self.path, self.data.removeprefix(BOM)))

    @cached_property
    def alignments(self) -> list[str]:
        """The part of each line after the last ``|||``, or the whole line."""
        return [line.rpartition("|||")[2] for line in self.lines]

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without the space around it."""
        return next((line.strip() for line in self.lines if line.strip()), "")

    @property
    def first_alignment(self) -> str:
        """The same of ``alignments``."""
        return next((line.strip() for line in self.alignments if line.strip()), "")


def read_scores(path: PathLike, shapes: np.ndarray | None = None) -> ExternalScores:
    """Read the scores of another system.

    Args:
        path: a file in one of the formats of this module.
        shapes: int (M, 2), T and L of the text's pairs in words; required for links, and in a frame for pairs and
            tokens at the end that no row names.

    Raises:
        InputError: the file is unreadable, malformed or out of range; with the line (or the pair) if there is one.
    """
    file = ScoreFile(path, shapes)
    return next(one for one in SCORE_FORMATS.values() if one.recognises(file)).read(file)


def scores_from_links(path: PathLike, links: Links, shapes: np.ndarray | None) -> Scores:
    """Scores that are 1 where there is a link and 0 elsewhere.

    Args:
        path: the file of the links, for messages.
        links: of M pairs.
        shapes: int (M, 2), T and L.

    Raises:
        InputError: no shapes, other numbers of pairs, or a link outside its pair, with the line.
    """
    if shapes is None:
        problem = "has links, which do not determine the lengths of the sentences"
        raise InputError(path, problem, remedy="give the text as well")
    if len(links) != len(shapes):
        raise InputError(path, f"has links for {len(links)} sentence pairs, the text has {len(shapes)}")
    check_range(path, links, shapes)
    shapes = np.ascontiguousarray(shapes, np.int32)
    offsets = flat_offsets(shapes)
    values = np.zeros(int(offsets[-1]), np.float32)
    m = links.sentences
    values[offsets[m] + links.pairs[:, 1].astype(np.int64) * shapes[m, 1] + links.pairs[:, 0]] = 1
    return Scores(values, offsets, shapes)


def read_pharaoh(file: ScoreFile) -> ExternalScores:
    """Pharaoh links as scores 0 and 1."""
    links = parse_links(file.path, file.alignments).possible
    return ExternalScores(file.name, scores_from_links(file.path, links, file.shapes))


def read_npz(file: ScoreFile) -> ExternalScores:
    """An npz file: one of :meth:`Scores.save`, or one array per pair."""
    if read_header(file.path) is not None:
        return ExternalScores(file.name, Scores.load(file.path))
    return ExternalScores(file.name, _arrays(file.path, file.data))


def _arrays(path: PathLike, data: bytes) -> Scores:
    """One array per pair, as from ``numpy.savez(file, *matrices)``; ``arr_10`` comes after ``arr_9``."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            matrices = []
            for name in sorted(names, key=lambda n: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", n)]):
                with archive.open(name) as member:
                    matrices.append((name, np.lib.format.read_array(member, allow_pickle=False)))
    except Exception as error:  # a damaged archive makes zipfile and numpy raise almost anything
        raise InputError(path, f"damaged, or contains objects: {error or type(error).__name__}") from error
    if not matrices:
        raise InputError(path, "contains no arrays")
    for name, matrix in matrices:
        numeric = matrix.dtype.kind in "fiub"
        if matrix.ndim != 2 or not numeric or np.isnan(matrix.astype(np.float32)).any():
            shown = f"{matrix.dtype} with {matrix.ndim} dimensions"
            problem = (
                f"array {name.removesuffix('.npy')} is not a matrix of numbers (T, L), but {shown} or with NaN"
            )
            raise InputError(path, problem)
    return Scores.from_matrices(matrix for _, matrix in matrices)


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


def read_parquet(file: ScoreFile) -> ExternalScores:
    """A frame in a Parquet file."""
    import pandas as pd

    try:
        frame = pd.read_parquet(file.path)
    except ImportError as error:
        raise AlignkitError("Parquet needs pyarrow: pip install pyarrow, or give .npz or .csv") from error
    except OSError as error:
        raise InputError(file.path, f"cannot be read: {error.strerror or error}") from error
    except Exception as error:  # pyarrow's own errors have several bases
        raise InputError(file.path, f"not a Parquet file, or damaged: {error}") from error
    return ExternalScores(file.name, scores_from_frame(file.path, frame, file.shapes))


def read_csv(file: ScoreFile) -> ExternalScores:
    """A frame in a CSV file."""
    import pandas as pd

    try:
        frame = pd.read_csv(io.BytesIO(file.data))
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(file.path, f"not a CSV table: {error}") from error
    return ExternalScores(file.name, scores_from_frame(file.path, frame, file.shapes))


@dataclass(frozen=True)
class ScoreFormat:
    """A format that scores are read from.

    Attributes:
        recognises: whether a file is in this format.
        read: gives the scores of such a file; raises InputError if it is damaged.
    """

    recognises: Callable[[ScoreFile], bool]
    read: Callable[[ScoreFile], ExternalScores]


#: The registry of formats. The first that recognises a file reads it; the last takes what is left.
SCORE_FORMATS = {
    "parquet": ScoreFormat(lambda file: file.name.endswith(".parquet"), read_parquet),
    "csv": ScoreFormat(lambda file: file.name.endswith(".csv"), read_csv),
    "npz": ScoreFormat(lambda file: file.data.startswith(b"PK\x03\x04"), read_npz),
    "json": ScoreFormat(lambda file: file.first_line.startswith(("[", "{")), read_json_lines),
    "links": ScoreFormat(lambda file: _LINKS.match(file.first_alignment or "0-0") is not None, read_pharaoh),
    "soft": ScoreFormat(lambda file: True, read_soft_alignments),
}
