"""Word vectors from a text file in the format of GloVe: a word and its numbers on each line."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from alignkit.errors import InputError
from alignkit.text.reading import read_raw_lines
from alignkit.text.vocabulary import Vocabulary
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
    """Read the vectors of a vocabulary's words; only these are kept in memory.

    Lines are ``word number ... number`` separated by single spaces; the word itself may contain spaces. A first
    line of two whole numbers (word2vec's text format) is skipped. The first of several vectors of a word is used.

    Args:
        path: plain or compressed.
        vocabulary: the words to read vectors of.
        size: E.

    Raises:
        InputError: unreadable, or with file and line: not ``size`` numbers, not finite, not UTF-8 where wanted.
    """
    wanted = {token.encode("utf-8", "surrogatepass"): i for i, token in enumerate(vocabulary.tokens)}
    found: dict[int, np.ndarray] = {}
    for number, line in enumerate(read_raw_lines(path), 1):
        parts = line.rstrip(b" \r").split(b" ")
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            continue
        if len(parts) <= size:
            raise InputError(path, f"has {len(parts) - 1} numbers where {size} are needed", line=number)
        place = wanted.get(b" ".join(parts[:-size]))
        if place is None or place in found:
            continue
        try:
            values = np.array([float(part) for part in parts[-size:]], np.float32)
        except ValueError as error:
            raise InputError(path, "has something other than numbers after the word", line=number) from error
        if not np.isfinite(values).all():
            raise InputError(path, "has a number that is not finite", line=number)
        found[place] = values
    ids = np.array(sorted(found), np.int64)
    values = np.stack([found[i] for i in ids.tolist()]) if len(ids) else np.empty((0, size), np.float32)
    return Vectors(ids, values)
