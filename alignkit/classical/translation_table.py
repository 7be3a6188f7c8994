"""Tables of word pairs and the scores they give.

A :class:`PairTable` holds a number for every pair of a source and a target word that meet in some sentence
pair. Every lexical model (co-occurrence, IBM models) is such a table; what differs is how it is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.classical.inverted_index import Bags, bags_of, invert, token_index
from alignkit.kernels import translation_table
from alignkit.links.from_positions import links_from_positions
from alignkit.links.links import Links
from alignkit.parallel import blocks, run_blocks
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.storage import Fields
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

_SEARCH = 16  # how many values can be copied in the time of finding one


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

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(columns, values) of source word i, views."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        return self.columns[span], self.values[span]

    def value(self, i: int, o: int) -> float:
        """The number of the pair (i, o), 0 if the two never met."""
        columns, values = self.row(i)
        k = int(np.searchsorted(columns, o))
        return float(values[k]) if k < len(columns) and columns[k] == o else 0.0

    def pruned(self, threshold: float) -> PairTable:
        """The table without the pairs whose number is below ``threshold``; the others keep theirs."""
        if threshold <= 0:
            return self
        kept = self.values >= threshold
        counts = np.concatenate([[0], np.cumsum(kept)])
        return PairTable(counts[self.offsets], self.columns[kept], self.values[kept], self.width)

    def to_dense(self) -> np.ndarray:
        """float32 (V_src, V_tgt); for small tables."""
        dense = np.zeros(self.shape, np.float32)
        dense[np.repeat(np.arange(self.shape[0]), np.diff(self.offsets)), self.columns] = self.values
        return dense


def pack_model(
    source: Vocabulary, target: Vocabulary, table: PairTable, null: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The arrays of a lexical model's file: both vocabularies, the table, and NULL's row where there is one."""
    arrays = {"offsets": table.offsets, "columns": table.columns, "values": table.values}
    arrays |= {"source_types": source.text, "source_type_offsets": source.offsets}
    arrays |= {"target_types": target.text, "target_type_offsets": target.offsets}
    return arrays if null is None else arrays | {"null": null}


def unpack_model(fields: Fields) -> tuple[Vocabulary, Vocabulary, PairTable, np.ndarray | None]:
    """What :func:`pack_model` packed; raises InputError, TypeError or ValueError where the file is damaged."""
    source, target = (
        Vocabulary(fields.get(f"{side}_types", np.uint8), fields.get(f"{side}_type_offsets", np.int64))
        for side in ("source", "target")
    )
    columns, values = fields.get("columns", np.int32), fields.get("values", np.float32)
    table = PairTable(fields.get("offsets", np.int64), columns, values, len(target))
    return source, target, table, fields.get("null", np.float32) if "null" in fields.arrays else None


