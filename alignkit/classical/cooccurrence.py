"""Words that occur together: a text indexed by its words, its word pairs and their memory, and their counts C."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args
from weakref import WeakKeyDictionary

import numpy as np

from alignkit.classical.settings import TABLE_ENDINGS, Weighting
from alignkit.errors import AlignkitError, abbreviated, check_known
from alignkit.kernels import inverted_index as kernels
from alignkit.kernels.inverted_index import Bags, InvertedIndex, RowRoom, TableRows, Tokens
from alignkit.support.arrays import brief_repr, close_gaps, offsets_of, rise_to
from alignkit.support.files import atomic_write, check_ending, save_arrays
from alignkit.support.threads import blocks, blocks_of_size, run_blocks, thread_count
from alignkit.text.bitext import Bitext, Corpus, check_bitext
from alignkit.text.vocabulary import Vocabulary, vocabulary_arrays
from alignkit.types import PathLike

KIND, VERSION = "alignkit.cooccurrence", 1
#: Pairs, of 8 bytes each, that a buffer holds while rows are collected, whose sizes are not known before: with
#: buffers of this size they take no more memory than they need.
ROOM = 1 << 18


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
        if not (rise_to(self.offsets, len(self.columns)) and len(self.columns) == len(self.values)):
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

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(columns, values) of source word i, views."""
        span = slice(self.offsets[i], self.offsets[i + 1])
        return self.columns[span], self.values[span]

    def value(self, i: int, o: int) -> float:
        """The number of the pair (i, o), 0 if the table does not have it."""
        columns, values = self.row(i)
        k = int(np.searchsorted(columns, o))
        return float(values[k]) if k < len(columns) and columns[k] == o else 0.0

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

    def chosen(self, kept: np.ndarray) -> PairTable:
        """The table with the pairs that are kept, bool (K,), and their numbers."""
        offsets = offsets_of(kept)[self.offsets]
        return PairTable(offsets, self.columns[kept], self.values[kept], self.width)

    def to_dense(self) -> np.ndarray:
        """float32 (V_src, V_tgt); for small tables."""
        dense = np.zeros(self.shape, np.float32)
        dense[self.rows, self.columns] = self.values
        return dense


def table_of_pairs(x: np.ndarray, y: np.ndarray, counts: np.ndarray | None, shape: tuple[int, int]) -> PairTable:
    """The table, of V_src and V_tgt words, with the sum of the counts (None: 1 each) of each word pair (x, y)."""
    width = max(shape[1], 1)
    keys = x.astype(np.int64) * width + y
    if counts is None:  # in half the time and memory
        keys, sums = np.unique(keys, return_counts=True)
    else:
        keys, places = np.unique(keys, return_inverse=True)
        sums = np.bincount(places, counts, len(keys))
    offsets = np.searchsorted(keys, np.arange(shape[0] + 1) * width).astype(np.int64)
    return PairTable(offsets, (keys % width).astype(np.int32), sums.astype(np.float32), shape[1])


# Both directions of a model, and its fitting and its links, need the bags of one text.
_bags: WeakKeyDictionary[Corpus, Bags] = WeakKeyDictionary()


def bags_of(corpus: Corpus, threads: int, keep: bool = True) -> Bags:
    """The distinct words of each sentence with their counts.

    With ``keep`` they are kept as long as the corpus is, for the next call.
    """
    if (known := _bags.get(corpus)) is not None:
        return known
    offsets, is_short = corpus.offsets, corpus.lengths.max(initial=0) <= np.iinfo(np.uint16).max
    words = np.empty(len(corpus.tokens), np.int32)
    counts = np.empty(len(corpus.tokens), np.uint16 if is_short else np.int32)
    sizes, ranges = np.zeros(len(corpus), np.int64), blocks(offsets, threads)
    text, bags = Tokens(corpus.tokens, offsets), Bags(words, counts, offsets)
    run_blocks(lambda low, high: kernels.fill_bags(low, high, text, bags, sizes), ranges, threads)
    bag_offsets = offsets_of(sizes)
    for array in (words, counts):  # the bags of a block start where its tokens do
        close_gaps(array, ranges, offsets, bag_offsets)
    found = Bags(words, counts, bag_offsets)
    if keep:
        _bags[corpus] = found
    return found


def bags_between(low: int, high: int, words: np.ndarray, counts: np.ndarray, offsets: np.ndarray) -> Bags:
    """Those of the sentences low <= m < high; the arrays of :class:`Bags` are views."""
    offsets = offsets[low : high + 1]
    span = slice(offsets[0], offsets[-1])
    return Bags(words[span], counts[span], offsets - offsets[0])


