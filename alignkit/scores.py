"""Scores: one (T, L) matrix per sentence pair, made by aligners and read by metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import AlignkitError, InputError, counted, first_line
from alignkit.support.arrays import Ragged, equal_fields, offsets_of
from alignkit.support.files import atomic_write, check_ending, loaded, save_arrays
from alignkit.support.packages import need
from alignkit.support.settings import SCORE_ENDINGS
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import BOS, EOS, Tokenizer, split_words
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

KIND, VERSION = "alignkit.scores", 1
#: alpha: the responsibility of x_l for y_t (attention, posterior). beta: the probability that x_l is translated
#: to y_t (lexical). delta: the derivative of y_t's log probability by the weight of x_l's embedding (saliency).
#: loo: the log probability that y_t loses without x_l (leave-one-out). ov: the probability of y_t by attention
#: heads that see x_l's state alone (OV circuits).
SCORE_KINDS = ("alpha", "beta", "delta", "loo", "ov")


def flat_offsets(shapes: np.ndarray) -> np.ndarray:
    """int64 (M + 1,): the place of the first element of each matrix of ``shapes`` (M, 2), one after another."""
    return offsets_of(shapes[:, 0].astype(np.int64) * shapes[:, 1])


def elements_at(shapes: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pair, the row t and the column s of places among the elements of matrices, one after another."""
    offsets = flat_offsets(shapes)
    m = np.searchsorted(offsets, places, side="right") - 1
    return m, *np.divmod(places - offsets[m], np.maximum(shapes[m, 1], 1))


