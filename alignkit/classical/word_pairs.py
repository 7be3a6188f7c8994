"""A text indexed for estimation: sentences as bags of words, the sentences of each word, and pairs that meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from alignkit.kernels import inverted_index as kernels
from alignkit.kernels.inverted_index import Bags, InvertedIndex, RowRoom, TableRows, TokenEntries, Tokens
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext, Corpus

#: Pairs, of 8 bytes each, that a buffer holds while rows are collected, whose sizes are not known before: with
#: buffers of this size they take no more memory than they need.
ROOM = 1 << 18


@dataclass(frozen=True, eq=False)
class SentenceBags:
    """The distinct words of each of M sentences, with their counts.

    Attributes:
        words: int32 (E,), rising within a sentence.
        counts: float32 (E,).
        offsets: int64 (M + 1,), where each bag starts.
        token_entries: which word of its sentence's bag each token of the text is.
    """

    words: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray
    token_entries: TokenEntries

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, types: int, threads: int) -> SentenceBags:
        """The bags of sentences of tokens with ids in [0, types)."""
        ranges = blocks(np.diff(offsets), threads)
        sizes = np.zeros(len(offsets) - 1, np.int64)
        words, counts = np.empty(len(tokens), np.int32), np.empty(len(tokens), np.float32)
        short = np.diff(offsets).max(initial=0) <= np.iinfo(np.uint16).max
        entries = np.empty(len(tokens), np.uint16 if short else np.int32)
        corpus, bags = Tokens(tokens, offsets), Bags(words, counts, offsets)

        def fill(low: int, high: int) -> None:
            stamp, place = np.full(types, -1, np.int32), np.empty(types, np.int32)
            kernels.fill_bags(low, high, corpus, bags, entries, stamp, place, sizes)

        run_blocks(fill, ranges, threads)
        bag_offsets = offsets_of(sizes)
        for low, high in ranges:  # the bags of a block start where its tokens do: close the gaps between blocks
            here, there = bag_offsets[low], offsets[low]
            size = bag_offsets[high] - here
            for array in (words, counts) if here < there else ():
                array[here : here + size] = array[there : there + size]
        for array in (words, counts):
            array.resize(bag_offsets[-1], refcheck=False)
        return cls(words, counts, bag_offsets, TokenEntries(entries, offsets, bag_offsets))

    @property
    def arrays(self) -> Bags:
        """The arrays, in the form that kernels take."""
        return Bags(self.words, self.counts, self.offsets)

    @property
    def sizes(self) -> np.ndarray:
        """int64 (M,), distinct words per sentence."""
        return np.diff(self.offsets)

    def first_positions(self, threads: int = 1) -> np.ndarray:
        """int32 (E,): the first position of each distinct word in its sentence."""
        first = np.empty(len(self.words), np.int32)

        def fill(low: int, high: int) -> None:
            kernels.first_positions(low, high, self.token_entries, first)

        run_blocks(fill, blocks(np.diff(self.token_entries.offsets), threads), threads)
        return first


# Both directions of a model, and its fitting and its links, need the bags of one text.
_known: WeakKeyDictionary[Corpus, SentenceBags] = WeakKeyDictionary()


def bags_of(bitext: Bitext, threads: int, keep: bool = True) -> tuple[SentenceBags, SentenceBags]:
    """The bags of both sides; with ``keep`` they are kept as long as the texts are."""

    def bags_of_side(corpus: Corpus) -> SentenceBags:
        bags = _known.get(corpus)
        if bags is None:
            bags = SentenceBags.of(corpus.tokens, corpus.offsets, len(corpus.vocabulary), threads)
            if keep:
                _known[corpus] = bags
        return bags

    return bags_of_side(bitext.source), bags_of_side(bitext.target)


def invert(
    words: np.ndarray, notes: np.ndarray, offsets: np.ndarray, types: int, threads: int = 1
) -> InvertedIndex:
    """The inverted index of the words of M sentences.

    Args:
        words: int32 (E,), in [0, types).
        notes: (E,), the count or the position of each.
        offsets: int64 (M + 1,), where each sentence starts.
        types: V.
        threads: how many to use; no result depends on it.
    """
    # Each block of sentences counts its words, and then knows where its own go, after those of the blocks before.
    ranges = blocks(np.diff(offsets), threads)
    places = np.zeros((len(ranges) + 1, types), np.int64)

    def count(low: int, high: int) -> None:
        kernels.count_words(low, high, words, offsets, places[1 + ranges.index((low, high))])

    run_blocks(count, ranges, threads)
    np.cumsum(places, axis=0, out=places)
    starts = offsets_of(places[-1])
    places += starts[:-1]
    bags = Bags(words, notes, offsets)
    index = InvertedIndex(starts, np.empty(len(words), np.int32), np.empty_like(notes))

    def sort(low: int, high: int) -> None:
        kernels.fill_index(low, high, bags, places[ranges.index((low, high))], index)

    run_blocks(sort, ranges, threads)
    return index


def token_index(corpus: Corpus, threads: int = 1) -> InvertedIndex:
    """The inverted index of a corpus, with an entry for each occurrence of a word; its position is the note."""
    positions = np.arange(len(corpus.tokens), dtype=np.int32)
    positions -= np.repeat(corpus.offsets[:-1].astype(np.int32), corpus.lengths)
    return invert(corpus.tokens, positions, corpus.offsets, len(corpus.vocabulary), threads)


class SourceRanges:
    """Ranges of source words with even work for threads.

    Args:
        work: int64 (V_src,), of each source word.
        threads: how many to use; no result depends on it.
    """

    def __init__(self, work: np.ndarray, threads: int) -> None:
        self.threads = threads
        # More ranges than threads, because one frequent word can be a tenth of all work.
        self.row_ranges = blocks(work, 1 if threads == 1 else 8 * threads)

    def over_rows(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over ranges of source words."""
        run_blocks(function, self.row_ranges, self.threads)


