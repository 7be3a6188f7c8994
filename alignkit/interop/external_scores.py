"""Scores of another system as they are in a file, and the file that they are read from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.interop.heads import AttentionHeads
from alignkit.scores import Grouping, Scores
from alignkit.text.reading import BOM, read_bytes, split_lines, valid_text
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


def words_of_tokens(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> tuple[Grouping, Grouping]:
    """The words of subwords with marks, of the source and of the target."""
    sides = []
    for side in (source, target):
        style = style_of(side)
        groups = [word_groups(tokens, style) for tokens in side]
        sides.append([(each, int(each.max(initial=-1)) + 1) for each in groups])
    return sides[0], sides[1]
