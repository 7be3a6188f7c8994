"""Vectors of words from files in the text formats of word2vec, fastText and GloVe."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from alignkit.errors import InputError
from alignkit.text.reading import read_raw_lines
from alignkit.types import PathLike


def read_word_vectors(path: PathLike, words: Collection[bytes]) -> dict[bytes, np.ndarray]:
    """float32 (D,) of some words, those that a file has.

    Each line is a word and D numbers with spaces between them; a first line of two numbers, as word2vec and
    fastText have it, is skipped. Of a word that is there twice, the first vector counts.

    Args:
        path: the file, which may be compressed.
        words: encoded in UTF-8, without spaces.

    Raises:
        InputError: a line of one of the words is not of this form, or there is none of them.
    """
    found: dict[bytes, np.ndarray] = {}
    size = 0
    for number, line in enumerate(read_raw_lines(path), 1):
        word, _, rest = line.rstrip(b" \r").partition(b" ")
        if number == 1 and word.isdigit() and rest.isdigit():
            size = int(rest)
        elif word in words and word not in found:
            parts = rest.split(b" ")
            size = size or len(parts)
            if len(parts) > size:
                continue  # a word with spaces
            found[word] = _numbers(path, parts, number)
            if len(parts) != size:
                raise InputError(path, f"has {len(parts)} numbers after its word, not {size}", line=number)
    if not found:
        raise InputError(path, "has none of the text's words", remedy="is it of the other language?")
    return found


def _numbers(path: PathLike, parts: list[bytes], line: int) -> np.ndarray:
    try:
        numbers = np.array(parts, np.float32)
    except ValueError:
        numbers = np.full(1, np.nan, np.float32)
    if not np.isfinite(numbers).all():
        remedy = "give vectors in the text format of word2vec or fastText"
        raise InputError(path, "must be a word and numbers, with spaces between them", line=line, remedy=remedy)
    return numbers
