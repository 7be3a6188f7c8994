"""Word vectors from files as the initial embeddings of a network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from alignkit.errors import InputError
from alignkit.text.vocabulary import Vocabulary
from alignkit.text.word_vectors import read_word_vectors
from alignkit.types import PathLike


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of some words of a vocabulary.

    Attributes:
        ids: int64 (K,), ascending; the words that have a vector.
        values: float32 (K, E).
    """

    ids: np.ndarray
    values: np.ndarray

    def describe(self) -> dict[str, Any]:
        """The number of vectors and their SHA-256, which identify the set."""
        digest = hashlib.sha256(self.ids.tobytes() + self.values.astype("<f4").tobytes())
        return {"words": len(self.ids), "sha256": digest.hexdigest()}

    def fill(self, embedding: nn.Embedding) -> None:
        """Copies the vectors over the embeddings of their words."""
        with torch.no_grad():
            embedding.weight[torch.from_numpy(self.ids)] = torch.from_numpy(self.values)


def read_vectors(path: PathLike, vocabulary: Vocabulary, size: int) -> Vectors:
    """Read the vectors of a vocabulary's words.

    Args:
        path: plain or compressed.
        vocabulary: the words to read vectors of.
        size: E.

    Raises:
        InputError: as :func:`alignkit.text.word_vectors.read_word_vectors`, or the vectors are not of this size.
    """
    places = {token.encode("utf-8", "surrogatepass"): i for i, token in enumerate(vocabulary.tokens)}
    found = {places[word]: vector for word, vector in read_word_vectors(path, places).items()}
    ids = np.array(sorted(found), np.int64)
    values = np.stack([found[i] for i in ids.tolist()])
    if values.shape[1] != size:
        raise InputError(path, f"has {values.shape[1]} numbers a word where {size} are needed")
    return Vectors(ids, values)
