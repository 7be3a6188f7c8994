"""The base of aligners that have a table of translation probabilities between words, and such tables."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.classical.word_pairs import SourceRanges, bags_of, invert, token_index
from alignkit.kernels import translation_table as kernels
from alignkit.kernels.inverted_index import Bags, Tokens
from alignkit.kernels.translation_table import Matrices, RowSpans
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import brief_repr, offsets_of
from alignkit.support.files import Fields, arrays_fingerprint
from alignkit.support.records import Record
from alignkit.support.threads import blocks, run_blocks, thread_count
from alignkit.text.bitext import Bitext, check_bitext
from alignkit.text.vocabulary import Vocabulary, unpack_vocabulary, vocabulary_arrays

_SEARCH = 16  # how many values can be copied in the time of finding one
#: Values of a single sentence pair that are found one by one sooner than a :class:`Lookup` is made.
_FEW = 1 << 14


@dataclass(frozen=True, eq=False)
class PairTable:
    """A sparse (V_src, V_tgt) table, row by row (CSR).

    Attributes:
        offsets: int64 (V_src + 1,), where each row starts.
        columns: int32 (K,), target ids, rising within a row.
        values: float32 (K,).
        width: V_tgt.
    """

    offsets: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    width: int

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        if (self.offsets.dtype, self.columns.dtype, self.values.dtype) != (np.int64, np.int32, np.float32):
            raise TypeError("PairTable needs int64 offsets, int32 columns and float32 values")
        starts_right = len(self.offsets) > 0 and self.offsets[0] == 0
        # Compared, not subtracted: the difference of two wild numbers may wrap around to a positive one.
        rises = starts_right and not (self.offsets[1:] < self.offsets[:-1]).any()
        if not rises or not self.offsets[-1] == len(self.columns) == len(self.values):
            raise ValueError("PairTable offsets must rise from 0 to the number of pairs")
        if len(self.columns) and not 0 <= self.columns.min() <= self.columns.max() < self.width:
            raise ValueError("PairTable columns must lie in [0, V_tgt)")

    @property
    def shape(self) -> tuple[int, int]:
        """(V_src, V_tgt)."""
        return len(self.offsets) - 1, self.width

    @property
    def rows(self) -> np.ndarray:
        """int32 (K,): the source word of each pair."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.offsets))

    def lookup(self, i: np.ndarray, o: np.ndarray) -> np.ndarray:
        """The numbers of pairs (i, o), 0 for those that the table does not have."""
        keys = np.append(self.rows.astype(np.int64) * self.width + self.columns, -1)
        wanted = i.astype(np.int64) * self.width + o
        found = np.searchsorted(keys[:-1], wanted)
        return np.where(keys[found] == wanted, np.append(self.values, 0)[found], 0)

    def with_values(self, values: np.ndarray) -> PairTable:
        """The table with other values, float32 (K,); what was checked once is not checked again."""
        table = copy(self)
        object.__setattr__(table, "values", values)
        return table

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(columns, values) of source word i, views."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        return self.columns[span], self.values[span]

    def value(self, i: int, o: int) -> float:
        """The number of the pair (i, o), 0 if the table does not have it."""
        columns, values = self.row(i)
        k = int(np.searchsorted(columns, o))
        return float(values[k]) if k < len(columns) and columns[k] == o else 0.0

    def pruned(self, threshold: float) -> PairTable:
        """The table without the pairs whose number is below ``threshold``; the others keep theirs."""
        if threshold <= 0:
            return self
        return self.chosen(self.values >= threshold)

    def chosen(self, kept: np.ndarray) -> PairTable:
        """The table with the pairs that are kept, bool (K,), and their numbers."""
        offsets = offsets_of(kept)[self.offsets]
        return PairTable(offsets, self.columns[kept], self.values[kept], self.width)

    def to_dense(self) -> np.ndarray:
        """float32 (V_src, V_tgt); for small tables."""
        dense = np.zeros(self.shape, np.float32)
        dense[self.rows, self.columns] = self.values
        return dense


