"""What aligners with a table of translation probabilities share: the table for a text, the M-step, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.classical.cooccurrence import PairTable, token_index
from alignkit.kernels import translation_table as kernels
from alignkit.kernels.inverted_index import Tokens
from alignkit.kernels.translation_table import Matrices, RowSpans
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import offsets_of
from alignkit.support.files import Fields, Record
from alignkit.support.threads import run_blocks, run_evenly, thread_count
from alignkit.text.bitext import Bitext, check_bitext
from alignkit.text.vocabulary import Vocabulary, unpack_vocabulary, vocabulary_arrays

_SEARCH = 16  # how many values can be copied in the time of finding one
# :func:`exact_sum` counts in parts of 2^-32; a sum of 2^31 numbers of this size does not overflow.
_ONE, _LARGEST = 2.0**32, 2.0**30

#: The numbers of some source and some target words, -1 for unknown ones.
Ids = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class LexicalModel:
    """An aligner with a table of translation probabilities between words.

    Attributes:
        source, target: the vocabularies.
        table: Trans(o|i) for every pair that occurs in the training text, (V_src, V_tgt).
        null: float32 (V_tgt,), Trans(o|NULL), or None where the model has no such row.
        log_likelihood: natural logarithm of the training text's probability, up to a factor for its lengths, under
            the parameters that each E-step used. Maximum likelihood makes it rise; with priors it may fall.
        threads: how many threads scoring uses (None: all); no result depends on it.

    Raises:
        ValueError: the parts do not fit each other.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    null: np.ndarray | None = field(default=None, kw_only=True)
    log_likelihood: tuple[float, ...] = field(default=(), kw_only=True)
    threads: int | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if (len(self.table.offsets) - 1, self.table.width) != (len(self.source), len(self.target)):
            raise ValueError(f"table of shape {self.table.shape} does not fit the vocabularies")
        if self.null is not None and (self.null.shape, self.null.dtype) != ((len(self.target),), np.float32):
            raise ValueError("null must be float32 with one value per target word")
        probabilities = [self.table.values] if self.null is None else [self.table.values, self.null]
        # A little more than 1, for sums are rounded; NaN is neither.
        if not all(((each >= 0) & (each <= 1.001)).all() for each in probabilities):
            raise ValueError("translation probabilities must lie between 0 and 1")

    def __repr__(self) -> str:
        """One line: the sizes of the model, and its last log-likelihood."""
        sizes = f"{len(self.source)} source and {len(self.target)} target words, {len(self.table.values)} pairs"
        fit = f", log-likelihood {self.log_likelihood[-1]:.6g}" if self.log_likelihood else ""
        return f"{type(self).__name__}({sizes}{fit})"

    def ids(self, bitext: Bitext) -> Ids:
        """int32 each: the model's ids of a bitext's source words and of its target words, -1 if unknown."""
        check_bitext(bitext)
        return self.source.translate(bitext.source.vocabulary), self.target.translate(bitext.target.vocabulary)

    def lookup(self, bitext: Bitext) -> Lookup:
        """The table, and NULL's row, for the words of a bitext."""
        return Lookup(self.table, bitext, *self.ids(bitext), thread_count(self.threads), self.null)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file: both vocabularies, the table, and NULL's row where there is one."""
        arrays = {name: getattr(self.table, name) for name in ("offsets", "columns", "values")}
        arrays |= vocabulary_arrays("source", self.source) | vocabulary_arrays("target", self.target)
        return arrays if self.null is None else arrays | {"null": self.null}

    def header(self) -> dict[str, Any]:
        """The numbers of a saved file."""
        return {"log_likelihood": list(self.log_likelihood)}


def read_parts(fields: Fields, header: Record) -> dict[str, Any]:
    """The arguments of a :class:`LexicalModel` from what its ``arrays`` and ``header`` wrote.

    Raises:
        InputError, TypeError, ValueError: the file is damaged.
    """
    source, target = (unpack_vocabulary(fields, side) for side in ("source", "target"))
    columns, values = fields.get("columns", np.int32), fields.get("values", np.float32)
    return {
        "source": source,
        "target": target,
        "table": PairTable(fields.get("offsets", np.int64), columns, values, len(target)),
        "null": fields.get("null", np.float32) if "null" in fields.arrays else None,
        "log_likelihood": header.numbers("log_likelihood"),
    }


