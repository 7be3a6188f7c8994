"""Scores: one (T, L) matrix per sentence pair, made by aligners and read by metrics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.scores.endings import SCORE_ENDINGS
from alignkit.scores.heat_map import MOST_PAIRS, first_pairs, heat_map
from alignkit.storage import Fields, atomic_write, check_ending, load_arrays, save_arrays
from alignkit.text.on_disk import RELEASED, release
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

KIND, VERSION = "alignkit.scores", 1
#: alpha: the responsibility of x_l for y_t (attention, posterior). beta: the probability that x_l is translated
#: to y_t (lexical). delta: the derivative of y_t's log probability by the weight of x_l's embedding (saliency).
#: loo: the log probability that y_t loses without x_l (leave-one-out). ov: the probability of y_t by attention
#: heads that see x_l's state alone (OV circuits).
SCORE_KINDS = ("alpha", "beta", "delta", "loo", "ov")


def flat_offsets(shapes: np.ndarray) -> np.ndarray:
    """int64 (M + 1,): the place of the first element of each matrix of ``shapes`` (M, 2), one after another."""
    offsets = np.zeros(len(shapes) + 1, np.int64)
    np.cumsum(shapes[:, 0].astype(np.int64) * shapes[:, 1], out=offsets[1:])
    return offsets


@dataclass(frozen=True, eq=False)
class Scores:
    """M matrices with a row per target token and a column per source token; larger scores are stronger.

    Only scores of the same row can be compared.

    Attributes:
        values: float32 (sum of T*L,), the matrices row by row, one after another.
        offsets: int64 (M + 1,), the first element of each matrix.
        shapes: int32 (M, 2), T and L of each pair.
    """

    values: np.ndarray
    offsets: np.ndarray
    shapes: np.ndarray

    def __post_init__(self) -> None:
        dtypes = (self.values.dtype, self.offsets.dtype, self.shapes.dtype)
        if dtypes != (np.float32, np.int64, np.int32):
            raise TypeError("Scores needs float32 values, int64 offsets and int32 shapes")
        if self.values.ndim != 1 or self.shapes.ndim != 2 or self.shapes.shape[1:] != (2,):
            raise ValueError("Scores needs flat values and shapes (M, 2)")
        if (self.shapes < 0).any() or not np.array_equal(self.offsets, flat_offsets(self.shapes)):
            raise ValueError("Scores offsets must be the running sum of T*L")
        if self.offsets[-1] != len(self.values):
            raise ValueError(f"Scores needs {self.offsets[-1]} values, has {len(self.values)}")
        for low in range(0, len(self.values), RELEASED):
            least = self.values[low : low + RELEASED].min()
            release(self.values)
            if np.isnan(least):  # as soon as one of them is
                raise ValueError("Scores cannot contain NaN, which has no order")

    @classmethod
    def zeros(cls, shapes: np.ndarray) -> Scores:
        """Scores of 0 of matrices of ``shapes`` int32 (M, 2), T and L of each."""
        offsets = flat_offsets(shapes)
        return cls(np.zeros(offsets[-1], np.float32), offsets, shapes)

    @classmethod
    def from_matrices(cls, matrices: Iterable[np.ndarray]) -> Scores:
        """Scores of these (T, L) matrices."""
        arrays = [np.asarray(matrix, np.float32) for matrix in matrices]
        if any(array.ndim != 2 for array in arrays):
            raise ValueError("every matrix must be (T, L)")
        shapes = np.array([array.shape for array in arrays], np.int32).reshape(-1, 2)
        flat = [np.empty(0, np.float32), *(array.ravel() for array in arrays)]
        return cls(np.concatenate(flat), flat_offsets(shapes), shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, m: int) -> np.ndarray:
        """The (T, L) matrix of pair m, a view."""
        if m < 0:
            m += len(self)
        if not 0 <= m < len(self):
            raise IndexError(f"pair {m} of {len(self)}")
        return self.values[self.offsets[m] : self.offsets[m + 1]].reshape(self.shapes[m])

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[m] for m in range(len(self)))

    def to_frame(self) -> pd.DataFrame:
        """A tidy data frame with the columns sentence, t, s and value, and a row for every element."""
        import pandas as pd

        elements = np.diff(self.offsets)
        place = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], elements)
        width = np.repeat(self.shapes[:, 1].astype(np.int64), elements)
        columns = {
            "sentence": np.repeat(np.arange(len(self)), elements),
            "t": place // np.maximum(width, 1),
            "s": place % np.maximum(width, 1),
            "value": self.values,
        }
        return pd.DataFrame(columns)

    def save(self, path: PathLike) -> None:
        """Write ``.npz``, without pickle, or ``.parquet`` (:meth:`to_frame`, needs pyarrow).

        Raises:
            AlignkitError: the name has another ending, the file cannot be written, or there is no pyarrow.
        """
        check_ending(path, SCORE_ENDINGS)
        if os.fspath(path).endswith(".parquet"):
            frame = self.to_frame()
            try:
                with atomic_write(path) as stream:
                    frame.to_parquet(stream)
            except ImportError as error:
                raise AlignkitError("Parquet needs pyarrow: pip install pyarrow, or write .npz") from error
            return
        save_arrays(path, KIND, VERSION, {"values": self.values, "shapes": self.shapes}, compress=True)

    @classmethod
    def load(cls, path: PathLike) -> Scores:
        """Read an npz file that :meth:`save` wrote; raises InputError if it is missing or damaged."""
        fields = Fields(path, load_arrays(path, KIND, VERSION)[0])
        values, shapes = fields.get("values", np.float32), fields.get("shapes", np.int32, 2)
        try:
            return cls(values, flat_offsets(shapes.reshape(-1, 2)), shapes)
        except ValueError as error:
            raise InputError(path, f"damaged: {error}") from error

    def __repr__(self) -> str:
        return f"Scores({len(self)} pairs, {len(self.values)} values)"

    def _repr_html_(self) -> str:
        """Heat maps of the first pairs, for notebooks; shades compare only within a row."""
        shown = range(min(len(self), MOST_PAIRS))
        tables = [heat_map(self[m], caption=f"pair {m}: target tokens by source tokens") for m in shown]
        return first_pairs(repr(self), tables, len(self))


#: Scores, or arrays that are some: see :func:`as_scores`.
ScoresLike = Scores | np.ndarray | Sequence[Any]


def as_scores(values: ScoresLike) -> Scores:
    """Scores from what NumPy users have: a (T, L) matrix of one pair, a (M, T, L) array, or M matrices (T_m, L_m).

    Arrays of other libraries are taken where ``numpy.asarray`` takes them. Values are rounded to float32.

    Raises:
        AlignkitError: the arrays have another number of dimensions, or a value is NaN.
    """
    if isinstance(values, Scores):
        return values
    try:
        whole = np.asarray(values) if hasattr(values, "ndim") else None
        matrices = [np.asarray(each, np.float32) for each in values] if whole is None else list(whole)
        if (whole is not None and whole.ndim == 2) or (matrices and all(each.ndim == 1 for each in matrices)):
            matrices = [np.asarray(values, np.float32)]
        return Scores.from_matrices(matrices)
    except (TypeError, ValueError) as error:
        raise AlignkitError(f"scores are a (T, L) matrix for each sentence pair: {error}") from error


def cap_row_sums(scores: Scores) -> Scores:
    """The scores, with each row whose sum exceeds 1 divided by its sum."""
    heights, widths = scores.shapes.astype(np.int64).T
    rows = np.repeat(widths, heights)
    sums = np.zeros(len(rows))
    filled = np.flatnonzero(rows)
    if len(filled):
        sums[filled] = np.add.reduceat(scores.values, (np.cumsum(rows) - rows)[filled], dtype=np.float64)
    divisor = np.repeat(np.maximum(sums, 1), rows)
    return Scores((scores.values / divisor).astype(np.float32), scores.offsets, scores.shapes)