def normalise_rows(offsets: np.ndarray, values: np.ndarray, alpha: float | None = None, threads: int = 1) -> None:
    """Turn counts into probabilities row by row, in place: the M-step of a lexical model.

    Args:
        offsets: int64 (V_src + 1,), where each row starts.
        values: float32 (K,), counts.
        alpha: of a symmetric Dirichlet prior over the words of a row, by variational Bayes (Johnson 2007); None:
            maximum likelihood.
        threads: how many to use; no result depends on it.
    """

    def normalise(low: int, high: int) -> None:
        if alpha is None:
            kernels.divide_rows(low, high, offsets, values)
        else:
            kernels.variational_bayes_rows(low, high, offsets, values, float(alpha))

    run_blocks(normalise, blocks(np.diff(offsets), 1 if threads == 1 else 8 * threads), threads)


def m_step_null(null: np.ndarray, sums: np.ndarray, alpha: float | None) -> np.ndarray:
    """NULL's row float32 (V_tgt,) after an M-step.

    Args:
        null: float32 (V_tgt,), the row that the E-step used.
        sums: float64 (V_tgt,), what its values are multiplied by to be expected counts.
        alpha: of the Dirichlet prior; None: maximum likelihood.
    """
    counts = (null * sums).astype(np.float32)
    seen = counts > 0  # a word that never occurs is no evidence for NULL either
    row = counts[seen]
    normalise_rows(np.array([0, len(row)]), row, alpha)
    out = np.zeros_like(counts)
    out[seen] = row
    return out