class Lookup:
    """Table values for the words of a bitext, which may have another vocabulary than the table.

    Args:
        table: V_src rows, V_tgt columns.
        bitext: the text to score.
        source_ids, target_ids: int32, the table's id of each word of the bitext's vocabularies, -1 if unknown.
        threads: how many threads to use; no result depends on it.
        null: float32 (V_tgt,), NULL's row; None without NULL.

    Attributes:
        rows: a row for each source word of the bitext.
        width: the number of columns.
        null: float32 (width + 1,), NULL's row by column, 0 for unknown words; zeros without NULL.
        is_reduced: true if the rows hold only the bitext's own words, so that a line that comes alone costs what
            it holds, not what the table or its words' rows hold.
    """

    def __init__(
        self,
        table: PairTable,
        bitext: Bitext,
        source_ids: np.ndarray,
        target_ids: np.ndarray,
        threads: int,
        null: np.ndarray | None = None,
    ) -> None:
        self.bitext, self.threads = bitext, threads
        self.rows, self.width = row_spans(table, source_ids), table.width
        entries = int((self.rows.ends - self.rows.starts).sum())
        self.is_reduced = _SEARCH * len(source_ids) * len(target_ids) <= table.width + entries
        if self.is_reduced:  # to a table of every pair of the bitext's words, 0 where the model's has none
            values = np.zeros((len(source_ids), len(target_ids)), np.float32)
            kernels.search_rows(self.rows, target_ids, values)
            self.width = len(target_ids)
            starts = np.arange(len(source_ids) + 1) * self.width
            columns = np.tile(np.arange(self.width, dtype=np.int32), len(source_ids))
            self.rows = RowSpans(starts[:-1], starts[1:], columns, values.ravel())
            if null is not None:
                null = np.array([null[o] if o >= 0 else 0 for o in target_ids.tolist()], np.float32)
            target_ids = np.arange(self.width, dtype=np.int32)
        self.null = np.zeros(self.width + 1, np.float32)
        if null is not None:
            self.null[:-1] = null
        self._same_ids = len(target_ids) == self.width and np.array_equal(target_ids, np.arange(self.width))
        # An unknown target word gets a column of zeros after the last.
        self._target_ids = np.where(target_ids < 0, np.int32(self.width), target_ids)

    def columns_of(self, words: np.ndarray) -> np.ndarray:
        """Target words of the bitext as columns of the table; ``width`` for unknown ones."""
        return words if self._same_ids else self._target_ids[words]

    def scores(self) -> Scores:
        """beta: the table's value of every (y_t, x_l)."""
        shapes, lengths = self.bitext.shapes, self.bitext.source.lengths
        offsets = flat_offsets(shapes)
        matrices = Matrices(np.zeros(offsets[-1], np.float32), offsets)
        index = token_index(self.bitext.source, self.threads)
        target = Tokens(self.columns_of(self.bitext.target.tokens), self.bitext.target.offsets)
        there = np.unique(target.tokens)

        def fill(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            kernels.fill_scores(low, high, index, self.rows, target, lengths, there, matrices, dense)

        work = np.diff(index.starts) + self.rows.ends - self.rows.starts
        run_evenly(fill, offsets_of(work), self.threads, parts=8)
        return Scores(matrices.values, offsets, shapes)


def row_spans(table: PairTable, ids: np.ndarray) -> RowSpans:
    """The rows of these ids; that of an unknown word, -1, is empty."""
    # The end of row -1 is the start of the first row, and so is its start.
    return RowSpans(table.offsets[np.maximum(ids, 0)], table.offsets[ids + 1], table.columns, table.values)


def normalise_rows(
    offsets: np.ndarray,
    counts: np.ndarray,
    dirichlet: float | None,
    ranges: Sequence[tuple[int, int]] = ((0, 1),),
    threads: int = 1,
) -> None:
    """The M-step of a lexical model: turn expected counts into probabilities, row by row and in place.

    Args:
        offsets: int64 (V_src + 1,), where each row starts.
        counts: float32 (K,).
        dirichlet: concentration of a symmetric Dirichlet prior over the words of a row, by variational Bayes
            (Johnson 2007); None: maximum likelihood.
        ranges: of rows, which are computed at once; by default the first row alone.
        threads: how many to use; no result depends on it.
    """
    if dirichlet is None:
        run_blocks(lambda low, high: kernels.divide_rows(low, high, offsets, counts), ranges, threads)
    else:
        alpha = float(dirichlet)
        run_blocks(
            lambda low, high: kernels.variational_bayes_rows(low, high, offsets, counts, alpha), ranges, threads
        )


def normalise_null(counts: np.ndarray, dirichlet: float | None) -> np.ndarray:
    """The M-step of NULL's row: float32 (V_tgt,), from its expected counts (V_tgt,).

    A word without any stays at 0: one that never occurs is no evidence for NULL either.
    """
    null = counts.astype(np.float32)
    seen = null > 0
    row = null[seen]
    normalise_rows(np.array([0, len(row)]), row, dirichlet)
    null[seen] = row
    return null


def exact_sum(values: np.ndarray) -> float:
    """The sum of values (n,), each to 2^-33: a sum of whole numbers, the same in any order.

    Args:
        values: of a size below 2^30, as logarithms of probabilities are.

    >>> exact_sum(np.array([0.5, -3.0, 0.25]))
    -2.25
    """
    numbers = np.rint(np.clip(np.nan_to_num(values), -_LARGEST, _LARGEST) * _ONE).astype(np.int64)
    return ((int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())) / _ONE


def has_converged(log_likelihood: list[float], tolerance: float) -> bool:
    """Tell if the last E-step found a rise of less than ``tolerance`` times the size of the sum; 0: never."""
    if tolerance <= 0 or len(log_likelihood) < 2:
        return False
    return log_likelihood[-1] - log_likelihood[-2] < tolerance * abs(log_likelihood[-2])
