"""Scores between subwords and scores between words, each converted to the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.scores.scores import Scores
from alignkit.text.tokenization import BOS, EOS, Tokenizer, split_words

#: For each sentence: the index of each token's word (-1 for a token of no word), and the number of words.
Grouping = Sequence[tuple[np.ndarray, int]]


def merge_subwords(
    scores: Scores,
    tokenizer: Tokenizer,
    source: tuple[Sequence[str], Sequence[np.ndarray]],
    target: tuple[Sequence[str], Sequence[np.ndarray]],
) -> Scores:
    """Merge scores between a tokenizer's subwords into scores between whitespace words, for kind ``alpha``.

    Args:
        scores: of the encoded bitext.
        tokenizer: the one that encoded it.
        source, target: (M lines, M encoded sentences).

    Raises:
        AlignkitError: lines, encoding and scores do not match.
    """
    rows, columns = [], []
    lines = zip(scores, source[0], source[1], target[0], target[1], strict=True)
    for matrix, source_line, source_ids, target_line, target_ids in lines:
        columns.append((token_words(tokenizer, source_line, source_ids), len(split_words(source_line))))
        rows.append((token_words(tokenizer, target_line, target_ids), len(split_words(target_line))))
        if matrix.shape != (len(rows[-1][0]), len(columns[-1][0])):
            have = f"{len(rows[-1][0])} by {len(columns[-1][0])}"
            raise AlignkitError(f"scores of shape {matrix.shape} for {have} tokens")
    return merge_to_words(scores, rows, columns)


def token_words(tokenizer: Tokenizer, line: str, ids: np.ndarray) -> np.ndarray:
    """int (len(ids),): the whitespace word of each token of an encoded sentence, -1 for BOS and EOS."""
    words = np.full(len(ids), -1)
    inner = tokenizer.words(line)
    start = int(len(ids) > 0 and ids[0] == BOS)
    end = len(ids) - int(len(ids) > start and ids[-1] == EOS)
    if end - start != len(inner):
        raise AlignkitError(f"the line has {len(inner)} tokens, its scores {end - start}")
    words[start:end] = inner
    return words


def merge_to_words(scores: Scores, rows: Grouping, columns: Grouping) -> Scores:
    """Merge scores between tokens into scores between words, for kind ``alpha``.

    The column of a word is the sum of its tokens' columns, its row the mean of their rows. Columns of tokens
    without a word (BOS, EOS) are dropped: their share, like NULL's, is the difference between 1 and the sum of a
    row. A word without tokens has zeros.

    Args:
        scores: (T, L) each, between tokens.
        rows, columns: the words of the target tokens and of the source tokens.
    """
    matrices = []
    for matrix, row, column in zip(scores, rows, columns, strict=True):
        by_row = _indicator(*row)
        by_row /= np.maximum(by_row.sum(axis=1, keepdims=True), 1)
        matrices.append(by_row @ matrix @ _indicator(*column).T)
    return Scores.from_matrices(matrices)


def spread_to_tokens(scores: Scores, rows: Grouping, columns: Grouping) -> Scores:
    """Spread scores between words over their tokens, for kind ``alpha``; :func:`merge_to_words` reverses it.

    The column of a word is divided equally among its tokens; each of its tokens has its row. Tokens without a word
    (BOS, EOS) have zeros.

    Args:
        scores: (target words, source words) each.
        rows, columns: the words of the target tokens and of the source tokens.
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
