"""From subword scores to word scores: what a user of word alignments asks of a subword network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.scores import Scores
from alignkit.tokenization import BOS, EOS, Tokenizer, split_words


def _groups(tokenizer: Tokenizer, line: str, ids: np.ndarray) -> np.ndarray:
    """For each id of an encoded sentence, its whitespace word, -1 for BOS and EOS: int (len(ids),)."""
    words = np.full(len(ids), -1)
    inner = tokenizer.words(line)
    start = int(len(ids) > 0 and ids[0] == BOS)
    end = len(ids) - int(len(ids) > start and ids[-1] == EOS)
    if end - start != len(inner):
        raise AlignkitError(f"the line has {len(inner)} tokens, its scores {end - start}")
    words[start:end] = inner
    return words


def merge_to_words(
    scores: Scores,
    tokenizer: Tokenizer,
    source: tuple[Sequence[str], Sequence[np.ndarray]],
    target: tuple[Sequence[str], Sequence[np.ndarray]],
) -> Scores:
    """Scores of pieces to scores of whitespace words, for kind ``alpha``.

    A word's column is the sum of its pieces' columns, its row the mean of its pieces' rows. Columns of BOS and
    EOS are dropped: like NULL's, their mass is what a row lacks to 1. A word without pieces gets zeros.

    Args:
        scores: of the encoded bitext.
        tokenizer: that encoded it.
        source, target: (M lines, M encoded sentences).

    Raises:
        AlignkitError: lines, encoding and scores do not fit each other.
    """
    matrices = []
    lines = zip(scores, source[0], source[1], target[0], target[1], strict=True)
    for matrix, source_line, source_ids, target_line, target_ids in lines:
        columns = _groups(tokenizer, source_line, source_ids)
        rows = _groups(tokenizer, target_line, target_ids)
        if matrix.shape != (len(rows), len(columns)):
            raise AlignkitError(f"scores of shape {matrix.shape} for {len(rows)} by {len(columns)} tokens")
        by_column = np.zeros((len(split_words(source_line)), len(columns)), np.float32)
        by_column[columns[columns >= 0], np.flatnonzero(columns >= 0)] = 1
        by_row = np.zeros((len(split_words(target_line)), len(rows)), np.float32)
        by_row[rows[rows >= 0], np.flatnonzero(rows >= 0)] = 1
        by_row /= np.maximum(by_row.sum(axis=1, keepdims=True), 1)
        matrices.append(by_row @ matrix @ by_column.T)
    return Scores.from_matrices(matrices)