def invert(bags: Bags, types: int, threads: int = 1) -> InvertedIndex:
    """The inverted index of the words of M sentences: the sentences of each word, in text order.

    Args:
        bags: the words with their counts, or with other notes (E,).
        types: V.
        threads: how many to use; no result depends on it.
    """
    words, notes, offsets = bags
    # Each block of sentences counts its words, and then knows where its own go, after those of the blocks before.
    ranges = blocks(offsets, threads)
    places = np.zeros((len(ranges) + 1, types), np.int64)
    for number, (low, high) in enumerate(ranges, 1):
        places[number] = np.bincount(words[offsets[low] : offsets[high]], minlength=types)
    np.cumsum(places, axis=0, out=places)
    starts = offsets_of(places[-1])
    places += starts[:-1]
    index = InvertedIndex(starts, np.empty(len(words), np.int32), np.empty_like(notes))
    run_blocks(
        lambda low, high: kernels.fill_index(low, high, bags, places[ranges.index((low, high))], index),
        ranges,
        threads,
    )
    return index


def token_index(corpus: Corpus, threads: int = 1) -> InvertedIndex:
    """The inverted index of a corpus, with an entry for each occurrence of a word; its position is the note."""
    positions = np.arange(len(corpus.tokens), dtype=np.int32)
    positions -= np.repeat(corpus.offsets[:-1].astype(np.int32), corpus.lengths)
    return invert(Bags(corpus.tokens, positions, corpus.offsets), len(corpus.vocabulary), threads)


class IndexedBitext:
    """A bitext indexed by source word.

    Args:
        bitext: M pairs.
        threads: how many to use; no result depends on it.
        keep_bags: ``keep`` of :func:`bags_of`.

    Attributes:
        index: the sentences of each source word, and its count in each.
        target: the bags of the target side.
        entries_met: int64 (V_src,), how many target entries each source word meets.
        row_ranges: ranges of source words with even work: more than threads, because one frequent word can be a
            tenth of all work.
    """

    def __init__(self, bitext: Bitext, threads: int, keep_bags: bool = True) -> None:
        source, self.target = (bags_of(side, threads, keep_bags) for side in (bitext.source, bitext.target))
        self.types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        self.index = invert(source, self.types[0], threads)
        starts, sizes = self.index.starts, np.diff(self.target.offsets)
        self.entries_met = np.empty(self.types[0], np.int64)
        for low, high in blocks_of_size(starts, 1 << 18):
            met = offsets_of(sizes[self.index.sentences[starts[low] : starts[high]]])
            self.entries_met[low:high] = np.diff(met[starts[low : high + 1] - starts[low]])
        self.row_ranges = blocks(offsets_of(self.entries_met), 8 * threads if threads > 1 else 1)
        self.threads = threads

    def pairs(self, weights: np.ndarray | None = None, room: int = ROOM) -> TableRows:
        """Every pair of words (i, o) that occurs in a sentence pair.

        Args:
            weights: float32 (E_tgt,), positive, one for each entry of the target bags: the value of a pair is the
                sum over the sentences of i of n_i * weights[k], k being the entry of o there. None: no values.
            room: how many pairs a buffer holds.
        """
        sizes, V_tgt = np.empty(self.types[0], np.int64), self.types[1]
        each = np.ones(len(self.target.words), np.float32) if weights is None else weights

        def collect(low: int, high: int) -> list[tuple[np.ndarray, np.ndarray]]:
            bounds = np.minimum(self.entries_met[low:high], V_tgt)
            size = min(int(bounds.sum()), max(room, int(bounds.max(initial=0)))) + 1
            buffer = RowRoom(np.empty(size, np.int32), np.empty(size, np.float32), sizes)
            sums, found = np.zeros(V_tgt), []
            while low < high:
                end = kernels.collect_rows(low, high, self.index, self.target, each, sums, buffer)
                filled, low = int(sizes[low:end].sum()), end
                values = buffer.values[: 0 if weights is None else filled]
                found.append((buffer.columns[:filled].copy(), values.copy()))
            return found

        found = [part for parts in run_blocks(collect, self.row_ranges, self.threads) for part in parts]
        columns, values = ([part[side] for part in found] for side in (0, 1))
        del found
        merged = np.concatenate([np.empty(0, np.int32), *columns])
        del columns  # before room is taken for the values
        return TableRows(offsets_of(sizes), merged, np.concatenate([np.empty(0, np.float32), *values]))


#: What the program takes before it reads anything: Python, NumPy, Numba and the kernels.
BASE = 200 << 20


class Needs(NamedTuple):
    """Bytes that a model takes while it is fitted, as measured."""

    pair: int  # of words that occur together
    token: int
    sentence: int  # by pair of sentences
    type: int
    element: int  # (t, l), if the matrices are in memory


