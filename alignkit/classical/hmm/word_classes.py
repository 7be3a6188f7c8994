"""Word classes by first or last letters: what a rare word may learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Classes:
    """A partition of V words.

    Attributes:
        of: int32 (V,), the class of each word.
        first: int64 (A + 1,), where each class starts in ``members``.
        members: int32 (V,), the words in order of their class.
    """

    of: np.ndarray
    first: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1


def affix_classes(vocabulary: Vocabulary, letters: int, suffix: bool) -> Classes:
    """Words that share their first (or last) so many letters; a shorter word is its own affix."""
    known: dict[str, int] = {}
    part = slice(-letters, None) if suffix else slice(letters)
    of = np.fromiter((known.setdefault(word[part], len(known)) for word in vocabulary), np.int32, len(vocabulary))
    first = np.zeros(len(known) + 1, np.int64)
    np.cumsum(np.bincount(of, minlength=len(known)), out=first[1:])
    return Classes(of, first, np.argsort(of, kind="stable").astype(np.int32))