def tokens_of_elements(bitext: Bitext, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The source and the target words (ids) of places among the elements of a bitext's matrices."""
    m, t, s = elements_at(bitext.shapes, places)
    source, target = bitext.source, bitext.target
    return source.tokens[source.offsets[m] + s], target.tokens[target.offsets[m] + t]


@dataclass(frozen=True, eq=False)
class Scores(Ragged):
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
    __eq__ = equal_fields

    def __post_init__(self) -> None:
        dtypes = (self.values.dtype, self.offsets.dtype, self.shapes.dtype)
        if dtypes != (np.float32, np.int64, np.int32):
            raise TypeError("Scores needs float32 values, int64 offsets and int32 shapes")
        if self.values.ndim != 1 or self.shapes.ndim != 2 or self.shapes.shape[1:] != (2,):
            raise ValueError("Scores needs flat values and shapes (M, 2)")
        starts = flat_offsets(self.shapes)
        if (self.shapes < 0).any() or len(starts) != len(self.offsets) or (starts != self.offsets).any():
            raise ValueError("Scores offsets must be the running sum of T*L")
        if self.offsets[-1] != len(self.values):
            raise ValueError(f"Scores needs {self.offsets[-1]} values, has {len(self.values)}")
        if np.isnan(self.values.min(initial=0)):  # as soon as one of them is
            raise ValueError("Scores cannot contain NaN, which has no order")

    @classmethod
    def zeros(cls, shapes: np.ndarray) -> Scores:
        """Scores of 0 of matrices of ``shapes`` int32 (M, 2), T and L of each."""
        offsets = flat_offsets(shapes)
        return cls(np.zeros(offsets[-1], np.float32), offsets, shapes)

    def block(self, low: int, high: int) -> Scores:
        """Those of the sentence pairs low <= m < high, without a copy."""
        offsets = self.offsets[low : high + 1]
        return Scores(self.values[offsets[0] : offsets[-1]], offsets - offsets[0], self.shapes[low:high])

    @classmethod
    def from_matrices(cls, matrices: Iterable[np.ndarray]) -> Scores:
        """Scores of these (T, L) matrices."""
        arrays = [np.asarray(matrix, np.float32) for matrix in matrices]
        if any(array.ndim != 2 for array in arrays):
            raise ValueError("every matrix must be (T, L)")
        shapes = np.array([array.shape for array in arrays], np.int32).reshape(-1, 2)
        flat = [np.empty(0, np.float32), *(array.ravel() for array in arrays)]
        return cls(np.concatenate(flat), flat_offsets(shapes), shapes)

    def __getitem__(self, m: int) -> np.ndarray:
        """The (T, L) matrix of pair m, a view."""
        return self.values[self.span(m)].reshape(self.shapes[m])

    def to_frame(self) -> pd.DataFrame:
        """A tidy data frame with the columns sentence, t, s and value, and a row for every element."""
        import pandas as pd

        m, t, s = elements_at(self.shapes, np.arange(len(self.values)))
        return pd.DataFrame({"sentence": m, "t": t, "s": s, "value": self.values})

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, shapes: np.ndarray | None = None) -> Scores:
        """Scores of a data frame with the columns of :meth:`to_frame`; an element that no row names is 0.

        Args:
            frame: with rows in any order.
            shapes: int (M, 2), T and L of each pair; None: as large as the indices require.

        Raises:
            ValueError: a column is missing or of another type; an element is outside its pair, named twice or NaN.
        """
        for name, kinds in {"sentence": "iu", "t": "iu", "s": "iu", "value": "fiu"}.items():
            if name not in frame or frame[name].dtype.kind not in kinds:
                raise ValueError(f"needs the columns sentence, t, s (integers) and value; {name} is none")
        m, t, s = indices = frame[["sentence", "t", "s"]].to_numpy(np.int64).T
        if shapes is None:
            shapes = np.zeros((m.max(initial=-1) + 1, 2), np.int64)
            np.maximum.at(shapes, np.maximum(m, 0), indices[1:].T + 1)
        scores = cls.zeros(np.array(shapes, np.int32).reshape(-1, 2))
        known = (m >= 0) & (m < len(scores))
        heights, widths = np.vstack([scores.shapes, [[0, 0]]])[np.where(known, m, -1)].T
        wrong, problem = (t < 0) | (t >= heights) | (s < 0) | (s >= widths), "is outside the text"
        if not wrong.any():
            places = scores.offsets[m] + t * widths + s
            wrong, problem = np.bincount(places)[places] > 1, "is there twice"
        if wrong.any():
            sentence, row, column = indices[:, wrong.argmax()]
            raise ValueError(f"the element with sentence {sentence}, t {row}, s {column} {problem}")
        with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
            scores.values[places] = frame["value"]
        return cls(scores.values, scores.offsets, scores.shapes)

    def save(self, path: PathLike) -> None:
        """Write ``.npz``, without pickle, or ``.parquet`` (:meth:`to_frame`, needs pyarrow).

        Raises:
            AlignkitError: the name has another ending, the file cannot be written, or there is no pyarrow.
        """
        check_ending(path, SCORE_ENDINGS)
        if os.fspath(path).endswith(".parquet"):
            need("pyarrow")
            frame = self.to_frame()
            frame.attrs["shapes"] = self.shapes.tolist()  # which rows cannot tell of empty matrices
            with atomic_write(path) as stream:
                frame.to_parquet(stream)
            return
        save_arrays(path, KIND, VERSION, {"values": self.values, "shapes": self.shapes}, compress=True)

    @classmethod
    def load(cls, path: PathLike, shapes: np.ndarray | None = None) -> Scores:
        """Read a file that :meth:`save` wrote, or a Parquet file with such a frame.

        Args:
            path: a name that ends in ``.parquet`` is that of a Parquet file.
            shapes: as for :meth:`from_frame`, of a Parquet file that another program wrote.

        Raises:
            InputError: the file is missing or damaged.
            AlignkitError: there is no pyarrow.
        """
        if os.fspath(path).endswith(".parquet"):
            need("pyarrow")
            import pandas as pd

            try:
                with open(path, "rb") as stream:
                    frame = pd.read_parquet(stream)
                return cls.from_frame(frame, frame.attrs.get("shapes", shapes))
            except Exception as error:  # pyarrow's own errors have several bases
                raise InputError(path, f"cannot be read: {first_line(error)}") from error
        with loaded(path, KIND, VERSION) as (fields, _):
            values, shapes = fields.get("values", np.float32), fields.get("shapes", np.int32, 2)
            return cls(values, flat_offsets(shapes.reshape(-1, 2)), shapes)

    def __repr__(self) -> str:
        return f"Scores({counted(len(self), 'pair')}, {counted(len(self.values), 'value')})"

    def _repr_html_(self) -> str:
        """Heat maps of the first pairs, for notebooks; shades compare only within a row."""
        numbers = [str(k) for k in range(MOST_TOKENS)]
        return first_pairs(repr(self), len(self), lambda m: heat_map(self[m], numbers, numbers, by_row=True))

    def plot(self, m: int = 0, bitext: Bitext | None = None, *, axes: Axes | None = None) -> Axes:
        """Draw pair m with matplotlib: each row's largest value is darkest, what is not positive is white.

        Args:
            m: the number of the pair.
            bitext: the text that was scored, whose words then label rows and columns.
            axes: where to draw; by default in a new figure.

        Raises:
            AlignkitError: there is no matplotlib or no such pair, or ``bitext`` is another text.
        """
        need("matplotlib")
        if not -len(self) <= m < len(self):
            raise AlignkitError(f"there is no pair {m} in scores of {counted(len(self), 'pair')} from 0 on")
        from matplotlib import pyplot

        matrix = self[m]
        words = [[str(k) for k in range(size)] for size in matrix.shape[::-1]]
        if bitext is not None:
            if not np.array_equal(bitext.shapes, self.shapes):
                raise AlignkitError("these scores are of another text; give the one that was scored")
            words = [bitext.source.words(m), bitext.target.words(m)]
        largest = matrix.max(axis=1, initial=0, keepdims=True)
        shades = np.divide(matrix, largest, out=np.zeros_like(matrix), where=(matrix > 0) & (largest < np.inf))
        axes = pyplot.subplots(layout="constrained")[1] if axes is None else axes
        axes.imshow(shades, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(matrix.shape[1]), words[0], rotation=90)
        axes.set_yticks(range(matrix.shape[0]), words[1])
        return axes


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


