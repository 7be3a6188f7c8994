"""Sentences as bags of distinct words, and where each word occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from alignkit.kernels import inverted_index as kernels
from alignkit.kernels import translation_table
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext, Corpus

# Room for the pairs of several rows, 8 bytes each: a buffer of this many pairs is filled and copied, and filled
# again, so that rows take no more memory than they need although their sizes are not known before.
_ROOM = 1 << 18


@dataclass(frozen=True, eq=False)
class Bags:
    """The distinct words of each of M sentences, with how often they come.

    Attributes:
        words: int32 (E,), rising within a sentence.
        counts: float32 (E,).
        offsets: int64 (M + 1,), where each bag starts.
        entries: (N,), for each token of the text its place in its sentence's bag: uint16, or int32 if a sentence
            is too long for that.
    """

    words: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, types: int, threads: int) -> Bags:
        """The bags of sentences of tokens with ids in [0, types)."""
        ranges = blocks(np.diff(offsets), threads)
        sizes = np.zeros(len(offsets) - 1, np.int64)
        words, counts = np.empty(len(tokens), np.int32), np.empty(len(tokens), np.float32)
        short = np.diff(offsets).max(initial=0) <= np.iinfo(np.uint16).max
        entries = np.empty(len(tokens), np.uint16 if short else np.int32)

        def fill(low: int, high: int) -> None:
            work = (np.full(types, -1, np.int32), np.empty(types, np.int32))
            kernels.fill_bags(low, high, (tokens, offsets), (words, counts), entries, work, sizes)

        run_blocks(fill, ranges, threads)
        bag_offsets = np.zeros(len(offsets), np.int64)
        np.cumsum(sizes, out=bag_offsets[1:])
        for low, high in ranges:  # the bags of a block start where its tokens do: close the gaps between blocks
            here, there = bag_offsets[low], offsets[low]
            size = bag_offsets[high] - here
            for array in (words, counts) if here < there else ():
                array[here : here + size] = array[there : there + size]
        for array in (words, counts):
            array.resize(bag_offsets[-1], refcheck=False)
        return cls(words, counts, bag_offsets, entries)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As kernels take them."""
        return self.words, self.counts, self.offsets

    @property
    def sizes(self) -> np.ndarray:
        """int64 (M,), distinct words per sentence."""
        return np.diff(self.offsets)

    def by_token(self, values: np.ndarray, token_offsets: np.ndarray, threads: int = 1) -> np.ndarray:
        """Values (E,) of entries as values (N,) of tokens."""
        out = np.empty(len(self.entries), values.dtype)

        def spread(low: int, high: int) -> None:
            kernels.by_token(low, high, self.entries, token_offsets, self.offsets, values, out)

        run_blocks(spread, blocks(np.diff(token_offsets), threads), threads)
        return out

    def first_positions(self, token_offsets: np.ndarray, threads: int = 1) -> np.ndarray:
        """int32 (E,): where in its sentence each distinct word comes first."""
        first = np.empty(len(self.words), np.int32)

        def fill(low: int, high: int) -> None:
            kernels.first_positions(low, high, self.entries, token_offsets, self.offsets, first)

        run_blocks(fill, blocks(np.diff(token_offsets), threads), threads)
        return first


# Both directions of a model, and its fitting and its links, want the bags of one text.
_known: WeakKeyDictionary[Corpus, Bags] = WeakKeyDictionary()


def bags_of_corpus(corpus: Corpus, threads: int) -> Bags:
    """The bags of a corpus; they are kept as long as the corpus is."""
    bags = _known.get(corpus)
    if bags is None:
        bags = Bags.of(corpus.tokens, corpus.offsets, len(corpus.vocabulary), threads)
        _known[corpus] = bags
    return bags


def bags_of(bitext: Bitext, threads: int) -> tuple[Bags, Bags]:
    """The bags of both sides."""
    return bags_of_corpus(bitext.source, threads), bags_of_corpus(bitext.target, threads)


Index = tuple[np.ndarray, np.ndarray, np.ndarray]
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def invert(words: np.ndarray, notes: np.ndarray, offsets: np.ndarray, types: int, threads: int = 1) -> Index:
    """For each word in [0, types) its sentences in text order, each with its note (a count or a position).

    Args:
        words: int32 (E,).
        notes: (E,), what to keep beside each.
        offsets: int64 (M + 1,), where each sentence starts.
        types: V.
        threads: how many to use.

    Returns:
        starts int64 (V + 1,), sentences int32 (E,), notes (E,).
    """
    # Each block of sentences counts its words, and then knows where its own go, after those of the blocks before.
    ranges = blocks(np.diff(offsets), threads)
    places = np.zeros((len(ranges) + 1, types), np.int64)

    def count(low: int, high: int) -> None:
        kernels.count_words(low, high, words, offsets, places[1 + ranges.index((low, high))])

    run_blocks(count, ranges, threads)
    np.cumsum(places, axis=0, out=places)
    starts = np.zeros(types + 1, np.int64)
    np.cumsum(places[-1], out=starts[1:])
    places += starts[:-1]
    sentences, sorted_notes = np.empty(len(words), np.int32), np.empty_like(notes)

    def sort(low: int, high: int) -> None:
        mine = places[ranges.index((low, high))]
        kernels.invert(low, high, (words, notes, offsets), mine, sentences, sorted_notes)

    run_blocks(sort, ranges, threads)
    return starts, sentences, sorted_notes


