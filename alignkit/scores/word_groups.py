"""From subword scores to word scores: what a user of word alignments asks of a subword network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.scores.scores import Scores
from alignkit.text.tokenization import BOS, EOS, Tokenizer, split_words


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
    rows, columns = [], []
    lines = zip(scores, source[0], source[1], target[0], target[1], strict=True)
    for matrix, source_line, source_ids, target_line, target_ids in lines:
        columns.append((_groups(tokenizer, source_line, source_ids), len(split_words(source_line))))
        rows.append((_groups(tokenizer, target_line, target_ids), len(split_words(target_line))))
        if matrix.shape != (len(rows[-1][0]), len(columns[-1][0])):
            have = f"{len(rows[-1][0])} by {len(columns[-1][0])}"
            raise AlignkitError(f"scores of shape {matrix.shape} for {have} tokens")
    return merge_groups(scores, rows, columns)


Grouping = Sequence[
    tuple[np.ndarray, int]
]  #: per sentence, the word of each token (-1: of none), and their number


def merge_groups(scores: Scores, rows: Grouping, columns: Grouping) -> Scores:
    """Scores of tokens to scores of words, for kind ``alpha``, as :func:`merge_to_words` says.

    Args:
        scores: (T, L) each.
        rows, columns: the words of the target's and of the source's tokens.
    """
    matrices = []
    for matrix, row, column in zip(scores, rows, columns, strict=True):
        by_row = _indicator(*row)
        by_row /= np.maximum(by_row.sum(axis=1, keepdims=True), 1)
        matrices.append(by_row @ matrix @ _indicator(*column).T)
    return Scores.from_matrices(matrices)


def spread_groups(scores: Scores, rows: Grouping, columns: Grouping) -> Scores:
    """Scores of words to scores of tokens, for kind ``alpha``; :func:`merge_groups` takes them back.

    A word's column is shared out equally among its tokens, its row stands for each of its tokens. Tokens of no
    word (BOS, EOS) get zeros.

    Args:
        scores: (target words, source words) each.
        rows, columns: the words of the target's and of the source's tokens.
    """
    matrices = []
    for matrix, row, column in zip(scores, rows, columns, strict=True):
        by_column = _indicator(*column)
        by_column /= np.maximum(by_column.sum(axis=1, keepdims=True), 1)
        matrices.append(_indicator(*row).T @ matrix @ by_column)
    return Scores.from_matrices(matrices)


def _indicator(groups: np.ndarray, words: int) -> np.ndarray:
    """float32 (words, tokens): 1 where the token belongs to the word."""
    table = np.zeros((words, len(groups)), np.float32)
    table[groups[groups >= 0], np.flatnonzero(groups >= 0)] = 1
    return table