#: For each sentence: the index of each token's word (-1 for a token of no word), and the number of words.
Grouping = Sequence[tuple[np.ndarray, int]]


def grouping_of(groups: Iterable[np.ndarray]) -> list[tuple[np.ndarray, int]]:
    """The words of sentences, whose last one has the largest index."""
    return [(each, int(each.max(initial=-1)) + 1) for each in groups]


def merge_subwords(
    scores: Scores,
    tokenizer: Tokenizer,
    source: tuple[Sequence[str], Sequence[np.ndarray]],
    target: tuple[Sequence[str], Sequence[np.ndarray]],
    kind: str = "alpha",
) -> Scores:
    """Merge scores between a tokenizer's subwords into scores between whitespace words.

    Args:
        scores: of the encoded bitext.
        tokenizer: the one that encoded it.
        source, target: (M lines, M encoded sentences).
        kind: ``alpha`` (:func:`merge_to_words`), or ``beta`` (:func:`merge_probabilities`).

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
    if kind == "beta":
        return Scores.from_matrices(map(merge_probabilities, scores, rows, columns))
    return merge_to_words(scores, rows, columns)


def token_words(tokenizer: Tokenizer, line: str, ids: np.ndarray) -> np.ndarray:
    """int (len(ids),): the whitespace word of each token of an encoded sentence, -1 for BOS and EOS."""
    words = np.full(len(ids), -1)
    inner = tokenizer.words(line)
    start = int(len(ids) > 0 and ids[0] == BOS)
    end = len(ids) - int(len(ids) > start and ids[-1] == EOS)
    if end - start != len(inner):
        raise AlignkitError(f"the line has {counted(len(inner), 'token')}, its scores {end - start:,}")
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
    return Scores.from_matrices(merge_matrix(*each) for each in zip(scores, rows, columns, strict=True))


def merge_matrix(matrix: np.ndarray, rows: tuple[np.ndarray, int], columns: tuple[np.ndarray, int]) -> np.ndarray:
    """One matrix (..., T, L) of :func:`merge_to_words`."""
    by_row = _indicator(*rows)
    by_row /= np.maximum(by_row.sum(axis=1, keepdims=True), 1)
    return by_row @ matrix @ _indicator(*columns).T


def merge_probabilities(
    matrix: np.ndarray, rows: tuple[np.ndarray, int], columns: tuple[np.ndarray, int]
) -> np.ndarray:
    """One matrix of ``beta`` between words: the probability of all tokens of a target word, which is the product
    of theirs, and the mean of that over the tokens of a source word. A word without tokens has zeros."""
    by_row, by_column = _indicator(*rows), _indicator(*columns)
    by_column /= np.maximum(by_column.sum(axis=1, keepdims=True), 1)
    logs = np.log(np.maximum(matrix, np.finfo(np.float64).tiny, dtype=np.float64))
    return np.exp(by_row @ logs) * by_row.any(axis=1, keepdims=True) @ by_column.T


def spread_to_tokens(scores: Scores, rows: Grouping, columns: Grouping, divided: bool = True) -> Scores:
    """Spread scores between words over their tokens, for kind ``alpha``; :func:`merge_to_words` reverses it.

    The column of a word is divided equally among its tokens; each of its tokens has its row. Tokens without a word
    (BOS, EOS) have zeros.

    Args:
        scores: (target words, source words) each.
        rows, columns: the words of the target tokens and of the source tokens.
        divided: False: each token has its word's whole column. What is divided has its largest scores at words of
            few tokens, whatever they are, so that the order of any two such scores is alike.
    """
    matrices = []
    for matrix, row, column in zip(scores, rows, columns, strict=True):
        by_column = _indicator(*column)
        if divided:
            by_column /= np.maximum(by_column.sum(axis=1, keepdims=True), 1)
        matrices.append(_indicator(*row).T @ matrix @ by_column)
    return Scores.from_matrices(matrices)


def _indicator(groups: np.ndarray, words: int) -> np.ndarray:
    """float32 (words, tokens): 1 where the token belongs to the word."""
    table = np.zeros((words, len(groups)), np.float32)
    table[groups[groups >= 0], np.flatnonzero(groups >= 0)] = 1
    return table


#: Of longer texts and sentences, the first ones are shown in notebooks.
MOST_PAIRS, MOST_TOKENS = 5, 60
_COLOUR = "31, 119, 180"
_TABLE = "border-collapse: collapse; margin: 0 0 1em 0; font-size: 12px; border-color: rgba(128, 128, 128, 0.25)"
_SIZE = "width: 18px; min-width: 18px"  # of a column
_HEAD = f"{_SIZE}; writing-mode: vertical-rl; text-align: left; font-weight: normal; padding: 3px 0"
_SIDE = "text-align: right; font-weight: normal; white-space: nowrap; padding: 0 5px"


def heat_map(matrix: np.ndarray, source: Sequence[str], target: Sequence[str], *, by_row: bool) -> str:
    """A matrix (T, L) as an HTML table of target by source words; the values are tooltips.

    Args:
        matrix: larger is darker; what is not positive is white.
        source, target: the words of the columns and rows, or more of them.
        by_row: the largest value of each row is darkest, else 1 is.
    """
    columns = min(matrix.shape[1], MOST_TOKENS)
    heads = "".join(f'<th style="{_HEAD}">{escape(word)}</th>' for word in source[:columns])
    parts = [f'<table rules="all" style="{_TABLE}"><tr><th></th>{heads}</tr>']
    for row, word in zip(matrix[:MOST_TOKENS], target, strict=False):
        largest = float(row.max(initial=0)) if by_row else 1.0
        parts.append(f'<tr><th style="{_SIDE}; height: 18px">{escape(word)}</th>')
        for value in row[:columns].tolist():
            share = value / largest if value > 0 and largest < np.inf else 0.0
            shade = f' style="background: rgba({_COLOUR}, {share:.3g})"' if share > 0 else ""
            parts.append(f'<td title="{value:.4g}"{shade}></td>')
        parts.append("</tr>")
    return "".join([*parts, "</table>"])


def first_pairs(title: str, count: int, table: Callable[[int], str]) -> str:
    """The HTML tables of the first of ``count`` sentence pairs, below a title."""
    shown = range(min(count, MOST_PAIRS))
    note = f", the first {len(shown)} of them shown" if len(shown) < count else ""
    return f"<div><div>{escape(title)}{note}</div>{''.join(map(table, shown))}</div>"
