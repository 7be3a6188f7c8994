"""Sentences as bags of words, and the inverted index: the sentences that contain each word."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from alignkit.kernels import inverted_index as kernels
from alignkit.kernels.inverted_index import Bags, InvertedIndex, TokenEntries, Tokens
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext, Corpus


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
        bag_offsets = np.zeros(len(offsets), np.int64)
        np.cumsum(sizes, out=bag_offsets[1:])
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


def bags_of_corpus(corpus: Corpus, threads: int, keep: bool = True) -> SentenceBags:
    """The bags of a corpus; with ``keep`` they are kept as long as the corpus is."""
    bags = _known.get(corpus)
    if bags is None:
        bags = SentenceBags.of(corpus.tokens, corpus.offsets, len(corpus.vocabulary), threads)
        if keep:
            _known[corpus] = bags
    return bags


def bags_of(bitext: Bitext, threads: int, keep: bool = True) -> tuple[SentenceBags, SentenceBags]:
    """The bags of both sides; with ``keep`` they are kept as long as the texts are."""
    return bags_of_corpus(bitext.source, threads, keep), bags_of_corpus(bitext.target, threads, keep)


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
    starts = np.zeros(types + 1, np.int64)
    np.cumsum(places[-1], out=starts[1:])
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
