"""A lexicon that is counted from given links: relative frequencies, and eflomal's priors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.classical.cooccurrence import PairTable
from alignkit.classical.lexical_model import LexicalModel
from alignkit.links.gold import read_links
from alignkit.links.links import Links, check_range
from alignkit.support.arrays import brief_repr
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.pairs import read_bitext
from alignkit.types import PathLike


@dataclass(frozen=True, eq=False)
class LinkedWords:
    """How often the words of a text are linked.

    Attributes:
        bitext: M pairs.
        links: theirs, each inside its pair.
    """

    bitext: Bitext
    links: Links

    __repr__ = brief_repr

    @classmethod
    def read(cls, source: PathLike, target: PathLike | None, links: PathLike) -> LinkedWords:
        """Read a text and its links.

        Args:
            source, target: as in :func:`alignkit.text.pairs.read_bitext`.
            links: zero-based, a line for each pair.

        Raises:
            InputError: a file cannot be read, there is not a line of links for each pair, or a link is outside its
                pair.
        """
        bitext, found = read_bitext(source, target), read_links(links)
        check_range(links, found, bitext.shapes, whole=True)
        return cls(bitext, found)

    @cached_property
    def reversed(self) -> LinkedWords:
        """The same with source and target exchanged."""
        return LinkedWords(self.bitext.reversed, self.links.reversed)

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """int64 (K,) each: the tokens of both sides that each link joins."""
        m, (s, t) = self.links.sentences, self.links.pairs.T
        return self.bitext.source.offsets[m] + s, self.bitext.target.offsets[m] + t

    @cached_property
    def table(self) -> PairTable:
        """How often each source word is linked to each target word."""
        source, target = self.bitext.source, self.bitext.target
        x, y = source.tokens[self.places[0]], target.tokens[self.places[1]]
        return table_of_pairs(x, y, None, (len(source.vocabulary), len(target.vocabulary)))

    @cached_property
    def lexicon(self) -> LexicalModel:
        """p(target word | source word), and p(target word | NULL), as Moses counts them.

        The links of a pair of words are divided by those of the source word and its occurrences without a link;
        NULL's words are the target words without a link.
        """
        source, target = self.bitext.source, self.bitext.target
        rows = self.table.rows
        totals = np.bincount(rows, self.table.values, len(source.vocabulary)) + _unlinked(source, self.places[0])
        null = _unlinked(target, self.places[1])
        null = (null / max(null.sum(), 1)).astype(np.float32)
        table = self.table.with_values((self.table.values / totals[rows]).astype(np.float32))
        return LexicalModel(source.vocabulary, target.vocabulary, table, null=null)

    def fertilities(self) -> Iterator[tuple[str, int, int]]:
        """(source word, number of links, how often an occurrence of the word has so many), of linked ones."""
        links = np.bincount(self.places[0])
        linked = np.flatnonzero(links)
        rows = np.stack([self.bitext.source.tokens[linked], links[linked]])
        (words, numbers), counts = np.unique(rows, axis=1, return_counts=True)
        for word, number, count in zip(words.tolist(), numbers.tolist(), counts.tolist(), strict=True):
            yield self.bitext.source.vocabulary[word], number, count

    def jumps(self) -> Iterator[tuple[int, int]]:
        """(jump, how often): from the last source word of a target word to the first of the next one that has a
        link, with the start of the sentence at -1 and its end after the last word, as eflomal counts them.
        """
        reverse = self.links.reversed
        t, s = reverse.pairs.T.astype(np.int64)
        linked = np.diff(reverse.offsets) > 0
        starts, ends = reverse.offsets[:-1][linked], reverse.offsets[1:][linked]
        before, is_first = np.roll(s, 1), t != np.roll(t, 1)
        before[starts], is_first[starts] = -1, True
        last = np.full(len(reverse), -1)
        last[linked] = s[ends - 1]
        found = np.concatenate([(s - before)[is_first], self.bitext.source.lengths - last])
        jumps, counts = np.unique(found, return_counts=True)
        return zip(jumps.tolist(), counts.tolist(), strict=True)


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


def linked_around(is_linked: np.ndarray, corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """int64 (N,) each: the places of the linked words before and behind each word of a corpus.

    Without one in its sentence, the place is that before the first, or that behind the last word of the sentence.

    Args:
        is_linked: bool (N,).
        corpus: N words.
    """
    N, sizes = len(is_linked), corpus.lengths
    before = np.maximum.accumulate(np.where(is_linked, np.arange(N), -1))
    behind = np.minimum.accumulate(np.where(is_linked, np.arange(N), N)[::-1])[::-1]
    before = np.maximum(np.append(-1, before)[:-1], np.repeat(corpus.offsets[:-1], sizes) - 1)
    return before, np.minimum(np.append(behind, N)[1:], np.repeat(corpus.offsets[1:], sizes))


def _unlinked(corpus: Corpus, places: np.ndarray) -> np.ndarray:
    """int64 (V,): how many occurrences of each word are at none of these places."""
    free = np.ones(len(corpus.tokens), bool)
    free[places] = False
    return np.bincount(corpus.tokens[free], minlength=len(corpus.vocabulary))