class Lookup:
    """Table values for the words of a bitext, which may have another vocabulary than the table.

    Args:
        table: V_src rows, V_tgt columns.
        bitext: the text to score.
        source_ids, target_ids: int32, the table's id of each word of the bitext's vocabularies, -1 if unknown.
        threads: how many threads to use; no result depends on it.

    Attributes:
        rows: a row for each source word of the bitext.
        width: the number of columns.
        is_reduced: true if the rows hold only the bitext's own words, so that a line that comes alone costs what
            it holds, not what the table or its words' rows hold.
    """

    def __init__(
        self, table: PairTable, bitext: Bitext, source_ids: np.ndarray, target_ids: np.ndarray, threads: int
    ) -> None:
        # An unknown word, -1, has an empty row.
        starts = table.offsets[np.maximum(source_ids, 0)]
        ends = table.offsets[source_ids + 1]  # of -1: the first row's start, as starts has it
        self.rows = RowSpans(starts, ends, table.columns, table.values)
        self.width = table.width
        self.bitext, self.threads = bitext, threads
        self._null_ids = np.arange(table.width, dtype=np.int32)  # the table's id of each column
        self.is_reduced = _SEARCH * len(source_ids) * len(target_ids) <= self.width + int((ends - starts).sum())
        if self.is_reduced:
            self._reduce(target_ids)
            target_ids = np.arange(self.width, dtype=np.int32)
        self._same_ids = len(target_ids) == self.width and np.array_equal(target_ids, np.arange(self.width))
        # An unknown target word gets a column of zeros after the last.
        self._target_ids = np.where(target_ids < 0, np.int32(self.width), target_ids)

    def _reduce(self, target_ids: np.ndarray) -> None:
        """Make the table one of the bitext's words only, with every pair of them, 0 where the table has none."""
        count, width = len(self.rows.starts), len(target_ids)
        values = np.zeros((count, width), np.float32)
        kernels.search_rows(self.rows, target_ids, values)
        starts = np.arange(count + 1) * width
        columns = np.tile(np.arange(width, dtype=np.int32), count)
        self.rows = RowSpans(starts[:-1], starts[1:], columns, values.ravel())
        self.width, self._null_ids = width, target_ids

    def columns_of(self, words: np.ndarray) -> np.ndarray:
        """Target words of the bitext as columns of the table; ``width`` for unknown ones."""
        return words if self._same_ids else self._target_ids[words]

    @property
    def target_tokens(self) -> Tokens:
        """The target tokens as columns of the table."""
        return Tokens(self.columns_of(self.bitext.target.tokens), self.bitext.target.offsets)

    def scores(self) -> Scores:
        """beta: the table's value of every (y_t, x_l)."""
        shapes, lengths = self.bitext.shapes, self.bitext.source.lengths
        offsets = flat_offsets(shapes)
        matrices = Matrices(np.zeros(offsets[-1], np.float32), offsets)
        index, target = token_index(self.bitext.source, self.threads), self.target_tokens
        there = np.unique(target.tokens)

        def fill(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            kernels.fill_scores(low, high, index, self.rows, target, lengths, there, matrices, dense)

        work = np.diff(index.starts) + self.rows.ends - self.rows.starts
        SourceRanges(work, self.threads).over_rows(fill)
        return Scores(matrices.values, offsets, shapes)

    def posteriors(self, null: np.ndarray | None, null_weights: np.ndarray) -> Scores:
        """alpha: each row of :meth:`scores` divided by its sum, NULL's part included.

        Args:
            null: float32 (V_tgt,), NULL's row of the table, or None.
            null_weights: float32 (M,), NULL's weight in each pair relative to that of one source position.
        """
        scores, target = self.scores(), self.target_tokens
        matrices, lengths = Matrices(scores.values, scores.offsets), self.bitext.source.lengths
        null_values = self.null_values(null)

        def divide(low: int, high: int) -> None:
            kernels.normalise_scores(low, high, target, lengths, null_values, null_weights, matrices)

        run_blocks(divide, blocks(np.diff(scores.offsets), self.threads), self.threads)
        return scores

    def null_values(self, null: np.ndarray | None) -> np.ndarray:
        """float32 (width + 1,): NULL's row by column, 0 for unknown words; zeros without NULL."""
        values = np.zeros(self.width + 1, np.float32)
        if null is not None:
            known = np.flatnonzero(self._null_ids >= 0)
            values[known] = null[self._null_ids[known]]
        return values

    def best_positions(self, null: np.ndarray | None, null_weights: np.ndarray) -> np.ndarray:
        """int32 (N_tgt,): the position of each target token's best source word, the leftmost of equals; -1 where
        NULL is better or the table has no value. Arguments of :meth:`posteriors`.
        """
        source, target = bags_of(self.bitext, self.threads)
        first, types = source.first_positions(self.threads), len(self.bitext.source.vocabulary)
        index = invert(source.words, first, source.offsets, types, self.threads)
        bags = Bags(self.columns_of(target.words), target.counts, target.offsets)
        rows = self.rows._replace(values=self.rows.values.view(np.uint32))
        null_values, keys = self.null_values(null), np.empty(len(target.words), np.uint64)

        def search(low: int, high: int) -> None:
            kernels.start_keys(low, high, bags, null_values, null_weights, keys)
            dense = np.zeros(self.width + 1, np.uint32)
            kernels.best_sources(low, high, index, rows, bags, keys, dense)

        run_blocks(search, blocks(source.sizes * target.sizes, self.threads), self.threads)
        positions = np.empty(len(self.bitext.target.tokens), np.int32)

        def spread(low: int, high: int) -> None:
            kernels.token_positions(low, high, target.token_entries, keys, positions)

        run_blocks(spread, blocks(self.bitext.target.lengths, self.threads), self.threads)
        return positions


def table_values(
    table: PairTable, bitext: Bitext, source_ids: np.ndarray, target_ids: np.ndarray, threads: int
) -> np.ndarray:
    """float32 (P,): the values of :meth:`Lookup.scores`, for a pair that comes alone in a fraction of the time.

    Arguments as of :class:`Lookup`.
    """
    if len(bitext) != 1 or len(bitext.source.tokens) * len(bitext.target.tokens) > _FEW:
        return Lookup(table, bitext, source_ids, target_ids, threads).scores().values
    source, target = source_ids[bitext.source.tokens], target_ids[bitext.target.tokens]
    starts = table.offsets[np.maximum(source, 0)]
    rows = RowSpans(starts, table.offsets[source + 1], table.columns, table.values)
    values = np.zeros((len(source), len(target)), np.float32)
    kernels.search_rows(rows, target, values)
    return values.T.ravel()


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
        if self.table.shape != (len(self.source), len(self.target)):
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

    def ids(self, bitext: Bitext) -> tuple[np.ndarray, np.ndarray]:
        """int32 each: the model's ids of a bitext's source words and of its target words, -1 if unknown."""
        check_bitext(bitext)
        return self.source.translate(bitext.source.vocabulary), self.target.translate(bitext.target.vocabulary)

    def lookup(self, bitext: Bitext) -> Lookup:
        """The table for the words of a bitext."""
        return Lookup(self.table, bitext, *self.ids(bitext), thread_count(self.threads))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file: both vocabularies, the table, and NULL's row where there is one."""
        arrays = {name: getattr(self.table, name) for name in ("offsets", "columns", "values")}
        arrays |= vocabulary_arrays("source", self.source) | vocabulary_arrays("target", self.target)
        return arrays if self.null is None else arrays | {"null": self.null}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the :meth:`arrays`, equal only for equal words and parameters."""
        return arrays_fingerprint(self.arrays())

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