class IndexedBitext(SourceRanges):
    """A bitext indexed by source word, and ranges of even work for threads.

    Args:
        source, target: bags of the two sides, of M sentences.
        types: (V_src, V_tgt).
        threads: how many to use; no result depends on it.

    Attributes:
        index: of the source bags, with counts.
        target: the target bags, as kernels take them.
        entries_met: int64 (V_src,), how many target entries each source word meets.
        row_ranges: ranges of source words.
    """

    def __init__(self, source: SentenceBags, target: SentenceBags, types: tuple[int, int], threads: int) -> None:
        self.types = types
        self.target = target.arrays
        self.index = invert(source.words, source.counts, source.offsets, types[0], threads)
        sizes = target.sizes
        self.entries_met = work = np.empty(types[0], np.int64)

        def count(low: int, high: int) -> None:
            kernels.row_work(low, high, self.index, sizes, work)

        run_blocks(count, blocks(np.diff(self.index.starts), threads), threads)
        super().__init__(work, threads)
        self._sentence_ranges = blocks(source.sizes * sizes, threads)

    @classmethod
    def of(cls, bitext: Bitext, threads: int, keep_bags: bool = True) -> IndexedBitext:
        """A bitext, indexed; ``keep_bags`` is ``keep`` of :func:`bags_of`."""
        types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
        return cls(*bags_of(bitext, threads, keep_bags), types, threads)

    def over_sentences(self, function: Callable[[int, int], None]) -> None:
        """Runs ``function(low, high)`` over ranges of sentences."""
        run_blocks(function, self._sentence_ranges, self.threads)

    def weighted_pairs(self, weights: np.ndarray, room: int = ROOM) -> TableRows:
        """Every pair (i, o) that occurs; its value is the sum over the sentences of i of n_i * weights[k], k being
        the entry of o there.

        Args:
            weights: float32 (E_tgt,), positive, one for each entry of the target bags.
            room: how many pairs a buffer holds.
        """
        return self._collected(weights, room, keep_values=True)

    def pairs(self) -> TableRows:
        """Every pair that occurs, without values."""
        return self._collected(np.ones(len(self.target.words), np.float32), ROOM, keep_values=False)

    def _collected(self, weights: np.ndarray, room: int, keep_values: bool) -> TableRows:
        """Every pair that occurs, and the values of :meth:`weighted_pairs`, or none."""
        sizes = np.empty(self.types[0], np.int64)

        def collect(low: int, high: int) -> list[tuple[np.ndarray, np.ndarray]]:
            bounds = np.minimum(self.entries_met[low:high], self.types[1])
            size = min(int(bounds.sum()), max(room, int(bounds.max(initial=0)))) + 1
            buffer = RowRoom(np.empty(size, np.int32), np.empty(size, np.float32), sizes)
            sums = np.zeros(self.types[1], np.float64)
            found = []
            while low < high:
                end = kernels.collect_rows(low, high, self.index, self.target, weights, sums, buffer)
                filled, low = int(sizes[low:end].sum()), end
                values = buffer.values[: filled if keep_values else 0]
                found.append((buffer.columns[:filled].copy(), values.copy()))
            return found

        found = [pair for part in run_blocks(collect, self.row_ranges, self.threads) for pair in part]
        columns = [columns for columns, _ in found]
        values = [values for _, values in found]
        del found
        merged = np.concatenate([np.empty(0, np.int32), *columns])
        del columns  # before room is taken for the values
        return TableRows(offsets_of(sizes), merged, np.concatenate([np.empty(0, np.float32), *values]))