def token_index(corpus: Corpus, threads: int = 1) -> Index:
    """For each word of a corpus the sentences that have it, once per occurrence, with the positions as notes."""
    positions = np.arange(len(corpus.tokens), dtype=np.int32)
    positions -= np.repeat(corpus.offsets[:-1].astype(np.int32), corpus.lengths)
    return invert(corpus.tokens, positions, corpus.offsets, len(corpus.vocabulary), threads)


def normalise_rows(low: int, high: int, offsets: np.ndarray, values: np.ndarray, alpha: float | None) -> None:
    """Counts float32 (K,) to probabilities, for the rows low <= i < high; with alpha, by variational Bayes."""
    if alpha is None:
        translation_table.normalise_table(low, high, offsets, values)
    else:
        translation_table.bayes_table(low, high, offsets, values, float(alpha))


class Layout:
    """A bitext laid out for estimation: the index, and blocks of even work.

    Args:
        source, target: bags of the two sides.
        types: (V_src, V_tgt).
        threads: how many to use.

    Attributes:
        index: of the source bags.
        work: int64 (V_src,), the target entries that each source word meets.
    """

    def __init__(self, source: Bags, target: Bags, types: tuple[int, int], threads: int) -> None:
        self.threads = threads
        self.types = types
        self.target = target.arrays
        self.index = invert(source.words, source.counts, source.offsets, types[0], threads)
        work = np.empty(types[0], np.int64)
        sizes = target.sizes

        def count(low: int, high: int) -> None:
            kernels.row_work(low, high, self.index[0], self.index[1], sizes, work)

        run_blocks(count, blocks(np.diff(self.index[0]), threads), threads)
        self.work = work
        # More ranges than threads, because one frequent word can be a tenth of all work.
        self.row_ranges = blocks(work, 1 if threads == 1 else 8 * threads)
        self.sentence_ranges = blocks(source.sizes * sizes, threads)

    def collect_rows(self, fill: Callable[..., tuple[int, int]], values: int) -> tuple[np.ndarray, ...]:
        """(offsets int64 (V_src + 1,), columns int32 (K,), then so many arrays float32 (K,)) of the rows.

        Args:
            fill: called as ``fill(low, high, sums, rows)`` with ``sums`` float64 (V_tgt, ``values``), zeros, and
                rows = (columns, values ..., sizes); as :func:`alignkit.kernels.inverted_index.collect_rows`.
            values: how many arrays there are.
        """
        sizes = np.empty(self.types[0], np.int64)
        dtypes = (np.int32, *[np.float32] * values)

        def collect(low: int, high: int) -> list[tuple[np.ndarray, ...]]:
            bounds = np.minimum(self.work[low:high], self.types[1])
            room = min(int(bounds.sum()), max(_ROOM, int(bounds.max(initial=0)))) + 1
            buffers = tuple(np.empty(room, dtype) for dtype in dtypes)
            sums = np.zeros((self.types[1], values), np.float64)
            pieces = []
            while low < high:
                low, filled = fill(low, high, sums, (*buffers, sizes))
                pieces.append(tuple(buffer[:filled].copy() for buffer in buffers))
            return pieces

        pieces = [piece for part in run_blocks(collect, self.row_ranges, self.threads) for piece in part]
        offsets = np.zeros(self.types[0] + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        arrays = []
        for n, dtype in enumerate(dtypes):
            arrays.append(np.concatenate([np.empty(0, dtype), *(piece[n] for piece in pieces)]))
        return (offsets, *arrays)

    def over_rows(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over blocks of source words."""
        run_blocks(function, self.row_ranges, self.threads)

    def over_sentences(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over blocks of sentences."""
        run_blocks(function, self.sentence_ranges, self.threads)


class PairStatistics(Layout):
    """A bitext laid out, with the rows of every pair that meets.

    The rows' ``values`` belong to the estimator that made this object. They start as the sums that
    :meth:`add_weights` would give for ``weights``, or as ones without them.

    Args:
        source, target, types, threads: of :class:`Layout`.
        weights: float32, positive, one for each entry of the target bags.
    """

    rows: Rows

    def __init__(
        self,
        source: Bags,
        target: Bags,
        types: tuple[int, int],
        threads: int,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(source, target, types, threads)
        given = np.ones(len(target.words), np.float32) if weights is None else weights

        def fill(low: int, high: int, sums: np.ndarray, rows: tuple[np.ndarray, ...]) -> tuple[int, int]:
            found: tuple[int, int] = kernels.collect_rows(
                low, high, self.index, self.target, given, sums[:, 0], rows
            )
            return found

        offsets, columns, values = self.collect_rows(fill, 1)
        self.rows = offsets, columns, values
        if weights is None:
            values.fill(1)

    def add_weights(self, weights: np.ndarray) -> None:
        """values[i, o] *= sum over the sentences of i of n_i * weights[k], k the entry of o there.

        Args:
            weights: float32, one for each entry of the target bags.
        """

        def add(low: int, high: int) -> None:
            sums = np.zeros(self.types[1], np.float64)
            translation_table.add_weights(low, high, self.index, self.rows, self.target, weights, sums)

        self.over_rows(add)

    def normalise(self, alpha: float | None = None) -> None:
        """Counts to probabilities, row by row (:func:`normalise_rows`)."""
        offsets, _, values = self.rows
        self.over_rows(lambda low, high: normalise_rows(low, high, offsets, values, alpha))
