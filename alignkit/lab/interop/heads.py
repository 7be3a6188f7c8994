"""Cross-attention of several layers and heads: chosen from, merged to words, saved.

Row t of a matrix is the attention while target token y_t is predicted: the decoder's input is then y_{t-1} (for
the first token, the start symbol). The *shifted* row of y_t is that of the next step, whose input is y_t itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from alignkit.errors import AlignkitError, InputError, counted, first_line
from alignkit.scores import Grouping, Scores, flat_offsets, merge_matrix
from alignkit.support.files import Fields, Record, array_on_disk, loaded, rows_of, save_arrays
from alignkit.types import PathLike

KIND, VERSION = "alignkit.attention", 1
MEAN = "mean"
WEIGHTS = "weights"
#: What a head can give. weights: attention. norms: the length of what each source token adds to the output, the
#: weight times the value vector through the output matrix (Kobayashi et al. 2020). ov: the probability of the
#: target token if that vector alone, without the weight, went through the model's last norm to its output layer
#: (the OV circuit of Elhage et al. 2021): a lexicon in the head.
QUANTITIES = (WEIGHTS, "norms", "ov")
_CHOICE = re.compile(r"(?P<path>.+):(?P<layer>\d{1,6}|mean)\.(?P<head>\d{1,6}|mean)(?P<shift>\+1)?\Z", re.DOTALL)


@dataclass(frozen=True)
class HeadChoice:
    """One head, or the mean of several.

    Attributes:
        layer, head: counted from 0; None for the mean over all of them.
        shifted: each target token has the row of the step after it, whose input it is.
    """

    layer: int | None
    head: int | None
    shifted: bool = False

    def __str__(self) -> str:
        parts = (MEAN if part is None else str(part) for part in (self.layer, self.head))
        return ".".join(parts) + ("+1" if self.shifted else "")


def split_choice(path: PathLike) -> tuple[PathLike, HeadChoice | None]:
    """The file and the head that ``FILE:LAYER.HEAD`` names.

    LAYER and HEAD count from 0 or are ``mean``; ``+1`` at the end asks for the shifted rows. A path without such
    an end, or of an existing file, is given back as it is.
    """
    match = _CHOICE.match(os.fspath(path))
    if match is None or os.path.exists(path):
        return path, None
    layer, head = (None if match[name] == MEAN else int(match[name]) for name in ("layer", "head"))
    return match["path"], HeadChoice(layer, head, match["shift"] is not None)


@dataclass(frozen=True)
class RankedHeads:
    """What ``alignkit heads --json`` found.

    Attributes:
        file: the attention file.
        hits: (layer, head, 0 or 1 for shifted rows) -> the share of hits.
        positions: the same of chance and of what positions alone give, by name.
    """

    file: str
    hits: Mapping[tuple[int, int, int], float]
    positions: Mapping[str, float]

    @property
    def best(self) -> HeadChoice:
        """The head with most hits."""
        layer, head, shift = max(self.hits, key=lambda key: self.hits[key])
        return HeadChoice(layer, head, bool(shift))


def read_ranking(path: PathLike) -> RankedHeads:
    """Read the JSON of ``alignkit heads``; raises InputError if it is missing or something else."""
    try:
        with open(path, encoding="utf-8") as stream:
            known = json.load(stream)
        key = ("layer", "head", "shift")
        rows = [(tuple(int(row[name]) for name in key), row["hits"]) for row in known["heads"]]
        places = {str(row["name"]): float(row["hits"]) for row in known["positions"]}
        found = RankedHeads(str(known["file"]), {key: float(hits) for key, hits in rows}, places)  # type: ignore[misc]
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InputError(path, f"is no ranking of `alignkit heads --json`: {first_line(error)}") from error
    if len(found.hits) < 2 or min(min(key) for key in found.hits) < 0:
        raise InputError(path, "is no ranking of several heads")
    return found


@dataclass(frozen=True, eq=False)
class AttentionHeads:
    """The cross-attention of H heads for M sentence pairs.

    Attributes:
        values: float32 (H, sum of T*L), for each head its (T, L) matrices row by row, one pair after another.
        shapes: int32 (M, 2), T target tokens and L source tokens of each pair.
        heads: (layer, head) of each row of ``values``.
        words: the words of the source tokens and those of the target tokens, if tokens are subwords.
        made: how they were made, by name: the model, and what else was asked for.
    """

    values: np.ndarray
    shapes: np.ndarray
    heads: tuple[tuple[int, int], ...]
    words: tuple[Grouping, Grouping] | None = None
    made: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values.dtype != np.float32 or self.shapes.dtype != np.int32:
            raise TypeError("AttentionHeads needs float32 values and int32 shapes")
        if self.shapes.ndim != 2 or self.shapes.shape[1:] != (2,) or (self.shapes < 0).any():
            raise ValueError("AttentionHeads needs shapes (M, 2)")
        if self.values.shape != (len(self.heads), int(flat_offsets(self.shapes)[-1])):
            raise ValueError(f"AttentionHeads needs values (H, sum of T*L), has {self.values.shape}")
        if len(set(self.heads)) < len(self.heads) or not self.heads:
            raise ValueError("AttentionHeads needs at least one head, and none twice")
        if any(np.isnan(row).any() for row in rows_of(self.values)):
            raise ValueError("AttentionHeads cannot contain NaN, which has no order")
        for side, grouping in enumerate(self.words or ()):
            sizes = [len(groups) for groups, _ in grouping]
            if sizes != self.shapes[:, 1 - side].tolist():
                raise ValueError("AttentionHeads needs a word (or -1) for every token")
            if any(len(groups) and not -1 <= groups.min() <= groups.max() < count for groups, count in grouping):
                raise ValueError("AttentionHeads has a word that is not in its sentence")

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[np.ndarray],
        words: tuple[Grouping, Grouping] | None = None,
        layers: Sequence[int] | None = None,
    ) -> AttentionHeads:
        """The heads of arrays (layers, heads, T, L), one for each pair.

        Args:
            pairs: of M pairs, with equal numbers of layers and heads; a pair without tokens may be (0, 0, 0, 0).
            words: of the class.
            layers: the numbers of the layers; 0, 1, ... if not given.
        """
        arrays = [np.asarray(pair, np.float32) for pair in pairs]
        if any(array.ndim != 4 for array in arrays):
            raise ValueError("every pair needs an array (layers, heads, T, L)")
        kinds = {array.shape[:2] for array in arrays if array.size}
        if len(kinds) > 1:
            raise ValueError(f"the pairs have different numbers of layers and heads: {sorted(kinds)}")
        depth, width = kinds.pop() if kinds else (max((len(array) for array in arrays), default=0) or 1, 1)
        numbers = range(depth) if layers is None else layers
        if len(numbers) != depth:
            raise ValueError(f"{len(numbers)} layer numbers for {depth} layers")
        flat = [array.reshape(depth * width, -1) for array in arrays if array.size]
        shapes = np.array([array.shape[2:] for array in arrays], np.int32).reshape(-1, 2)
        values = np.concatenate([np.zeros((depth * width, 0), np.float32), *flat], axis=1)
        return cls(values, shapes, tuple((layer, head) for layer in numbers for head in range(width)), words)

    @classmethod
    def from_scores(cls, scores: Scores, words: tuple[Grouping, Grouping] | None = None) -> AttentionHeads:
        """Scores as layer 0, head 0."""
        return cls(scores.values[None], scores.shapes, ((0, 0),), words)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def offsets(self) -> np.ndarray:
        """int64 (M + 1,), the first element of each pair's matrix."""
        return flat_offsets(self.shapes)

    def pair(self, m: int) -> np.ndarray:
        """(H, T, L): all matrices of pair m, a view."""
        low, high = self.offsets[m : m + 2]
        return self.values[:, low:high].reshape(len(self.heads), *self.shapes[m])

    def scores(self, choice: HeadChoice) -> Scores:
        """The scores of one head, or of the mean of several.

        Raises:
            AlignkitError: there is no such head, with what there is.
        """
        wanted = [choice.layer in (None, layer) and choice.head in (None, head) for layer, head in self.heads]
        rows = np.flatnonzero(wanted)
        if not len(rows):
            raise AlignkitError(f"there is no head {choice}; there are {self.described}")
        flat = self.values[rows[0]] if len(rows) == 1 else self.values[rows].mean(axis=0, dtype=np.float64)
        found = Scores(np.ascontiguousarray(flat, np.float32), self.offsets, self.shapes)
        return AttentionHeads.from_scores(found).shifted.scores(HeadChoice(0, 0)) if choice.shifted else found

    def word_scores(self, choice: HeadChoice) -> Scores:
        """:meth:`scores`, between words: shifted first if the choice says so, then merged."""
        return AttentionHeads.from_scores(self.scores(choice), self.words).on_words.scores(HeadChoice(0, 0))

    @property
    def described(self) -> str:
        """Which layers and heads there are, in words."""
        layers, heads = (sorted({pair[k] for pair in self.heads}) for k in (0, 1))
        names = [f"{x[0]}" if len(x) == 1 else f"{x[0]} to {x[-1]}" for x in (layers, heads)]
        return f"layers {names[0]}, heads {names[1]}, as LAYER.HEAD"

    @property
    def shifted(self) -> AttentionHeads:
        """The shifted rows: each target token has the row after its own; the last one has zeros."""
        moved = np.zeros_like(self.values)
        bounds, widths = self.offsets.tolist(), self.shapes[:, 1].tolist()
        for low, high, width in zip(bounds[:-1], bounds[1:], widths, strict=True):
            moved[:, low : max(high - width, low)] = self.values[:, low + width : high]
        return replace(self, values=moved)

    @property
    def on_words(self) -> AttentionHeads:
        """The same between words, as :func:`alignkit.scores.merge_to_words`.

        Subwords have to be shifted before they are merged: the step after a word's last subword is not the step
        after each of them.
        """
        if self.words is None:
            return self
        merged = []
        for m, ((source, columns), (target, rows)) in enumerate(zip(*self.words, strict=True)):
            words = merge_matrix(self.pair(m), (target, rows), (source, columns))
            merged.append(words.reshape(len(self.heads), -1))
        counts = [[rows, columns] for (_, columns), (_, rows) in zip(*self.words, strict=True)]
        shapes = np.array(counts, np.int32).reshape(-1, 2)
        values = np.concatenate([np.zeros((len(self.heads), 0), np.float32), *merged], axis=1)
        return AttentionHeads(values, shapes, self.heads)

    def save(self, path: PathLike) -> None:
        """Write an npz file without pickle."""
        arrays = {"values": self.values, "shapes": self.shapes, "heads": np.array(self.heads, np.int32)}
        for name, grouping in zip(("source", "target"), self.words or (), strict=False):
            flat = [np.zeros(0, np.int32), *(np.asarray(groups, np.int32) for groups, _ in grouping)]
            arrays[f"{name}_words"] = np.concatenate(flat)
            arrays[f"{name}_word_counts"] = np.array([count for _, count in grouping], np.int32)
        save_arrays(path, KIND, VERSION, arrays, {"made": dict(self.made)}, compress=True)

    @classmethod
    def load(cls, path: PathLike) -> AttentionHeads:
        """Read an npz file that :meth:`save` wrote; raises InputError if it is missing or damaged."""
        with loaded(path, KIND, VERSION) as (fields, header):
            values, shapes = fields.get("values", np.float32, 2), fields.get("shapes", np.int32, 2)
            heads, words = fields.get("heads", np.int32, 2), None
            if "source_words" in fields.arrays:
                words = tuple(_grouping(fields, side, shapes[:, k]) for side, k in (("source", 1), ("target", 0)))
            pairs = tuple((int(layer), int(head)) for layer, head in heads)
            made = header.part("made") if "made" in header else Record(path, {})
            facts = {name: made.text(name) for name in made}
            return cls(values, shapes, pairs, words, facts)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"AttentionHeads({counted(len(self), 'pair')}, {self.described})"


