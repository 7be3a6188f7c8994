"""The tokens that are punctuation."""

from __future__ import annotations

import unicodedata

import numpy as np

from alignkit.text.vocabulary import Vocabulary


def is_punctuation(token: str) -> bool:
    """True if all characters of a token are punctuation or symbols (Unicode categories P and S)."""
    return token != "" and all(unicodedata.category(letter)[0] in "PS" for letter in token)


def punctuation_types(vocabulary: Vocabulary) -> np.ndarray:
    """bool (V,): which types of a vocabulary are punctuation."""
    return np.fromiter((is_punctuation(token) for token in vocabulary.tokens), bool, len(vocabulary))
