"""Scores of other systems in text and JSON; each format gives :class:`ExternalScores`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from alignkit.errors import InputError
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.links.from_scores import link_places
from alignkit.links.links import check_range, parse_links, parse_probabilities
from alignkit.scores import Grouping, Scores, grouping_of
from alignkit.text.reading import file_parts, split_lines, valid_text
from alignkit.text.subword_marks import style_of, word_groups
from alignkit.types import PathLike


@dataclass(frozen=True, eq=False)
class ExternalScores:
    """Scores as they are in a file.

    Attributes:
        path: the file.
        scores: of M pairs.
        source, target: the tokens of each pair's columns and rows, if the file has them.
        words: the words of the source tokens and of the target tokens, if the file has those.
    """

    path: str
    scores: Scores
    source: tuple[tuple[str, ...], ...] | None = None
    target: tuple[tuple[str, ...], ...] | None = None
    words: tuple[Grouping, Grouping] | None = None

    @property
    def heads(self) -> AttentionHeads:
        """The scores as layer 0, head 0."""
        words = self.words
        if words is None and self.source is not None and self.target is not None:
            words = words_of_tokens(self.source, self.target)
        return AttentionHeads.from_scores(self.scores, words)


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
        return b"".join(file_parts(self.path, -1))

    @cached_property
    def lines(self) -> list[str]:
        """The lines of a text file."""
        return split_lines(valid_text(self.path, self.data))

    @cached_property
    def alignments(self) -> list[str]:
        """The part of each line after the last ``|||``, or the whole line."""
        return [line.rpartition("|||")[2] for line in self.lines]

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without the space around it."""
        return next((line.strip() for line in self.lines if line.strip()), "")


def words_of_tokens(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> tuple[Grouping, Grouping]:
    """The words of subwords with marks, of the source and of the target."""

    def words(side: Sequence[Sequence[str]]) -> Grouping:
        style = style_of(side)
        return grouping_of(word_groups(tokens, style) for tokens in side)

    return words(source), words(target)


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


_LINK = re.compile(r"\s*\d+[-p?]\d+(:[0-9.e+-]+)?(\s|\Z)", re.ASCII)
_NUMBER = re.compile(r"\d+\t", re.ASCII)


def is_links(file: ScoreFile) -> bool:
    """True if the first of ``alignments`` that is not blank is one of links, or there is none."""
    first = next((line.strip() for line in file.alignments if line.strip()), "")
    return not first or _LINK.match(_NUMBER.sub("", first, count=1) or "0-0") is not None


def read_link_lines(file: ScoreFile) -> ExternalScores:
    """Pharaoh links as scores: 1, or the probability of the link, where there is a link and 0 elsewhere.

    Of a repeated link the first probability counts.

    Raises:
        InputError: the shapes of the text are not known, it has another number of pairs, an item is no link or no
            probability, or a link is outside its pair.
    """
    links, known = (
        parse_links(file.path, file.alignments).possible,
        parse_probabilities(file.path, file.alignments),
    )
    if file.shapes is None:
        problem = "has links, which do not determine the lengths of the sentences"
        raise InputError(file.path, problem, remedy="give the text as well")
    check_range(file.path, links, file.shapes, whole=True)
    scores = Scores.zeros(np.ascontiguousarray(file.shapes, np.int32))
    scores.values[link_places(links, scores.shapes)] = 1 if known is None else np.nan_to_num(known, nan=1.0)
    return ExternalScores(file.name, scores)
