"""The co-occurrence table C: how often each source word meets each target word."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import get_args

import numpy as np

from alignkit.classical.exchange import current_exchange
from alignkit.classical.inverted_index import bags_of
from alignkit.classical.memory import block_ranges
from alignkit.classical.settings import TABLE_ENDINGS, Weighting
from alignkit.classical.translation_table import PairTable
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.errors import AlignkitError
from alignkit.kernels import out_of_core
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.out_of_core import RowColumns
from alignkit.parallel import thread_count
from alignkit.storage import atomic_write, check_ending, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import release_bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

KIND, VERSION = "alignkit.cooccurrence", 1


def cooccurrence(
    bitext: Bitext,
    weighting: Weighting = "source-length",
    threads: int | None = None,
    block_tokens: int | None = None,
) -> PairTable:
    """Count C[i, o] = sum over pairs m and positions l, t of w_m 1[x_l = i] 1[y_t = o].

    With the weight w_m = 1/L_m this is the expected count of IBM Model 1's first EM step from the uniform start,
    and the initial gradient of the bag-of-words proxy up to the row mean (Snell et al. 2021, equations 13, 14).

    Args:
        bitext: M pairs.
        weighting: w_m is 1/L_m ("source-length"), 1/T_m ("target-length") or 1 ("one"); "presence" counts the
            sentence pairs that hold both words, once each.
        threads: all there are by default; the result does not depend on it.
        block_tokens: lay out the text in blocks of about this many tokens, to use less memory; the result has the
            same bits. None: all of it at once.

    Returns:
        The (V_src, V_tgt) table of the pairs that occur together. With other processes
        (:mod:`alignkit.classical.exchange`) the first has all of it, the others the pairs of their texts.

    Raises:
        AlignkitError: unknown weighting.
    """
    if weighting not in get_args(Weighting):
        raise AlignkitError(f"unknown weighting {weighting!r}; known are {', '.join(get_args(Weighting))}")
    threads = thread_count(threads)
    if block_tokens is not None:
        return _counted_in_blocks(bitext, weighting, threads, block_tokens)
    indexed, weights = _weighted(bitext, weighting, threads)
    exchange = current_exchange()
    if not exchange.is_shared:
        return PairTable(*indexed.weighted_pairs(weights), indexed.types[1])
    table = exchange.table(indexed.pairs(), indexed.entries_met)

    def add(low: int, high: int, counts: np.ndarray) -> None:
        _add_counts(indexed, weights, table.local._replace(values=counts), low, high)

    table.owned.values[:] = table.collect(add)
    table.spread(table.owned.values, table.local.values)
    return PairTable(*table.whole(table.owned.values, table.local.values), indexed.types[1])


def _weighted(bitext: Bitext, weighting: Weighting, threads: int) -> tuple[IndexedBitext, np.ndarray]:
    """The text indexed, and float32 (E_tgt,), what each entry of its target bags counts."""
    source, target = bags_of(bitext, threads)
    if weighting == "presence":
        source, target = (replace(bags, counts=np.ones_like(bags.counts)) for bags in (source, target))
    lengths = {
        "source-length": bitext.source.lengths,
        "target-length": bitext.target.lengths,
    }.get(weighting, np.ones(len(bitext), np.int64))
    weights = np.repeat((1 / np.maximum(lengths, 1)).astype(np.float32), target.sizes)
    weights *= target.counts
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    return IndexedBitext(source, target, types, threads), weights


def _add_counts(
    indexed: IndexedBitext, weights: np.ndarray, rows: TableRows, low: int = 0, high: int | None = None
) -> None:
    """Adds the counts of a text, or of a block of it, to those of rows low <= i < high, float64 (K,)."""
    arrays = indexed.index, rows, indexed.target, weights
    indexed.over_rows(
        lambda *part: out_of_core.add_expected_counts(*part, *arrays, np.zeros(indexed.types[1])), low, high
    )


def _counted_in_blocks(bitext: Bitext, weighting: Weighting, threads: int, tokens: int) -> PairTable:
    """The table of a text that is laid out a block at a time: first the pairs of all blocks, then their counts."""
    ranges = block_ranges(bitext.source.offsets + bitext.target.offsets, tokens)
    pairs = RowColumns(np.zeros(len(bitext.source.vocabulary) + 1, np.int64), np.empty(0, np.int32))
    for low, high in ranges:
        pairs = IndexedBitext.of(bitext.block(low, high), threads).merged_pairs(pairs)
        release_bitext(bitext)
    rows = TableRows(*pairs, np.zeros(len(pairs.columns)))
    for low, high in ranges:
        _add_counts(*_weighted(bitext.block(low, high), weighting, threads), rows)
        release_bitext(bitext)
    return PairTable(*pairs, rows.values.astype(np.float32), len(bitext.target.vocabulary))


def save_table(path: PathLike, table: PairTable, source: Vocabulary, target: Vocabulary, weighting: str) -> None:
    """Write a co-occurrence table: ``.tsv`` with words (source, target, count), or ``.npz``.

    Raises:
        AlignkitError: the name has another ending, or the file cannot be written.
    """
    check_ending(path, TABLE_ENDINGS)
    if os.fspath(path).endswith(".tsv"):
        with atomic_write(path) as stream:
            for i, word in enumerate(source):
                columns, values = table.row(i)
                lines = [f"{word}\t{target[o]}\t{v:.9g}\n" for o, v in zip(columns, values, strict=True)]
                stream.write("".join(lines).encode("utf-8"))
        return
    arrays = {"offsets": table.offsets, "columns": table.columns, "values": table.values}
    arrays |= {"source_types": source.text, "source_type_offsets": source.offsets}
    arrays |= {"target_types": target.text, "target_type_offsets": target.offsets}
    save_arrays(path, KIND, VERSION, arrays, {"weighting": weighting}, compress=True)