class Lookup:
    """Table values for the words of a bitext, which may have another vocabulary than the table.

    Args:
        table: V_src rows, V_tgt columns.
        bitext: the text to score.
        source_ids, target_ids: int32, the table's id of each word of the bitext's vocabularies, -1 if unknown.
        threads: how many threads to use.
    """

    def __init__(
        self, table: PairTable, bitext: Bitext, source_ids: np.ndarray, target_ids: np.ndarray, threads: int
    ) -> None:
        # An unknown word, -1, has an empty row. The index is over the words of the bitext, not of the table.
        starts = table.offsets[np.maximum(source_ids, 0)]
        ends = table.offsets[source_ids + 1]  # of -1: the first row's start, as starts has it
        self.rows = (starts, ends, table.columns, table.values)
        self.width = table.width
        self.bitext = bitext
        self.null_ids: np.ndarray | None = None
        # A line that comes alone costs what it holds, not what the table or its words' rows hold.
        if _SEARCH * len(source_ids) * len(target_ids) <= self.width + int((ends - starts).sum()):
            self._reduce(target_ids)
            target_ids = np.arange(self.width, dtype=np.int32)
        self.known = len(target_ids) == self.width and np.array_equal(target_ids, np.arange(self.width))
        # An unknown target word gets a column of zeros after the last.
        self.target_ids = np.where(target_ids < 0, np.int32(self.width), target_ids)
        self.threads = threads

    def _reduce(self, target_ids: np.ndarray) -> None:
        """Makes the table one of the bitext's words only, with every pair of them, 0 where the table has none."""
        count, width = len(self.rows[0]), len(target_ids)
        values = np.zeros((count, width), np.float32)
        translation_table.search_rows(self.rows, target_ids, values)
        starts = np.arange(count + 1) * width
        columns = np.tile(np.arange(width, dtype=np.int32), count)
        self.rows = (starts[:-1], starts[1:], columns, values.ravel())
        self.width, self.null_ids = width, target_ids

    def in_table(self, words: np.ndarray) -> np.ndarray:
        """Target words of the bitext as columns of the table."""
        return words if self.known else self.target_ids[words]

    def scores(self) -> Scores:
        """beta: the table's value of every (y_t, x_l)."""
        shapes, lengths = self.bitext.shapes, self.bitext.source.lengths
        offsets = flat_offsets(shapes)
        values = np.zeros(offsets[-1], np.float32)
        index = token_index(self.bitext.source, self.threads)
        target = (self.in_table(self.bitext.target.tokens), self.bitext.target.offsets)

        def fill(low: int, high: int) -> None:
            dense = np.zeros(self.width + 1, np.float32)
            translation_table.fill_scores(low, high, index, self.rows, target, lengths, (values, offsets), dense)

        run_blocks(fill, blocks(np.diff(offsets), self.threads), self.threads)
        return Scores(values, offsets, shapes)

    def posteriors(self, null: np.ndarray | None, shares: np.ndarray) -> Scores:
        """alpha: each row of :meth:`scores` divided by its sum, NULL's part included.

        Args:
            null: float32 (V_tgt,), NULL's row of the table.
            shares: float32 (M,), NULL's weight in each pair against that of one source position.
        """
        scores = self.scores()
        null_row = self.null_values(null)
        target = (self.in_table(self.bitext.target.tokens), self.bitext.target.offsets)
        lengths, out = self.bitext.source.lengths, (scores.values, scores.offsets)

        def divide(low: int, high: int) -> None:
            translation_table.normalise_scores(low, high, target, lengths, null_row, shares, out)

        run_blocks(divide, blocks(np.diff(scores.offsets), self.threads), self.threads)
        return scores

    def null_values(self, null: np.ndarray | None) -> np.ndarray:
        """float32 (width + 1,): NULL's row, zeros without NULL, and 0 for unknown words."""
        values = np.zeros(self.width + 1, np.float32)
        if null is not None and self.null_ids is not None:
            values[:-1] = np.where(self.null_ids < 0, np.float32(0), null[self.null_ids])
        elif null is not None:
            values[:-1] = null
        return values

    def links(self, null: np.ndarray | None, shares: np.ndarray) -> Links:
        """The best source word of every target word; none where NULL is better or nothing is known.

        Arguments as of :meth:`posteriors`.
        """
        return links_from_positions(self.best_positions(null, shares), self.bitext, self.threads)

    def best_positions(self, null: np.ndarray | None, shares: np.ndarray) -> np.ndarray:
        """int32 (N_tgt,): the position of each target token's best source word, -1 for none."""
        keys = self._best_sources(self.null_values(null), shares)
        bags = bags_of(self.bitext, self.threads)[1]
        return token_places(bags, self.bitext.target.offsets, keys, self.threads)

    def _best_sources(self, null_values: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """uint64 (E_tgt,): for each target entry the key (kernels.translation_table) of its best source word."""
        source, corpus = bags_of(self.bitext, self.threads)[0], self.bitext.source
        index = invert(
            source.words,
            source.first_positions(corpus.offsets, self.threads),
            source.offsets,
            len(corpus.vocabulary),
            self.threads,
        )
        bags = bags_of(self.bitext, self.threads)[1]
        target = (self.in_table(bags.words), bags.counts, bags.offsets)
        keys = np.empty(len(bags.words), np.uint64)
        rows = (*self.rows[:3], self.rows[3].view(np.uint32))

        def search(low: int, high: int) -> None:
            translation_table.start_keys(low, high, target, null_values, shares, keys)
            dense = np.zeros(self.width + 1, np.uint32)
            translation_table.best_sources(low, high, index, rows, target, keys, dense)

        run_blocks(search, blocks(source.sizes * bags.sizes, self.threads), self.threads)
        return keys


def token_places(bags: Bags, offsets: np.ndarray, keys: np.ndarray, threads: int) -> np.ndarray:
    """int32 (N,): for each token the position of its entry's key uint64 (E,), -1 for none."""
    places = np.empty(len(bags.entries), np.int32)

    def spread(low: int, high: int) -> None:
        translation_table.token_places(low, high, (bags.entries, bags.offsets), offsets, keys, places)

    run_blocks(spread, blocks(np.diff(offsets), threads), threads)
    return places