class HeadCollector:
    """The heads of M pairs, put together in any order.

    Args:
        shapes: (M, 2), T target tokens and L source tokens of each pair.
        folder: where the values are kept, in a file that has no name; in memory if not given.

    Raises:
        AlignkitError: the folder is not writable, or has not enough space, when the first pair is put.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], folder: PathLike | None = None) -> None:
        self.shapes, self.folder = np.array(shapes, np.int32).reshape(-1, 2), folder
        self.offsets, self.values = flat_offsets(self.shapes), np.zeros((1, 0), np.float32)
        self.layers, self.width = 1, 1

    def put(self, m: int, array: np.ndarray) -> None:
        """Keep float32 (layers, heads, T, L) of pair m."""
        if not self.values.size:
            self.layers, self.width = array.shape[:2]
            size = self.layers * self.width, int(self.offsets[-1])
            self.values = np.zeros(size, np.float32) if self.folder is None else array_on_disk(self.folder, size)
        for row, known in zip(rows_of(self.values), array.reshape(len(self.values), -1), strict=True):
            row[self.offsets[m] : self.offsets[m + 1]] = known

    def heads(self, words: tuple[Grouping, Grouping], layers: Sequence[int] | None = None) -> AttentionHeads:
        """All of them, with their words and the numbers of the layers, 0, 1, ... if not given."""
        pairs = [(layer, head) for layer in layers or range(self.layers) for head in range(self.width)]
        return AttentionHeads(self.values, self.shapes, tuple(pairs), words)


def _grouping(fields: Fields, side: str, sizes: np.ndarray) -> list[tuple[np.ndarray, int]]:
    flat, counts = fields.get(f"{side}_words", np.int32), fields.get(f"{side}_word_counts", np.int32)
    if (sizes < 0).any() or len(counts) != len(sizes) or len(flat) != sizes.sum():
        raise ValueError(f"{side}_words do not fit the shapes")
    parts = np.split(flat.astype(np.int64), np.cumsum(sizes, dtype=np.int64)[:-1]) if len(sizes) else []
    return list(zip(parts, counts.tolist(), strict=True))