LEXICAL = Needs(pair=16, token=16, sentence=30, type=16, element=0)
HMM = Needs(pair=16, token=12, sentence=50, type=600, element=4)
_SAMPLED = 20_000  # pairs of sentences in which pairs of words are counted
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGT]?)I?B?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of "800M", "4G" or "1.5T" (powers of 1,024); a bare number is bytes.

    Raises:
        AlignkitError: it is none of these, or 0.
    """
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if not 1 <= size < 2**63:
        raise AlignkitError(f"{abbreviated(text)!r} is not an amount of memory; it looks like 800M or 4G")
    return int(size)


def show_size(size: float) -> str:
    """Bytes as in "3.2G", rounded up; :func:`parse_size` reads it."""
    if size >= 2**30:
        return f"{math.ceil(size * 10 / 2**30) / 10}G"
    return f"{math.ceil(size / 2**20)}M" if size > 2**19 else f"{math.ceil(size / 2**10)}K"


def machine_memory() -> int:
    """The memory of the machine, or what this process's control group may have."""
    found = [1 << 62]
    with suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(ValueError, OSError):
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(found)


def check_memory(bitext: Bitext, needs: Needs = LEXICAL, models: int = 1) -> None:
    """Refuse a text whose model is too large for the machine.

    How many pairs of words occur together in n pairs of sentences is extrapolated from two samples: the number
    grows about as a power of n.

    Args:
        bitext: the text.
        needs: of the model.
        models: how many are in memory at the same time.

    Raises:
        AlignkitError: the message has the estimate, and the size of a sample that can be fitted.
    """
    check_bitext(bitext)
    limit, size = machine_memory(), len(bitext)
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    words = sum(len(side.vocabulary.text) for side in (bitext.source, bitext.target)) + needs.type * sum(types)
    tokens = (len(bitext.source.tokens) + len(bitext.target.tokens)) / max(size, 1)  # of a pair
    meetings = float(bitext.source.lengths.astype(np.float64) @ bitext.target.lengths)
    sentence = needs.token * tokens + needs.sentence + needs.element * meetings / max(size, 1)
    most = min(meetings, float(types[0]) * types[1])
    if BASE + models * (words + needs.pair * most + sentence * size) <= limit:
        return
    whole = min(_SAMPLED, size)
    half = max(whole // 2, 1)
    samples = (bitext.take(np.linspace(0, size - 1, count).astype(np.int64)) for count in (half, whole))
    few, many = (len(IndexedBitext(sample, 1, keep_bags=False).pairs().columns) for sample in samples)
    power = math.log(many / few) / math.log(whole / half) if whole > half and few else 1.0

    def estimate(count: int) -> float:
        words_there = words * math.sqrt(count / size)  # at most: of a sample, by Heaps' law
        pairs = min(most, many * (count / whole) ** power)
        return BASE + models * (words_there + needs.pair * pairs + sentence * count)

    if estimate(size) <= limit:
        return
    fitting = size
    while fitting > 1 and estimate(fitting) > limit:
        fitting = fitting * 9 // 10
    unit = 10 ** max(len(str(fitting)) - 2, 0)
    raise AlignkitError(
        f"a model of this text needs about {show_size(estimate(size))} of memory, more than the "
        f"{show_size(limit)} of this machine; a sample of it fits: "
        f"--fit-on {max(fitting // unit * unit, 1)} of align, ibm1, diagonal and hmm"
    )


def cooccurrence(bitext: Bitext, weighting: Weighting = "source-length", threads: int | None = None) -> PairTable:
    """Count C[i, o] = sum over pairs m and positions l, t of w_m 1[x_l = i] 1[y_t = o].

    With the weight w_m = 1/L_m this is the expected count of IBM Model 1's first EM step from the uniform start,
    and the initial gradient of the bag-of-words proxy up to the row mean (Snell et al. 2021, equations 13, 14).

    Args:
        bitext: M pairs.
        weighting: w_m is 1/L_m ("source-length"), 1/T_m ("target-length") or 1 ("one"); "presence" counts the
            sentence pairs that hold both words, once each.
        threads: all there are by default; the result does not depend on it.

    Returns:
        The (V_src, V_tgt) table of the pairs that occur together.

    Raises:
        AlignkitError: unknown weighting, or the text is too large for the machine's memory.

    >>> text = Bitext.from_sentences([["das", "Haus"], ["das", "Buch"]], [["the", "house"], ["the", "book"]])
    >>> cooccurrence(text).to_dense()
    array([[1. , 0.5, 0.5],
           [0.5, 0.5, 0. ],
           [0.5, 0. , 0.5]], dtype=float32)
    """
    check_known(weighting, get_args(Weighting), "weighting")
    check_memory(bitext)
    indexed = IndexedBitext(bitext, thread_count(threads))
    lengths = {"source-length": bitext.source.lengths, "target-length": bitext.target.lengths}
    divisors = np.maximum(lengths.get(weighting, np.ones(len(bitext), np.int64)), 1)
    weights = np.repeat((1 / divisors).astype(np.float32), np.diff(indexed.target.offsets))
    if weighting == "presence":
        indexed.index.notes[:] = 1
    else:
        weights *= indexed.target.counts
    return PairTable(*indexed.pairs(weights), len(bitext.target.vocabulary))


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
    arrays |= vocabulary_arrays("source", source) | vocabulary_arrays("target", target)
    save_arrays(path, KIND, VERSION, arrays, {"weighting": weighting}, compress=True)
