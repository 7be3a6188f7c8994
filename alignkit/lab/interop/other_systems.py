"""Scores of other systems: read from files and checked.

Formats, recognised by the file itself:

- ``.npz`` of :meth:`Scores.save` or :meth:`AttentionHeads.save`, or any npz with one array per pair, in the order
  of their names: (T, L), or (layers, heads, T, L);
- ``.parquet``: a tidy frame with the columns sentence, t, s and value (:meth:`Scores.to_frame`);
- JSON of inseq (:mod:`alignkit.lab.interop.inseq`);
- JSON lines: for each pair a list of rows, or an object with the matrix as ``alignment``, ``attention``,
  ``scores`` or ``matrix`` and, optionally, its tokens as lists ``source`` and ``target``;
- Marian's soft alignments: for each pair, rows separated by spaces and numbers separated by commas; anything up to
  the last ``|||`` of a line is ignored;
- Pharaoh links ``s-t`` as scores 0 and 1, or ``s-t:p`` as their probabilities.

One head of a file with several layers and heads is named ``FILE:LAYER.HEAD`` (:func:`split_choice`).

A row belongs to a target token, a column to a source token.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.lab.interop import heads as attention
from alignkit.lab.interop.heads import AttentionHeads, split_choice
from alignkit.lab.interop.inseq import is_inseq, read_inseq
from alignkit.lab.interop.score_formats import (
    ExternalScores,
    ScoreFile,
    is_links,
    read_json_lines,
    read_link_lines,
    read_soft_alignments,
)
from alignkit.scores import KIND, Scores
from alignkit.support.files import read_header
from alignkit.support.records import plainly_shown
from alignkit.types import PathLike


def read_scores(path: PathLike, shapes: np.ndarray | None = None) -> ExternalScores:
    """Read the scores of another system.

    Args:
        path: a file in one of the formats of this module; ``FILE:LAYER.HEAD`` for one of several heads.
        shapes: int (M, 2), T and L of the text's pairs in words; required for links, and in another program's
            ``.parquet`` for pairs and tokens at the end that no row names.

    Raises:
        InputError: the file is unreadable, malformed or out of range; with the line (or the pair) if there is one.
            There are several heads and none is chosen, or not the chosen one.
    """
    place, choice = split_choice(path)
    if choice is None:
        found = _read(path, shapes)
        if isinstance(found, ExternalScores):
            return found
        remedy = (
            f"choose one, as {os.fspath(path)}:{found.heads[-1][0]}.0, or their mean, {os.fspath(path)}:mean.mean"
        )
        raise InputError(path, f"has several heads ({found.described})", remedy=remedy)
    heads = read_heads(place, shapes)
    try:
        return ExternalScores(os.fspath(path), heads.scores(choice), words=heads.words)
    except AlignkitError as error:
        raise InputError(place, str(error)) from error


def read_heads(path: PathLike, shapes: np.ndarray | None = None) -> AttentionHeads:
    """Read all layers and heads of a file; scores without them are layer 0, head 0.

    Args:
        path, shapes: as for :func:`read_scores`, without a choice.

    Raises:
        InputError: the file is unreadable, malformed or out of range.
    """
    found = _read(path, shapes)
    return found.heads if isinstance(found, ExternalScores) else found


def _read(path: PathLike, shapes: np.ndarray | None) -> ExternalScores | AttentionHeads:
    file = ScoreFile(path, shapes)
    return next(one for one in SCORE_FORMATS.values() if one.recognises(file)).read(file)


def read_npz(file: ScoreFile) -> ExternalScores | AttentionHeads:
    """An npz file: one of :meth:`Scores.save` or :meth:`AttentionHeads.save`, or one array per pair."""
    header = read_header(file.path)
    if header is not None and header.get("kind") == attention.KIND:
        return AttentionHeads.load(file.path)
    if header is not None and header.get("kind") != KIND:
        remedy = "give what `alignkit attention`, or `alignkit align --model FILE --save-scores`, writes"
        raise InputError(file.path, f"holds {plainly_shown(header.get('kind'))}, and no scores", remedy=remedy)
    if header is not None:
        return ExternalScores(file.name, Scores.load(file.path))
    found = _arrays(file.path, file.data)
    return found if isinstance(found, AttentionHeads) else ExternalScores(file.name, found)


def _arrays(path: PathLike, data: bytes) -> Scores | AttentionHeads:
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
    dimensions = 4 if all(matrix.ndim == 4 for _, matrix in matrices) else 2
    for name, matrix in matrices:
        numeric = matrix.dtype.kind in "fiub"
        if matrix.ndim != dimensions or not numeric or np.isnan(matrix.astype(np.float32)).any():
            shown = f"{matrix.dtype} with {matrix.ndim} dimensions"
            problem = (
                f"array {name.removesuffix('.npy')} is not a matrix of numbers (T, L), but {shown} or with NaN"
            )
            raise InputError(path, problem)
    try:
        if dimensions == 4:
            return AttentionHeads.from_pairs(matrix for _, matrix in matrices)
        return Scores.from_matrices(matrix for _, matrix in matrices)
    except (ValueError, OverflowError) as error:  # an array without elements may have any number of columns
        raise InputError(path, str(error)) from error


def read_parquet(file: ScoreFile) -> ExternalScores:
    """A frame in a Parquet file."""
    return ExternalScores(file.name, Scores.load(file.path, file.shapes))


@dataclass(frozen=True)
class ScoreFormat:
    """A format that scores are read from.

    Attributes:
        recognises: tells if a file is in this format.
        read: gives the scores of such a file; raises InputError if it is damaged.
    """

    recognises: Callable[[ScoreFile], bool]
    read: Callable[[ScoreFile], ExternalScores | AttentionHeads]


#: The registry of formats. The first that recognises a file reads it; the last takes what is left.
SCORE_FORMATS = {
    "parquet": ScoreFormat(lambda file: file.name.endswith(".parquet"), read_parquet),
    "npz": ScoreFormat(lambda file: file.data.startswith(b"PK\x03\x04"), read_npz),
    "inseq": ScoreFormat(is_inseq, read_inseq),
    "json": ScoreFormat(lambda file: file.first_line.startswith(("[", "{")), read_json_lines),
    "links": ScoreFormat(is_links, read_link_lines),
    "soft": ScoreFormat(lambda file: True, read_soft_alignments),
}
